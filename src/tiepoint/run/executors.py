# SPDX-License-Identifier: BSD-3-Clause
"""Running independent jobs: here, or in worker processes. The results never depend on which."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ..model.errors import InputError, UnitError
from .context import Context, Recipe
from .workers import end_workers, follow_parent, interrupts_are_ours

Job = Callable[[Context, Any], Any]


@dataclass(frozen=True)
class Failure:
    """A job that raised: its name, the error in one line, and the error itself where it is the user's."""

    name: str
    error: str
    cause: InputError | None = None


_context: Context | None = None
_no_context: Failure | None = None


def _start(recipe: Recipe, parent: int) -> None:
    global _context, _no_context
    follow_parent(parent)
    try:
        _context = recipe.build()
    except Exception as e:  # told by the first job: a pool only knows that a process died
        _no_context = _failure("worker", e)


def _failure(name: str, error: Exception) -> Failure:
    if isinstance(error, InputError):
        return Failure(name, str(error), error)
    return Failure(name, f"{type(error).__name__}: {error}")


def _call(job: Job, name: str, argument: Any) -> Any:
    """The result of a job, or its failure: not every error of a library can travel."""
    if _context is None:
        return _no_context or Failure(name, "the worker was not started")
    try:
        return job(_context, argument)
    except Exception as e:
        return _failure(name, e)


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Workers inherit the limits of their BLAS from the environment, which is read at import."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(threads) for name in names})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def run_jobs(
    job: Job,
    arguments: Mapping[str, Any],
    *,
    context: Context,
    recipe: Recipe | None,
    jobs: int,
    done: Callable[[], None],
    patience: int | None = 1,
) -> tuple[dict[str, Any], list[Failure]]:
    """Apply `job` to every argument; returns results by name and the failures, in the order of the arguments.

    An exception is one failed job. An `InputError` is the user's to mend: after `patience` of them no more
    jobs are started (None: all are). Without a recipe (an object that cannot travel) everything runs in this
    process.
    """
    if recipe is None or jobs <= 1 or len(arguments) <= 1:
        results, failures = _here(job, arguments, context, done, patience)
    else:
        results, failures = _pool(job, arguments, recipe, min(jobs, len(arguments)), done, patience)
    order = {name: i for i, name in enumerate(arguments)}
    failures.sort(key=lambda f: order.get(f.name, -1))
    return {name: results[name] for name in arguments if name in results}, failures


def _enough(failures: Sequence[Failure], patience: int | None) -> bool:
    return patience is not None and sum(f.cause is not None for f in failures) >= patience


def _here(
    job: Job,
    arguments: Mapping[str, Any],
    context: Context,
    done: Callable[[], None],
    patience: int | None,
) -> tuple[dict[str, Any], list[Failure]]:
    results: dict[str, Any] = {}
    failures: list[Failure] = []
    for name, argument in arguments.items():
        try:
            results[name] = job(context, argument)
        except Exception as e:
            failures.append(_failure(name, e))
            if _enough(failures, patience):
                break
        done()
    return results, failures


def _pool(
    job: Job,
    arguments: Mapping[str, Any],
    recipe: Recipe,
    jobs: int,
    done: Callable[[], None],
    patience: int | None,
) -> tuple[dict[str, Any], list[Failure]]:
    import multiprocessing

    results: dict[str, Any] = {}
    failures: list[Failure] = []
    workers: dict[int, BaseProcess] = {}
    whole = False
    with _environment(recipe.threads):
        pool = ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(recipe, os.getpid()),
        )
        try:
            with interrupts_are_ours():
                pending: dict[Future[Any], str] = {}
                for name, argument in arguments.items():
                    pending[pool.submit(_call, job, name, argument)] = name
                    workers.update(pool._processes or {})
            while pending and not _enough(failures, patience):
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    name = pending.pop(future)
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        raise UnitError(
                            "a worker process died (out of memory?); what was finished is kept, "
                            "run again with fewer --jobs"
                        ) from error
                    outcome = Failure(name, f"{type(error).__name__}: {error}") if error else future.result()
                    if isinstance(outcome, Failure):
                        failures.append(outcome)
                    else:
                        results[name] = outcome
                    done()
            whole = not pending
        finally:
            if not whole:
                workers.update(pool._processes or {})
                end_workers(list(workers.values()), Path(recipe.root))
            pool.shutdown(wait=False, cancel_futures=True)
    return results, failures


def names_of(failures: Sequence[Failure]) -> str:
    """Failures in one line each."""
    return "; ".join(f"{f.name}: {f.error}" for f in failures[:5]) + ("; …" if len(failures) > 5 else "")
