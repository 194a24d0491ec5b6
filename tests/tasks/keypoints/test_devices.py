# SPDX-License-Identifier: BSD-3-Clause
"""Scores do not depend on the device of the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from keypoint_world import make_features, make_scenes, run_task

from tiepoint.kernels import set_device
from tiepoint.tasks import TASKS

pytest.importorskip("torch", reason="the kernels on a device need torch")
STYLES = {"l2": "real", "l1": "real", "cosine": "real", "hamming": "bits"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_scenes(tmp_path_factory.mktemp("scenes"))


@pytest.mark.parametrize("distance", STYLES)
@pytest.mark.parametrize(
    ("task", "protocol"),
    [
        ("verification", "exact"),
        ("verification", "bojanic"),
        ("retrieval", "exact"),
        ("retrieval", "bojanic"),
        ("ranking", "exact"),
        ("matching", "exact"),
    ],
)
def test_scores_on_torch_equal_those_of_compiled_code(
    root: Path, task: str, protocol: str, distance: str
) -> None:
    made = []
    for device in ("cpu", "torch:cpu"):
        set_device(device)
        try:
            scores, _ = run_task(
                TASKS.load(f"keypoints/{task}"),
                root,
                lambda opened: make_features(opened, style=STYLES[distance], distance=distance, fail=0.1),
                protocol,
            )
        finally:
            set_device(None)
        made.append({key: s.value for key, s in scores.items()})
    assert made[0].keys() == made[1].keys()
    assert np.array_equal(list(made[0].values()), list(made[1].values()), equal_nan=True)
