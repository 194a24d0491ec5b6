# SPDX-License-Identifier: BSD-3-Clause
"""The words ``tiepoint data tasks`` prints about the files it wrote."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..datasets.hpatches import HPatchesDataset


def write_v1(data: Path, out: Path, *, seed: int) -> str:
    """Draw the 2016 task files; returns what was written, in words."""
    from ..datasets.v1_tasks import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])


def write_v2(
    data: Path, out: Path, *, lists: str, names: Sequence[str], given: Path | None, seed: int
) -> str:
    """Write the 2017 task files; returns what was written and whether it is what was published."""
    from ..datasets.v2_tasks import write_v2_tasks

    splits = given / "splits.json" if given is not None and (given / "splits.json").is_file() else None
    retrieval = given if given is not None and any(given.glob("retr_*.csv")) else None
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
