# SPDX-License-Identifier: BSD-3-Clause
"""A keypoint method with a matcher is a method on two images."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.hashing import hash_array
from ...core.units import Arrays, ImageFacts, Item
from ...formats.image.reader import SUFFIXES
from ..base import Method, method_key
from .matchers import ImageKeypoints, Matcher

MEMO_BYTES = 512 << 20
"""Keypoints and descriptors that a process keeps for images which are in several pairs."""


class FeatureMemo:
    """Features of images by what identifies them; the least recently used go first beyond `most` bytes.

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

    @contextmanager
    def bypassed(self) -> Iterator[None]:
        """Everything is made anew inside: what takes the time of a method wants all of it."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def get(self, key: str, make: Any) -> Arrays:
        """What was made for a key, made now if it is not kept."""
        if self._paused:
            made: Arrays = make()
            return made
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        arrays: Arrays = make()
        with self._lock:
            self.made += 1
            if key not in self._kept:
                self._kept[key] = arrays
                self.size += _bytes(arrays)
            while self.size > self.most and self._kept:
                self.size -= _bytes(self._kept.popitem(last=False)[1])
        return arrays


def _bytes(arrays: Arrays) -> int:
    return sum(np.asarray(a).nbytes for a in arrays.values())


MEMO = FeatureMemo()
_NUMBERS = count()
"""For methods whose output is not decided by what is known about them: each has features of its own."""


def with_matcher(base: Method, given: Mapping[str, str], spec: str | None) -> Method:
    """The matches of a keypoint method; `given` are ``matcher`` (default `mnn`) and ``ratio``.

    The matcher is part of the name and of the key. An image's keypoints are found once in a process, however
    many pairs it is in, as long as `MEMO_BYTES` suffice.
    """
    matcher = Matcher.of(given)
    config, why = matcher.config()
    unknown = next(_NUMBERS) if base.uncached_reason else None
    name = f"{base.name}{'&' if '?' in base.name.rpartition('+')[2] else '?'}{matcher.label}"

    def extract(item: Item, payload: Any) -> Arrays:
        sides = []
        for i, single in enumerate(image_items(item, payload)):
            image = None if payload is None else payload[i]
            key = method_key(base.config, [*base.of_item(single), single.key, single.content, unknown])
            arrays = MEMO.get(key, partial(base.extract, single, image))
            sides.append(ImageKeypoints.of(f"{i}/{single.content or single.key}", arrays))
        a, b = sides
        found, confidence = matcher.match(a, b, distance=base.distance)
        out: dict[str, Any] = {
            "points0": np.asarray(a.xy[found.first], np.float64).reshape(-1, 2),
            "points1": np.asarray(b.xy[found.second], np.float64).reshape(-1, 2),
        }
        if confidence is not None:
            out["confidence"] = confidence
        out["keypoints0"], out["keypoints1"] = np.array([len(a)], np.int64), np.array([len(b)], np.int64)
        return out

    def of_item(item: Item) -> Sequence[Any]:
        return [part for single in image_items(item, None) for part in base.of_item(single)]

    def check(items: Sequence[Item]) -> None:
        singles = {single.key: single for item in items for single in image_items(item, None)}
        assert base.check is not None
        base.check(list(singles.values()))

    return replace(
        base,
        name=name,
        family="pairs",
        config={"base": dict(base.config), **config},
        extract=extract,
        of_item=of_item,
        spec=spec,
        check=None if base.check is None else check,
        has=None,
        stream=None,
        thread_safe=False,
        uncached_reason=base.uncached_reason or why,
    )


def image_items(item: Item, payload: Any) -> list[Item]:
    """The two images of a pair as items: named as the pair names them, known by their pixels."""
    images = item.images or (ImageFacts(f"{item.key}/0"), ImageFacts(f"{item.key}/1"))
    if len(images) != 2:
        raise InputError(f"{item.key} has {len(images)} images; a matcher of keypoints needs two")
    contents = ["", ""] if payload is None else [hash_array(np.ascontiguousarray(i)) for i in payload[:2]]
    return [Item(image_key(f.name), c) for f, c in zip(images, contents, strict=True)]


def image_key(name: str) -> str:
    """The name of an image without its ending, as keypoint files are named.

    >>> image_key("scene/1.ppm"), image_key("a.b/frame.12")
    ('scene/1', 'a.b/frame.12')
    """
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else str(path)
