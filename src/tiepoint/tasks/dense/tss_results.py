# SPDX-License-Identifier: BSD-3-Clause
"""Scoring a results folder that another program wrote, pair by pair, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.flow.tss_results import read_pair_result, write_pair_result
from ...geometry.flow.consistency import consistency_masks
from ...geometry.flow.resize import resize_flow_pair
from ...methods.dense.files import absent_words, check_folders, extra_folders, pair_folder
from ...model.errors import ProblemsError
from ...model.records import Records
from ...model.units import Arrays
from ...model.workspace import thread_workspace
from ..base import OpenTask, Task
from .tss_compare import RULES
from .tss_csv import write_scores_csv
from .tss_opened import OpenTss, compare_files, missing_parts


def check_results(opened: OpenTss, results: str | Path) -> list[str]:
    """Warnings about a results folder; what makes it unusable is an error that lists everything.

    Reads every result file once when ``missing=error``, else only looks which folders are there. Folders
    without ground truth are named in a warning, as are pairs without a folder.

    Raises:
        InputError: if the folder is not there, holds no pair of the dataset, or has pairs directly below it
            that could be of several subsets.
        ProblemsError: with ``missing=error``, if anything is missing or unreadable.
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
                f"results in {results} (allow it with missing=skip or missing=zero)", problems
            )
    absent = [key for key in keys if key not in there]
    warnings = [absent_words(absent, len(keys))] if absent else []
    known = [p.key for p in opened.dataset.pairs if p.subset in opened.subsets]
    return [*warnings, *extra_folders(results, known, opened.subsets)]


def score_results(
    results: str | Path, data: str | Path, protocol: str = "exact", options: Mapping[str, Any] | None = None
) -> tuple[list[Records], list[str]]:
    """Records of every pair of a results folder under a protocol, and warnings about it.

    ``score_results(DIR, DATA, "tss-cpp", {"missing": "zero"})`` does what the kit does.
    """
    opened = OpenTss(Path(data), options or {})
    warnings = [*opened.warnings, *check_results(opened, results)]
    records = [
        compare_files(pair, pair_folder(results, pair.key), protocol, opened.options) for pair in opened.pairs
    ]
    return records, warnings


def write_results(
    root: str | Path,
    key: str,
    arrays: Arrays,
    *,
    sizes: tuple[tuple[int, int], tuple[int, int]] | None = None,
    rule: str = "exact",
) -> Path:
    """Write what a method made of a pair, in the kit's layout; returns the folder.

    Of a method without masks (or with one only) those are written that the task scores: estimated from the
    consistency of the two flows, resized to `sizes` (height, width) first, by the rule of a protocol.
    """
    folder = Path(root) / key
    made = dict(arrays)
    if not {"mask1", "mask2"} <= made.keys() and {"flow1", "flow2"} <= made.keys():
        flows = np.asarray(made["flow1"]), np.asarray(made["flow2"])
        if sizes is not None:
            flows = resize_flow_pair(*flows, *sizes, rule=RULES[rule])
        made["mask1"], made["mask2"] = consistency_masks(*flows, rule=RULES[rule])
    write_pair_result(folder, made)
    return folder


def chosen_protocol(protocols: Sequence[str]) -> str:
    """The protocol whose files are written: `tss-cpp` if it is among them, as others read its files.

    >>> chosen_protocol(["exact", "tss-cpp"]), chosen_protocol([])
    ('tss-cpp', 'exact')
    """
    return "tss-cpp" if "tss-cpp" in protocols else next(iter(protocols), "exact")


class DenseTask(Task):
    """Base of the dense tasks: what a method made of each pair is written in the layout of the TSS kit."""

    family = "dense"
    writes_results = True
    checks_results = True

    def write_run(
        self,
        folder: Path,
        opened: OpenTask,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
        protocols: Sequence[str],
    ) -> Iterator[Path]:
        """Write ``SUBSET/PAIR/flow1.flo`` and so on of every pair."""
        rule = chosen_protocol(protocols)
        for item in opened.items:
            key = item.key
            yield write_results(folder, key, arrays(key), sizes=opened.sizes(key), rule=rule)


def write_subset_scores(
    unit_records: Mapping[str, Mapping[str, Records]], folder: str | Path, protocols: Sequence[str] = ()
) -> list[Path]:
    """Write ``FOLDER/SUBSET/scores.csv`` from the records of a run, by unit and comparison.

    Of several protocols one is written, that of `chosen_protocol`.
    """
    chosen = chosen_protocol(protocols)
    return write_scores_csv([by[chosen] for by in unit_records.values()], folder, protocol=chosen)


def subsets_without_results(unit_records: Mapping[str, Mapping[str, Records]]) -> list[str]:
    """Names of the subsets of which no pair has a results folder."""
    records = [r for by in unit_records.values() for r in by.values()]
    there = {str(r.meta["subset"]) for r in records if not r.meta["absent"]}
    return sorted({str(r.meta["subset"]) for r in records} - there)
