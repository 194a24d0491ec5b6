# SPDX-License-Identifier: BSD-3-Clause
"""Code shared by the tasks for the original protocol of Bartol, Bojanić et al. (2019).

Reference keypoints that leave the view of any target image are removed. 100 of the remaining keypoints are
sampled as queries. A match is correct if no other target keypoint is closer to the true position, at any
distance (no tolerance). Binary descriptors are compared by the number of differing pairs of bits (HAMMING2).
The AP treats keypoints with equal distance as one step of the precision-recall curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Features
from ...geometry.correspondence import project_unchecked
from ...kernels import first_two, value_table
from .data import OpenKeypoints, image_features
from .distractors import query_sample

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BojanicRows:
    """Keypoints and descriptors of one image, as the protocol compares them.

    `usable` are the rows whose descriptor did not fail; failed rows stay in `xy` and `values`.
    """

    xy: Floats
    values: NDArray[Any]
    usable: Ints


def bojanic_kind(scene: str) -> str:
    """Return the kind of a scene: illumination if its name contains ``i_``, else viewpoint."""
    return "i" if "i_" in scene else "v"


def two_bit_code(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Encode each pair of bits as a four-bit word, so that the Hamming distance is twice HAMMING2.

    >>> a, b = two_bit_code(np.array([[0b11]], np.uint8)), two_bit_code(np.array([[0b10]], np.uint8))
    >>> int(np.unpackbits(a ^ b).sum())
    2
    """
    byte = np.arange(256, dtype=np.uint16)
    code = np.zeros(256, np.uint16)
    for shift in (0, 2, 4, 6):
        code |= (np.uint16(1) << ((byte >> shift) & 3)) << np.uint16(2 * shift)
    return np.ascontiguousarray(code[values]).view(np.uint8).reshape(len(values), 2 * values.shape[1])


def bojanic_rows(features: Features, key: str) -> BojanicRows:
    """Return the keypoints and descriptors of an image, converted as the protocol compares them."""
    image = image_features(features, key)
    values = image.values
    if features.distance == "hamming":
        values = two_bit_code(values)
    finite = image.valid.copy()
    if values.dtype.kind == "f" and len(values):
        finite &= np.isfinite(values).all(axis=1)
    return BojanicRows(image.xy, np.ascontiguousarray(values), np.flatnonzero(finite))


def nearest_rows(queries: NDArray[Any], pool: BojanicRows, distance: str) -> tuple[Ints, Floats]:
    """Return for each query the row and the distance of the nearest usable descriptor; first row of a tie.

    A pool without usable descriptors gives -1 and infinity.
    """
    if len(pool.usable) == 0:
        return np.full(len(queries), -1, np.int64), np.full(len(queries), np.inf)
    found = first_two(queries, np.ascontiguousarray(pool.values[pool.usable]), distance=distance)
    return pool.usable[found.index], _scaled(found.d1, distance)


def nearest_distance_of_few(queries: NDArray[Any], pool: NDArray[Any], distance: str) -> Floats:
    """Return the smallest descriptor distance of each query to a small pool, by brute force."""
    value = value_table(queries, pool, distance=distance).min(axis=1)
    return np.sqrt(value) if distance == "l2" else _scaled(value, distance)


def _scaled(distances: Floats, distance: str) -> Floats:
    return distances / 2 if distance == "hamming" else distances


@dataclass(frozen=True)
class BojanicReference:
    """Reference image of a scene: its keypoints visible in all targets, and their projections."""

    rows: BojanicRows
    kept: Ints
    projected: dict[str, Floats]


def reference_of(opened: OpenKeypoints, scene: str, features: Features) -> BojanicReference:
    """Return the reference keypoints whose projections are in 0 … width and 0 … height of every target."""
    s = opened.sequences
    first, *others = s.images(scene)
    rows = bojanic_rows(features, f"{scene}/{first}")
    inside = np.zeros(len(rows.xy), bool)
    inside[rows.usable] = True
    projected = {}
    for k in others:
        projected[k] = project_unchecked(s.homography(scene, k), rows.xy)
        inside &= ((projected[k] >= 0) & (projected[k] <= np.array(s.size(scene, k)))).all(axis=1)
    return BojanicReference(rows, np.flatnonzero(inside), projected)


def searched_rows(opened: OpenKeypoints, features: Features, key: str) -> BojanicRows:
    """Return the keypoints of a distractor image.

    If it is the reference image of its scene, return only the keypoints visible in all targets.
    """
    scene, _, image = key.rpartition("/")
    if image != opened.sequences.images(scene)[0]:
        return bojanic_rows(features, key)
    reference = reference_of(opened, scene, features)
    return BojanicRows(reference.rows.xy, reference.rows.values, reference.kept)


def drawn_queries(opened: OpenKeypoints, scene: str, reference: BojanicReference, iteration: int) -> Ints:
    """Return the reference keypoints that are sampled as queries in one iteration."""
    options = opened.options
    chosen = query_sample(len(reference.kept), options.queries, options.seed, scene, iteration)
    return reference.kept[chosen]


def errors_to(points: Floats, targets: Floats) -> Floats:
    """Return the distances (q, t) in pixels between projected queries and target keypoints."""
    return np.sqrt(((points[:, None] - targets[None]) ** 2).sum(axis=2))


def is_nearest(points: Floats, targets: Floats, index: Ints) -> NDArray[np.bool_]:
    """Return for each point whether no target is closer to it in pixels than target `index`."""
    error = errors_to(points, targets)
    return np.asarray((error >= error[np.arange(len(points)), index][:, None]).all(axis=1))
