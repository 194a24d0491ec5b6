# SPDX-License-Identifier: BSD-3-Clause
"""Where independent jobs run: in this process, or in worker processes. The results never depend on it."""

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
"""Reasons of failures that are told, and names of what failed for each."""

Job = Callable[[RunContext, Any], Any]
"""A function at the top of a module, called with a context and one argument."""


@dataclass(frozen=True)
class JobFailure:
    """A job that raised: its name, the error in one line, and the error itself where it is the user's.

    `lines` are the last lines of a user's code that led to it.
    """

    name: str
    error: str
    cause: InputError | None = None
    lines: str = ""

    @classmethod
    def of(cls, name: str, error: BaseException) -> JobFailure:
        """The failure of a job by its error."""
        if isinstance(error, InputError):
            return cls(name, str(error), error)
        if isinstance(error, UserCodeError):
            return cls(name, error.reason, lines=error.lines)
        lines = "" if isinstance(error, TiepointError) else last_lines(error)
        return cls(name, f"{type(error).__name__}: {error}", lines=lines)


Done = Callable[[], None]
Outcome = tuple[dict[str, Any], list[JobFailure]]
"""Results by the name of the job, and the failures."""


class Executor(Protocol):
    """Runs jobs that do not depend on one another."""

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
            job: Called with the context that the recipe makes, and an argument.
            arguments: By name.
            recipe: Makes the context where the jobs run; None where it cannot travel.
            done: Called after every job.
            patience: An `InputError` is the user's to mend: after so many of them no more jobs are started
                (None: all are). Any other exception is one failed job.

        Returns:
            Results by name and the failures, both in the order of the arguments.
        """


@dataclass(frozen=True)
class InProcess:
    """One job after the other in this process, with a context that is here already.

    With several `threads` a job prepares its work while another waits for a card.
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
        """Apply `job` to every argument; the recipe is not needed."""
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
        """By name and in order, what gives the result of a job or raises its error."""
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
    """Whether so many input errors were found that no more jobs should start."""
    return patience is not None and sum(f.cause is not None for f in failures) >= patience


def summarise_failures(failures: Sequence[JobFailure]) -> str:
    """The first reasons of failures, each once with the names of what failed for it.

    Failures are of one reason where a user's code failed at the same place, or the errors are the same.

    >>> summarise_failures([JobFailure("a", "ValueError: no"), JobFailure("b", "ValueError: no"), JobFailure("c", "KeyError")])
    'a, b: ValueError: no; c: KeyError'
    """
    groups: dict[str, list[JobFailure]] = {}
    for failure in failures:
        groups.setdefault(failure.lines or failure.error, []).append(failure)
    told = ""
    for group in list(groups.values())[:MAX_LISTED_FAILURES]:
        names = first_few([f.name for f in group], MAX_LISTED_FAILURES)
        lines = f"\n{group[0].lines}" if group[0].lines else ""
        between = "" if not told else "\n" if "\n" in told else "; "
        told += f"{between}{names}: {group[0].error}{lines}"
    return told + ("; …" if len(groups) > MAX_LISTED_FAILURES else "")
