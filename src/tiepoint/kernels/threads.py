# SPDX-License-Identifier: BSD-3-Clause
"""Threads of the kernels. Plain Python threads around compiled code that releases the lock.

Numba's own thread pools are either not safe to enter from two threads or not safe after a fork; these are
both, and the code compiles and loads faster. No result depends on their number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import TracebackType
from typing import Any, TypeVar

from ..model.cores import cores
from ..model.errors import InputError

T = TypeVar("T")
_count: int | None = None
_lock = threading.Lock()
_inside = 0
_restore: Any = None


def get_threads() -> int:
    """Threads a kernel may use: as set, else the cores this process may use."""
    return cores() if _count is None else _count


def set_threads(count: int | None) -> None:
    """Let kernels use `count` threads (None: all processors). Scores never depend on it.

    >>> set_threads(1); get_threads()
    1
    >>> set_threads(None)
    """
    global _count
    if count is not None and count < 1:
        raise InputError(f"threads must be at least 1, found {count}")
    _count = count


class Team:
    """The threads of one kernel call; started when first needed, gone at the end of the `with` block."""

    def __init__(self, size: int | None = None) -> None:
        self.size = get_threads() if size is None else min(size, get_threads())
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Team:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the threads and end them."""
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, parts: Sequence[tuple[int, int]], work: Callable[[int, int], T]) -> list[T]:
        """Results of `work(start, stop)` on each part; a thread takes the next part when it is free."""
        if self.size == 1 or len(parts) == 1:
            return [work(start, stop) for start, stop in parts]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size)
        return list(self._pool.map(lambda part: work(*part), parts))

    def split(self, n: int, work: Callable[[int, int], T], *, smallest: int) -> list[T]:
        """The same on equal parts of range(n), one a thread, none below `smallest`."""
        count = max(1, min(self.size, n // smallest))
        return self.each(equal_parts(n, count), work)


def equal_parts(n: int, count: int) -> list[tuple[int, int]]:
    """Cut range(n) into `count` ranges whose lengths differ by at most one.

    >>> equal_parts(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    return [(n * i // count, n * (i + 1) // count) for i in range(count)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on the thread that asks for them.

    The setting belongs to the process, so that kernels running side by side share it: the first one in
    makes it and the last one out takes it back. Without threadpoolctl products are merely slower.
    """
    global _inside, _restore
    with _lock:
        _inside += 1
        if _inside == 1 and find_spec("threadpoolctl"):
            _restore = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _restore is not None:
                _restore.restore_original_limits()
                _restore = None


@cache
def _controller() -> Any:
    """Knows the BLAS libraries of this process; finding them takes longer than a small kernel."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return ThreadpoolController()
