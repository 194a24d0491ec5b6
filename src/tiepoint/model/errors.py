# SPDX-License-Identifier: BSD-3-Clause
"""Errors a user can cause. Each message is one sentence that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class TiepointError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


class UnitError(TiepointError):
    """Some units of a run failed; the rest is stored."""


class InputError(TiepointError):
    """Wrong usage or bad input."""

    exit_code = 2


class FormatError(InputError):
    """A file does not follow its format.

    >>> str(FormatError("a.pairs", "expected 2 fields, found 1", line=7))
    'a.pairs, line 7: expected 2 fields, found 1'
    """

    def __init__(self, path: str | Path, reason: str, *, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = reason
        self.line = line
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {reason}")


class UnknownNameError(InputError):
    """A name that is not registered, with the nearest known ones.

    >>> str(UnknownNameError("method", "sfit", ["sift", "orb"]))
    "unknown method 'sfit'; did you mean 'sift'? Known: orb, sift"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else "."
        shown = ", ".join(names[:60]) + (", …" if len(names) > 60 else "")
        super().__init__(f"unknown {what} {name!r}{hint} Known: {shown or 'none'}")


class ProblemsError(InputError):
    """Several problems found before any work started, all listed at once.

    >>> print(ProblemsError("dataset x", ["a is missing", "b is short"]))
    dataset x: 2 problems
      - a is missing
      - b is short
    """

    def __init__(self, where: str, problems: Sequence[str], *, shown: int = 50) -> None:
        self.problems = tuple(problems)
        lines = [f"  - {p}" for p in problems[:shown]]
        if len(problems) > shown:
            lines.append(f"  … and {len(problems) - shown} more")
        count = f"{len(problems)} problem" + ("s" if len(problems) != 1 else "")
        super().__init__(f"{where}: {count}\n" + "\n".join(lines))


class StoreError(InputError):
    """The store cannot be opened, written or understood."""
