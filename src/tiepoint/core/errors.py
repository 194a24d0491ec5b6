# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions for errors that a user can cause. Each message says what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
WRONG_INPUT = "wrong input"


class TiepointError(Exception):
    """Base class of expected errors. `exit_code` is the exit code of the command line."""

    exit_code = 1

    @property
    def one_line(self) -> str:
        """The error message on one line."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the class, message and attributes, so that worker processes can send the error."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[TiepointError], args: tuple[Any, ...], attributes: dict[str, Any]) -> TiepointError:
    """Rebuild a pickled error without calling its constructor, whose arguments differ from `args`."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class UnitError(TiepointError):
    """Raised if some units of a run failed. The results of the other units are stored."""


class UserCodeError(UnitError):
    """Raised if user code fails. The message has the last lines of its traceback.

    >>> print(UserCodeError("mine failed on a/ref", "ValueError: no", '  File "my.py", line 3, in describe'))
    mine failed on a/ref: ValueError: no
      File "my.py", line 3, in describe
    """

    def __init__(self, what: str, reason: str, lines: str = "") -> None:
        self.reason, self.lines = reason, lines
        super().__init__(f"{what}: {reason}" + (f"\n{lines}" if lines else ""))


class InputError(TiepointError):
    """Raised if an argument, option or input file is invalid."""

    exit_code = 2


MAX_MESSAGE_CHARS = 1000
"""Maximum number of characters of a name or reason in a message. Untrusted files may have very long lines."""


def _sentence(text: str, most: int = MAX_MESSAGE_CHARS) -> str:
    r"""Return text on one line. Escape control characters and shorten long text in the middle.

    >>> _sentence("a\nb"), _sentence("abcdefgh", 4)
    ('a\\nb', 'ab…gh')
    """
    if not text.isprintable():
        from .formatting import printable

        text = printable(text)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"


