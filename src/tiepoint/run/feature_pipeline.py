# SPDX-License-Identifier: BSD-3-Clause
"""Compute features of many items. Threads prefetch inputs; other threads check and write the results."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from ..core.errors import InputError, ProblemsError, StoreError, UnitError, join_errors
from ..methods.base import Finish, has_user_code
from ..methods.user_code import is_builtin_class
from . import costs
from .context import (
    MAX_LISTED_PROBLEMS,
    ContextRecipe,
    Progress,
    RunContext,
    count_steps,
)
from .executors import Done, Executor, InProcess, JobFailure, summarise_failures, too_many_failures
from .repeat_check import REPEATS, SHARE, computes_same, note_repeats, repeat_items, to_repeat

PAYLOAD_BYTES = 512 << 20
"""Maximum total size of decoded items in flight. At least one item is always allowed."""

LOCKED_S = 8e-6
"""Time per patch that a thread-safe method holds the interpreter lock, which limits threads."""

RESULT_BYTES = 256 << 20
"""Maximum total size of features that wait to be written. One item is always allowed."""

Described = tuple[str, "tuple[Finish, float] | Exception"]
"""Item name with either a function to finish its arrays and the method's seconds, or an error."""


def make_features(
    context: RunContext,
    missing: Mapping[str, tuple[str, str]],
    recipe: ContextRecipe | None,
    pool: Executor,
    progress: Progress,
    patience: int | None,
    worth_s: float,
    *,
    repeat: bool = True,
) -> None:
    """Compute and cache the features of items, in this process or in workers.

    A method with a stream receives all items in one stream. For other methods, this process times the first
    item. If workers save more than `worth_s` seconds, they process the others. Otherwise thread-safe methods
    run in several threads and all other methods in the current thread. The features are the same in all
    cases. Some items are then computed again, to see whether the method is deterministic.

    Args:
        context: Method and task.
        missing: Item and feature key, by the name of the job.
        recipe: Recipe from which a worker builds the context; None if workers cannot run the method.
        pool: The workers.
        progress: Called after every item.
        patience: Number of input errors after which no more items are processed; None for no limit.
        worth_s: Seconds that workers must save to be started.
        repeat: Whether to compute some items again.
    """
    label, total, begun = f"{context.method.name}: features", len(missing), time.perf_counter()
    if not total:
        if repeat:
            repeat_some(context, {}, begun, None, None)
        return
    step = count_steps(progress, label, total)
    failures: list[JobFailure] = []
    rest, parallel = dict(missing), False
    if recipe is not None and total > 2 and (context.method.stream is None or context.method.in_workers):
        first = next(iter(rest))
        started = time.perf_counter()
        _, failures = InProcess(context).run(extract_one, {first: rest.pop(first)}, None, step, 1)
        raise_input(context, failures, patience)
        estimate = (time.perf_counter() - started) * len(rest)
        parallel = _saved_by_workers(context, recipe, estimate, [key for key, _ in rest.values()]) > worth_s
    if parallel:
        failures += pool.run(extract_one, rest, recipe, step, patience)[1]
    else:
        with context.keeping_images():
            failures += FeaturePipeline(context).run(rest, step, patience)
    raise_failures(context, label, failures, total)
    if parallel and has_user_code(context.method.config):
        _compare_with_worker(context, list(missing.values()), pool, recipe)
    if repeat:
        repeat_some(context, dict(missing.values()), begun, pool if parallel else None, recipe)


def _compare_with_worker(
    context: RunContext, computed: Sequence[tuple[str, str]], pool: Executor, recipe: ContextRecipe | None
) -> None:
    """Raise an error if this process reproduces its features of the first item, but a worker does not."""
    item = computed[0][0]
    found, failures = pool.run(computes_same, {item: computed[0]}, recipe, lambda: None, None)
    raise_failures(context, REPEATS, failures, 1)
    if found[item] or not computes_same(context, computed[0]):
        return
    for _, key in computed:
        context.features.discard(key)
    raise InputError(
        f"{context.method.name}: a worker process computes other features of {item} than the process that "
        "started it, whose state differs; run it with `jobs` 1"
    )


def repeat_some(
    context: RunContext,
    missing: Mapping[str, str],
    begun: float,
    pool: Executor | None,
    recipe: ContextRecipe | None,
) -> None:
    """Compute some items again, and store in the cache whether the features were the same.

    Items that workers computed are computed by workers again.
    """
    keys = to_repeat(context, missing)
    if not keys:
        return
    computed = keys, SHARE * (time.perf_counter() - begun)
    if pool is None:
        note_repeats(context, repeat_items(context, computed))
        return
    found, failures = pool.run(repeat_items, {REPEATS: computed}, recipe, lambda: None, None)
    raise_failures(context, REPEATS, failures, 1)
    note_repeats(context, found.get(REPEATS, {}))


