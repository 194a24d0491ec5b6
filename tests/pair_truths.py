# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs with ground truth, built from keywords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.datasets.image_pairs.pair import ImagePair

CAMERAS = ("K0", "K1", "T_0to1", "centre", "annotations")


def pair_truth(name: str, scene: str, **given: Any) -> PairTruth:
    """Build the ground truth of a pair: cameras and annotations of the truth, all else of the pair."""
    truth = {key: given.pop(key) for key in CAMERAS if key in given}
    return PairTruth(ImagePair(name, scene, **given), **truth)


def recorded_truth(name: str, case: dict[str, Any], **more: Any) -> PairTruth:
    """Build the ground truth of a recorded pair from its JSON object; `more` adds or replaces values."""
    given = {
        "dataset": case["dataset"],
        "image0": Path(f"{name}-0.jpg"),
        "image1": Path(f"{name}-1.jpg"),
        "size0": tuple(case["size0"]),
        "size1": tuple(case["size1"]),
        "K0": np.array(case["K0"]),
        "K1": np.array(case["K1"]),
        "T_0to1": np.array(case["T_0to1"]),
    }
    return pair_truth(name, case["scene"], **given | more)
