"""A small folder of patches, descriptor files and task files made for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.formats.image.reader import write_image


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


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenes of two photographs each, with their homographies."""
    photo = pytest.importorskip("skimage.data").astronaut()
    root = tmp_path_factory.mktemp("sequences")
    for scene, (y, x) in {"v_a": (60, 40), "i_b": (150, 200)}.items():
        (root / scene).mkdir()
        write_image(root / scene / "1.png", np.ascontiguousarray(photo[y : y + 160, x : x + 200]))
        write_image(root / scene / "2.png", np.ascontiguousarray(photo[y - 8 : y + 150, x + 9 : x + 210]))
        np.savetxt(root / scene / "H_1_2", [[1, 0, -9], [0, 1, 8], [0, 0, 1]])
    return root
