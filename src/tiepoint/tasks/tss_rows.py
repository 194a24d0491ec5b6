# SPDX-License-Identifier: BSD-3-Clause
"""``scores.csv`` of the TSS kit from records: rows of both directions, ``Average``, ``w/o flip``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats.tss_scores_csv import ScoreRow, write_scores
from ..model.records import Records
from .tss_values import KIT, PairTable, Values, pair_table


def score_rows(
    records: Sequence[Records], protocol: str, *, use_prec: bool = False
) -> dict[str, list[ScoreRow]]:
    """Rows of every subset: two a pair, then the two summaries over all rows and over rows with flip 0.

    Under `tss-cpp` both directions bear the label ``_1to2``, as the tool writes it; else the second is
    ``_2to1``. A missing score is 0 in the kit's rows; under `exact` it is NaN and left out of the summaries.
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
    for i in np.flatnonzero(inside & table.listed):
        pair = table.keys[i].partition("/")[2]
        src, ref = table.names[i]
        for d, (label, a, b) in enumerate((("_1to2", src, ref), (second, ref, src))):
            values = tuple(float(v) for v in table.accuracy[i, d])
            rows.append(ScoreRow(pair + label, a, b, float(seg[i, d]), int(table.flips[i]), values))
    plain = [r for r in rows if r.flip == 0]
    strict = protocol in KIT
    return [*rows, _summary("Average", rows, 1, strict), _summary("w/o flip", plain, 0, strict)]


def _summary(label: str, rows: Sequence[ScoreRow], flip: int, strict: bool) -> ScoreRow:
    columns = np.array([[r.seg, *r.accuracy] for r in rows]).reshape(len(rows), 51)
    means = [_mean(columns[:, k], strict) for k in range(51)]
    return ScoreRow(label, "-", "-", means[0], flip, tuple(means[1:]))


def _mean(column: Values, strict: bool) -> float:
    if not strict:
        column = column[~np.isnan(column)]
    return float(sum(column.tolist()) / len(column)) if len(column) else float("nan")


def write_scores_csv(
    records: Sequence[Records], folder: str | Path, *, protocol: str = "tss-cpp"
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` for every subset; under `tss-cpp` the bytes are the kit's.

    The segmentation column is ``SegPrec`` where the records were made with ``use_prec``.
    """
    use_prec = any(r.meta.get("use_prec") for r in records)
    written = []
    for subset, rows in score_rows(records, protocol, use_prec=use_prec).items():
        path = Path(folder) / subset / "scores.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_scores(path, rows, use_prec=use_prec)
        written.append(path)
    return written
