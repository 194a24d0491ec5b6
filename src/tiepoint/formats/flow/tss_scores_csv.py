# SPDX-License-Identifier: BSD-3-Clause
"""``scores.csv`` of the TSS kit: a writer that gives the same bytes, a reader that takes every variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.errors import FormatError

THRESHOLDS = tuple(range(1, 51))
_NAN = {
    "nan",
    "-nan",
    "nan(ind)",
    "-nan(ind)",
    "1.#ind",
    "-1.#ind",
    "1.#qnan",
    "-1.#qnan",
    "1.#ind00",
    "-1.#ind00",
}
_MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class ScoreRow:
    """One row: a direction of a pair, or a summary (``Average``, ``w/o flip``).

    `seg` is the segmentation score of the source image, `accuracy` holds T1..T50 of the flow on its grid.
    """

    row: str
    src: str
    ref: str
    seg: float
    flip: int
    accuracy: tuple[float, ...]


def format_scores(rows: Sequence[ScoreRow], *, use_prec: bool = False) -> str:
    """The text of ``scores.csv``, as the C++ tool prints it: ``%.6f``, ``-nan`` for NaN, LF, no quotes.

    >>> text = format_scores([ScoreRow("a_1to2", "x.jpg", "y.jpg", 0.5, 0, (float("nan"),) * 50)])
    >>> text.splitlines()[1][:34]
    'a_1to2,x.jpg,y.jpg,0.500000,0,-nan'
    """
    seg = "SegPrec" if use_prec else "SegIUR"
    lines = [",".join(["Row", "Src", "Ref", seg, "Flip", *(f"T{t}" for t in THRESHOLDS)])]
    for r in rows:
        values = [_number(a) for a in r.accuracy]
        lines.append(",".join([r.row, r.src, r.ref, _number(r.seg), str(r.flip), *values]))
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "-nan" if math.isnan(value) else f"{value:.6f}"


def write_scores(path: str | Path, rows: Sequence[ScoreRow], *, use_prec: bool = False) -> None:
    """Write `format_scores` to a file, the same bytes on every system."""
    Path(path).write_bytes(format_scores(rows, use_prec=use_prec).encode())


def read_scores(path: str | Path) -> tuple[list[ScoreRow], bool]:
    """Rows of a ``scores.csv`` and whether its segmentation column is ``SegPrec``.

    Takes files of the C++ and of the MATLAB tool: LF or CRLF, any number of digits, and NaN as glibc, Visual
    Studio or MATLAB print it. Trap: the C++ tool labels both directions ``_1to2``; only their order tells
    them apart.
    """
    p = Path(path)
    try:
        if p.stat().st_size > _MAX_BYTES:
            raise FormatError(p, f"has more than {_MAX_BYTES} bytes")
        lines = p.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as e:
        raise FormatError(p, f"cannot be read: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise FormatError(p, f"is not text: {e.reason} at byte {e.start}") from e
    header = lines[0].split(",") if lines else []
    names = ["Row", "Src", "Ref", "Flip", *(f"T{t}" for t in THRESHOLDS)]
    if len(header) != 55 or header[:3] + header[4:] != names or header[3] not in ("SegIUR", "SegPrec"):
        raise FormatError(p, "expected the header Row,Src,Ref,SegIUR,Flip,T1,...,T50", line=1)
    rows = [_parse(p, number, line) for number, line in enumerate(lines[1:], 2) if line.strip()]
    return rows, header[3] == "SegPrec"


def _parse(path: Path, number: int, line: str) -> ScoreRow:
    fields = line.split(",")
    if len(fields) != 55:
        raise FormatError(path, f"expected 55 fields, found {len(fields)}", line=number)
    try:
        values = [math.nan if f.strip().lower() in _NAN else float(f) for f in fields[3:]]
    except ValueError as e:
        raise FormatError(path, f"expected numbers: {e}", line=number) from None
    if values[1] not in (0.0, 1.0):
        raise FormatError(path, f"expected 0 or 1 in column Flip, found {fields[4]!r}", line=number)
    return ScoreRow(fields[0], fields[1], fields[2], values[0], int(values[1]), tuple(values[2:]))
