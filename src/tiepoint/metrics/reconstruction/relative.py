# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the relative poses of image pairs, without alignment.

A pair (i, j) is ordered: its translation is measured in camera j, so the errors of (i, j) and (j, i) can
differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...geometry.quaternions import conjugate, product, rotations_of
from .scene import Floats, Integers, PosedModel, PosedScene

MISS = 180.0
"""Error in degrees of a pair without an estimate."""
MIN_BASELINE = 1e-12
"""Largest ratio of estimated baseline to distance from the origin at which the baseline has no direction."""
SHORT = 1e-9
"""Largest ratio of true baseline to scene extent at which the baseline has no direction."""
TINY = 1e-10
QUARTERS = 4
_BLOCK = 32


class PairAngles(NamedTuple):
    """Errors of all ordered pairs of one model, arrays (m, m): row j, column i is the pair (i, j).

    `rotation` and `translation` are angles in degrees. `cosine` is the cosine of the translation angle, with
    lengths of at least 1e-10 as divisors. `sure` is whether the estimated baseline has a direction. `true` is
    the length of the true baseline, `moved` of the estimated one.
    """

    rotation: Floats
    translation: Floats
    cosine: Floats
    sure: NDArray[np.bool_]
    true: Floats
    moved: Floats


def pair_angles(scene: PosedScene, model: PosedModel, rows: Integers) -> PairAngles:
    """Return the errors of all ordered pairs among the given rows of a model. All rows need a true pose."""
    index = model.image[rows]
    q, centre = model.q[rows], model.centres[rows]
    turn = product(conjugate(q), scene.q[index])  # D_k = R_k^T S_k
    matrix, true_centre = rotations_of(turn), scene.centres[index]
    m = len(rows)
    made = [np.empty((m, m)) for _ in range(5)]
    sure = np.empty((m, m), bool)
    with np.errstate(all="ignore"):
        reach = np.linalg.norm(centre, axis=1)
        for first in range(0, m, _BLOCK):
            j = slice(first, min(first + _BLOCK, m))
            made[0][j] = _angle_between(turn, turn[j])
            a = centre[None] - centre[j, None]
            b = np.einsum("jab,jib->jia", matrix[j], true_centre[None] - true_centre[j, None])
            made[1][j], made[2][j], made[4][j] = _directions(a, b)
            made[3][j] = np.linalg.norm(b, axis=-1)
            sure[j] = made[4][j] > MIN_BASELINE * np.maximum(reach[None], reach[j, None])
    return PairAngles(made[0], made[1], made[2], sure, made[3], made[4])


def _angle_between(turn: Floats, chosen: Floats) -> Floats:
    """Return the angles in degrees between chosen and all rotations, (chosen, all), from quaternions."""
    w, v = turn[None, :, 0], turn[None, :, 1:]
    wj, vj = chosen[:, None, 0], chosen[:, None, 1:]
    cross = np.stack(
        [
            vj[..., 1] * v[..., 2] - vj[..., 2] * v[..., 1],
            vj[..., 2] * v[..., 0] - vj[..., 0] * v[..., 2],
            vj[..., 0] * v[..., 1] - vj[..., 1] * v[..., 0],
        ],
        axis=-1,
    )
    part = w[..., None] * vj - wj[..., None] * v - cross
    return np.rad2deg(2 * np.arctan2(np.linalg.norm(part, axis=-1), np.abs(w * wj + (v * vj).sum(axis=-1))))


