# SPDX-License-Identifier: BSD-3-Clause
"""Errors a user can cause. Each message is one sentence that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
WRONG_INPUT = "wrong input"


class TiepointError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1

    @property
    def one_line(self) -> str:
        """The message as one sentence, where there is no room for a list."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel from worker processes as they are: class, message and attributes."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[TiepointError], args: tuple[Any, ...], attributes: dict[str, Any]) -> TiepointError:
    """An error again, past the constructor: its arguments are not those of the message."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class UnitError(TiepointError):
    """Some units of a run failed; the rest is stored."""


class UserCodeError(UnitError):
    """An exception in a user's code: what was done, the exception, and the last lines that led to it.

    >>> print(UserCodeError("mine failed on a/ref", "ValueError: no", '  File "my.py", line 3, in describe'))
    mine failed on a/ref: ValueError: no
      File "my.py", line 3, in describe
    """

    def __init__(self, what: str, reason: str, lines: str = "") -> None:
        self.reason, self.lines = reason, lines
        super().__init__(f"{what}: {reason}" + (f"\n{lines}" if lines else ""))


class InputError(TiepointError):
    """Wrong usage or bad input."""

    exit_code = 2


MAX_MESSAGE_CHARS = 1000
"""Characters of a name or reason that a message shows; files of strangers have lines of any length."""


def _sentence(text: str, most: int = MAX_MESSAGE_CHARS) -> str:
    r"""The text on one line, with what is not seen spelled out, and cut in the middle where it is long.

    >>> _sentence("a\nb"), _sentence("abcdefgh", 4)
    ('a\\nb', 'ab…gh')
    """
    if not text.isprintable():
        from .formatting import printable

        text = printable(text)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"


class FormatError(InputError):
    """A file does not follow its format; the message is one line that can be printed anywhere.

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
    """What the system said about a file or folder, in a sentence.

    >>> str(os_error_reason(OSError(36, "File name too long", "n" * 5000)))[-30:]
    'nnnnnnnnnn: File name too long'
    """
    reason = error.strerror or str(error) or type(error).__name__
    place = "" if error.filename is None else f"{_sentence(str(error.filename), _MAX_NAME_CHARS)}: "
    return InputError(f"{place}{_sentence(reason)}")


def close_names(name: str, known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Known names that are much like a name, the nearest first, and the others in their order.

    Capitals make no difference; a name that has all of the other in it is near.

    >>> close_names("MAP", ["ap", "map_query", "map", "success_rate"])
    (['map', 'ap', 'map_query'], ['success_rate'])
    """
    asked = name.lower()

    def likeness(other: str) -> float:
        text = other.lower()
        inside = len(asked) > 1 and len(text) > 1 and (asked in text or text in asked)
        matcher = difflib.SequenceMatcher(None, text, asked)
        if not inside and matcher.real_quick_ratio() < NEAR:
            return 0.0
        return max(matcher.ratio(), NEAR if inside else 0.0)

    names = sorted(set(known))
    by_name = {n: likeness(n) for n in names}
    near = sorted((n for n in names if by_name[n] >= NEAR), key=lambda n: (-by_name[n], n))
    return near, [n for n in names if by_name[n] < NEAR]


NEAR = 0.5
"""Likeness, of 1, from which on names are called near."""


class UnknownNameError(InputError):
    """A name that is not registered, with the known ones, the nearest first.

    >>> str(UnknownNameError("method", "sfit", ["sift", "orb"]))
    "unknown method 'sfit'; did you mean 'sift'? Known: sift, orb"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what, self.name = what, name
        name = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
        near, others = close_names(name, (_sentence(k, _MAX_NAME_CHARS) for k in known))
        hint = f"; did you mean {' or '.join(repr(n) for n in near[:2])}?" if near else "."
        names = near + others
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
        self.where = where
        self.problems = tuple(problems)
        lines = [f"  - {p}" for p in problems[:shown]]
        if len(problems) > shown:
            lines.append(f"  … and {len(problems) - shown} more")
        from .formatting import count_text

        super().__init__(f"{where}: {count_text(len(problems), 'problem')}\n" + "\n".join(lines))

    @property
    def one_line(self) -> str:
        """The first problem, and how many more there are."""
        return one_line_list(self.where, self.problems)


def one_line_list(where: str, problems: Sequence[str]) -> str:
    """A list of problems in one line.

    >>> one_line_list("dataset x", ["a is missing", "b is short"])
    'dataset x: a is missing; and 1 more'
    """
    more = len(problems) - 1
    return f"{where}: {problems[0]}" + (f"; and {more} more" if more else "")


class ClusterError(InputError):
    """The workers cannot go on, or are lost; what they have finished is stored."""

    exit_code = 1


class StoreError(InputError):
    """The store cannot be opened, written or understood; `unsaved` is a finished run it could not take."""

    unsaved: Any = None


class DamagedError(StoreError):
    """A file of the store is not what was written there; `path` is what to make anew."""

    def __init__(self, path: str | Path, what: str, reason: str) -> None:
        self.path = Path(path)
        self.problem = f"cannot read {what} {path}: {reason}"
        super().__init__(f"{self.problem}; remove it and run again to make it anew")


class ErrorCollector:
    """Checks made one after another whose errors are told together.

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
        """What `work` returns; `otherwise` where it raised an input error, which is kept."""
        with self.collect():
            return work(*given)
        fallback: T = otherwise
        return fallback

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep an input error raised within, and go on behind it."""
        try:
            yield
        except InputError as e:
            self.errors.append(e)

    def raise_all(self) -> None:
        """Raise what was found, if anything."""
        if self.errors:
            raise join_errors(self.errors)


def join_errors(errors: Sequence[InputError], where: str = WRONG_INPUT, *, shown: int = 50) -> InputError:
    """One error that lists several, each problem once; a single one stays what it is.

    Problems of one place keep its name as the heading. Where not all can be shown, places with few
    problems come first, so that a long list hides no other.

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
        if error.where == WRONG_INPUT:  # a list made here before, whose heading says nothing
            return list(error.problems)
        return [f"{error.where}: {p}" for p in error.problems]
    return [str(error)]
