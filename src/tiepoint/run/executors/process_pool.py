# SPDX-License-Identifier: BSD-3-Clause
"""A pool of worker processes. Workers exit with their parent and leave no partial files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ...core.errors import UnitError
from ...core.processes import name_semaphores
from ...store.atomic_files import remove_temporaries
from ..context import ContextRecipe, RunContext
from . import Done, Job, JobFailure, Outcome, too_many_failures

WATCH_S = 0.5
"""Seconds between two checks by a worker that its parent is alive."""

SHUTDOWN_TIMEOUT_S = 5.0
"""Seconds after which a worker that does not end is killed."""

CONTEXTS = 2
"""Number of contexts that a worker caches."""

SAFE_PATH = "PYTHONSAFEPATH"

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
"""Environment variables that limit library threads. Without them, every worker would use all cores."""


class ProcessPool:
    """Up to `jobs` worker processes, started on first use and ended by `close`.

    A worker caches the context of a recipe for later jobs.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._workers: dict[int, BaseProcess] = {}

    def run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        recipe: ContextRecipe | None,
        done: Done,
        patience: int | None,
    ) -> Outcome:
        """Apply `job` to every argument in the workers; see `Executor`."""
        if recipe is None:
            raise ValueError("the process pool cannot run jobs without a recipe; pass `recipe`")
        results: dict[str, Any] = {}
        failures: list[JobFailure] = []
        pending: dict[Future[Any], str] = {}
        complete = False
        try:
            with _environment(recipe.threads), safe_path(), block_interrupts_in_workers():
                for name, argument in arguments.items():
                    pending[self._submitted(_call, job, name, argument, recipe)] = name
                    self._workers.update(self._started()._processes or {})
            while pending and not too_many_failures(failures, patience):
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    name = pending.pop(future)
                    outcome = _outcome(name, future)
                    if isinstance(outcome, JobFailure):
                        failures.append(outcome)
                    else:
                        results[name] = outcome
                    done()
            complete = not pending
        finally:
            if not complete:
                self._end(Path(recipe.root))
        order = {name: i for i, name in enumerate(arguments)}
        failures.sort(key=lambda f: order.get(f.name, -1))
        return {name: results[name] for name in arguments if name in results}, failures

    def _submitted(self, *call: Any) -> Future[Any]:
        try:
            return self._started().submit(*call)
        except BrokenProcessPool as e:
            raise _died() from e

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            name_semaphores()
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=spawn, initializer=exit_with_parent, initargs=(os.getpid(),)
            )
        return self._pool

    def _end(self, root: Path) -> None:
        """End all workers. The next `run` starts new ones."""
        if self._pool is not None:
            self._workers.update(self._pool._processes or {})
            end_workers(list(self._workers.values()), root)
        self.close()

    def close(self) -> None:
        """End the workers in the background. Kill workers that hang, for example on a dead worker's lock."""
        if self._pool is not None:
            self._workers.update(self._pool._processes or {})
            self._pool.shutdown(wait=False, cancel_futures=True)
            workers = list(self._workers.values())
            threading.Thread(target=_kill_left, args=(workers,), name="last workers", daemon=True).start()
        self._pool, self._workers = None, {}


def _kill_left(workers: Sequence[BaseProcess]) -> None:
    """Wait for ending workers, and kill those that remain after the timeout."""
    for worker in _left(workers):
        worker.kill()


def _left(workers: Sequence[BaseProcess]) -> list[BaseProcess]:
    """Wait for workers to end. Return those that still run after the timeout."""
    left = {w.sentinel: w for w in workers if w.pid is not None}
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
    while left and (rest := deadline - time.monotonic()) > 0:
        ended = connection.wait(list(left), timeout=rest)
        left = {sentinel: w for sentinel, w in left.items() if sentinel not in ended}
    return list(left.values())


def _outcome(name: str, future: Future[Any]) -> Any:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        raise _died() from error
    return JobFailure.of(name, error) if error else future.result()


def _died() -> UnitError:
    main = sys.modules["__main__"]
    script = "" if getattr(main, "__spec__", None) else str(getattr(main, "__file__", None) or "")
    started = f', or {script} has no `if __name__ == "__main__":` around what it runs' * script.endswith(
        ".py"
    )
    return UnitError(
        f"a worker process died, perhaps for lack of memory{started}; finished work is saved, so rerun the "
        "command with fewer `jobs`"
    )


_contexts: dict[str, RunContext | JobFailure] = {}


def _call(job: Job, name: str, argument: Any, recipe: ContextRecipe) -> Any:
    """Run a job in the worker. Return errors as a `JobFailure`, because some exceptions cannot be pickled."""
    context = _context(name, recipe)
    if isinstance(context, JobFailure):
        return context
    try:
        return job(context, argument)
    except Exception as e:
        return JobFailure.of(name, e)


def _context(name: str, recipe: ContextRecipe) -> RunContext | JobFailure:
    """Return the context of a recipe, from the cache if possible."""
    key = recipe.key
    found = _contexts.pop(key, None)
    if found is None:
        try:
            found = recipe.build()
        except Exception as e:
            found = JobFailure.of(name, e)
    _contexts[key] = found
    while len(_contexts) > CONTEXTS:
        del _contexts[next(iter(_contexts))]
    return found


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Limit the library threads of workers by environment variables, which libraries read at import."""
    with _set({name: str(threads) for name in THREAD_VARIABLES}):
        yield


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a block and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def exit_with_parent(parent: int) -> None:
    """Exit this worker soon after the process `parent` has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, name="parent watch", daemon=True).start()


@contextmanager
def safe_path() -> Iterator[None]:
    """Start processes that do not import modules from the working folder.

    New processes receive the import path later but import standard modules first. Without this block, a
    ``signal.py`` in the working folder would replace the standard module.
    """
    with _set({SAFE_PATH: "1"}):
        yield


@contextmanager
def block_interrupts_in_workers() -> Iterator[None]:
    """Start workers within this block, so that they ignore Ctrl-C, which a terminal sends to all processes.

    Workers inherit the blocked signal. The parent receives the signal at the end of the block. On systems
    without signal blocking, the signal is ignored within the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if hasattr(signal, "pthread_sigmask"):
        with safe_path():
            resource_tracker.ensure_running()  # its start would unblock the signal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_workers(workers: Sequence[BaseProcess], root: Path) -> None:
    """End processes and remove their temporary files from the store."""
    started = [w for w in workers if w.pid is not None]
    for worker in started:
        worker.terminate()
    left = _left(started)
    for worker in left:
        worker.kill()
    if left:
        connection.wait([w.sentinel for w in left], timeout=SHUTDOWN_TIMEOUT_S)
    remove_temporaries(root, {w.pid for w in started if w.pid is not None})
