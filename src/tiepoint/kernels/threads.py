# SPDX-License-Identifier: BSD-3-Clause
"""Threads of the kernels. Plain Python threads around compiled code that releases the lock.

Numba's own thread pools are either not safe to enter from two threads or not safe after a fork; these are
both, and the code compiles and loads faster. They stay from one kernel to the next, and so does the memory
they work in: a fresh page costs as much as a pass over it, and giving pages back stops all other threads. No
result depends on their number.
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
from types import TracebackType
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
"""Of each thread: `share`, how many threads it may use where it is one of a team; `memory` by name."""
_pools: dict[int, ThreadPoolExecutor] = {}
_SCRATCH_CACHE_BYTES = 8 << 20

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def get_threads() -> int:
    """Threads a kernel may use: as set, else all cores of this process; in a team, its share of these."""
    share: int | None = getattr(_own, "share", None)
    if share is not None:
        return share
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


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Memory of this thread for one use at a time under each name; up to 8 MiB are kept for the next use."""
    kind = np.dtype(dtype)
    needed = kind.itemsize * math.prod(shape)
    if needed > _SCRATCH_CACHE_BYTES:
        return np.empty(shape, kind)
    kept: dict[str, NDArray[np.uint8]] = _own.__dict__.setdefault("memory", {})
    memory = kept.get(name)
    if memory is None or memory.size < needed:
        memory = kept[name] = np.empty(needed, np.uint8)
    return memory[:needed].view(kind).reshape(shape)


class ThreadTeam:
    """The threads of one kernel call; one of them that makes a team of its own has its share of them."""

    def __init__(self, size: int | None = None) -> None:
        self.size = get_threads() if size is None else min(size, get_threads())

    def __enter__(self) -> ThreadTeam:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to do: `each` waits for its threads."""

    def each(self, parts: Sequence[tuple[int, int]], work: Callable[[int, int], T]) -> list[T]:
        """Results of `work(start, stop)` on each part; a thread takes the next part when it is free."""
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
            # A team inside a team: threads of the common pool would wait for each other.
            with ThreadPoolExecutor(self.size) as inner:
                return list(inner.map(lambda part: one(*part), parts))
        return _all(_pool(self.size), one, parts)

    def split(self, n: int, work: Callable[[int, int], T], *, smallest: int) -> list[T]:
        """The same on equal parts of range(n), one a thread, none below `smallest`."""
        count = max(1, min(self.size, n // smallest))
        return self.each(equal_parts(n, count), work)


def _pool(size: int) -> ThreadPoolExecutor:
    with _lock:
        if size not in _pools:
            _pools[size] = ThreadPoolExecutor(size, thread_name_prefix="kernel")
        return _pools[size]


def _all(
    pool: ThreadPoolExecutor, work: Callable[[int, int], T], parts: Sequence[tuple[int, int]]
) -> list[T]:
    """Results of all parts; after an error nothing more is begun, and nothing is at work on return."""
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
    """Keep matrix products on the thread that asks for them.

    The setting belongs to the process, so that kernels running side by side share it: the first one in
    makes it and the last one out takes it back. Without threadpoolctl products are merely slower.
    """
    global _inside, _restore
    with _lock:
        _inside += 1
        if _inside == 1 and (found := _controller()) is not None:
            _restore = found.limit(limits=1, user_api="blas")
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
    """Knows the BLAS libraries of this process; finding them takes longer than a small kernel.

    None without threadpoolctl, or with one that may never come back: versions before 3.7 wait for Python's
    lock inside the system's loader, while another thread that imports a library waits the other way round.
    """
    try:
        import threadpoolctl  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    version = tuple(map(int, re.findall(r"\d+", threadpoolctl.__version__)[:2]))
    return threadpoolctl.ThreadpoolController() if version >= (3, 7) else None
