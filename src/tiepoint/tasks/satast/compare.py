# SPDX-License-Identifier: BSD-3-Clause
"""Compare transferred points on SatAst with the clicked points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays, Records
from ...datasets.image_pairs.ground_truth import PairTruth
from ...datasets.image_pairs.pair import ImagePair, Size
from ...geometry.two_view.homography_errors import is_usable, map_points
from ...geometry.two_view.linear_estimation import HomographyEstimator, estimate_homography
from ...metrics.dense import point_errors
from ..homography.compare import exact_homographies
from ..pairs.data import matches_of
from ..pairs.point_transfer import transferred_points
from ..pairs.score import pair_facts

Floats = NDArray[np.float64]
NORMALISED = HomographyEstimator("opencv", 0.001, 0.99999999, 100_000, method="USAC_DEFAULT")
"""Estimator of RoMa v2, for coordinates in which an image reaches from -1 to 1 on both axes."""


def exact_errors(truth: PairTruth, arrays: Arrays, options: Any) -> list[Floats]:
    """Return the errors (q,) in pixels of the transferred points under every seed.

    The error is infinite for a point without an answer. The method's own points or flow are used if there are
    any, unless `options.by` requests homographies.
    """
    points, true = _points(truth)
    own = "answers" in arrays or "flow" in arrays
    if options.by == "points" or (options.by == "auto" and own):
        return transfer_errors(truth, arrays)
    size = truth.pair.sizes()[0]
    found = []
    for made in exact_homographies(truth.pair, arrays, options):
        if made.ok and is_usable(made.H, size):
            found.append(_distances(map_points(made.H, points), true))
        else:
            found.append(np.full(len(points), np.inf))
    return found


def transfer_errors(truth: PairTruth, arrays: Arrays) -> list[Floats]:
    """Return the errors (q,) in pixels of the points that the method, its flow or its matches transfer."""
    points, true = _points(truth)
    found = transferred_points(arrays, np.ascontiguousarray(points), truth.pair.name)
    return [np.nan_to_num(point_errors(found, true), nan=np.inf)]


def normalised_errors(truth: PairTruth, arrays: Arrays) -> list[Floats]:
    """Return the errors (q,) of points transferred by a homography estimated in normalised coordinates.

    One threshold in these coordinates is an ellipse in pixels. The errors are in pixels of image 1.
    """
    points, true = _points(truth)
    sizes = truth.pair.sizes()
    if "H" in arrays:
        return [_distances(map_points(arrays["H"], points), true)]
    matches = matches_of(arrays, truth.pair.name)
    made = estimate_homography(
        NORMALISED, normalised(matches.points0, sizes[0]), normalised(matches.points1, sizes[1])
    )
    if not made.ok:
        return [np.full(len(points), np.inf)]
    return [_distances(mapped_normalised(made.H, points, sizes), true)]


def normalised(points: Floats, size: Size) -> Floats:
    """Convert pixels (n, 2) to normalised coordinates from -1 to 1: 2 (x + 0.5)/w - 1.

    >>> normalised(np.array([[-0.5, 0.5]]), (4, 2)).tolist()
    [[-1.0, 0.0]]
    """
    return np.asarray(2 * (points + 0.5) / np.asarray(size) - 1, np.float64)


def mapped_normalised(H: Floats, points: Floats, sizes: tuple[Size, Size]) -> Floats:
    """Map pixels (n, 2) of image 0 to pixels of image 1 by a homography of normalised coordinates."""
    u = np.column_stack([normalised(points, sizes[0]), np.ones(len(points))]) @ np.asarray(H).T
    with np.errstate(all="ignore"):
        v = u[:, :2] / (u[:, 2:] + 1e-8)
    return np.asarray((v + 1) / 2 * np.asarray(sizes[1]) - 0.5, np.float64)


def _points(truth: PairTruth) -> tuple[Floats, Floats]:
    points = truth.annotations["points0"], truth.annotations["points1"]
    return np.asarray(points[0], np.float64), np.asarray(points[1], np.float64)


def _distances(found: Floats, true: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.linalg.norm(found - true, axis=1), nan=np.inf)


Rule = Callable[[PairTruth, Arrays], list[Floats]]
"""Function that returns the errors (q,) of the points of a pair, once per seed."""


def compare(pair: ImagePair, found: Mapping[int, tuple[PairTruth, Arrays]], rule: Rule) -> Records:
    """Compute the errors of the points of a pair under a rule.

    `found` has the ground truth and the features for every orientation of image 1. Its keys are the rotations
    in degrees.
    """
    rows = [
        (turn, k, errors)
        for turn, (truth, arrays) in found.items()
        for k, errors in enumerate(rule(truth, arrays))
    ]
    sizes = [len(errors) for _, _, errors in rows]
    columns = {
        "turn": np.repeat(np.array([turn for turn, _, _ in rows], np.int16), sizes),
        "repeat": np.repeat(np.array([k for _, k, _ in rows], np.int16), sizes),
        "point": np.concatenate([np.arange(n, dtype=np.int32) for n in sizes]),
        "error_px": np.concatenate([errors for _, _, errors in rows]),
    }
    upright = next(iter(found.values()))[1]
    known = "points0" in upright or "flow" in upright
    meta = {
        **pair_facts(pair),
        "images": list(pair.image_names()),
        "turns": list(found),
        "matches": len(matches_of(upright, pair.name)) if known else None,
        "ok": [bool(np.isfinite(errors).any()) for _, _, errors in rows],
    }
    return Records("pair", columns, meta)
