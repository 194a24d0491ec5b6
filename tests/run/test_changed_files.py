# SPDX-License-Identifier: BSD-3-Clause
"""Files that another program wrote anew are read again, although the method is called as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp
from tiepoint.core import file_stamps
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


@pytest.fixture(params=[True, False], ids=["settled", "recent"])
def _clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat files as changed long ago, or just now."""
    if request.param:
        monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)


def overwrite(target: Path, content: Path) -> None:
    """Copy a file over another one. Size, modification time and inode of the target stay."""
    before = target.stat()
    os.utime(content, ns=(before.st_atime_ns, before.st_mtime_ns))
    time.sleep(0.02)
    subprocess.run(["cp", "-p", content, target], check=True)
    after = target.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ino,
    )


def other_npy(tmp_path: Path, like: Path) -> Path:
    """Write random values in the shape of another array."""
    values = np.load(like)
    np.save(tmp_path / "other.npy", np.random.default_rng(9).normal(0, 99, values.shape).astype(values.dtype))
    return tmp_path / "other.npy"


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("packed", [False, True])
def test_evaluate_strip_copied_with_its_times_changes_score(
    patches: Path, tmp_path: Path, packed: bool
) -> None:
    data, other = Path(shutil.copytree(patches, tmp_path / "data")), tmp_path / "other.png"
    for strip in data.glob("*/*.png"):
        Image.open(strip).save(strip, compress_level=0)
    if packed:
        time.sleep(0.02)
        tp.pack(data)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (180, 9), np.uint8)).save(
        other, compress_level=0
    )
    given: Any = {"task": "hpatches/matching", "data": data, "store": tmp_path / "store", "jobs": 1}
    before = tp.evaluate("meanstd", **given).value("map")
    for strip in data.glob("*/e1.png"):
        overwrite(strip, other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stale pack is reported
        after = tp.evaluate("meanstd", **given)
        fresh = tp.evaluate("meanstd", **{**given, "store": tmp_path / "fresh"})
    assert after.value("map") == fresh.value("map") != before


@pytest.mark.usefixtures("_clock")
def test_evaluate_descriptors_copied_with_their_times_change_score(patches: Path, tmp_path: Path) -> None:
    mine = written(patches, tmp_path / "mine", noise=1)
    given: Any = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}
    before = tp.evaluate(f"files:{mine}", **given).value("map")
    for file in mine.glob("*/e1.npy"):
        overwrite(file, other_npy(tmp_path, file))
    assert tp.evaluate(f"files:{mine}", **given).value("map") < before - 0.01


WEIGHTED = """
import numpy as np
from pathlib import Path

class Weighted:
    def __init__(self, weights):
        self.weights = Path(weights)

    def describe(self, patches):
        return patches.reshape(len(patches), -1).astype(np.float32) @ np.load(self.weights)
"""


@pytest.mark.usefixtures("_clock")
def test_evaluate_weights_copied_with_their_times_change_score(patches: Path, tmp_path: Path) -> None:
    (tmp_path / "weighted.py").write_text(WEIGHTED)
    weights = tmp_path / "weights.npy"
    np.save(weights, np.eye(81, 8, dtype=np.float32))
    method = f"{tmp_path / 'weighted.py'}:Weighted?weights={weights}"
    given: Any = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}
    before = tp.evaluate(method, **given).value("map")
    overwrite(weights, other_npy(tmp_path, weights))
    assert tp.evaluate(method, **given).value("map") != before


WEIGHTS_CLASS = """import shutil
import numpy as np


class Late:
    distance = "l2"

    def __init__(self, weights: str, other: str = ""):
        self.weights, self.other = weights, other

    def describe(self, patches):
        if self.other:
            shutil.copy(self.other, self.weights)
        scale = np.load(self.weights)
        return patches.reshape(len(patches), -1).astype(np.float32) * scale + 1
"""


def test_evaluate_weights_changed_during_run_stores_nothing(patches: Path, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(WEIGHTS_CLASS)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "w.npy", rng.normal(size=81).astype(np.float32))
    np.save(tmp_path / "other.npy", np.zeros(81, np.float32))
    given = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store", "jobs": 1}
    first = np.load(tmp_path / "w.npy")
    spec = f"{tmp_path / 'late.py'}:Late?weights={tmp_path / 'w.npy'}"
    # The class overwrites its own weights while it describes patches.
    with pytest.raises(InputError, match=r"w\.npy changed during the run"):
        tp.evaluate(f"{spec}&other={tmp_path / 'other.npy'}", **given)  # type: ignore[arg-type]
    assert not list((tmp_path / "store" / "features").rglob("*.json"))
    np.save(tmp_path / "w.npy", first)
    assert tp.evaluate(spec, **given).value("map") > 0  # type: ignore[arg-type]
