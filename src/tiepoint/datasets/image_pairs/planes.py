# SPDX-License-Identifier: BSD-3-Clause
"""Checks and transforms of pairs with homographies or landmarks: usable H, annotation errors, rotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...geometry.two_view.homography_errors import map_points, point_distances, unusable_reason
from .ground_truth import PairTruth
from .pair import Matrix, Size


def plane_problems(truths: Sequence[PairTruth]) -> list[str]:
    """Return a message for every true homography that is singular or has its horizon in image 0."""
    found = []
    for truth in truths:
        H = truth.annotations.get("H")
        reason = None if H is None else unusable_reason(H, truth.pair.sizes()[0])
        if reason is not None:
            found.append(f"{truth.pair.name}: the true homography {reason}")
    return found


def floor_px(truth: PairTruth) -> float:
    """Return the mean distance between the landmarks and their positions by the true homography, in pixels.

    Scores at smaller thresholds measure the annotation rather than the method. NaN without H or landmarks.
    """
    H, landmarks = truth.annotations.get("H"), truth.annotations.get("landmarks")
    if H is None or landmarks is None or not len(landmarks):
        return float("nan")
    return float(point_distances(H, landmarks[:, :2], landmarks[:, 2:]).mean())


def plane_facts(truths: Sequence[PairTruth]) -> list[str]:
    """Return a list with one message on the errors of homographies at landmarks; empty without landmarks."""
    floors = np.array([floor_px(truth) for truth in truths])
    floors = floors[np.isfinite(floors)]
    if not len(floors):
        return []
    return [
        f"residual of the homographies on their landmarks: median {np.median(floors):.2f} px, "
        f"largest {floors.max():.2f} px, above 1 px in {int((floors > 1).sum())} of {len(floors)} pairs"
    ]


def turned_truth(truth: PairTruth, turns: int, *, mirror: bool = False) -> PairTruth:
    """Return the pair with image 1 mirrored left-right if `mirror`, then rotated by quarter turns.

    Turns are counter-clockwise, as `np.rot90`. H, landmarks, corrs and points of image 1 are transformed.

    >>> from .pair import ImagePair
    >>> pair = ImagePair("a", "a", size0=(4, 3), size1=(4, 3))
    >>> turned = turned_truth(PairTruth(pair, annotations={"H": np.eye(3)}), 1)
    >>> turned.pair.sizes()[1], turned.annotations["H"].tolist()
    ((3, 4), [[0.0, 1.0, 0.0], [-1.0, 0.0, 3.0], [0.0, 0.0, 1.0]])
    """
    turns %= 4
    if not turns and not mirror:
        return truth
    pair = truth.pair
    sizes = pair.sizes()
    M, size = turn_matrix(sizes[1], turns, mirror=mirror)
    annotations = dict(truth.annotations)
    if "H" in annotations:
        annotations["H"] = M @ annotations["H"]
    for key in ("landmarks", "corrs"):
        if key in annotations:
            table = annotations[key]
            annotations[key] = np.column_stack([table[:, :2], map_points(M, table[:, 2:])])
    if "points1" in annotations:
        annotations["points1"] = map_points(M, annotations["points1"])
    before = pair.turns[1]
    turned = replace(
        pair,
        size0=sizes[0],
        size1=size,
        turns=(pair.turns[0], (turns - before if mirror else turns + before) % 4),
        mirrored=pair.mirrored != mirror,
    )
    return replace(truth, pair=turned, annotations=annotations)


def turn_matrix(size: Size, turns: int, *, mirror: bool = False) -> tuple[Matrix, Size]:
    """Return the matrix (3, 3) from pixels of an image to pixels of the rotated image, and the new size.

    A quarter turn counter-clockwise of an image of width w moves (x, y) to (y, w - 1 - x). With `mirror`, the
    image is first mirrored left-right.
    """
    M, (w, h) = np.eye(3), size
    if mirror:
        M = np.array([[-1.0, 0, w - 1], [0, 1, 0], [0, 0, 1]])
    for _ in range(turns % 4):
        M = np.array([[0.0, 1, 0], [-1, 0, w - 1], [0, 0, 1]]) @ M
        w, h = h, w
    return M, (w, h)
