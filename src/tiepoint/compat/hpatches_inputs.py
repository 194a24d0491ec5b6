# SPDX-License-Identifier: BSD-3-Clause
"""What `hpatches_eval` looks at before it starts; it speaks in the words of its own options."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..datasets.hpatches.layout import STANDARD_IMAGES
from ..datasets.hpatches.release_2017 import official_splits
from ..formats.hpatches.descriptor_table import find_descriptor_file, table_shape
from ..formats.hpatches.splits import Split, read_splits
from ..model.errors import FormatError, InputError, ProblemsError, UnknownNameError
from .hpatches_files import TASKS

DISTANCES = {"L2": "l2", "L1": "l1", "masked_L1": "masked_l1"}


def check_inputs(given: argparse.Namespace) -> dict[str, int]:
    """Patches of the sequences that are needed, counted in the files; everything wrong is raised at once."""
    for task in given.task:
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
    if given.dist not in DISTANCES:
        raise UnknownNameError("distance", given.dist, DISTANCES)
    folder, tasks = Path(given.descr_dir) / given.descr_name, Path(given.tasks_dir)
    if not folder.is_dir():
        raise InputError(f"the folder of descriptors {folder} does not exist; see --descr-dir")
    split = _split(tasks, given.split)
    problems = _unwritable(Path(given.results_dir))
    if given.pcapl == "yes":
        problems += _no_pcapl(split, given.dist)
    if "retrieval" in given.task:
        names = [f"retr_{kind}_split-{split.name}.csv" for kind in ("queries", "distractors")]
        lack = [name for name in names if not (tasks / name).is_file()]
        problems += [
            f"retrieval needs {tasks / name}, which does not exist; see --tasks-dir" for name in lack
        ]
    train = tuple(split.train or ()) if given.pcapl == "yes" else ()
    lengths, wrong = _lengths(folder, split.test, train, given.delimiter)
    if problems + wrong:
        raise ProblemsError(f"{folder} on split {split.name}", problems + wrong)
    return lengths


def check_tasks(tasks: Sequence[str], data: Path, options: dict[str, str]) -> None:
    """Open every task once, so that task files made for other lengths are found before any work."""
    from ..run.engine import load_task

    problems: list[str] = []
    for task in dict.fromkeys(tasks):
        try:
            load_task(f"hpatches/{task}").open(data, options)
        except ProblemsError as e:
            problems += e.problems
    if problems:
        raise ProblemsError(f"task files in {options.get('tasks', '.')}", problems)


def write_lengths(lengths: dict[str, int], scratch: Path) -> Path:
    """The dataset as a file of lengths."""
    out = scratch / "lengths.json"
    out.write_text(json.dumps(lengths))
    return out


def _split(tasks: Path, name: str) -> Split:
    path = tasks / "splits.json"
    known = read_splits(path) if path.is_file() else official_splits()
    if name not in known:
        raise UnknownNameError("split", name, known)
    return known[name]


def _unwritable(folder: Path) -> list[str]:
    """Why results cannot be written to a folder, which need not exist yet."""
    there = next((p for p in (folder, *folder.parents) if p.exists()), Path())
    if not there.is_dir():
        return [f"results cannot be written to {folder}: {there} is no folder; see --results-dir"]
    if not os.access(there, os.W_OK | os.X_OK):
        return [f"results cannot be written to {folder}: no permission; see --results-dir"]
    return []


def _no_pcapl(split: Split, dist: str) -> list[str]:
    problems = []
    if not split.train:
        problems.append(
            f"--pcapl=yes is fitted on training sequences; split {split.name!r} has no training sequences, "
            "so use --split=a, b or c, or --pcapl=no"
        )
    if dist == "masked_L1":
        problems.append(
            "--pcapl=yes has no meaning for descriptors with a mask; use --dist=L1, L2 or --pcapl=no"
        )
    return problems


def _lengths(
    folder: Path, test: Sequence[str], train: Sequence[str], delimiter: str
) -> tuple[dict[str, int], list[str]]:
    """Rows of each sequence, and what is wrong: one sentence a sequence for what is missing."""
    lengths: dict[str, int] = {}
    problems: list[str] = []
    widths: dict[str, int] = {}
    wanted = dict.fromkeys(train, ("ref",)) | dict.fromkeys(test, STANDARD_IMAGES)
    for sequence, images in wanted.items():
        rows: dict[str, int] = {}
        lack = []
        for image in images:
            try:
                file = find_descriptor_file(folder, sequence, image)
                if file is None:
                    lack.append(f"{image}.csv")
                    continue
                rows[image], widths[f"{sequence}/{image}"] = table_shape(file, delimiter=delimiter)
            except FormatError as e:
                problems.append(f"{sequence}/{image}.csv: {e.reason}")
            except InputError as e:
                problems.append(str(e))
        if len(lack) == len(images):
            problems.append(f"{sequence}: no descriptors" + _deeper(folder, sequence))
        elif lack:
            problems.append(f"{sequence}: {', '.join(lack)} missing")
        expected = rows.get("ref") or (Counter(rows.values()).most_common(1)[0][0] if rows else 0)
        lengths[sequence] = expected
        problems += [
            f"{sequence}/{image}.csv has {n} descriptors, but ref.csv has {expected}; one row a patch"
            for image, n in rows.items()
            if n != expected
        ]
    return lengths, problems + _columns(widths, delimiter)


def _deeper(folder: Path, sequence: str) -> str:
    """Where a sequence is instead, in words, or nothing."""
    found = next(folder.glob(f"*/{sequence}"), None) or next(folder.glob(f"*/*/{sequence}"), None)
    return "" if found is None else f" there, but in {found}; see --descr-dir and --descr-name"


def _columns(widths: dict[str, int], delimiter: str) -> list[str]:
    if not widths:
        return []
    usual = Counter(widths.values()).most_common(1)[0][0]
    if usual == 1:
        return [f"the files have one column when split at {delimiter!r}; see --delimiter"]
    return [
        f"{key}.csv has {width} columns, most files {usual} (another delimiter than {delimiter!r}?)"
        for key, width in widths.items()
        if width != usual
    ]
