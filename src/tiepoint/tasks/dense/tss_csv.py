# SPDX-License-Identifier: BSD-3-Clause
"""``scores.csv`` of the TSS kit from records: rows of both directions, ``Average``, ``w/o flip``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...formats.flow.tss_text import THRESHOLDS, ScoreRow, write_scores
from ...methods.dense.files import stands_alone
from ...model.errors import InputError
from ...model.records import Records
from .tss_table import KIT, PairTable, Values, pair_table


def score_rows(
    records: Sequence[Records], protocol: str, *, use_prec: bool = False
) -> dict[str, list[ScoreRow]]:
    """Rows of every subset: two a pair, then the two summaries over all rows and over rows with flip 0.

    Under `tss-cpp` both directions bear the label ``_1to2``, as the tool writes it; else the second is
    ``_2to1``. What is missing is 0 with ``missing=zero``, as in the kit; with ``missing=skip`` it is NaN and
    left out of the summaries. A score that is undefined makes the kit's summary NaN; `exact` leaves it out.
    """
    table = pair_table(records, protocol)
    seg = table.pixel_accuracy if use_prec else table.iou
    return {
        subset: _subset_rows(table, seg, np.array([s == subset for s in table.subsets]), protocol)
        for subset in sorted(set(table.subsets))
    }


def _subset_rows(table: PairTable, seg: Values, inside: NDArray[np.bool_], protocol: str) -> list[ScoreRow]:
    second = "_1to2" if protocol == "tss-cpp" else "_2to1"
    rows: list[ScoreRow] = []
    counted: list[tuple[bool, bool]] = []
    for i in np.flatnonzero(inside & table.listed):
        pair = table.keys[i].partition("/")[2]
        src, ref = table.names[i]
        for d, (label, a, b) in enumerate((("_1to2", src, ref), (second, ref, src))):
            values = tuple(float(v) for v in table.accuracy[i, d])
            rows.append(ScoreRow(pair + label, a, b, float(seg[i, d]), int(table.flips[i]), values))
            counted.append((bool(table.counted_mask[i]), bool(table.counted_flow[i])))
    plain = [r.flip == 0 for r in rows]
    strict = protocol in KIT
    every = _summary("Average", rows, counted, 1, strict)
    chosen = [r for r, p in zip(rows, plain, strict=True) if p]
    of_chosen = [c for c, p in zip(counted, plain, strict=True) if p]
    return [*rows, every, _summary("w/o flip", chosen, of_chosen, 0, strict)]


def _summary(
    label: str, rows: Sequence[ScoreRow], counted: Sequence[tuple[bool, bool]], flip: int, strict: bool
) -> ScoreRow:
    """The mean of the rows that count: of those with a mask, and of those with a flow."""
    seg = [r.seg for r, (mask, _) in zip(rows, counted, strict=True) if mask]
    flows = [r.accuracy for r, (_, flow) in zip(rows, counted, strict=True) if flow]
    columns = np.array(flows, np.float64).reshape(len(flows), len(THRESHOLDS))
    means = tuple(_mean(columns[:, k], strict) for k in range(len(THRESHOLDS)))
    return ScoreRow(label, "-", "-", _mean(np.array(seg, np.float64), strict), flip, means)


def _mean(column: Values, strict: bool) -> float:
    if not strict:
        column = column[~np.isnan(column)]
    return float(sum(column.tolist()) / len(column)) if len(column) else float("nan")


def write_scores_csv(
    records: Sequence[Records], folder: str | Path, *, protocol: str = "tss-cpp"
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` for every subset; under `tss-cpp` the bytes are the kit's.

    Where FOLDER has the pairs of one subset directly below it, the file is ``FOLDER/scores.csv``. A subset
    without any results gets none. The segmentation column is ``SegPrec`` where the records were made with
    ``use_prec``.

    Raises:
        InputError: if a file cannot be written.
    """
    use_prec = any(r.meta.get("use_prec") for r in records)
    written = []
    for subset, rows in score_rows(records, protocol, use_prec=use_prec).items():
        own = [r for r in records if r.meta["subset"] == subset]
        if all(r.meta["absent"] for r in own):
            continue
        alone = stands_alone(folder, [str(r.meta["scene"]) for r in own])
        path = Path(folder) / "scores.csv" if alone else Path(folder) / subset / "scores.csv"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_scores(path, rows, use_prec=use_prec)
        except OSError as e:
            raise InputError(f"cannot write {path}: {e.strerror or e}") from e
        written.append(path)
    return written
