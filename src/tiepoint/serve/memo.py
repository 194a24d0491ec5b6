# SPDX-License-Identifier: BSD-3-Clause
"""What is made once: the last values in memory, and the name of the code that makes them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from ..core.hashing import hash_bytes, hash_json

T = TypeVar("T")


@cache
def source_version() -> str:
    """A hash of the source of this package: what is kept outside the store is not used by another one."""
    root = Path(str(files("tiepoint")))
    return hash_json(
        [[p.relative_to(root).as_posix(), hash_bytes(p.read_bytes())] for p in sorted(root.rglob("*.py"))]
    )


class LruCache:
    """The last values that were asked for, each made once, however many ask at the same time."""

    def __init__(self, most: int) -> None:
        self._most, self._known = most, OrderedDict[Hashable, Any]()
        self._lock, self._making = threading.Lock(), dict[Hashable, threading.Lock]()

    def known(self, key: Hashable) -> Any:
        """The value of a key, None where there is none."""
        with self._lock:
            return self._known.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; `make` is called where there is none, and what it raises is not kept."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            own = self._making.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if key in self._known:
                    return self._known[key]
            try:
                made = make()
                with self._lock:
                    self._known[key] = made
                    while len(self._known) > self._most:
                        self._known.popitem(last=False)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return made
