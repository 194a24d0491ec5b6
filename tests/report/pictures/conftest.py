# SPDX-License-Identifier: BSD-3-Clause
"""Two small pairs with exact cameras, and runs of methods that know the truth or look at noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pair_truths import pair_truth
from tiepoint.datasets.image_pairs.native_json import write_pairs
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store

K = np.array([[80.0, 0, 40], [0, 80, 30], [0, 0, 1]])


def sideways(metres: float = 1.0) -> np.ndarray:
    """A camera that moved along its rows: epipolar lines are rows of pixels."""
    T = np.eye(4)
    T[0, 3] = -metres
    return T


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    draw = np.random.default_rng(3)
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(draw.integers(0, 256, (60, 80, 3)).astype(np.uint8)).save(folder / f"{name}.png")
    pairs = [
        pair_truth(
            f"room/a--{other}",
            "room",
            image0=folder / "a.png",
            image1=folder / f"{other}.png",
            size0=(80, 60),
            size1=(80, 60),
            K0=K,
            K1=K,
            T_0to1=sideways(),
        )
        for other in ("b", "c")
    ]
    write_pairs(folder / "pairs.json", pairs)
    return folder / "pairs.json"


@pytest.fixture
def runs(pairs_file: Path, tmp_path: Path) -> list[Run]:
    pytest.importorskip("poselib", reason="poses are estimated by PoseLib")
    pytest.importorskip("cv2", reason="SIFT is OpenCV's")
    with Store.open(tmp_path / "s") as store:
        return [
            evaluate(RunRequest(method, "pose/relative", pairs_file, ("exact",), {"seeds": 1}), store)
            for method in ("oracle?noise_px=0.1", "sift?max_features=50")
        ]
