# SPDX-License-Identifier: BSD-3-Clause
"""Stability of a pair's two-view model when half of the matches are removed. Needs no ground truth.

The unit of all thresholds is u: the longest side of the two images divided by 1000, in pixels.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.hashing import splitmix64
from ..geometry.correspondence import in_view
from ..geometry.two_view.epipolar import larger_distances
from ..geometry.two_view.estimator import Estimator, as_matches
from ..geometry.two_view.homography_errors import map_points
from ..geometry.two_view.linear_estimation import HomographyEstimator, estimate_homography
from ..geometry.two_view.pose_estimation import estimate_fundamental

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Size = tuple[int, int]
Sizes = tuple[Size, Size]

SPLITS = 4
"""Number of times that the matches are split into halves."""
CONFIRMED = 10
"""Minimum number of confirmed matches of a confirmed pair. Unrelated images do not reach it by chance."""
MAX_MATCHES = 2000
"""Number of matches above which a seeded sample is used."""
MIN_INLIERS_F, MIN_INLIERS_H = 7, 4
THRESHOLD_F, THRESHOLD_H = 1.5, 3.0
"""Inlier thresholds of F and H in u."""
NEAR, FAR = 3.0, 5.0
"""Distances in u: a match nearer than `NEAR` is confirmed; models `FAR` or more apart have agreement 0."""
PLANAR = 0.75
"""Minimum ratio of the inliers of H and F for which H is the model of a pair."""
GRID, CELLS = 16, 8
"""Points per side of the grid on which homographies are compared; cells per image side of `cover`."""


class Model(NamedTuple):
    """Two-view models fitted to all matches or to half of them: F and H (3, 3), None if the fit failed.

    `inliers_F` is a mask over the matches, `inliers_H` a number.
    """

    F: Floats | None
    inliers_F: Mask
    H: Floats | None
    inliers_H: int


@dataclass(frozen=True)
class Steadiness:
    """Stability of the two-view model that a method's matches give for one pair.

    Attributes:
        ungated: Agreement of the models of the halves with the model of all matches, 0 to 1, averaged over
            the splits.
        confirmed: Number of matches near their epipolar lines under the model of the other half, averaged
            over the splits.
        cover: Share of the 8 x 8 cells of an image with a confirmed match; the smaller share of both images.
        matches: Number of distinct matches that were used.
        inliers_F, inliers_H: Numbers of inliers of the F and H fitted to all matches.
        planar: Whether the model of the pair is H instead of F.
        rows: Row of each used match in the input (n,).
        share: Share of the splits that confirm each used match (n,).
    """

    ungated: float
    confirmed: float
    cover: float
    matches: int
    inliers_F: int
    inliers_H: int
    planar: bool
    rows: Ints
    share: Floats

    @property
    def is_confirmed(self) -> bool:
        """Whether enough matches are confirmed for the pair to count."""
        return self.confirmed >= CONFIRMED

    @property
    def steady(self) -> float:
        """Score of the pair: `ungated`, or 0 if the pair is not confirmed."""
        return self.ungated if self.is_confirmed else 0.0


def steadiness(
    points0: ArrayLike, points1: ArrayLike, sizes: Sizes, key: str, *, seed: int = 0
) -> Steadiness:
    """Measure how stable the two-view model of a pair is when half of its matches are removed.

    Args:
        points0: Matches in pixels of original image 0, (n, 2); the first pixel's centre is at (0, 0).
        points1: Matches in pixels of original image 1, (n, 2).
        sizes: (width, height) of both images.
        key: Names of both images as ``NAME0|NAME1``. The splits depend on it.
        seed: Seed of the splits.
    """
    a, b = as_matches(points0, points1)
    rows = distinct(a, b)
    if len(rows) > MAX_MATCHES:
        rows = np.sort(rows[split_order(len(rows), seed, key, 0)[:MAX_MATCHES]])
    a, b = a[rows], b[rows]
    unit = max(*sizes[0], *sizes[1]) / 1000
    whole = _model(a, b, unit)
    n_F = int(whole.inliers_F.sum())
    planar = n_F > 0 and whole.inliers_H >= PLANAR * n_F
    agreements: list[float] = []
    covers: list[float] = []
    counts = np.zeros(len(rows))
    for number in range(SPLITS):
        halves = split_halves(len(rows), seed, key, number)
        good = np.zeros(len(rows), bool)
        for fit, test in (halves, halves[::-1]):
            half = _model(a[fit], b[fit], unit)
            if half.F is not None:
                good[test] = larger_distances(a[test], b[test], half.F) < NEAR * unit
            if planar:
                agreements.append(transfer_agreement(half.H, whole.H, sizes, FAR * unit))
            else:
                agreements.append(_epipolar_agreement(half.F, whole, a, b, FAR * unit))
        covers.append(cover(a[good], b[good], sizes))
        counts += good
    return Steadiness(
        ungated=float(np.mean(agreements)),
        confirmed=float(counts.sum() / SPLITS),
        cover=float(np.mean(covers)),
        matches=len(rows),
        inliers_F=n_F,
        inliers_H=whole.inliers_H,
        planar=planar,
        rows=rows,
        share=counts / SPLITS,
    )


def distinct(points0: Floats, points1: Floats) -> Ints:
    """Return the rows of distinct matches. Matches are equal if all floor(100 x + 0.5) of coordinates x are.

    The first of several equal matches is retained.

    >>> a = np.array([[1.0, 2.0], [1.001, 2.0], [1.01, 2.0]])
    >>> distinct(a, np.zeros((3, 2))).tolist()
    [0, 2]
    """
    rounded = np.floor(100 * np.hstack([points0, points1]) + 0.5)
    return np.sort(np.unique(rounded, axis=0, return_index=True)[1]).astype(np.int64)


def split_order(n: int, seed: int, key: str, number: int) -> Ints:
    """Return the shuffled row order of `n` matches for the split with a given number."""
    return np.argsort(splitmix64(split_seed(seed, key, number), n), kind="stable").astype(np.int64)


def split_seed(seed: int, key: str, number: int) -> int:
    """Return the seed of a split: the first eight bytes of a SHA-256 of the arguments.

    >>> split_seed(0, "a.jpg|b.jpg", 0)
    16716356107843100135
    """
    digest = hashlib.sha256(f"tiepoint-choose|{seed}|{key}|{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def split_halves(n: int, seed: int, key: str, number: int) -> tuple[Ints, Ints]:
    """Split `n` matches into two halves, each in the original order. The second half is larger if n is odd.

    >>> [half.tolist() for half in split_halves(7, 0, "a.jpg|b.jpg", 0)]
    [[0, 3, 5], [1, 2, 4, 6]]
    """
    order = split_order(n, seed, key, number)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def _model(a: Floats, b: Floats, unit: float) -> Model:
    limits = {"confidence": 0.9999, "max_iterations": 3000, "min_iterations": 100}
    f = estimate_fundamental(Estimator("poselib-f", THRESHOLD_F * unit, **limits), a, b, 0)  # type: ignore[arg-type]
    h = estimate_homography(HomographyEstimator("poselib", THRESHOLD_H * unit, **limits), a, b, seed=0)  # type: ignore[arg-type]
    has_F, has_H = f.ok and f.inliers >= MIN_INLIERS_F, h.ok and h.inliers >= MIN_INLIERS_H
    return Model(
        f.F if has_F else None,
        f.inlier_mask if has_F else np.zeros(len(a), bool),
        h.H if has_H else None,
        h.inliers if has_H else 0,
    )


def _epipolar_agreement(F: Floats | None, whole: Model, a: Floats, b: Floats, far: float) -> float:
    if F is None or whole.F is None:
        return 0.0
    rows = whole.inliers_F
    return float(np.maximum(0, 1 - larger_distances(a[rows], b[rows], F) / far).mean())


def transfer_agreement(H: Floats | None, reference: Floats | None, sizes: Sizes, far: float) -> float:
    """Return how well two homographies agree, 0 to 1: the mean agreement over points of a grid.

    Only grid points that the reference maps into image 1 count. The agreement of a point falls linearly from
    1 to 0 as the two mapped points separate by `far` pixels. The result is 0 if a homography is None or no
    grid point counts.

    >>> transfer_agreement(np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]]), np.eye(3), ((9, 9), (9, 9)), 4.0)
    0.75
    """
    if H is None or reference is None:
        return 0.0
    steps = (np.arange(GRID) + 0.5) / GRID
    x, y = np.meshgrid(steps * sizes[0][0] - 0.5, steps * sizes[0][1] - 0.5)
    points = np.column_stack([x.ravel(), y.ravel()])
    expected = map_points(reference, points)
    inside = in_view(expected, sizes[1])
    if not inside.any():
        return 0.0
    with np.errstate(invalid="ignore"):
        error = np.linalg.norm(map_points(H, points[inside]) - expected[inside], axis=1)
    return float(np.maximum(0, 1 - np.nan_to_num(error, nan=np.inf) / far).mean())


def cover(points0: Floats, points1: Floats, sizes: Sizes) -> float:
    """Return the share of 8 x 8 image cells that contain a point; the smaller share of both images.

    >>> cover(np.array([[0.0, 0.0], [63.0, 63.0]]), np.zeros((2, 2)), ((64, 64), (64, 64)))
    0.015625
    """
    shares = []
    for points, size in zip((points0, points1), sizes, strict=True):
        cells = np.clip(np.floor((points + 0.5) / np.asarray(size) * CELLS), 0, CELLS - 1).astype(int)
        shares.append(len(set(map(tuple, cells.tolist()))) / CELLS**2)
    return min(shares)
