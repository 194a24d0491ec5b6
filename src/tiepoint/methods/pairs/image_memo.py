# SPDX-License-Identifier: BSD-3-Clause
"""Features of single images for methods on pairs: computed once, kept in memory and, if costly, on disk."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.records import Arrays, Item
from ..base import Method, method_key

MEMO_BYTES = 512 << 20
"""Memory limit per process, in bytes, for features of images that occur in several pairs."""


class ImageStore(Protocol):
    """Cache on disk of the features of single images. `find` returns None if an entry is missing."""

    def find(self, method: Method, image: Item) -> Arrays | None: ...  # noqa: D102

    def keep(self, method: Method, image: Item, arrays: Arrays) -> None: ...  # noqa: D102


class ImageOf(NamedTuple):
    """An image of a pair: the keypoint method, the item with name and content hash, and the pixels."""

    method: Method
    item: Item
    pixels: Any


class FeatureMemo:
    """Least-recently-used cache of image features, limited to `most` bytes.

    >>> memo = FeatureMemo(100)
    >>> made = [memo.get(k, lambda: {"a": np.zeros(8)}) for k in "abab"]
    >>> made[0] is made[2], memo.made
    (False, 4)
    """

    def __init__(self, most: int = MEMO_BYTES) -> None:
        self.most, self.size, self.made = most, 0, 0
        self._kept: OrderedDict[str, Arrays] = OrderedDict()
        self._lock = threading.Lock()
        self._paused = False
        self._disk: ImageStore | None = None
        self.spent_s = 0.0
        """Seconds spent on computing values while the cache is bypassed. The caller resets it first."""

    @contextmanager
    def bypassed(self) -> Iterator[None]:
        """Bypass the memory cache within this context, so that timings include all work."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def clear(self) -> None:
        """Forget all features."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    @contextmanager
    def stored_in(self, disk: ImageStore) -> Iterator[None]:
        """Store costly features also in `disk` within this context."""
        before, self._disk = self._disk, disk
        try:
            yield
        finally:
            self._disk = before

    def get(self, key: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the cached features of `key`. If missing, compute them by `make`."""
        if self._paused:
            started = time.perf_counter()
            arrays = make()
            self.spent_s += time.perf_counter() - started
            return arrays
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        arrays = make()
        with self._lock:
            self.made += 1
            if key not in self._kept:
                self._kept[key] = arrays
                self.size += _bytes(arrays)
            while self.size > self.most and self._kept:
                self.size -= _bytes(self._kept.popitem(last=False)[1])
        return arrays

    def of_images(
        self, images: Sequence[ImageOf], make: Callable[[list[ImageOf]], list[Arrays]]
    ) -> list[Arrays]:
        """Return the features of images, from the cache or computed by `make`, each image once.

        The features depend on the pixels and the method alone. Images of different names may share them.
        """
        keys = [method_key(i.method.config, [i.item.content]) for i in images]
        found: dict[str, Arrays] = {}
        with self._lock:
            if not self._paused:
                for key in {*keys} & self._kept.keys():
                    self._kept.move_to_end(key)
                    found[key] = self._kept[key]
        missing = {k: i for k, i in zip(keys, images, strict=True) if k not in found}
        disk = None if self._paused else self._disk
        if disk is not None:
            read = {k: disk.find(i.method, i.item) for k, i in missing.items()}
            found |= {k: self.get(k, partial(_same, a)) for k, a in read.items() if a is not None}
        missing = {k: i for k, i in missing.items() if k not in found}
        if missing:
            started = time.perf_counter()
            computed = make(list(missing.values()))
            self.spent_s += time.perf_counter() - started
            for (key, image), arrays in zip(missing.items(), computed, strict=True):
                found[key] = self.get(key, partial(_same, arrays))
                if disk is not None:
                    disk.keep(image.method, image.item, arrays)
        return [found[key] for key in keys]


def _same(arrays: Arrays) -> Arrays:
    return arrays


def _bytes(arrays: Arrays) -> int:
    return sum(np.asarray(a).nbytes for a in arrays.values())


MEMO = FeatureMemo()