def _directions(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the angle in degrees and the cosine between vectors a and b, and the length of a."""
    length_a, length_b = np.linalg.norm(a, axis=-1), np.linalg.norm(b, axis=-1)
    u, v = a / length_a[..., None], b / length_b[..., None]
    angle = 2 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1))
    cosine = (a * b).sum(axis=-1) / (np.maximum(TINY, length_a) * np.maximum(TINY, length_b))
    return np.rad2deg(angle), cosine, length_a


@dataclass(frozen=True)
class PairErrors:
    """Errors in degrees of the ordered pairs of a scene under the rule `exact`.

    Arrays have one row for each pair in each model. A pair in k models has k rows of weight 1/k.
    `translation` is NaN for short true baselines. `by_cosine` is the error under COLMAP's rule. `quarter` is
    the quartile (0 to 3) of the true baseline, and `quarter_pairs` the number of pairs in each quartile.
    `pairs` is the number of ordered pairs of true images in one component; `missing` of them are in no model.
    `merged` pairs are joined by a model although no motion between them is known. `short` pairs have a short
    true baseline. `failed` pairs have an error of 180 or are missing.
    """

    i: Integers
    j: Integers
    rotation: Floats
    translation: Floats
    error: Floats
    by_cosine: Floats
    weight: Floats
    quarter: NDArray[np.int8]
    quarter_pairs: Integers
    pairs: int
    missing: int
    merged: int
    short: int
    failed: int

    @property
    def total(self) -> int:
        """Number of pairs over which scores are averaged, including wrongly joined pairs."""
        return self.pairs + self.merged

    def share(self, errors: Floats, threshold: float) -> float:
        """Return the exact area under the recall curve up to a threshold, divided by the threshold.

        `errors` is one of the arrays of this object. Pairs without a row are misses.
        """
        with np.errstate(invalid="ignore"):
            kept = np.clip(1 - np.where(np.isfinite(errors), errors, np.inf) / threshold, 0, None)
        return float((self.weight * kept).sum() / self.total)

    def median(self, errors: Floats) -> float:
        """Return the weighted median of an error array in degrees; 180 for pairs without an estimate."""
        values = np.append(np.where(np.isfinite(errors), errors, MISS), MISS)
        weights = np.append(self.weight, self.missing + self.merged)
        order = np.argsort(values, kind="stable")
        total = np.cumsum(weights[order])
        return float(values[order][np.searchsorted(total, total[-1] / 2)])


def exact_errors(scene: PosedScene) -> PairErrors:
    """Return the errors of all ordered pairs of a scene under the rule `exact`.

    The error is the larger of the angles of rotation and translation. It is 180 if a pose is not finite or
    the estimated baseline is zero. A pair whose true baseline is below the accuracy of the truth is judged by
    its rotation alone.
    """
    n = len(scene)
    same = _same_component(scene)
    count = np.zeros((n, n), np.int32)
    parts = []
    for model in scene.models:
        rows = scene.with_truth(model)
        inside = np.ix_(model.image[rows], model.image[rows])
        count[inside] += same[inside]
        parts.append((model.image[rows], pair_angles(scene, model, rows)))
    limit = max(scene.position_accuracy, SHORT * scene.extent)
    edges, quarter_pairs, short_pairs = _baselines(scene, same, limit)
    tables = [np.empty((5, 0))]
    pairs: list[Integers] = [np.empty((2, 0), np.int64)]
    quarters = [np.empty(0, np.int8)]
    for index, angles in parts:
        chosen = same[np.ix_(index, index)]
        short = (angles.true < limit) | (angles.true <= SHORT * scene.extent)
        valid = np.isfinite(angles.rotation) & np.isfinite(angles.moved)
        rotation = np.where(valid, angles.rotation, MISS)
        known = valid & angles.sure & np.isfinite(angles.translation)
        translation = np.where(known, angles.translation, MISS)
        error = np.where(short, rotation, np.maximum(rotation, translation))
        translation = np.where(short, np.nan, translation)
        cosine = _error_by_cosine(angles, scene.position_accuracy)
        weight = 1.0 / np.maximum(1, count[np.ix_(index, index)])
        tables.append(np.stack([a[chosen] for a in (rotation, translation, error, cosine, weight)]))
        jj, ii = np.nonzero(chosen)
        pairs.append(np.stack([index[ii], index[jj]]))
        quarters.append(np.searchsorted(edges, angles.true[chosen], side="left").astype(np.int8))
    rotation, translation, error, by_cosine, weight = np.concatenate(tables, axis=1)
    both = np.concatenate(pairs, axis=1)
    total = int(same.sum())
    missing = total - int((count > 0).sum())
    return PairErrors(
        i=both[0],
        j=both[1],
        rotation=rotation,
        translation=translation,
        error=error,
        by_cosine=by_cosine,
        weight=weight,
        quarter=np.concatenate(quarters),
        quarter_pairs=quarter_pairs,
        pairs=total,
        missing=missing,
        merged=_merged_pairs(scene),
        short=short_pairs,
        failed=missing + int(np.count_nonzero(error >= MISS)),
    )


def _same_component(scene: PosedScene) -> NDArray[np.bool_]:
    same = scene.component[:, None] == scene.component[None]
    np.fill_diagonal(same, False)
    return same


def _merged_pairs(scene: PosedScene) -> int:
    """Return the number of ordered pairs that a model joins although their true components differ.

    A pair with an outlier image counts as well.
    """
    n = len(scene)
    number = np.concatenate([scene.component, np.full(len(scene.outlier), -1)])
    counted = np.concatenate([np.ones(n, bool), scene.outlier])
    if counted[n:].sum() == 0 and len(np.unique(scene.component)) < 2:
        return 0
    joined = np.zeros((len(number), len(number)), bool)
    for model in scene.models:
        image = model.image[counted[model.image]]
        part = number[image]
        joined[np.ix_(image, image)] |= (part[:, None] != part[None]) | (part[:, None] < 0)
    np.fill_diagonal(joined, False)
    return int(joined.sum())


def _baselines(scene: PosedScene, same: NDArray[np.bool_], limit: float) -> tuple[Floats, Integers, int]:
    """Return the quartile limits of true baselines, the pairs per quartile, and the number of short pairs."""
    lengths = np.concatenate(
        [np.linalg.norm(scene.centres - scene.centres[k], axis=1)[same[k]] for k in range(len(scene))]
        or [np.empty(0)]
    )
    if not len(lengths):
        return np.zeros(QUARTERS - 1), np.zeros(QUARTERS, np.int64), 0
    # The lengths are computed in another order than those of pairs: equal ones must stay in one quarter.
    edges = np.quantile(lengths, np.arange(1, QUARTERS) / QUARTERS) * (1 + SHORT)
    of = np.searchsorted(edges, lengths, side="left")
    short = (lengths < limit) | (lengths <= SHORT * scene.extent)
    return edges, np.bincount(of, minlength=QUARTERS), int(short.sum())


def _error_by_cosine(angles: PairAngles, accuracy: float) -> Floats:
    """Return COLMAP's error of pairs in degrees. Without an estimated baseline it is at least 90."""
    with np.errstate(invalid="ignore"):
        dt = np.rad2deg(np.arccos(np.clip(angles.cosine, -1, 1)))
    return np.maximum(np.where(angles.true < accuracy, 0.0, dt), angles.rotation)


def colmap_errors(scene: PosedScene) -> Floats:
    """Return the sorted errors in degrees under COLMAP's relative rule. NaN is last.

    A pair counts once for each model that has both images. The error is 180 for a pair with an image without
    truth, for a pair of two components, and for a pair of one component that is in no model.
    """
    same = _same_component(scene)
    covered = np.zeros(same.shape, bool)
    parts: list[Floats] = []
    extra = 0
    for model in scene.models:
        rows = scene.with_truth(model)
        index = model.image[rows]
        chosen = same[np.ix_(index, index)]
        covered[np.ix_(index, index)] |= chosen
        angles = pair_angles(scene, model, rows)
        parts.append(_error_by_cosine(angles, scene.position_accuracy)[chosen])
        extra += len(model.image) * (len(model.image) - 1) - int(chosen.sum())
    missed = int(same.sum()) - int(covered.sum())
    errors = np.sort(np.concatenate([*parts, np.full(extra + missed, MISS)]))
    return errors if len(errors) else np.array([MISS])
