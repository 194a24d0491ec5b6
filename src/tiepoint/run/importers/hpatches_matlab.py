# SPDX-License-Identifier: BSD-3-Clause
"""Score tables of the MATLAB reference: verification.csv, matching.csv, retrieval.csv, told by their columns.

No file of the tool was at hand; columns are taken from its source, and the tests use files made to match it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.text_file import read_lines
from ...model.errors import FormatError, InputError
from .result import NEGATIVES, NOISES, OFFICIAL_PAIRS, Imported, not_a_fraction, records_of

PROTOCOL = "hpatches-matlab"
COLUMNS = {
    "verification": ("descriptor", "split", "negs", "geom_noise", "method", "pr_auc", "pr_ap", "roc_auc"),
    "matching": ("descriptor", "sequence", "geom_noise", "ima", "imb", "ap", "auc", "sr"),
    "retrieval": ("descriptor", "split", "geom_noise", "method", "mauc", "map"),
}
Row = Mapping[str, Any]


def read(path: Path, *, split: str | None, tasks: Path | None) -> list[Imported]:
    """The results of one file, one for each descriptor (and split) in it."""
    task, rows = _rows(path)
    found = []
    groups: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["descriptor"]), row.get("split", split)), []).append(row)
    for (descriptor, part), own in groups.items():
        records = {"verification": _verification, "matching": _matching, "retrieval": _retrieval}[task](
            own, path
        )
        label = None if part is None else str(part).removeprefix("split-")
        found.append(Imported(descriptor, f"hpatches/{task}", PROTOCOL, label, records, path))
    return found


def _rows(path: Path) -> tuple[str, list[Row]]:
    lines = read_lines(path)
    if not lines:
        raise FormatError(path, "is empty; expected a line of column names")
    delimiter = ";" if ";" in lines[0] else ","
    table = list(csv.reader(lines, delimiter=delimiter))
    head = [c.strip() for c in table[0]]
    task = next((t for t, columns in COLUMNS.items() if set(columns) <= set(head)), None)
    if task is None:
        known = "; ".join(f"{t}: {', '.join(c)}" for t, c in COLUMNS.items())
        raise FormatError(
            path, f"is no score table of the MATLAB tool, which have the columns {known}", line=1
        )
    rows: list[Row] = []
    for number, fields in enumerate(table[1:], 2):
        if len(fields) != len(head):
            raise FormatError(path, f"expected {len(head)} fields, found {len(fields)}", line=number)
        row: dict[str, Any] = {k: v.strip() for k, v in zip(head, fields, strict=True)}
        rows.append(row | {"line": number})
    if not rows:
        raise FormatError(path, "has no rows after the column names")
    return task, rows


def _noise(row: Row, path: Path) -> int:
    letters = list(NOISES)
    text = str(row["geom_noise"]).lower()
    if text[:1] not in letters:
        raise FormatError(path, f"unknown noise {text!r}; easy, hard or tough", line=row["line"])
    return letters.index(text[:1])


def _image(row: Row, path: Path) -> int:
    """Number of the second image: ``3``, or its name ``h3``, which must be of the row's noise level."""
    text = str(row["imb"]).lower()
    if text[:1] not in NOISES:
        value = _float(row, "imb", path)
        if not value.is_integer():
            raise FormatError(
                path, f"imb: expected a number or a name like e1, found {text!r}", line=row["line"]
            )
        return int(value)
    if not text[1:].isdecimal():
        raise FormatError(path, f"imb: expected a number or a name like e1, found {text!r}", line=row["line"])
    if list(NOISES).index(text[0]) != _noise(row, path):
        raise FormatError(path, f"image {text!r} is not of noise {row['geom_noise']!r}", line=row["line"])
    return int(text[1:])


def _float(row: Row, column: str, path: Path) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise FormatError(path, f"{column}: expected a number, found {row[column]!r}", line=row["line"])
    return value


def _fraction(row: Row, column: str, path: Path) -> float:
    value = _float(row, column, path)
    if (wrong := not_a_fraction(value)) is not None:
        raise FormatError(path, f"{column}: {wrong}", line=row["line"])
    return value


def _verification(rows: Sequence[Row], path: Path) -> Any:
    """AP of the imbalanced and AUC of the balanced list; `negs` names the negatives."""
    cells: dict[tuple[int, int], dict[str, float]] = {}
    for row in rows:
        kind = next((k for k, n in enumerate(NEGATIVES) if n in str(row["negs"]).lower()), None)
        kind = _old_name(str(row["negs"]).lower()) if kind is None else kind
        if kind is None:
            raise FormatError(path, f"unknown negatives {row['negs']!r}; inter or intra", line=row["line"])
        cell = cells.setdefault((_noise(row, path), kind), {})
        if "imbalanced" in str(row["method"]).lower():
            cell["ap"] = _fraction(row, "pr_ap", path)
        else:
            cell["auc"] = _fraction(row, "roc_auc", path)
    metrics = [m for m in ("ap", "auc") if all(m in c for c in cells.values())]
    if not metrics:
        raise FormatError(path, "the method must be balanced or imbalanced in every cell")
    columns: dict[str, list[Any]] = {
        "noise": [z for z, _ in cells],
        "negatives": [k for _, k in cells],
    }
    columns |= {m: [c[m] for c in cells.values()] for m in metrics}
    return records_of(
        PROTOCOL, columns, negatives=list(NEGATIVES), pairs=OFFICIAL_PAIRS, task="hpatches/verification"
    )


def _old_name(text: str) -> int | None:
    """Names of the negatives as figures call them."""
    return 0 if "diffseq" in text else 1 if "sameseq" in text else None


def _matching(rows: Sequence[Row], path: Path) -> Any:
    scenes = sorted({str(r["sequence"]) for r in rows})
    place = {s: i for i, s in enumerate(scenes)}
    columns: dict[str, list[Any]] = {
        "scene": [place[str(r["sequence"])] for r in rows],
        "noise": [_noise(r, path) for r in rows],
        "image": [_image(r, path) for r in rows],
        "map": [_fraction(r, "ap", path) for r in rows],
        "success_rate": [_fraction(r, "sr", path) for r in rows],
    }
    seen = set(zip(columns["scene"], columns["noise"], columns["image"], strict=True))
    if len(seen) != len(rows):
        raise InputError(f"{path}: an image pair is listed twice; one table is one run of the tool")
    return records_of(PROTOCOL, columns, scenes=scenes, task="hpatches/matching")


def _retrieval(rows: Sequence[Row], path: Path) -> Any:
    """One number a noise level; how many distractors were used is not in the file."""
    noises = [_noise(r, path) for r in rows]
    if len(set(noises)) != len(rows):
        raise InputError(f"{path}: a noise level is listed twice; one table is one run of the tool")
    columns = {"noise": noises, "pool": [0] * len(rows), "map": [_fraction(r, "map", path) for r in rows]}
    return records_of(PROTOCOL, columns, pools=["as-run"], task="hpatches/retrieval")
