# SPDX-License-Identifier: BSD-3-Clause
"""The words ``tiepoint data tasks`` prints about the files it wrote."""

from __future__ import annotations

from pathlib import Path

from ..datasets.hpatches import HPatchesDataset


def write_v1(data: Path, out: Path, *, seed: int) -> str:
    """Draw the 2016 task files; returns what was written, in words."""
    from ..datasets.v1_tasks import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])
