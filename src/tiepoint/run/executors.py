# SPDX-License-Identifier: BSD-3-Clause
"""Running independent jobs: here, or in worker processes. The results never depend on which."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..model.errors import InputError, UnitError
from .context import Context, Recipe

Job = Callable[[Context, Any], Any]


@dataclass(frozen=True)
class Failure:
    """A job that raised: its name and the error in one line."""

    name: str
    error: str


_context: Context | None = None


def _start(recipe: Recipe) -> None:
    global _context
    _context = recipe.build()


def _call(job: Job, argument: Any) -> Any:
    if _context is None:
        raise RuntimeError("worker was not started")
    return job(_context, argument)


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


@contextmanager
def _interrupts_are_ours() -> Iterator[None]:
    """Workers started here ignore Ctrl-C, which a terminal sends to them too: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_jobs(
    job: Job,
    arguments: Mapping[str, Any],
    *,
    context: Context,
    recipe: Recipe | None,
    jobs: int,
    done: Callable[[], None],
) -> tuple[dict[str, Any], list[Failure]]:
    """Apply `job` to every argument; returns results by name and the failures.

    An `InputError` ends the whole run: it is the user's to mend. Any other exception is one failed job.
    Without a recipe (an object that cannot travel) everything runs in this process.
    """
    if recipe is None or jobs <= 1 or len(arguments) <= 1:
        return _here(job, arguments, context, done)
    return _pool(job, arguments, recipe, min(jobs, len(arguments)), done)


def _here(
    job: Job, arguments: Mapping[str, Any], context: Context, done: Callable[[], None]
) -> tuple[dict[str, Any], list[Failure]]:
    results: dict[str, Any] = {}
    failures: list[Failure] = []
    for name, argument in arguments.items():
        try:
            results[name] = job(context, argument)
        except InputError:
            raise
        except Exception as e:
            failures.append(Failure(name, f"{type(e).__name__}: {e}"))
        done()
    return results, failures


def _pool(
    job: Job, arguments: Mapping[str, Any], recipe: Recipe, jobs: int, done: Callable[[], None]
) -> tuple[dict[str, Any], list[Failure]]:
    import multiprocessing

    results: dict[str, Any] = {}
    failures: list[Failure] = []
    with _environment(recipe.threads):
        pool = ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start, initargs=(recipe,)
        )
        try:
            with _interrupts_are_ours():
                pending: dict[Future[Any], str] = {
                    pool.submit(_call, job, argument): name for name, argument in arguments.items()
                }
            while pending:
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    name = pending.pop(future)
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        raise UnitError(
                            "a worker process died (out of memory?); what was finished is kept, "
                            "run again with fewer --jobs"
                        ) from error
                    if isinstance(error, InputError):
                        raise error
                    if error is not None:
                        failures.append(Failure(name, f"{type(error).__name__}: {error}"))
                    else:
                        results[name] = future.result()
                    done()
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return {name: results[name] for name in arguments if name in results}, failures


def names_of(failures: Sequence[Failure]) -> str:
    """Failures in one line each."""
    return "; ".join(f"{f.name}: {f.error}" for f in failures[:5]) + ("; …" if len(failures) > 5 else "")
