# SPDX-License-Identifier: BSD-3-Clause
"""The words ``tiepoint data tasks`` prints about the files it wrote."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..datasets.hpatches.strips import HPatchesDataset
from ..model.errors import InputError


def write_v1(data: Path, out: Path, *, seed: int) -> str:
    """Draw the 2016 task files; returns what was written, in words."""
    from ..datasets.hpatches.task_files_2016 import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])


def _found(folder: Path | None) -> tuple[Path | None, Path | None]:
    """The splits.json of a folder, and the folder itself if it has retrieval files."""
    if folder is None:
        return None, None
    if not folder.is_dir():
        raise InputError(f"the folder of task files {folder} does not exist; see --tasks")
    splits = folder / "splits.json"
    has_splits, has_lists = splits.is_file(), any(folder.glob("retr_*_split-*.csv"))
    if not has_splits and not has_lists:
        raise InputError(
            f"{folder} has neither a splits.json nor a retr_*_split-*.csv; leave --tasks out or name another"
        )
    return splits if has_splits else None, folder if has_lists else None


def write_v2(
    data: Path, out: Path, *, lists: str, names: Sequence[str], given: Path | None, seed: int
) -> str:
    """Write the 2017 task files; returns what was written and whether it is what was published."""
    from ..datasets.hpatches.task_files_2017 import write_v2_tasks

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
