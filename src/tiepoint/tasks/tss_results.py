# SPDX-License-Identifier: BSD-3-Clause
"""Scoring a results folder that another program wrote, pair by pair, without a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..formats.tss_results import read_pair_result, write_pair_result
from ..model.errors import InputError, ProblemsError
from ..model.records import Records
from ..model.units import Arrays
from .tss_open import OpenTss, compare_files, missing_parts
from .tss_rows import write_scores_csv


def results_folder(root: str | Path, key: str) -> Path:
    """Where the results of a pair ``SUBSET/PAIR`` are: ``ROOT/SUBSET/PAIR``, or ``ROOT/PAIR`` of one subset.

    >>> results_folder("out", "JODS/car_01_02").as_posix()
    'out/JODS/car_01_02'
    """
    subset, _, pair = key.partition("/")
    nested = Path(root) / subset / pair
    if not nested.parent.is_dir() and (Path(root) / pair).is_dir():
        return Path(root) / pair
    return nested


def check_results(opened: OpenTss, results: str | Path) -> list[str]:
    """Warnings about a results folder; what makes it unusable is an error that lists everything.

    Reads every result file once when ``missing=error``, else only looks which folders are there. Folders
    without ground truth are named in a warning, as are pairs without a folder.

    Raises:
        InputError: if the folder is not there, or holds no pair of the dataset.
        ProblemsError: with ``missing=error``, if anything is missing or unreadable.
    """
    root = Path(results)
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; expected results as SUBSET/PAIR/flow1.flo, flow2.flo, …")
    keys = {p.key for p in opened.pairs}
    there = {key for key in keys if results_folder(root, key).is_dir()}
    if not there:
        raise InputError(
            f"{root} has no folder for any of the {len(keys)} pairs; expected for example {sorted(keys)[0]}"
        )
    if opened.options["missing"] == "error":
        problems = [
            f"{key}: {part}"
            for key in sorted(keys)
            for part in missing_parts(read_pair_result(results_folder(root, key)))
        ]
        if problems:
            raise ProblemsError(f"results in {root} (allow it with missing=skip or missing=zero)", problems)
    warnings = [f"no results for pair {key}" for key in sorted(keys - there)]
    known = {p.key for p in opened.dataset.pairs}
    for folder in sorted(p for p in root.glob("*/*") if p.is_dir()):
        key = folder.relative_to(root).as_posix()
        if key not in known and folder.parent.name in opened.dataset.subsets:
            warnings.append(f"results folder {key} has no ground truth and is not scored")
    return warnings


def score_results(
    results: str | Path, data: str | Path, protocol: str = "exact", options: Mapping[str, Any] | None = None
) -> tuple[list[Records], list[str]]:
    """Records of every pair of a results folder under a protocol, and warnings about it.

    ``score_results(DIR, DATA, "tss-cpp", {"missing": "zero"})`` does what the kit does.
    """
    opened = OpenTss(Path(data), options or {})
    warnings = [*opened.warnings, *check_results(opened, results)]
    records = [
        compare_files(pair, results_folder(results, pair.key), protocol, opened.options)
        for pair in opened.pairs
    ]
    return records, warnings


def write_results(root: str | Path, key: str, arrays: Arrays) -> Path:
    """Write what a method made of a pair, in the kit's layout; returns the folder."""
    folder = Path(root) / key
    write_pair_result(folder, arrays)
    return folder


def write_subset_scores(
    unit_records: Mapping[str, Mapping[str, Records]],
    folder: str | Path,
    protocols: Sequence[str] = (),
    *,
    use_prec: bool = False,
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` from the records of a run, by unit and comparison.

    Of several protocols `tss-cpp` is written, as its file is the one others read; else the first of them.
    """
    del use_prec  # the records know it
    chosen = "tss-cpp" if "tss-cpp" in protocols else next(iter(protocols), "exact")
    return write_scores_csv([by[chosen] for by in unit_records.values()], folder, protocol=chosen)
