# SPDX-License-Identifier: BSD-3-Clause
"""The real `train_example` definitions of 2016, with descriptors made on the spot."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hpatches_world import features_of, value

from tiepoint.tasks import TASKS

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
DEFINITIONS = DATA / "hpatches_v1"
LENGTHS = DATA.parent / "golden" / "hpatches_v1_train_lengths.json"
pytestmark = pytest.mark.skipif(
    not (DEFINITIONS.is_dir() and LENGTHS.is_file()), reason="the definition files of 2016 are not here"
)
IMAGES = ["ref", *(f"{z}{k}" for z in "eh" for k in range(1, 6))]
NAMES = ("classification", "matching", "retrieval")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    lengths = json.loads(LENGTHS.read_text())
    (folder / "lengths.json").write_text(json.dumps({"lengths": lengths, "images": IMAGES}))
    return folder


def descriptors_for(opened, dim=16):
    """Unit vectors: the same for a patch in all images of its sequence, plus noise."""
    out, bases = {}, {}
    for item in opened.items:
        scene, _ = item.key.split("/")
        if scene not in bases:
            bases[scene] = np.random.default_rng(len(bases)).normal(size=(item.count, dim))
        noise = np.random.default_rng(len(out) + 1000).normal(size=(item.count, dim))
        d = bases[scene] + noise
        out[item.key] = (d / np.linalg.norm(d, axis=1, keepdims=True)).astype(np.float32)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_files_agree(dataset, tmp_path, name):
    task = TASKS.load(f"hpatches-v1/{name}")
    opened = task.open(dataset, {"tasks": DEFINITIONS, "benchmark": ["train_example"]})
    features = features_of(descriptors_for(opened))
    records = [opened.compare(unit, features, task.comparison("exact")) for unit in opened.units]
    task.write_benchmark(records[0], tmp_path, opened)
    read = task.records_from_results(tmp_path, opened)
    metrics = {"classification": ("auc", "ap", "fpr95"), "matching": ("ap", "ap_ratio", "success_rate")}
    for metric in metrics.get(name, ("map_patch", "map_image")):
        for protocol, rounding in (("hbench-2016", 1e-14), ("exact", 2e-6)):
            direct = value(task.score(records, protocol), metric)
            from_file = value(task.score(read, protocol), metric)
            assert from_file == pytest.approx(direct, abs=rounding), (metric, protocol)
            assert 0.01 < direct < 1


def test_sizes(dataset):
    counts = {}
    for name in NAMES:
        opened = TASKS.load(f"hpatches-v1/{name}").open(
            dataset, {"tasks": DEFINITIONS, "benchmark": ["train_example"]}
        )
        counts[name] = opened.definitions["train_example"].content
    assert counts["classification"].sizes == (1000, 2000)
    assert len(counts["matching"][0].pairs) == 25
    assert len(counts["retrieval"].query) == 50
    assert set(np.diff(counts["retrieval"].offsets)) == {5}
