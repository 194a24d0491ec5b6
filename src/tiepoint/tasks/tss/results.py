# SPDX-License-Identifier: BSD-3-Clause
"""Result files of TSS: check a folder of results, and write `scores.csv`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import thread_workspace
from ...core.errors import InputError, ProblemsError
from ...core.formatting import path_below
from ...core.records import Records
from ...formats.flow.tss import THRESHOLDS, ScoreRow, read_pair_result, write_scores
from ...methods.dense.files import (
    check_folders,
    extra_folders,
    is_single_pair,
    missing_pairs_message,
    pair_folder,
)
from ..dense.options import ALLOW, chosen_protocol
from .data import OpenTss, missing_parts
from .score import KIT, TssPairValues, Values, pair_table


def tss_score_rows(
    records: Sequence[Records], protocol: str, *, use_prec: bool = False
) -> dict[str, list[ScoreRow]]:
    """Return the rows of ``scores.csv`` for every subset: two rows per pair, then two summaries.

    The summaries are over all rows and over the rows with flip 0. Under `tss-cpp` both directions have the
    label ``_1to2``, as in the tool's files. Otherwise the label of the second direction is ``_2to1``. Missing
    values are 0 with ``missing=zero``, as in the kit. With ``missing=skip`` they are None and excluded from
    the summaries; a flow without its opposite counts twice. An undefined score makes the summary NaN under
    the kit's protocols and is excluded under `exact`.
    """
    table = pair_table(records, protocol)
    seg = table.pixel_accuracy if use_prec else table.iou
    return {
        subset: _subset_rows(table, seg, np.array([s == subset for s in table.subsets]), protocol)
        for subset in sorted(set(table.subsets))
    }


def _subset_rows(
    table: TssPairValues, seg: Values, inside: NDArray[np.bool_], protocol: str
) -> list[ScoreRow]:
    second = "_1to2" if protocol == "tss-cpp" else "_2to1"
    rows: list[ScoreRow] = []
    weights: list[int] = []
    for i in np.flatnonzero(inside & table.listed):
        pair = table.keys[i].partition("/")[2]
        src, ref = table.names[i]
        for d, (label, a, b) in enumerate((("_1to2", src, ref), (second, ref, src))):
            values = tuple(float(v) if table.counted_flow[i, d] else None for v in table.accuracy[i, d])
            own = float(seg[i, d]) if table.counted_mask[i] else None
            rows.append(ScoreRow(pair + label, a, b, own, int(table.flips[i]), values))
            weights.append(1 if table.counted_flow[i].all() else 2)
    every = list(zip(rows, weights, strict=True))
    plain = [(row, weight) for row, weight in every if row.flip == 0]
    strict = protocol in KIT
    return [
        *rows,
        _summary("Average", every, every, 1, strict),
        _summary("w/o flip", plain, every, 0, strict),
    ]


Weighted = Sequence[tuple[ScoreRow, int]]


def _summary(label: str, rows: Weighted, of: Weighted, flip: int, strict: bool) -> ScoreRow:
    """Return a summary row: the mean mask score, and the mean flow accuracies.

    Rows without the value are skipped. `of` are the rows of the complete subset. A mean is NaN if there are
    no rows, and None if no row of the complete subset has the value.
    """
    seg = _mean([(r.seg, 1) for r, _ in rows], [r.seg for r, _ in of], strict)
    means = (
        _mean([(r.accuracy[k], w) for r, w in rows], [r.accuracy[k] for r, _ in of], strict)
        for k in range(len(THRESHOLDS))
    )
    return ScoreRow(label, "-", "-", seg, flip, tuple(means))


def _mean(
    column: Sequence[tuple[float | None, int]], of: Sequence[float | None], strict: bool
) -> float | None:
    there = [(v, w) for v, w in column if v is not None]
    if not there and (column or (of and all(v is None for v in of))):
        return None
    defined = there if strict else [(v, w) for v, w in there if not math.isnan(v)]
    return sum(v * w for v, w in defined) / sum(w for _, w in defined) if defined else float("nan")


def write_scores_csv(
    records: Sequence[Records], folder: str | Path, *, protocol: str = "tss-cpp"
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` for every subset. Under `tss-cpp` the bytes equal the kit's.

    If the pairs of a single subset are directly below FOLDER, the file is ``FOLDER/scores.csv``. A subset
    without results gets no file. The segmentation column is named ``SegPrec`` if the records use
    ``use_prec``.

    Raises:
        InputError: A file cannot be written.
    """
    use_prec = any(r.meta.get("use_prec") for r in records)
    written = []
    for subset, rows in tss_score_rows(records, protocol, use_prec=use_prec).items():
        own = [r for r in records if r.meta["subset"] == subset]
        if all(r.meta["absent"] for r in own):
            continue
        alone = is_single_pair(folder, [str(r.meta["scene"]) for r in own])
        path = path_below(folder, *([] if alone else [subset]), "scores.csv", what="the subset")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_scores(path, rows, use_prec=use_prec)
        except OSError as e:
            raise InputError(f"cannot write {path}: {e.strerror or e}") from e
        written.append(path)
    return written


def check_results(opened: OpenTss, results: str | Path) -> list[str]:
    """Check a results folder and return warnings. Raise one error that lists all problems.

    With ``missing=error`` the function reads every result file once. Otherwise it only checks which folders
    exist. Warnings name the folders without ground truth and the pairs without a folder.

    Raises:
        InputError: The folder is missing, contains no pair of the dataset, or contains pairs directly below
            it that could belong to several subsets.
        ProblemsError: With ``missing=error``, a pair has no results, or a file is missing or unreadable.
    """
    keys = sorted(p.key for p in opened.pairs)
    there = set(check_folders(results, keys, opened.subsets))
    if opened.options.missing == "error":
        problems = [
            f"{key}: {part}"
            for key in keys
            for part in missing_parts(read_pair_result(pair_folder(results, key), thread_workspace()))
        ]
        if problems:
            raise ProblemsError(
                f"incomplete results in {results}; add the missing files, or accept this with {ALLOW}",
                problems,
            )
    absent = [key for key in keys if key not in there]
    warnings = [missing_pairs_message(absent, len(keys))] if absent else []
    known = [p.key for p in opened.dataset.pairs if p.subset in opened.subsets]
    return [*warnings, *extra_folders(results, known, opened.subsets)]


def write_subset_scores(
    unit_records: Mapping[str, Mapping[str, Records]], folder: str | Path, protocols: Sequence[str] = ()
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` from the records of a run. Return the paths.

    The protocol is the one that `chosen_protocol` selects.
    """
    chosen = chosen_protocol(protocols)
    return write_scores_csv([by[chosen] for by in unit_records.values()], folder, protocol=chosen)


def subsets_without_results(unit_records: Mapping[str, Mapping[str, Records]]) -> list[str]:
    """Return the names of the subsets in which no pair has a results folder."""
    records = [r for by in unit_records.values() for r in by.values()]
    there = {str(r.meta["subset"]) for r in records if not r.meta["absent"]}
    return sorted({str(r.meta["subset"]) for r in records} - there)
