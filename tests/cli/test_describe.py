"""``tiepoint describe``: what is wrong is told for all images, what exists is not touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.formats.hpatches.patch_strip import write_strip

MINE = """
import numpy as np

class Holes:
    name = "holes"
    def describe(self, patches):
        values = np.ones((len(patches), 3), np.float32)
        values[2] = np.nan
        return values
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for scene in ("i_a", "v_b"):
        for image in ("ref", "e1"):
            strip = rng.integers(0, 256, (5, 9, 9)).astype(np.uint8)
            write_strip(tmp_path / "data" / scene / f"{image}.png", strip)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "data"


def test_bad_rows_of_all_images_are_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["describe", f"{data.parent / 'mine.py'}:Holes", "--data", str(data)]
    assert run([*arguments, "--out", str(data.parent / "a")]) == 2
    assert "4 problems" in capsys.readouterr().err
    assert run([*arguments, "--out", str(data.parent / "b"), "--on-bad", "miss"]) == 0
    assert "4 of 20 descriptors failed; their rows are written as NaN" in capsys.readouterr().err


def test_files_that_exist_are_found_before_any_work(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = data.parent / "out"
    (out / "v_b").mkdir(parents=True)
    for image in ("ref", "e1"):
        (out / "v_b" / f"{image}.csv").write_text("mine")
    arguments = ["describe", "pixels", "--data", str(data), "--out", str(out)]
    assert run(arguments) == 2
    assert "and 1 more file; choose another folder" in capsys.readouterr().err
    assert sorted(p.name for p in out.iterdir()) == ["v_b"]
    assert run([*arguments, "--overwrite"]) == 0
    assert len(list(out.glob("*/*.csv"))) == 4
