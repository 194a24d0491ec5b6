# SPDX-License-Identifier: BSD-3-Clause
"""Transforms fitted on training sequences: on those only, kept, named in the run, refused without any."""

import json

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.methods.transforms import load_transform
from tiepoint.run import feature_pipeline
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

SCENES = {"v_a": 70, "v_b": 60, "i_c": 65, "i_d": 75, "v_e": 50, "i_f": 55}
IMAGES = ("ref", "e1", "h1", "t1")
SPLITS = {
    "a": {"name": "a", "test": ["v_a", "i_c", "v_e"], "train": ["v_b", "i_d"]},
    "full": {"name": "full", "test": list(SCENES)},
    "lost": {"name": "lost", "test": ["v_a"], "train": ["v_zz"]},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("patches")
    rng = np.random.default_rng(0)
    for scene, n in SCENES.items():
        base = rng.normal(128, 40, (n, 9, 9))
        for image in IMAGES:
            patches = np.clip(base + 15 * rng.normal(size=base.shape), 0, 255).astype(np.uint8)
            write_strip(root / scene / f"{image}.png", patches)
    (root / "tasks").mkdir()
    (root / "tasks" / "splits.json").write_text(json.dumps(SPLITS))
    return root


def go(data, store, method, split="a", fit_on=None, jobs=1):
    options = {"split": split, "tasks": str(data / "tasks")}
    with Store.open(store) as opened:
        request = RunRequest(method, "hpatches/matching", data, (), options, {}, jobs, fit_on)
        return evaluate(request, opened)


def training_rows(data, images, scenes=("v_b", "i_d")):
    from tiepoint.core.records import Item
    from tiepoint.formats.hpatches.patch_strip import read_strip
    from tiepoint.methods.resolve import resolve

    method = resolve("resize", family="patches")
    rows = []
    for scene in scenes:
        for image in images:
            patches = read_strip(data / scene / f"{image}.png")
            rows.append(method.extract(Item(f"{scene}/{image}", "x", len(patches)), patches)["values"])
    return np.concatenate(rows)


@pytest.mark.parametrize(
    ("transform", "images"),
    [("pca?dims=8", IMAGES), ("zca?clip=0.1", IMAGES), ("hpatches-matlab?clip=0.1", IMAGES),
     ("hpatches-python", ("ref",))],
)  # fmt: skip
def test_the_fit_is_of_the_training_sequences_and_no_others(data, tmp_path, transform, images):
    run = go(data, tmp_path / "s", f"resize+{transform}")
    (entry,) = run.manifest.method.fitted
    assert entry["sequences"] == ["v_b", "i_d"]
    assert entry["images"] == ("ref" if images == ("ref",) else "all")
    assert run.manifest.method.config["fitted"] == entry["hash"]
    kept = load_transform(tmp_path / "s" / entry["file"])
    assert kept.hash == entry["hash"]
    if kept.mean is not None:
        expected = training_rows(data, images).astype(np.float64).mean(axis=0)
        assert np.allclose(kept.mean, expected, atol=1e-12)
    assert not run.warnings or not any("also tested" in w for w in run.warnings)


def test_the_kept_fit_is_used_again_and_by_workers(data, tmp_path, monkeypatch):
    monkeypatch.setattr("tiepoint.run.compute.MIN_PARALLEL_WORK_S", 0.0)
    first = go(data, tmp_path / "s", "resize+zca?clip=0.1")
    file = tmp_path / "s" / first.manifest.method.fitted[0]["file"]
    written = file.stat().st_mtime_ns
    second = go(data, tmp_path / "s", "resize+zca?clip=0.1", jobs=2)
    assert file.stat().st_mtime_ns == written
    assert first.id == second.id
    file.write_bytes(b"damaged")
    third = go(data, tmp_path / "s", "resize+zca?clip=0.1")
    assert third.manifest.method.fitted[0]["hash"] == first.manifest.method.fitted[0]["hash"]
    other = go(data, tmp_path / "t", "resize+zca?clip=0.1", jobs=2)
    assert [s.value for s in other.score_rows] == [s.value for s in first.score_rows]


MINE = """
import threading
from pathlib import Path

class Mine:
    def __init__(self):
        self.lock = threading.Lock()  # nothing that a key can be made of

    def describe(self, patches):
        with Path(__file__).with_name("log").open("a") as log:
            log.write("x")
        return patches.reshape(len(patches), -1)[:, ::3] + 1.0
"""


def test_a_method_that_cannot_be_kept_is_fitted_once_a_command(data, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_pipeline, "repeat_items", lambda context, computed: {})
    (tmp_path / "mine.py").write_text(MINE)
    log = tmp_path / "log"
    asked = ["run", f"{tmp_path / 'mine.py'}:Mine+zca?clip=0.1", "--data", str(data), "--split", "a"]
    asked += ["--tasks", str(data / "tasks"), "--jobs", "1"]
    tasks = ("hpatches/matching", "hpatches/verification")
    found = {}
    for name, commands in {"together": [",".join(tasks)], "apart": tasks}.items():
        for task in commands:
            assert tiepoint([*asked, "--task", task, "--store", str(tmp_path / name)]) == 0
            assert log.read_text() == "x" * 20  # eight images of training, twelve of the test
            log.unlink()
        with Store.open(tmp_path / name, mode="read") as store:
            runs = load_runs(store)
        scores = [(r.task, s.metric, s.group, s.value) for r in runs for s in r.scores]
        found[name] = sorted(scores)
    assert found["together"] == found["apart"]
    assert not (tmp_path / "together" / "transforms").exists()


def test_a_split_without_training_sequences_is_refused(data, tmp_path):
    with pytest.raises(InputError, match=r"split 'full' has no training sequences.*`fit_on`"):
        go(data, tmp_path / "s", "resize+pca?dims=8", split="full")
    with pytest.raises(ProblemsError, match="v_zz"):
        go(data, tmp_path / "s", "resize+pca?dims=8", split="lost")


def test_another_dataset_to_fit_on(data, tmp_path):
    run = go(data, tmp_path / "s", "resize+pca?dims=8", split="full", fit_on=data)
    assert run.manifest.method.fitted[0]["sequences"] == sorted(SCENES)
    assert any("6 sequences that are also tested" in w for w in run.warnings)
    with pytest.raises(InputError, match="`fit_on` has no effect"):
        go(data, tmp_path / "s", "resize", split="full", fit_on=data)


def test_transforms_can_follow_each_other(data, tmp_path):
    run = go(data, tmp_path / "s", "resize+pca?dims=10+power")
    assert len(run.manifest.method.fitted) == 1
    twice = go(data, tmp_path / "s", "resize+pca?dims=10+zca")
    assert [e["transform"] for e in twice.manifest.method.fitted] == ["pca?dims=10", "zca"]


def test_command_line(data, tmp_path, capsys):
    common = ["--task", "hpatches/matching", "--data", str(data), "--tasks", str(data / "tasks")]
    store = ["--store", str(tmp_path / "s")]
    assert tiepoint(["run", "resize+pca?dims=8", *common, "--split", "full", *store]) == 2
    assert "has no training sequences" in capsys.readouterr().err
    assert tiepoint(["run", "resize+pca?dims=8", *common, "--split", "a", *store, "--dry-run"]) == 0
    assert not (tmp_path / "s" / "transforms").exists()
    assert (
        tiepoint(["run", "resize+pca?dims=8", *common, "--split", "full", "--fit-on", str(data), *store]) == 0
    )
