"""A small folder of patches, descriptor files and task files made for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint


@pytest.fixture
def tables(patches: Path, tmp_path: Path) -> Path:
    """Descriptor files for all images, to be spoilt."""
    folder = tmp_path / "tables"
    rng = np.random.default_rng(4)
    for strip in sorted(patches.glob("*/*.png")):
        out = folder / strip.parent.name
        out.mkdir(parents=True, exist_ok=True)
        np.savetxt(out / f"{strip.stem}.csv", rng.uniform(1, 9, (20, 4)), delimiter=",", fmt="%.4f")
    return folder


@pytest.fixture
def lists(patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Task files for the patches, to be spoilt."""
    folder = tmp_path / "lists"
    assert (
        tiepoint(["data", "tasks", "--suite", "hpatches", "--data", str(patches), "--out", str(folder)]) == 0
    )
    capsys.readouterr()
    return folder


def edit(path: Path, line: int, text: str) -> None:
    """Replace a line (from 1) of a text file."""
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(name="edit")
def edit_() -> object:
    """Replaces a line of a text file."""
    return edit
