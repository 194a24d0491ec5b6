# SPDX-License-Identifier: BSD-3-Clause
"""Interpolate matched keypoints to a flow, for sparse methods on dense tasks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...formats.image.reader import to_grey

Image = NDArray[np.uint8]
Points = NDArray[np.float64]
_OPENCV = ("sift", "orb", "akaze", "brisk", "kaze")


def interpolated_flow(points1: Points, points2: Points, size: tuple[int, ...]) -> NDArray[np.float32]:
    """Interpolate matches (n, 2) to a flow (height, width, 2), linear in the triangles between them.

    Outside the convex hull of the matches the displacement is that of the nearest match. Without matches the
    flow is unknown. If several matches have the same start position, the first one is used.

    >>> interpolated_flow(np.array([[0.0, 0.0]]), np.array([[2.0, 1.0]]), (1, 2)).tolist()
    [[[2.0, 1.0], [2.0, 1.0]]]
    """
    if len(points1) == 0:
        return np.full((*size, 2), 1e10, np.float32)
    y, x = np.mgrid[: size[0], : size[1]]
    return np.asarray(_displacements(points1, points2, x, y), np.float32)


def interpolated_points(points1: Points, points2: Points, queries: Points) -> Points:
    """Transfer query points (q, 2) by interpolated matches (n, 2); NaN if there are no matches.

    >>> interpolated_points(np.zeros((1, 2)), np.ones((1, 2)), np.array([[5.0, 2.0]])).tolist()
    [[6.0, 3.0]]
    """
    if len(points1) == 0 or len(queries) == 0:
        return np.full((len(queries), 2), np.nan)
    moved = _displacements(points1, points2, queries[:, 0], queries[:, 1])
    return np.asarray(queries + moved, np.float64)


def _displacements(points1: Points, points2: Points, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
    from scipy.spatial import QhullError

    _, first = np.unique(points1, axis=0, return_index=True)
    start, moved = points1[np.sort(first)], (points2 - points1)[np.sort(first)]
    flow = NearestNDInterpolator(start, moved)(x, y)
    if len(start) >= 4:
        try:
            inside = LinearNDInterpolator(start, moved)(x, y)
        except QhullError:  # all matches on one line: no triangles
            inside = np.full_like(flow, np.nan)
        flow = np.where(np.isnan(inside), flow, inside)
    return np.asarray(flow)


class MatchedFeatures:
    """Dense flow interpolated from keypoints whose descriptors are mutual nearest neighbours.

    `extractor.extract(image)` returns (keypoints, descriptors): keypoints are (n, 2+) positions or an object
    with `xy`; descriptors (n, d) are compared by `extractor.distance` (default l2).
    """

    identity = "tiepoint.methods.dense.sparse:MatchedFeatures"

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        self.name = str(getattr(extractor, "name", type(extractor).__name__))

    def match_both(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the flows of both images."""
        (p1, d1), (p2, d2) = (self._features(i) for i in (image1, image2))
        i, j = mutual_matches(d1, d2, hamming=getattr(self.extractor, "distance", "l2") == "hamming")
        flow1 = interpolated_flow(p1[i], p2[j], image1.shape[:2])
        return {"flow1": flow1, "flow2": interpolated_flow(p2[j], p1[i], image2.shape[:2])}

    def _features(self, image: Image) -> tuple[Points, NDArray[Any]]:
        keypoints, descriptors = self.extractor.extract(image)[:2]
        positions = np.asarray(getattr(keypoints, "xy", keypoints), np.float64)
        values = getattr(descriptors, "values", descriptors)
        if positions.ndim != 2 or positions.shape[1] < 2:
            raise InputError(
                f"method {self.name!r}: keypoints must have at least 2 columns, found {positions.shape}"
            )
        return positions[:, :2], np.asarray(values)


def mutual_matches(
    first: NDArray[Any], second: NDArray[Any], *, hamming: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row indices of descriptors that are mutual nearest neighbours; the lowest index wins ties.

    >>> mutual_matches(np.array([[0.0], [5.0]]), np.array([[5.5], [9.0]]))
    (array([1]), array([0]))
    """
    none = np.empty(0, np.int64)
    if len(first) == 0 or len(second) == 0:
        return none, none
    from scipy.spatial.distance import cdist

    if hamming:
        a, b = np.unpackbits(first, axis=1), np.unpackbits(second, axis=1)
        distance = cdist(a, b, "cityblock")
    else:
        distance = cdist(first.astype(np.float64), second.astype(np.float64), "sqeuclidean")
    there, back = distance.argmin(axis=1), distance.argmin(axis=0)
    i = np.flatnonzero(back[there] == np.arange(len(first)))
    return i, there[i]


class UserFeatures(MatchedFeatures):
    """Dense method from the keypoints and descriptors of a user's object."""

    identity, libraries = "dense/matched-features", ("numpy", "scipy")

    def __init__(self, extractor: Any) -> None:
        super().__init__(extractor)
        self.tiepoint_parts = {"extractor": extractor}


class KeypointFlow(MatchedFeatures):
    """`sparse`: OpenCV keypoints, matched and interpolated; `features` is sift, orb, akaze, brisk or kaze.

    With `precise_upscale` False, OpenCV's default, SIFT positions are 0.25 px too large.
    """

    libraries = ("cv2", "numpy", "scipy")

    def __init__(self, features: str = "sift", limit: int = 2000, precise_upscale: bool = True) -> None:
        if features not in _OPENCV:
            raise InputError(f"sparse: unknown features {features!r}; choose one of {', '.join(_OPENCV)}")
        if find_spec("cv2") is None:
            raise InputError("method 'sparse' needs the package 'cv2': pip install 'tiepoint[opencv]'")
        if features != "sift" and not precise_upscale:
            raise InputError("sparse: the option precise_upscale exists only for features=sift; remove it")
        of_sift = {"precise_upscale": precise_upscale} if features == "sift" else {}
        settings = {f"enable_{key}": value for key, value in of_sift.items()}
        super().__init__(_OpenCVFeatures(features, limit, settings))
        self.name = "sparse"
        self.config = {"features": features, "limit": limit, **of_sift}


class _OpenCVFeatures:
    """Extractor that returns the `limit` strongest keypoints of an OpenCV feature and their descriptors."""

    def __init__(self, features: str, limit: int, settings: Mapping[str, Any]) -> None:
        self.features, self.limit, self.settings = features, limit, settings
        self.distance = "l2" if features in ("sift", "kaze") else "hamming"

    def extract(self, image: Image) -> tuple[Points, NDArray[Any]]:
        """Return positions (n, 2) and descriptors (n, d)."""
        import cv2

        makers = {name: getattr(cv2, f"{name.upper()}_create", None) for name in _OPENCV}
        maker = makers[self.features]
        if maker is None:
            raise InputError(
                f"{self.features}: missing in the installed OpenCV; run pip install 'tiepoint[opencv]'"
            )
        keypoints, descriptors = maker(**self.settings).detectAndCompute(to_grey(image), None)
        if descriptors is None:
            return np.empty((0, 2)), np.empty((0, 1), np.uint8)
        strongest = np.argsort([-k.response for k in keypoints], kind="stable")[: self.limit]
        return np.array([keypoints[k].pt for k in strongest], np.float64), descriptors[strongest]
