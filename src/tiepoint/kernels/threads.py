# SPDX-License-Identifier: BSD-3-Clause
"""Threads of the kernels. Plain Python threads around compiled code that releases the lock.

Numba's own thread pools are either not safe to enter from two threads or not safe after a fork; these are
both, and the code compiles and loads faster. No result depends on their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from ..model.errors import InputError

T = TypeVar("T")
_count: int | None = None


def get_threads() -> int:
    """Threads a kernel may use: as set, else the processors this process may run on."""
    if _count is not None:
        return _count
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def set_threads(count: int | None) -> None:
    """Let kernels use `count` threads (None: all processors). Scores never depend on it.

    The matrix products use the threads of the BLAS library, which has its own setting.

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

    def __init__(self) -> None:
        self._size = get_threads()
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

    def split(self, n: int, work: Callable[[int, int], T], *, smallest: int) -> list[T]:
        """Results of `work(start, stop)` on equal parts of range(n), one a thread, none below `smallest`."""
        parts = max(1, min(self._size, n // smallest))
        if parts == 1:
            return [work(0, n)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size - 1)
        edges = [n * i // parts for i in range(parts + 1)]
        jobs = [self._pool.submit(work, edges[i], edges[i + 1]) for i in range(1, parts)]
        first = work(edges[0], edges[1])
        return [first, *(job.result() for job in jobs)]
