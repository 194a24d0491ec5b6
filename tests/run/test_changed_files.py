# SPDX-License-Identifier: BSD-3-Clause
"""Files that another program wrote anew are read again, although the method is called as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.formats.hpatches.descriptors import DescriptorTable
from tiepoint.formats.hpatches.patch_strip import read_strip
from tiepoint.methods.patches import files


def written(patches: Path, out: Path, *, noise: float) -> Path:
    """Descriptors of all images: the pixels, with noise."""
    rng = np.random.default_rng(0)
    for strip in sorted(patches.glob("*/*.png")):
        values = read_strip(strip).reshape(-1, 81).astype(np.float32)
        target = out / strip.parent.name / f"{strip.stem}.npy"
        target.parent.mkdir(parents=True, exist_ok=True)
        np.save(target, values + rng.normal(0, noise, values.shape).astype(np.float32) + 1)
    return out


def test_descriptors_that_changed_are_scored_anew(patches: Path, tmp_path: Path) -> None:
    given = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}

    def score() -> float:
        return tp.evaluate(f"files:{tmp_path / 'mine'}", **given).value("map")  # type: ignore[arg-type]

    written(patches, tmp_path / "mine", noise=1)
    good = score()
    assert score() == good
    written(patches, tmp_path / "mine", noise=200)
    bad = score()
    assert bad < good - 0.1
    assert score() == bad
    written(patches, tmp_path / "mine", noise=1)
    assert score() == good


def test_a_stored_run_of_unchanged_files_is_not_made_again(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}
    name = f"files:{written(patches, tmp_path / 'mine', noise=1)}"
    before = tp.evaluate(name, **given)  # type: ignore[arg-type]

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a stored run was made again")

    monkeypatch.setattr("tiepoint.run.engine.compute_missing", never)
    again = tp.evaluate(name, **given)  # type: ignore[arg-type]
    assert (again.id, again.created_at) == (before.id, before.created_at)


def test_files_that_change_while_they_are_read_are_not_kept_as_those_before(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new numbers were kept under the hash of the old ones, and found when these came back."""
    mine = written(patches, tmp_path / "mine", noise=1)
    given = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}
    read = files.read_descriptors

    def late(path: Path, **how: str | None) -> DescriptorTable:
        if path.stem == "e1":
            np.save(path, np.asarray(read(path).values) + 100)
        return read(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(files, "read_descriptors", late)
        with pytest.raises(InputError, match=r"changed while they were read; run the command again"):
            tp.evaluate(f"files:{mine}", **given)  # type: ignore[arg-type]
    written(patches, mine, noise=1)
    other = tp.evaluate(f"files:{mine}", **{**given, "store": tmp_path / "other"})  # type: ignore[arg-type]
    assert tp.evaluate(f"files:{mine}", **given).value("map") == other.value("map")  # type: ignore[arg-type]
