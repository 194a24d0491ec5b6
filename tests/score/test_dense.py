# SPDX-License-Identifier: BSD-3-Clause
"""`score.flow` gives the scores of `dense/flow` on the same flows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_rows import assert_same_rows

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.core.records import Features
from tiepoint.datasets.demo.dataset import make_demo
from tiepoint.run.scoring import score_rows_with_intervals
from tiepoint.tasks.dense.flow.task import TASK

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


def noisy(truth: np.ndarray, seed: int) -> np.ndarray:
    """The true flow with errors; unknown here and there."""
    rng = np.random.default_rng(seed)
    flow = np.where(np.abs(truth) > 1e9, 0, truth) + rng.normal(0, 3, truth.shape)
    flow[rng.random(truth.shape[:2]) < 0.05] = np.nan
    return flow.astype(np.float32)


def compare_with_task(root: Path) -> tp.score.Result:
    opened = TASK.open(root, {})
    truths = [pair.flow() for pair in opened.pairs]
    flows = [noisy(truth, k) for k, truth in enumerate(truths)]
    arrays: dict[str, dict[str, Any]] = {}
    for pair, flow in zip(opened.pairs, flows, strict=True):
        arrays.setdefault(pair.item, {})[f"flow{pair.direction}"] = flow
    for pair in opened.pairs:  # the task reads both directions
        other = f"flow{3 - pair.direction}"
        arrays[pair.item].setdefault(other, np.zeros((*pair.sizes()[1], 2), np.float32))
    features = Features(arrays.__getitem__)
    records = [opened.compare(unit, features, TASK.comparison("exact")) for unit in opened.units]
    found = tp.score.flow(
        flows,
        truths,
        target_size=[pair.sizes()[1][::-1] for pair in opened.pairs],
        scenes=[pair.scene for pair in opened.pairs],
    )
    assert_same_rows(found, score_rows_with_intervals(TASK, TASK.score(records, "exact")))
    return found


@pytest.mark.slow
def test_flow_real_sequences_equals_task() -> None:
    if not (DATA / "sequences").exists():
        pytest.skip(f"{DATA / 'sequences'} is not there")
    assert compare_with_task(DATA / "sequences").n == 30


def test_flow_tss_sample_equals_task() -> None:
    if not (DATA / "tss").exists():
        pytest.skip(f"{DATA / 'tss'} is not there")
    compare_with_task(DATA / "tss" / "Dataset")


def test_flow_demo_equals_task(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    demo = make_demo(tmp_path, scenes=("i_coffee",), size=(96, 80))
    compare_with_task(demo.dense)
    compare_with_task(demo.sequences)


def test_flow_mask_excludes_pixels() -> None:
    truth = np.zeros((4, 5, 2), np.float32)
    flow = truth.copy()
    flow[:, :2] = [3, 4]
    mask = np.zeros((4, 5), np.uint8)
    mask[:, 1:3] = 255
    assert tp.score.flow(flow, truth).value == 2.0
    found = tp.score.flow(flow, truth, mask)
    assert found.value == 2.5
    assert found.values["flow_accuracy"] == 1.0
    assert np.isfinite(truth).all()  # the arrays of the caller stay as they are


def test_flow_six_scenes_interval() -> None:
    truth = np.zeros((6, 4, 4, 2), np.float32)
    flows = truth + np.arange(6, dtype=np.float32)[:, None, None, None]
    found = tp.score.flow(flows, truth, scenes=range(6))
    assert found.interval == "t"
    assert found.low is not None
    assert found.low < found.value


FLOW = np.zeros((4, 5, 2), np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flow": np.zeros((4, 5))}, r"a flow must be float \(height, width, 2\), found float64 \(4, 5\)"),
        ({"flow": FLOW.astype(int)}, r"found int64 \(4, 5, 2\)"),
        ({"truth": FLOW[:3]}, r"flow has shape \(4, 5, 2\) and truth \(3, 5, 2\)"),
        ({"mask": np.ones((5, 4))}, r"mask has shape \(5, 4\) and flow \(4, 5, 2\); expected \(4, 5\)"),
        ({"mask": np.zeros((4, 5))}, "no pixel has a known true flow"),
        ({"truth": FLOW + np.nan}, "no pixel has a known true flow"),
        ({"truth": [FLOW, FLOW]}, "flow has length 1, truth has length 2"),
        ({"target_size": (1.5, 2)}, r"target_size is .*; expected \(width, height\)"),
        ({"protocol": "tss-cpp"}, "unknown protocol of score.flow 'tss-cpp'"),
        ({"alpha": 0.1}, "did you mean 'alphas'"),
    ],
)
def test_flow_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tp.score.flow(**{"flow": FLOW, "truth": FLOW, **changes})
