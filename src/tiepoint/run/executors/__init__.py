# SPDX-License-Identifier: BSD-3-Clause
"""Executors run independent jobs in this process or in workers. Results do not depend on the executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ...core.errors import InputError, TiepointError, UserCodeError
from ...core.formatting import first_few
from ...methods.user_code import last_lines
from ..context import ContextRecipe, RunContext

MAX_LISTED_FAILURES = 5
"""Maximum number of reasons in a summary of failures, and of job names per reason."""

Job = Callable[[RunContext, Any], Any]
"""Module-level function that is called with a context and one argument."""


@dataclass(frozen=True)
class JobFailure:
    """A failed job: its name, a one-line error message, and the exception if it is an `InputError`.

    `lines` has the last lines of user code in the traceback.
    """

    name: str
    error: str
    cause: InputError | None = None
    lines: str = ""

    @classmethod
    def of(cls, name: str, error: BaseException) -> JobFailure:
        """Create a failure from the exception that a job raised."""
        if isinstance(error, InputError):
            return cls(name, str(error), error)
        if isinstance(error, UserCodeError):
            return cls(name, error.reason, lines=error.lines)
        lines = "" if isinstance(error, TiepointError) else last_lines(error)
        return cls(name, f"{type(error).__name__}: {error}", lines=lines)


Done = Callable[[], None]
Outcome = tuple[dict[str, Any], list[JobFailure]]
"""Results by job name, and the failures."""


class Executor(Protocol):
    """Interface of executors, which run independent jobs."""

    def run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        recipe: ContextRecipe | None,
        done: Done,
        patience: int | None,
    ) -> Outcome:
        """Apply `job` to every argument.

        Args:
            job: Called with a context and an argument.
            arguments: Arguments by name.
            recipe: Recipe from which a worker builds the context; None if no worker can build it.
            done: Called after every job.
            patience: Number of `InputError`s after which no more jobs start; None for no limit. Other
                exceptions do not stop the jobs that follow.

        Returns:
            Results by name and the failures, both in the order of the arguments.
        """


@dataclass(frozen=True)
class InProcess:
    """Executor that runs jobs in this process with an existing context.

    If `threads` is above 1, one job prepares its input while another waits for the GPU.
    """

    context: RunContext
    threads: int = 1

    def run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        recipe: ContextRecipe | None,
        done: Done,
        patience: int | None,
    ) -> Outcome:
        """Apply `job` to every argument. The recipe is ignored."""
        results: dict[str, Any] = {}
        failures: list[JobFailure] = []
        for name, outcome in self._outcomes(job, arguments):
            try:
                results[name] = outcome()
            except Exception as e:
                failures.append(JobFailure.of(name, e))
                if too_many_failures(failures, patience):
                    break
            done()
        return results, failures

    def _outcomes(self, job: Job, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield each job name, in order, with a function that returns the result or raises the error."""
        if self.threads < 2 or len(arguments) < 2:
            for name, argument in arguments.items():
                yield name, partial(job, self.context, argument)
            return
        pool = ThreadPoolExecutor(self.threads, "units")
        try:
            under_way = {name: pool.submit(job, self.context, a) for name, a in arguments.items()}
            for name, future in under_way.items():
                yield name, future.result
        finally:
            pool.shutdown(cancel_futures=True)


def too_many_failures(failures: Sequence[JobFailure], patience: int | None) -> bool:
    """Return whether at least `patience` failures are input errors."""
    return patience is not None and sum(f.cause is not None for f in failures) >= patience


def summarise_failures(failures: Sequence[JobFailure]) -> str:
    """Return a text with the first failure reasons and the names of the failed jobs.

    Two failures have the same reason if they come from the same lines of user code or have equal messages.

    >>> summarise_failures([*(JobFailure(n, "ValueError: no") for n in "ab"), JobFailure("c", "KeyError")])
    'a, b: ValueError: no; c: KeyError'
    """
    groups: dict[str, list[JobFailure]] = {}
    for failure in failures:
        groups.setdefault(failure.lines or failure.error, []).append(failure)
    summary = ""
    for group in list(groups.values())[:MAX_LISTED_FAILURES]:
        names = first_few([f.name for f in group], MAX_LISTED_FAILURES)
        lines = f"\n{group[0].lines}" if group[0].lines else ""
        separator = "" if not summary else "\n" if "\n" in summary else "; "
        summary += f"{separator}{names}: {group[0].error}{lines}"
    return summary + ("; …" if len(groups) > MAX_LISTED_FAILURES else "")
