# SPDX-License-Identifier: BSD-3-Clause
"""Angles between estimated and true relative poses, under the conventions of several tools.

A pose is x1 = R x0 + t with t known up to scale. All functions accept stacks: R (…, 3, 3), t (…, 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..quaternions import quaternions_of

Floats = NDArray[np.float64]

MIN_BASELINE = 1e-9


@dataclass(frozen=True)
class AngleRule:
    """Convention for the two angles of a pose error: e_t of the translation, e_R of the rotation.

    Args:
        kind: `stable` (chord lengths), `acos` (arc cosine of trace and dot product) or `imc` (arc cosine of
            quaternions and squared dot products, with a floor of 1e-15).
        folded: whether t and -t are the same direction, so that e_t is at most 90 degrees.
        floor: lower bound of |t||t_gt| in the division of `acos`. For t = 0, a floor of 0 gives NaN and a
            positive floor gives 90 degrees.
        dtype: precision of the arithmetic.
        truth_dtype: precision to which the true pose is rounded first.
        single: whether `np.linalg.norm` and `np.dot` are called for one vector after another. NumPy rounds
            sums along an axis differently, which in float32 decides between 0 and 0.02 degrees for a perfect
            pose.
    """

    kind: str
    folded: bool = True
    floor: float = 0.0
    dtype: DTypeLike = np.float64
    truth_dtype: DTypeLike = np.float64
    single: bool = False


STABLE = AngleRule("stable", folded=False)
"""Recommended convention. Replaces R_gt by the nearest rotation; exact also near 0 and 180 degrees."""
ACOS = AngleRule("acos", single=True)
"""Convention of most evaluation scripts."""
ACOS_TRUTH_FLOAT32 = AngleRule("acos", truth_dtype=np.float32, single=True)
"""`ACOS` with the true pose and its length in float32; the other arithmetic is float64."""
ACOS_FLOAT32 = AngleRule("acos", floor=1e-10, dtype=np.float32, truth_dtype=np.float32)
"""`ACOS` entirely in float32, which cannot resolve angles below about 0.02 degrees."""
ACOS_FLOOR = AngleRule("acos", floor=1e-10)
"""`ACOS` in float64 with the floor of `ACOS_FLOAT32`."""
UNFOLDED = AngleRule("acos", folded=False, single=True)
"""`ACOS` that distinguishes t from -t, so that a reversed direction of motion is an error."""
IMC = AngleRule("imc")
"""Convention of the Image Matching Challenge: quaternions with a floor of 1e-15."""


def pose_errors(
    R: ArrayLike, t: ArrayLike, R_gt: ArrayLike, t_gt: ArrayLike, rule: AngleRule = STABLE
) -> tuple[Floats, Floats]:
    """Return the angles (e_t, e_R) between estimated and true poses in degrees, float64.

    * `stable`: e_R = 2 asin(min(1, |R - P|_F / (2 sqrt 2))), P the rotation nearest to R_gt;
      e_t = 2 atan2(|u - v|, |u + v|) for the unit vectors u, v of t, t_gt. NaN if t or t_gt is 0.
    * `acos`: e_R = acos clip((tr(R^T R_gt) - 1)/2), e_t = acos clip(t . t_gt / (|t||t_gt|)).
    * `imc`: the same angles from unit quaternions and squared dot products; never below 4e-6 degrees.

    Leading axes are broadcast. A `folded` rule replaces e_t by min(e_t, 180 - e_t). A NaN in t gives NaN.
    Near 0 `acos` loses half of the digits: with a true rotation rounded to five decimals, a perfect estimate
    has an error of up to 0.22 degrees.

    >>> e_t, e_R = pose_errors(np.eye(3), [0, 0, -2], np.eye(3), [0, 0, 1])
    >>> float(e_t), float(e_R), float(pose_errors(np.eye(3), [0, 0, -2], np.eye(3), [0, 0, 1], ACOS)[0])
    (180.0, 0.0, 0.0)
    """
    a, u = (np.asarray(x, np.float64).astype(rule.dtype) for x in (R, t))
    b, v = (np.asarray(x, np.float64).astype(rule.truth_dtype) for x in (R_gt, t_gt))
    with np.errstate(invalid="ignore", divide="ignore"):
        e_t, e_R = _RULES[rule.kind](a, u, b, v, rule)
    e_t, e_R = np.rad2deg(e_t), np.rad2deg(e_R)
    if rule.folded:
        e_t = np.minimum(e_t, 180 - e_t)
    return np.asarray(e_t, np.float64), np.asarray(e_R, np.float64)


def nearest_rotation(R: ArrayLike) -> Floats:
    """Return the rotation P (determinant +1) with the smallest |R - P|_F, by singular value decomposition.

    >>> float(np.abs(nearest_rotation(1.001 * np.eye(3)) - np.eye(3)).max())
    0.0
    """
    u, _, vt = np.linalg.svd(np.asarray(R, np.float64))
    u = u.copy()
    u[..., :, 2] *= np.sign(np.linalg.det(u @ vt))[..., None]
    return np.asarray(u @ vt, np.float64)


def has_baseline(t_gt: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each true translation (…, 3) is longer than 1e-9. Shorter ones have no direction.

    >>> has_baseline([[0, 0, 0], [0, 0, 1]]).tolist()
    [False, True]
    """
    return np.asarray(np.linalg.norm(np.asarray(t_gt, np.float64), axis=-1) >= MIN_BASELINE)


