# SPDX-License-Identifier: BSD-3-Clause
"""The features of many items: read ahead in threads, described, checked and written behind in threads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, count, islice
from typing import Any

import numpy as np

from ..core.errors import InputError, ProblemsError, StoreError, UnitError, join_errors
from ..methods.base import Finish
from ..methods.user_code import is_builtin_class
from . import costs
from .context import MAX_LISTED_PROBLEMS, ContextRecipe, Progress, RunContext
from .executors import Done, Executor, InProcess, JobFailure, summarise_failures, too_many_failures

PAYLOAD_BYTES = 512 << 20
"""Decoded items that wait for the method or are with it; one at least, however large."""

RESULT_BYTES = 256 << 20
"""Features that wait to be written; those of one item at least, however large."""

LANES = 4
"""Threads of Python code that calls small functions of a library gain little beyond so many."""

Described = tuple[str, "tuple[Finish, float] | Exception"]
"""The name of an item, what makes its arrays, and the seconds that the method took."""


def make_features(
    context: RunContext,
    missing: Mapping[str, tuple[str, str]],
    recipe: ContextRecipe | None,
    pool: Executor,
    progress: Progress,
    patience: int | None,
    worth_s: float,
) -> None:
    """Make and cache the features of items; which way it is done never changes them.

    A method with a stream is given all items in one. Of the others the first item is described here to see
    what one costs: where workers save more than `worth_s`, the rest is described there, else here. Methods
    that are thread-safe are then called from several threads, all others from this one.

    Args:
        context: Method and task.
        missing: Item and feature key, by the name of the job.
        recipe: Makes the context in a worker; None where it cannot travel.
        pool: The workers.
        progress: Told after every item.
        patience: Input errors after which no more items are described; they are raised as one.
        worth_s: What starting the workers costs.
    """
    label, total = f"{context.method.name}: features", len(missing)
    if not total:
        return
    done = count()
    progress(label, next(done), total)

    def step() -> None:
        progress(label, next(done), total)

    failures: list[JobFailure] = []
    rest, apart = dict(missing), False
    if recipe is not None and total > 2 and _saved_by_workers(context, recipe, 1.0) > 0:
        first = next(iter(rest))
        started = time.perf_counter()
        _, failures = InProcess(context).run(extract_one, {first: rest.pop(first)}, None, step, 1)
        raise_input(context, failures, patience)
        estimate = (time.perf_counter() - started) * len(rest)
        apart = _saved_by_workers(context, recipe, estimate) > worth_s
    if apart:
        failures += pool.run(extract_one, rest, recipe, step, patience)[1]
    else:
        failures += FeaturePipeline(context).run(rest, step, patience)
    raise_input(context, failures)
    if failures:
        raise UnitError(f"{label}: {len(failures)} of {total} failed: {summarise_failures(failures)}")


def extract_one(context: RunContext, argument: tuple[str, str]) -> float:
    """The job of a worker: the features of one item."""
    return context.extract(*argument)


def _saved_by_workers(context: RunContext, recipe: ContextRecipe, work_s: float) -> float:
    """Seconds that worker processes save; nothing for streams, and what threads cannot do for others."""
    method, cores = context.method, costs.cores()
    if method.stream is not None:
        return 0.0
    if not method.thread_safe:
        return work_s
    jobs = max(1, cores // max(1, recipe.threads))
    return work_s / min(cores, LANES) - work_s / jobs


def raise_input(context: RunContext, failures: Sequence[JobFailure], patience: int | None = 1) -> None:
    """Raise the input errors as one, once there are `patience` of them."""
    found = [f.cause for f in failures if f.cause is not None]
    if not found or patience is None or len(found) < patience:
        return
    found = _unwritten(found)
    error = join_errors(found, f"{context.method.name}: features", shown=MAX_LISTED_PROBLEMS)
    if len(found) > 1 and isinstance(error, ProblemsError):
        own = f"{context.method.name} on "  # the heading has the name
        error = ProblemsError(
            error.where, [p.removeprefix(own) for p in error.problems], shown=MAX_LISTED_PROBLEMS
        )
    raise error


def _unwritten(errors: Sequence[InputError]) -> list[InputError]:
    """The errors, with those of files that could not be written for one reason (a full disk) as one.

    >>> full = [StoreError(f"cannot write f/{k}: No space left on device; choose another") for k in "ab"]
    >>> print(*_unwritten([*full, InputError("no c")]), sep="; ")
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
    """How many things may be under way: `most`, and no more bytes than `limit` as the largest seen has.

    >>> window = ReadAheadWindow(8, 100)
    >>> window.see(np.zeros(30, np.uint8)), window.room
    (None, 3)
    """

    def __init__(self, most: int, limit: int) -> None:
        self.most, self.limit, self._largest = most, limit, 1

    def see(self, thing: Any) -> None:
        """Take note of the size of one."""
        self._largest = max(self._largest, bytes_of(thing))

    @property
    def room(self) -> int:
        """How many may be under way now, one at least."""
        return max(1, min(self.most, self.limit // self._largest))


def bytes_of(thing: Any) -> int:
    """Bytes of the arrays in a payload or a result.

    >>> bytes_of((np.zeros(3), {"a": np.zeros(2, np.uint8)}, "text"))
    26
    """
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, Mapping):
        thing = tuple(thing.values())
    return sum(map(bytes_of, thing)) if isinstance(thing, tuple | list) else 0


class FeaturePipeline:
    """One method on many items in this process."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.cores = costs.cores()
        # What users wrote is called from one thread only, a task's reader too.
        self.reads = context.method.needs_payload and is_builtin_class(type(context.opened))
        self.payloads = ReadAheadWindow(2 * self.cores, PAYLOAD_BYTES)
        self.results = ReadAheadWindow(4 * self.cores, RESULT_BYTES)
        self.held = 0
        self.waited_s = 0.0

    def run(
        self, arguments: Mapping[str, tuple[str, str]], done: Done, patience: int | None
    ) -> list[JobFailure]:
        """Make the features of every argument; the failures in their order."""
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
            """Settle in their order those that are done, and wait until no more than `most` are left."""
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
                    clear(0)  # so that the first failures in order are told, however fast the writers are
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
        self.context.keep(key, feature_key, arrays, seconds)

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
        # Other threads hold the interpreter meanwhile: what this one computed is the time of the method.
        return self._extract(key, self._read(key), time.thread_time)

    def _ahead(
        self, job: Callable[[str], Any], keys: Mapping[str, str], readers: ThreadPoolExecutor
    ) -> Iterator[tuple[str, Any]]:
        """By name, in order, what `job` gives for a key or the exception that it raises."""
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
        """Results of the method's stream. What a stream that breaks has left undone is described alone."""
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
            stream = chain.from_iterable(method.stream(source()) for _ in range(1))  # even the call may break
            while True:
                started, self.waited_s = time.perf_counter(), 0.0
                try:
                    _, finish = next(stream)
                except Exception:  # its end, too
                    break
                seconds = time.perf_counter() - started - self.waited_s
                yield taken.popleft(), (finish, max(0.0, seconds))
                self.held = len(taken)
                yield from unread
                unread.clear()
            list(islice(source(), 1))  # the next one, so that streams that always break come to an end
            undone = list(taken)
            taken.clear()
            yield from unread
            unread.clear()
            for name in undone:
                yield name, self._extract(keys[name], self._read(keys[name]))
            if not undone:
                return


def _called(job: Callable[[str], Any], key: str) -> Future[Any]:
    """The outcome of a job that is done now, in this thread."""
    future: Future[Any] = Future()
    try:
        future.set_result(job(key))
    except Exception as e:
        future.set_exception(e)
    return future
