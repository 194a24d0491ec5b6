# SPDX-License-Identifier: BSD-3-Clause
"""Import score tables of the MATLAB reference implementation of HPatches.

The column names identify the kind of table. They were taken from the source code of the tool, because no
result file was available. The tests use synthetic files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError, InputError
from ...core.records import Records
from ...formats.csv_table import csv_rows, named_columns, unescape_formula
from ...formats.file_io import read_lines
from .imported_result import (
    NEGATIVES,
    NOISES,
    OFFICIAL_PAIRS,
    ImportedResult,
    not_a_fraction,
    records_from_scores,
)

PROTOCOL = "hpatches-matlab"
_DIGITS = 9
COLUMNS = {
    "verification": ("descriptor", "split", "negs", "geom_noise", "method", "pr_auc", "pr_ap", "roc_auc"),
    "matching": ("descriptor", "sequence", "geom_noise", "ima", "imb", "ap", "auc", "sr"),
    "retrieval": ("descriptor", "split", "geom_noise", "method", "mauc", "map"),
}


@dataclass(frozen=True)
class MatlabRow:
    """One line of a score table, with its position for error messages."""

    fields: Mapping[str, str]
    path: Path
    line: int

    def wrong(self, reason: str) -> FormatError:
        """Return an error that names this line."""
        return FormatError(self.path, reason, line=self.line)

    def number(self, column: str) -> float:
        """Parse a field and return a finite number."""
        try:
            value = float(self.fields[column])
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise self.wrong(f"{column}: expected a number, found {self.fields[column]!r}")
        return value

    def fraction(self, column: str) -> float:
        """Parse a field and return a number between 0 and 1."""
        value = self.number(column)
        if (wrong := not_a_fraction(value)) is not None:
            raise self.wrong(f"{column}: {wrong}")
        return value

    def noise(self) -> int:
        """Return the index of the noise level."""
        text = self.fields["geom_noise"].lower()
        for level, names in enumerate(NOISES.items()):
            if text in names:
                return level
        raise self.wrong(f"unknown noise {text[:60]!r}; expected easy, hard or tough")

    def image(self) -> int:
        """Parse the number of the second image: ``3``, or ``h3`` if the noise level is `hard`."""
        text = self.fields["imb"].lower()
        digits = text[1:] if text[:1] in NOISES else f"{self.number('imb'):g}"
        if not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS:
            raise self.wrong(f"imb: expected an image number or a name such as e1, found {text!r}")
        if text[:1] in NOISES and list(NOISES).index(text[0]) != self.noise():
            raise self.wrong(f"image {text!r} does not have the noise level {self.fields['geom_noise']!r}")
        return int(digits)

    def negatives(self) -> int:
        """Return the index of the kind of negatives. The names in the tool's figures are accepted, too."""
        text = self.fields["negs"].lower()
        for kind, names in enumerate((("inter", "diffseq"), ("intra", "sameseq"))):
            if any(name in text for name in names):
                return kind
        raise self.wrong(f"unknown negatives {self.fields['negs']!r}; expected inter or intra")


def read_score_table(path: Path, *, split: str | None, tasks: Path | None) -> list[ImportedResult]:
    """Read a score table. Return one result for each descriptor and split."""
    task, rows = _rows(path)
    make = {"verification": _verification, "matching": _matching, "retrieval": _retrieval}[task]
    groups: dict[tuple[str, str | None], list[MatlabRow]] = {}
    for row in rows:
        groups.setdefault((row.fields["descriptor"], row.fields.get("split", split)), []).append(row)
    return [
        ImportedResult(
            descriptor, f"hpatches/{task}", PROTOCOL, part and part.removeprefix("split-"), make(own), path
        )
        for (descriptor, part), own in groups.items()
    ]


def _rows(path: Path) -> tuple[str, list[MatlabRow]]:
    lines = read_lines(path)
    if not lines:
        raise FormatError(path, "is empty; expected a line of column names")
    table = list(csv_rows(lines, path, ";" if ";" in lines[0] else ","))
    head = named_columns(table[0], path)
    task = next((t for t, columns in COLUMNS.items() if set(columns) <= set(head)), None)
    if task is None:
        known = "; ".join(f"{t}: {', '.join(c)}" for t, c in COLUMNS.items())
        raise FormatError(path, f"is not a table of the MATLAB tool; expected the columns {known}", line=1)
    rows = []
    for number, fields in enumerate(table[1:], 2):
        if len(fields) != len(head):
            raise FormatError(path, f"expected {len(head)} fields, found {len(fields)}", line=number)
        cells = {k: unescape_formula(v.strip()) for k, v in zip(head, fields, strict=True)}
        rows.append(MatlabRow(cells, path, number))
    if not rows:
        raise FormatError(path, "has no rows after the column names")
    return task, rows


def _verification(rows: Sequence[MatlabRow]) -> Records:
    """Return records with the AP of the imbalanced and the AUC of the balanced pair list."""
    cells: dict[tuple[int, int], dict[str, float]] = {}
    for row in rows:
        cell = cells.setdefault((row.noise(), row.negatives()), {})
        which = ("ap", "pr_ap") if "imbalanced" in row.fields["method"].lower() else ("auc", "roc_auc")
        if which[0] in cell:
            raise row.wrong("two rows have the same noise, negatives and method; keep the rows of one run")
        cell[which[0]] = row.fraction(which[1])
    metrics = [m for m in ("ap", "auc") if all(m in c for c in cells.values())]
    if not metrics:
        raise FormatError(
            rows[0].path,
            "rows are missing; expected balanced and imbalanced for each noise and negatives",
        )
    columns: dict[str, list[Any]] = {m: [c[m] for c in cells.values()] for m in metrics}
    columns = {"noise": [z for z, _ in cells], "negatives": [k for _, k in cells], **columns}
    return records_from_scores(
        PROTOCOL, columns, negatives=list(NEGATIVES), pairs=OFFICIAL_PAIRS, task="hpatches/verification"
    )


def _matching(rows: Sequence[MatlabRow]) -> Records:
    scenes = sorted({r.fields["sequence"] for r in rows})
    columns: dict[str, list[Any]] = {
        "scene": [scenes.index(r.fields["sequence"]) for r in rows],
        "noise": [r.noise() for r in rows],
        "image": [r.image() for r in rows],
        "map": [r.fraction("ap") for r in rows],
        "success_rate": [r.fraction("sr") for r in rows],
    }
    seen = set(zip(columns["scene"], columns["noise"], columns["image"], strict=True))
    if len(seen) != len(rows):
        raise InputError(f"{rows[0].path}: an image pair occurs twice; expected one run of the tool")
    return records_from_scores(PROTOCOL, columns, scenes=scenes, task="hpatches/matching")


def _retrieval(rows: Sequence[MatlabRow]) -> Records:
    """Return one score per noise level. The file does not contain the number of distractors."""
    noises = [r.noise() for r in rows]
    if len(set(noises)) != len(rows):
        raise InputError(f"{rows[0].path}: a noise level occurs twice; expected one run of the tool")
    columns = {"noise": noises, "pool": [0] * len(rows), "map": [r.fraction("map") for r in rows]}
    return records_from_scores(PROTOCOL, columns, pools=["as-run"], task="hpatches/retrieval")
