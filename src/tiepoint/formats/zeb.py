# SPDX-License-Identifier: BSD-3-Clause
"""Read per-pair result files of the zero-shot evaluation benchmark (ZEB) of GIM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError
from ..core.regular_files import read_regular_file

MARK = "[T]"
COLUMNS = (
    "identifiers", "covisible0", "covisible1", "R_errs", "t_errs", "t_errs2",
    "Bef.Prec", "Bef.Num", "Aft.Prec", "Aft.Num",
)  # fmt: skip
HEADER = " ".join(COLUMNS)
MAX_DEGREES = 180.0
Floats = NDArray[np.float64]


class ZebName(NamedTuple):
    """Parts of a file name ``[T] METHOD SET VERSION.txt``."""

    method: str
    set: str
    version: str


@dataclass(frozen=True)
class ZebFile:
    """Results of one method on one set of ZEB. `identifiers` are ``SCENE#IMAGE0#IMAGE1``.

    `numbers` has the other columns of the file by name, (pairs,). Errors are in degrees; inf means no pose.
    If rows repeat an identifier, only the first is retained; `duplicates` is the number of the others.
    """

    path: Path
    name: ZebName
    identifiers: tuple[str, ...]
    numbers: dict[str, Floats]
    duplicates: int = 0


def has_header(path: Path) -> bool:
    """Return whether a file starts with the header of ZEB result files."""
    start = HEADER.encode()
    with path.open("rb") as f:
        return f.read(len(start)) == start


def name_parts(path: Path) -> ZebName:
    """Parse a file name into method, set and version.

    >>> name_parts(Path("[T] gim_dkm            GL3D 100h.txt"))
    ZebName(method='gim_dkm', set='GL3D', version='100h')
    """
    words = path.stem.split()
    if len(words) != 4 or words[0] != MARK:
        hint = ""
        if len(words) < 4 and "_" in path.stem:
            hint = "; it seems that blanks became underscores: restore the original name"
        raise FormatError(
            path, f"expected the name '{MARK} METHOD SET VERSION.txt' with blanks between{hint}"
        )
    return ZebName(*words[1:])


def read_zeb(path: Path) -> ZebFile:
    """Read a result file. Raise `FormatError` for a wrong header, number of words or error."""
    name = name_parts(path)
    try:
        text = bytes(read_regular_file(path)).decode("ascii").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        raise FormatError(path, f"byte {e.start} is not ASCII; the file is corrupt") from e
    lines = text.split("\n")
    if lines[0] != HEADER:
        raise FormatError(path, f"expected the header {HEADER!r}, found {lines[0][:80]!r}", line=1)
    if lines.pop():
        raise FormatError(
            path,
            "the last line has no line feed, so the file is truncated; copy it again",
            line=len(lines) + 1,
        )
    _check_lines(path, lines)
    if len(lines) == 1:
        raise FormatError(path, "has no pairs")
    words = text.split()
    width = len(COLUMNS)
    keys = words[width::width]
    numbers = {
        column: _numbers(path, column, words[width + k :: width])
        for k, column in enumerate(COLUMNS)
        if column != "identifiers"
    }
    _check_values(path, keys, numbers)
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    rows = np.array(list(first.values()))
    kept = {column: values[rows] for column, values in numbers.items()}
    return ZebFile(path, name, tuple(first), kept, len(keys) - len(rows))


def _check_lines(path: Path, lines: Sequence[str]) -> None:
    """Raise an error for the first line without ten words that are separated by single blanks."""
    blanks = len(COLUMNS) - 1
    for number, line in enumerate(lines, 1):
        if line.count(" ") != blanks or "  " in line or line[:1] == " " or line[-1:] == " ":
            found = len(line.split())
            reason = f"expected {len(COLUMNS)} words with single blanks, found {found}"
            raise FormatError(path, reason, line=number)


def _numbers(path: Path, column: str, words: Sequence[str]) -> Floats:
    try:
        return np.array(words, np.float64)
    except ValueError:
        for line, word in enumerate(words, 2):
            try:
                float(word)
            except ValueError as e:
                raise FormatError(path, f"{column}: expected a number, found {word[:40]!r}", line=line) from e
        raise


def _check_values(path: Path, keys: Sequence[str], numbers: dict[str, Floats]) -> None:
    """Raise an error for a malformed identifier, an impossible error or a negative count."""
    for line, key in enumerate(keys, 2):
        if key.count("#") != 2:
            raise FormatError(path, f"expected SCENE#IMAGE0#IMAGE1, found {key[:80]!r}", line=line)
    for column in ("R_errs", "t_errs"):
        found = numbers[column]
        wrong = np.flatnonzero((found < 0) | (np.isfinite(found) & (found > MAX_DEGREES)))
        if len(wrong):
            value = found[wrong[0]]
            reason = f"{column} is {value:g}; expected 0 to {MAX_DEGREES:g} degrees or inf"
            raise FormatError(path, reason, line=int(wrong[0]) + 2)
    for column in ("Bef.Prec", "Aft.Prec", "Bef.Num", "Aft.Num"):
        top = 1.0 if column.endswith("Prec") else np.inf
        wrong = np.flatnonzero((numbers[column] < 0) | (numbers[column] > top))
        if len(wrong):
            reason = f"{column} is {numbers[column][wrong[0]]:g}; expected " + (
                "a fraction" if top == 1 else "a count"
            )
            raise FormatError(path, reason, line=int(wrong[0]) + 2)