def extract_one(context: RunContext, argument: tuple[str, str]) -> float:
    """Compute the features of one item. Called as a job."""
    return context.extract(*argument)


def _saved_by_workers(
    context: RunContext, recipe: ContextRecipe, work_s: float, items: Iterable[str]
) -> float:
    """Return the estimated seconds that worker processes save on items, compared with this process."""
    if not context.method.thread_safe:
        return work_s
    cores = costs.cores()
    jobs = max(1, cores // max(1, recipe.threads))
    locked_s = LOCKED_S * sum(context.items[key].count or 1 for key in items)
    return max(work_s / cores, locked_s) - work_s / jobs


def raise_failures(context: RunContext, label: str, failures: Sequence[JobFailure], total: int) -> None:
    """Raise all input errors as one error. Without input errors, raise a `UnitError` with a summary."""
    raise_input(context, failures)
    if failures:
        raise UnitError(f"{label}: {len(failures)} of {total} failed: {summarise_failures(failures)}")


def raise_input(context: RunContext, failures: Sequence[JobFailure], patience: int | None = 1) -> None:
    """Raise all input errors as one error if there are at least `patience` of them."""
    found = [f.cause for f in failures if f.cause is not None]
    if not found or patience is None or len(found) < patience:
        return
    found = _join_write_errors(found)
    error = join_errors(found, f"{context.method.name}: features", shown=MAX_LISTED_PROBLEMS)
    if len(found) > 1 and isinstance(error, ProblemsError):
        prefix = f"{context.method.name} on "  # the heading already contains the name
        error = ProblemsError(
            error.where, [p.removeprefix(prefix) for p in error.problems], shown=MAX_LISTED_PROBLEMS
        )
    raise error


def _join_write_errors(errors: Sequence[InputError]) -> list[InputError]:
    """Merge write errors that have the same reason, such as a full disk.

    >>> full = [StoreError(f"cannot write f/{k}: No space left on device; choose another") for k in "ab"]
    >>> print(*_join_write_errors([*full, InputError("no c")]), sep="; ")
    cannot write f/a: No space left on device; choose another (and 1 more could not be written); no c
    """
    groups: dict[object, list[InputError]] = {}
    for error in errors:
        text = str(error)
        same = type(error) is StoreError and text.startswith("cannot write ")
        groups.setdefault(text.rpartition(": ")[2] if same else id(error), []).append(error)
    return [
        g[0] if len(g) == 1 else StoreError(f"{g[0]} (and {len(g) - 1} more could not be written)")
        for g in groups.values()
    ]


class ReadAheadWindow:
    """Limit on the number of items in flight: at most `most` items and about `limit` bytes.

    The total size is estimated as if every item were as large as the largest item until now.

    >>> window = ReadAheadWindow(8, 100)
    >>> window.see(np.zeros(30, np.uint8)), window.room
    (None, 3)
    """

    def __init__(self, most: int, limit: int) -> None:
        self.most, self.limit, self._largest = most, limit, 1

    def see(self, thing: Any) -> None:
        """Update the size of the largest item until now."""
        self._largest = max(self._largest, bytes_of(thing))

    @property
    def room(self) -> int:
        """Number of items that may be in flight, at least 1."""
        return max(1, min(self.most, self.limit // self._largest))


def bytes_of(thing: Any) -> int:
    """Return the number of bytes of the arrays in a payload or a result.

    >>> bytes_of((np.zeros(3), {"a": np.zeros(2, np.uint8)}, "text"))
    26
    """
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, Mapping):
        thing = tuple(thing.values())
    return sum(map(bytes_of, thing)) if isinstance(thing, tuple | list) else 0


class FeaturePipeline:
    """Pipeline that applies one method to many items in this process."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.cores = costs.cores()
        # User code, also the reader of a user's task, is called from one thread only.
        self.reads = context.method.needs_payload and is_builtin_class(type(context.opened))
        self.payloads = ReadAheadWindow(2 * self.cores, PAYLOAD_BYTES)
        self.results = ReadAheadWindow(4 * self.cores, RESULT_BYTES)
        self.held = 0
        self.waited_s = 0.0

    def run(
        self, arguments: Mapping[str, tuple[str, str]], done: Done, patience: int | None
    ) -> list[JobFailure]:
        """Compute the features of all items. Return the failures in the order of `arguments`."""
        failures: list[JobFailure] = []
        pending: deque[tuple[str, Future[None]]] = deque()

        def settle(name: str, error: BaseException | None) -> None:
            if isinstance(error, Exception):
                failures.append(JobFailure.of(name, error))
            elif error is not None:
                raise error
            if not too_many_failures(failures, patience):
                done()

        def clear(most: int) -> None:
            """Process finished writes in order. Wait until at most `most` writes are pending."""
            while pending and not too_many_failures(failures, patience):
                if len(pending) <= most and not pending[0][1].done():
                    return
                name, future = pending.popleft()
                settle(name, future.exception())

        readers = ThreadPoolExecutor(self.cores, "reader")
        writers = ThreadPoolExecutor(self.cores, "writer")
        try:
            for name, made in self._described(arguments, readers):
                if isinstance(made, Exception):
                    clear(0)  # so that failures are reported in order, independent of writer speed
                    if not too_many_failures(failures, patience):
                        settle(name, made)
                else:
                    pending.append((name, writers.submit(self._write, *arguments[name], *made)))
                clear(self.results.room)
                if too_many_failures(failures, patience):
                    break
            clear(0)
        except BaseException:
            writers.shutdown(cancel_futures=True)
            raise
        finally:
            readers.shutdown(cancel_futures=True)
            writers.shutdown()
        order = {name: i for i, name in enumerate(arguments)}
        return sorted(failures, key=lambda f: order[f.name])

    def _write(self, key: str, feature_key: str, finish: Finish, seconds: float) -> None:
        arrays = finish()
        self.results.see(arrays)
        self.context.cache(key, feature_key, arrays, seconds)

    def _described(
        self, arguments: Mapping[str, tuple[str, str]], readers: ThreadPoolExecutor
    ) -> Iterator[Described]:
        method = self.context.method
        keys = {name: key for name, (key, _) in arguments.items()}
        if method.stream is not None:
            yield from self._streamed(keys, self._ahead(self._read, keys, readers))
        elif method.thread_safe and self.reads:
            yield from self._ahead(self._read_and_extract, keys, readers)
        else:
            for name, payload in self._ahead(self._read, keys, readers):
                yield name, payload if isinstance(payload, Exception) else self._extract(keys[name], payload)

    def _read(self, key: str) -> Any:
        payload = self.context.payload(key)
        self.payloads.see(payload)
        return payload

    def _extract(
        self, key: str, payload: Any, clock: Callable[[], float] = time.perf_counter
    ) -> tuple[Finish, float] | Exception:
        started = clock()
        try:
            arrays = self.context.method.extract(self.context.items[key], payload)
        except Exception as e:
            return e
        return partial(dict, arrays), clock() - started

    def _read_and_extract(self, key: str) -> Any:
        # Count only the CPU time of this thread, because other threads may hold the GIL.
        return self._extract(key, self._read(key), time.thread_time)

    def _ahead(
        self, job: Callable[[str], Any], keys: Mapping[str, str], readers: ThreadPoolExecutor
    ) -> Iterator[tuple[str, Any]]:
        """Yield each item name, in order, with the result of `job` for the item, or its exception."""
        names = iter(keys)
        ahead: deque[tuple[str, Future[Any]]] = deque()
        left = len(keys)
        while left or ahead:
            while left and (not ahead or (self.reads and len(ahead) + self.held < self.payloads.room)):
                name, left = next(names), left - 1
                ahead.append(
                    (name, readers.submit(job, keys[name]) if self.reads else _called(job, keys[name]))
                )
            name, future = ahead.popleft()
            started = time.perf_counter()
            error = future.exception()
            self.waited_s += time.perf_counter() - started
            if error is not None and not isinstance(error, Exception):
                raise error
            yield name, future.result() if error is None else error

    def _streamed(self, keys: Mapping[str, str], ahead: Iterator[tuple[str, Any]]) -> Iterator[Described]:
        """Yield the results of the method's stream. If it fails, process the remaining items one by one."""
        method, items = self.context.method, self.context.items
        assert method.stream is not None
        taken: deque[str] = deque()
        unread: list[tuple[str, Exception]] = []

        def source() -> Iterator[tuple[Any, Any]]:
            for name, payload in ahead:
                if isinstance(payload, Exception):
                    unread.append((name, payload))
                    continue
                taken.append(name)
                self.held = len(taken)
                yield items[keys[name]], payload

        while True:
            # Lazy, because `method.stream` itself may raise.
            stream = chain.from_iterable(method.stream(source()) for _ in range(1))
            while True:
                started, self.waited_s = time.perf_counter(), 0.0
                try:
                    _, finish = next(stream)
                except Exception:  # includes StopIteration at the end of the stream
                    break
                seconds = time.perf_counter() - started - self.waited_s
                yield taken.popleft(), (finish, max(0.0, seconds))
                self.held = len(taken)
                yield from unread
                unread.clear()
            list(islice(source(), 1))  # skip one item, so that a stream that always fails still ends
            undone = list(taken)
            taken.clear()
            yield from unread
            unread.clear()
            for name in undone:
                yield name, self._extract(keys[name], self._read(keys[name]))
            if not undone:
                return


def _called(job: Callable[[str], Any], key: str) -> Future[Any]:
    """Run a job in this thread and return its outcome as a finished future."""
    future: Future[Any] = Future()
    try:
        future.set_result(job(key))
    except Exception as e:
        future.set_exception(e)
    return future
