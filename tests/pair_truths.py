# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs with ground truth, built from keywords."""

from __future__ import annotations

from typing import Any

from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.datasets.image_pairs.pair import ImagePair

CAMERAS = ("K0", "K1", "T_0to1", "centre", "annotations")


def pair_truth(name: str, scene: str, **given: Any) -> PairTruth:
    """Build the ground truth of a pair: cameras and annotations of the truth, all else of the pair."""
    truth = {key: given.pop(key) for key in CAMERAS if key in given}
    return PairTruth(ImagePair(name, scene, **given), **truth)
