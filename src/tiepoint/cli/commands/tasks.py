# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data tasks``: the task files of a suite."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ...core.errors import InputError, UnknownNameError
from ..common import split_values, without_effect
from ..shell.flag_names import as_flags

SUITES = ("hpatches-v1", "hpatches")


def tasks(
    context: typer.Context,
    suite: str = typer.Option(..., "--suite", help="hpatches-v1 (2016) or hpatches (2017)."),
    data: Path = typer.Option(..., "--data", help="Folder of patch strips, or a JSON file of lengths."),
    out: Path = typer.Option(..., "--out", help="Folder for the task files."),
    seed: int = typer.Option(0, "--seed", help="Seed for the draws of hpatches-v1 and of clean lists."),
    lists: str = typer.Option("official", "--lists", help="hpatches: official or clean."),
    split: list[str] = typer.Option(None, "--split", help="hpatches: splits to write; default all that fit."),
    given: Path = typer.Option(None, "--tasks", help="hpatches: folder with splits.json or retrieval files."),
) -> None:
    """Write the task files of a suite for a dataset.

    Example: `tiepoint data tasks --suite hpatches-v1 --data patches --out patches/benchmarks`
    """
    if suite not in SUITES:
        raise UnknownNameError("suite", suite, SUITES)
    if suite == "hpatches-v1":
        without_effect(context, ("lists", "split", "given"), "on the suite hpatches-v1")
        print(as_flags(write_v1(data, out, seed=seed)))
        return
    if lists != "clean":
        without_effect(context, ("seed",), "on the official lists, whose recipe has its own")
    print(as_flags(write_v2(data, out, lists=lists, names=split_values(split), given=given, seed=seed)))


def write_v1(data: Path, out: Path, *, seed: int) -> str:
    """Draw the 2016 task files; returns what was written, in words."""
    from ...datasets.hpatches.dataset import HPatchesDataset
    from ...datasets.hpatches.task_files_2016 import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])


def _found(folder: Path | None) -> tuple[Path | None, Path | None]:
    """The splits.json of a folder, and the folder itself if it has retrieval files."""
    from ...formats.hpatches.task_lists import splits_file

    if folder is None:
        return None, None
    if not folder.is_dir():
        raise InputError(f"the folder of task files {folder} does not exist; see --tasks")
    splits, has_lists = splits_file(folder), any(folder.glob("retr_*_split-*.csv"))
    if splits is None and not has_lists:
        raise InputError(
            f"{folder} has neither a splits.json nor a retr_*_split-*.csv; leave --tasks out or name another"
        )
    return splits, folder if has_lists else None


def write_v2(
    data: Path, out: Path, *, lists: str, names: Sequence[str], given: Path | None, seed: int
) -> str:
    """Write the 2017 task files; returns what was written and whether it is what was published."""
    from ...datasets.hpatches.dataset import HPatchesDataset
    from ...datasets.hpatches.task_files_2017 import write_v2_tasks

    splits, retrieval = _found(given)
    report = write_v2_tasks(
        HPatchesDataset(data),
        out,
        splits=splits,
        names=list(names) or None,
        lists=lists,
        retrieval=retrieval,
        seed=seed,
        progress=(lambda words: print(words, file=sys.stderr)) if sys.stderr.isatty() else None,
    )
    lines = []
    for name, facts in report.files.items():
        same = "  equals the published file" if facts.get("published") else ""
        lines.append(f"{facts['rows']:>9,}  {out / name}{same}")
    if lists == "official":
        for split, by_kind in report.facts.items():
            shown = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in by_kind["official"].items())
            lines.append(f"split {split}: {shown}")
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])
