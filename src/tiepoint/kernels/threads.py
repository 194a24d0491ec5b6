# SPDX-License-Identifier: BSD-3-Clause
"""Kernel threads: Python threads around compiled code that releases the GIL.

Numba's thread pools are unsafe if two threads enter them, or after a fork. These threads are safe in both
cases, and the code compiles and loads faster. Threads and their scratch memory are reused by later kernels,
because allocating new pages takes as long as processing them. No result depends on the number of threads.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.processes import cores

T = TypeVar("T")
_count: int | None = None
_lock = threading.Lock()
_inside = 0
_restore: Any = None
_own = threading.local()
"""Thread-local state: `share` is the number of threads that this thread may use inside a team, `memory` has
scratch arrays by name.
"""
_pools: dict[int, ThreadPoolExecutor] = {}
_SCRATCH_CACHE_BYTES = 8 << 20

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def get_threads() -> int:
    """Return how many threads a kernel may use; inside a team, the share of the calling thread."""
    share: int | None = getattr(_own, "share", None)
    if share is not None:
        return share
    return cores() if _count is None else _count


def set_threads(count: int | None) -> None:
    """Set the number of threads of the kernels; None uses all cores. Scores do not depend on it.

    >>> set_threads(1); get_threads()
    1
    >>> set_threads(None)
    """
    global _count
    if count is not None and count < 1:
        raise InputError(f"threads: found {count}; pass at least 1")
    _count = count


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return a work array of this thread. Calls with the same `name` share one if it is at most 8 MiB."""
    kind = np.dtype(dtype)
    size = kind.itemsize * math.prod(shape)
    if size > _SCRATCH_CACHE_BYTES:
        return np.empty(shape, kind)
    cached: dict[str, NDArray[np.uint8]] = _own.__dict__.setdefault("memory", {})
    memory = cached.get(name)
    if memory is None or memory.size < size:
        memory = cached[name] = np.empty(size, np.uint8)
    return memory[:size].view(kind).reshape(shape)


class ThreadTeam:
    """Threads of one kernel call.

    A team created inside another team divides the share of the creating thread.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = get_threads() if size is None else min(size, get_threads())

    def each(self, parts: Sequence[tuple[int, int]], work: Callable[[int, int], T]) -> list[T]:
        """Call `work(start, stop)` for each part (start, stop) in parallel and return the results."""
        if self.size == 1 or len(parts) <= 1:
            return [work(start, stop) for start, stop in parts]
        share = max(1, self.size // len(parts))

        def one(start: int, stop: int) -> T:
            before, _own.share = getattr(_own, "share", None), share
            try:
                return work(start, stop)
            finally:
                _own.share = before

        if getattr(_own, "share", None) is not None:
            # Threads of the shared pool would wait for each other.
            with ThreadPoolExecutor(self.size) as inner:
                return list(inner.map(lambda part: one(*part), parts))
        with _lock:
            if self.size not in _pools:
                _pools[self.size] = ThreadPoolExecutor(self.size, thread_name_prefix="kernel")
            pool = _pools[self.size]
        return _run_all(pool, one, parts)

    def split(self, n: int, work: Callable[[int, int], T], *, smallest: int) -> list[T]:
        """Call `work(start, stop)` in parallel on equal parts of range(n) and return the results.

        Each thread gets one part of at least `smallest` elements.
        """
        count = max(1, min(self.size, n // smallest))
        return self.each(equal_parts(n, count), work)


def _run_all(
    pool: ThreadPoolExecutor, work: Callable[[int, int], T], parts: Sequence[tuple[int, int]]
) -> list[T]:
    """Run all parts and return their results.

    After an error, start no further parts and wait for the running ones.
    """
    futures = [pool.submit(work, *part) for part in parts]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
    failed = [f for f in futures if not f.cancelled() and f.exception() is not None]
    return [f.result() for f in failed[:1] or futures]


def equal_parts(n: int, count: int) -> list[tuple[int, int]]:
    """Cut range(n) into `count` ranges whose lengths differ by at most one.

    >>> equal_parts(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    return [(n * i // count, n * (i + 1) // count) for i in range(count)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Restrict BLAS to the calling thread within the context.

    The limit is global to the process. If several kernels run at the same time, the first sets it and the
    last restores it. Without threadpoolctl matrix products are slower, but results are the same.
    """
    global _inside, _restore
    with _lock:
        _inside += 1
        if _inside == 1 and (controller := _controller()) is not None:
            _restore = controller.limit(limits=1, user_api="blas")
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
    """Return the controller of the loaded BLAS libraries, or None if it is unusable. The result is cached.

    It is unusable if threadpoolctl is missing or older than 3.7. Older versions can deadlock: they wait for
    the GIL inside the system loader while another thread that imports a library waits for the loader.
    """
    try:
        import threadpoolctl  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    version = tuple(map(int, re.findall(r"\d+", threadpoolctl.__version__)[:2]))
    return threadpoolctl.ThreadpoolController() if version >= (3, 7) else None