class FormatError(InputError):
    """Raised if a file violates its format. The message is one printable line.

    >>> str(FormatError("a.pairs", "expected 2 fields, found 1", line=7))
    'a.pairs, line 7: expected 2 fields, found 1'
    """

    def __init__(self, path: str | Path, reason: str, *, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = _sentence(reason)
        self.line = line
        where = _sentence(str(path)) + ("" if line is None else f", line {line}")
        super().__init__(f"{where}: {self.reason}")


_MAX_NAME_CHARS = 200


def os_error_reason(error: OSError) -> InputError:
    """Convert an `OSError` about a file to an `InputError`.

    >>> str(os_error_reason(OSError(36, "File name too long", "n" * 5000)))[-30:]
    'nnnnnnnnnn: File name too long'
    """
    reason = error.strerror or str(error) or type(error).__name__
    place = "" if error.filename is None else f"{_sentence(str(error.filename), _MAX_NAME_CHARS)}: "
    return InputError(f"{place}{_sentence(reason)}")


def close_names(name: str, known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the known names that are similar to `name`, most similar first, and the remaining known names.

    Case is ignored. Two names also count as similar if one contains the other.

    >>> close_names("MAP", ["ap", "map_query", "map", "success_rate"])
    (['map', 'ap', 'map_query'], ['success_rate'])
    """
    wanted = name.lower()

    def likeness(other: str) -> float:
        text = other.lower()
        inside = len(wanted) > 1 and len(text) > 1 and (wanted in text or text in wanted)
        matcher = difflib.SequenceMatcher(None, text, wanted)
        if not inside and matcher.real_quick_ratio() < NEAR:
            return 0.0
        return max(matcher.ratio(), NEAR if inside else 0.0)

    names = sorted(set(known))
    by_name = {n: likeness(n) for n in names}
    near = sorted((n for n in names if by_name[n] >= NEAR), key=lambda n: (-by_name[n], n))
    return near, [n for n in names if by_name[n] < NEAR]


NEAR = 0.5
"""Minimum similarity ratio of a suggested name."""


class UnknownNameError(InputError):
    """Raised if a name is unknown. The message lists the known names, most similar first.

    >>> str(UnknownNameError("method", "sfit", ["sift", "orb"]))
    "unknown method 'sfit'; did you mean 'sift'? Known: sift, orb"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what, self.name = what, name
        name = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
        near, others = close_names(name, (_sentence(k, _MAX_NAME_CHARS) for k in known))
        hint = f"; did you mean {' or '.join(repr(n) for n in near[:2])}?" if near else "."
        super().__init__(f"unknown {what} {name!r}{hint} Known: {known_names(what, near + others)}")


MAX_KNOWN_CHARS = 160
"""Maximum length of the known names in a message."""

LISTS = {"method": "`list methods`", "task": "`list tasks`"}
"""Commands that list all known names of a kind."""


def known_names(what: str, names: Sequence[str]) -> str:
    """Return known names as text. A long list is shortened to its first names and the total number.

    >>> known_names("split", ["a", "b"]), known_names("split", [])
    ('a, b', 'none')
    >>> known_names("task", [f"group/task-number-{i}" for i in range(100)])[-40:]
    'k-number-6, … (`list tasks` has all 100)'
    """
    shown = ", ".join(names)
    if len(shown) <= MAX_KNOWN_CHARS:
        return shown or "none"
    shown = shown[:MAX_KNOWN_CHARS].rpartition(", ")[0]
    command = LISTS.get(what)
    return (
        f"{shown}, … ({len(names)} in all)"
        if command is None
        else f"{shown}, … ({command} has all {len(names)})"
    )


class ProblemsError(InputError):
    """Raised if several problems were found. The message lists them.

    >>> print(ProblemsError("dataset x", ["a is missing", "b is short"]))
    dataset x: 2 problems
      - a is missing
      - b is short
    """

    def __init__(self, where: str, problems: Sequence[str], *, shown: int = 50) -> None:
        self.where = where
        self.problems = tuple(problems)
        texts = _merged(problems)
        lines = [f"  - {p}" for p in texts[:shown]]
        if len(texts) > shown:
            lines.append(f"  … and {len(texts) - shown} more")
        from .formatting import count_text

        super().__init__(f"{where}: {count_text(len(problems), 'problem')}\n" + "\n".join(lines))

    @property
    def one_line(self) -> str:
        """The first problem and the number of further problems."""
        return one_line_list(self.where, self.problems)


def kind_of(text: str) -> str:
    """Replace the paths and numbers in a problem text, so that similar problems have equal texts.

    >>> kind_of("a/1.csv: 3 of 4 pairs"), kind_of("b/2.csv: 4 of 4 pairs")
    ('# # of # pairs', '# # of # pairs')
    """
    return _VARIABLE.sub("#", text)


_VARIABLE = re.compile(r"\S*/\S*|\d+(?:\.\d+)?")

MIN_ALIKE = 4
"""Minimum number of problems of one kind that are merged."""


def _merged(problems: Sequence[str]) -> list[str]:
    """Return problems as text. Problems that differ only in paths and numbers become one text with a count.

    >>> _merged(["a/1: has 3 NaN", "a/2: has 2 NaN", "a/3: has 1 NaN", "a/4: has 1 NaN", "b: is short"])
    ['a/1: has 3 NaN (and 3 more of this kind: a/2, a/3, a/4)', 'b: is short']
    """
    kinds: dict[str, list[str]] = {}
    for problem in problems:
        place, colon, reason = problem.partition(": ")
        kinds.setdefault(kind_of(reason if colon and " " not in place else problem), []).append(problem)
    texts = []
    for same in kinds.values():
        if len(same) < MIN_ALIKE:
            texts += same
            continue
        places = [p.partition(": ")[0] for p in same[1:]]
        distinct = len(set(places)) == len(places) and not any(" " in place for place in places)
        shown = f": {', '.join(places[:3])}" if distinct else ""
        shown += ", …" if shown and len(places) > 3 else ""
        texts.append(f"{same[0]} (and {len(places)} more of this kind{shown})")
    return texts


def one_line_list(where: str, problems: Sequence[str]) -> str:
    """Return a text with the first problem and the number of further problems.

    >>> one_line_list("dataset x", ["a is missing", "b is short"])
    'dataset x: a is missing; and 1 more'
    """
    more = len(problems) - 1
    return f"{where}: {problems[0]}" + (f"; and {more} more" if more else "")


class ClusterError(InputError):
    """Raised if cluster workers are lost or unusable. Finished work is stored."""

    exit_code = 1


class StoreError(InputError):
    """Raised if a store cannot be opened, read or written. `unsaved` is a finished run that was not saved."""

    unsaved: Any = None


class DamagedError(StoreError):
    """Raised if a store file is corrupt or missing. Removing `path` makes the next run recompute it."""

    def __init__(self, path: str | Path, what: str, reason: str) -> None:
        self.path = Path(path)
        self.problem = f"cannot read {what} {path}: {reason}"
        super().__init__(f"{self.problem}; remove it and run again to recompute it")


class ErrorCollector:
    """Collector of errors from several checks, which are raised as one error.

    >>> checks = ErrorCollector()
    >>> checks.call(int, "3"), checks.call(lambda: 1 / 1)
    (3, 1.0)
    >>> def wrong(): raise InputError("no a")
    >>> checks.call(wrong, otherwise="b")
    'b'
    >>> checks.raise_all()
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: no a
    """

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    def call(self, work: Callable[..., T], *given: Any, otherwise: Any = None) -> T:
        """Call `work` and return its result. On an `InputError`, collect it and return `otherwise`."""
        with self.collect():
            return work(*given)
        fallback: T = otherwise
        return fallback

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect an `InputError` raised in the block."""
        try:
            yield
        except InputError as e:
            self.errors.append(e)

    def raise_all(self) -> None:
        """Raise the collected errors, if any."""
        if self.errors:
            raise join_errors(self.errors)


def join_errors(errors: Sequence[InputError], where: str = WRONG_INPUT, *, shown: int = 50) -> InputError:
    """Join errors into one error that lists every problem once. Return a single error unchanged.

    Problems of one dataset are listed under the name of the dataset. If there are too many problems to list
    all of them, errors with few problems are listed first.

    >>> print(join_errors([ProblemsError("data x", ["a is short"]), InputError("no b"), InputError("no b")]))
    wrong input: 2 problems
      - data x: a is short
      - no b
    >>> print(join_errors([ProblemsError("data x", ["a", "b"]), ProblemsError("data x", ["b", "c"])]))
    data x: 3 problems
      - a
      - b
      - c
    """
    first = errors[0]
    if all(type(e) is type(first) and e.args == first.args for e in errors):
        return first
    places = {e.where if isinstance(e, ProblemsError) else None for e in errors}
    if len(places) == 1 and None not in places:
        where = str(places.pop())
        groups = [list(e.problems) for e in errors if isinstance(e, ProblemsError)]
    else:
        groups = [_lines(e) for e in errors]
    if sum(map(len, groups)) > shown:
        groups.sort(key=len)
    return ProblemsError(where, list(dict.fromkeys(p for g in groups for p in g)), shown=shown)


def _lines(error: InputError) -> list[str]:
    if isinstance(error, ProblemsError):
        if error.where == WRONG_INPUT:  # a joined list
            return list(error.problems)
        return [f"{error.where}: {p}" for p in error.problems]
    return [str(error)]