Angles = tuple[NDArray[np.floating], NDArray[np.floating]]
Stack = NDArray[np.floating]


def _stable(R: Stack, t: Stack, R_gt: Stack, t_gt: Stack, rule: AngleRule) -> Angles:
    chord = np.linalg.norm(R - nearest_rotation(R_gt), axis=(-2, -1))
    e_R = 2 * np.arcsin(np.minimum(1.0, chord / (2 * np.sqrt(2.0))))
    u = t / np.linalg.norm(t, axis=-1, keepdims=True)
    v = t_gt / np.linalg.norm(t_gt, axis=-1, keepdims=True)
    return 2 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1)), e_R


def _acos(R: Stack, t: Stack, R_gt: Stack, t_gt: Stack, rule: AngleRule) -> Angles:
    cosine = ((R * R_gt).sum(axis=-2).sum(axis=-1) - 1) / 2  # the diagonal of R^T R_gt, then its sum
    if rule.single:
        dot, length = _one_by_one(t, t_gt)
    else:
        dot, length = (t * t_gt).sum(axis=-1), np.linalg.norm(t, axis=-1) * np.linalg.norm(t_gt, axis=-1)
    if rule.floor:
        length = np.maximum(length, np.asarray(rule.floor, length.dtype))
    along = dot / length
    return np.arccos(np.clip(along, -1, 1)), np.arccos(np.clip(cosine, -1, 1))


def _one_by_one(t: Stack, t_gt: Stack) -> Angles:
    """Return t . t_gt and |t||t_gt| of every pair of vectors, computed for one vector at a time."""
    shape = np.broadcast_shapes(t.shape, t_gt.shape)
    rows = [np.broadcast_to(v, shape).reshape(-1, 3) for v in (t, t_gt)]
    dot = [np.dot(a, b) for a, b in zip(*rows, strict=True)]
    length = [np.linalg.norm(a) * np.linalg.norm(b) for a, b in zip(*rows, strict=True)]
    return np.array(dot).reshape(shape[:-1]), np.array(length).reshape(shape[:-1])


def _imc(R: Stack, t: Stack, R_gt: Stack, t_gt: Stack, rule: AngleRule) -> Angles:
    """Return the IMC angles e_t = acos sqrt(1 - f(u.v)) and e_R = acos(1 - 2 f(q.q_gt)) in radians.

    f(x) = max(1e-15, 1 - x^2); u, v are unit translations and q, q_gt unit quaternions.
    """
    u, v = (a / (np.linalg.norm(a, axis=-1, keepdims=True) + 1e-15) for a in (t, t_gt))
    off = np.maximum(1e-15, 1 - (u * v).sum(axis=-1) ** 2)
    turn = np.maximum(1e-15, 1 - (_xyzw(R) * _xyzw(R_gt)).sum(axis=-1) ** 2)
    return np.arccos(np.sqrt(1 - off)), np.arccos(1 - 2 * np.minimum(turn, 1.0))


def _xyzw(R: Stack) -> Floats:
    """Return quaternions with w last, because the order affects how their dot product is rounded."""
    return quaternions_of(R)[..., [1, 2, 3, 0]]


_RULES = {"stable": _stable, "acos": _acos, "imc": _imc}
