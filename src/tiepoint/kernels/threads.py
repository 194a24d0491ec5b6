# SPDX-License-Identifier: BSD-3-Clause
"""Threads of the kernels. Plain Python threads around compiled code that releases the lock.

Numba's own thread pools are either not safe to enter from two threads or not safe after a fork; these are
both, and they compile and load faster. No result depends on their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ..model.errors import InputError

_count: int | None = None


def get_threads() -> int:
    """Threads a kernel may use: as set, else the processors this process may run on."""
    if _count is not None:
        return _count
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


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


def for_ranges(n: int, work: Callable[[int, int], None], *, smallest: int) -> None:
    """Call `work(start, stop)` on equal parts of range(n), one per thread, none below `smallest`."""
    parts = max(1, min(get_threads(), n // max(smallest, 1)))
    edges = [n * i // parts for i in range(parts + 1)]
    if parts == 1:
        work(0, n)
        return
    with ThreadPoolExecutor(parts - 1) as pool:
        jobs = [pool.submit(work, edges[i], edges[i + 1]) for i in range(1, parts)]
        work(edges[0], edges[1])
        for job in jobs:
            job.result()
