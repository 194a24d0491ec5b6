# SPDX-License-Identifier: BSD-3-Clause
"""SURF's fast Hessian detector: box filters on an integral image, extrema in place and scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....model.keypoints import Keypoints
from . import _surf
from .order import MAX_FEATURES, limited
from .surf_common import Floats, Image, integral, oriented

FILTERS = 4


class Surf:
    """Maxima of the box-filter Hessian determinant over 3 x 3 x 3 neighbours, refined by a quadratic.

    Filter sizes are 9, 15, 21, 27 in the first octave and 3 (2^(o+1) (l+1) + 1) in general, evaluated at
    every 2^o-th pixel. `threshold` is on the determinant of grey values in 0 to 1 with sums over size². The
    keypoint's size is the interpolated filter size (scale = 1.2/9 of it); `class_id` is the sign of the
    Laplacian. Angles are the dominant Haar direction, NaN if `upright`.
    """

    name, libraries = "surf", ("numba", "numpy", "scipy")

    def __init__(
        self,
        max_features: int | None = MAX_FEATURES,
        border_px: float = 0.0,
        threshold: float = 4e-4,
        n_octaves: int = 4,
        upright: bool = False,
    ) -> None:
        self.max_features, self.border_px = max_features, float(border_px)
        self.threshold, self.n_octaves, self.upright = threshold, n_octaves, upright

    def detect(self, image: Image) -> Keypoints:
        """Keypoints of an image, strongest first."""
        ii = integral(image)
        parts = [_octave(ii, octave, self.threshold) for octave in range(self.n_octaves)]
        x, y, size, response, sign, octave = (np.concatenate(p) for p in zip(*parts, strict=True))
        found = Keypoints.at(
            np.column_stack([x, y]), size_px=size, response=response, octave=octave, class_id=sign
        )
        kept = limited(found, image, max_features=self.max_features, border_px=self.border_px)
        if self.upright:
            return kept
        angle = oriented(ii, kept.xy, kept.size_px)
        return Keypoints(kept.xy, kept.size_px, angle, kept.response, kept.octave, kept.class_id)


def _octave(ii: Floats, octave: int, threshold: float) -> tuple[NDArray[np.float64], ...]:
    """x, y, size, response, sign of the Laplacian and octave of the maxima of one octave."""
    step = 1 << octave
    shape = (-(-(ii.shape[0] - 1) // step), -(-(ii.shape[1] - 1) // step))
    sizes = [3 * ((1 << (octave + 1)) * (layer + 1) + 1) for layer in range(FILTERS)]
    det, trace = np.empty((FILTERS, *shape)), np.empty((FILTERS, *shape))
    for number, size in enumerate(sizes):
        _surf.hessian_layer(ii, size, step, det[number], trace[number])
    layer, i, j = _maxima(det, threshold)
    offset, value, inside = _refined(det, layer, i, j)
    layer, i, j, offset, value = layer[inside], i[inside], j[inside], offset[inside], value[inside]
    x, y = (j + offset[:, 2]) * step, (i + offset[:, 1]) * step
    sides = np.array(sizes)[layer] + offset[:, 0] * (sizes[1] - sizes[0])
    sign = np.sign(trace[layer, i, j])
    return x, y, sides, value, sign, np.full(len(x), float(octave))


def _maxima(det: Floats, threshold: float) -> tuple[NDArray[np.int64], ...]:
    """Places above the threshold and above all 26 neighbours, off the first and last filter."""
    from scipy.ndimage import maximum_filter

    peak = (det > threshold) & (det == maximum_filter(det, 3))
    peak[[0, -1]] = peak[:, [0, -1]] = peak[:, :, [0, -1]] = False
    return np.nonzero(peak)


def _refined(
    det: Floats, layer: NDArray[np.int64], i: NDArray[np.int64], j: NDArray[np.int64]
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Offset of the maximum of the quadratic through the neighbours (layer, y, x), its value, and whether
    it lies within half a step of the place in all three directions."""  # noqa: D205, D209
    n = len(layer)

    def at(a: int, b: int, c: int) -> Floats:
        return np.asarray(det[layer + a, i + b, j + c])

    here = at(0, 0, 0)
    axes = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    gradient = np.stack([(at(*a) - at(*(-v for v in a))) / 2 for a in axes], axis=1).reshape(n, 3)
    hessian = np.empty((n, 3, 3))
    for p, a in enumerate(axes):
        hessian[:, p, p] = at(*a) + at(*(-v for v in a)) - 2 * here
        for q in range(p):
            b = axes[q]
            plus, minus = (
                tuple(u + v for u, v in zip(a, b, strict=True)),
                tuple(u - v for u, v in zip(a, b, strict=True)),
            )
            cross = at(*plus) + at(*(-v for v in plus)) - at(*minus) - at(*(-v for v in minus))
            hessian[:, p, q] = hessian[:, q, p] = cross / 4
    solvable = np.abs(np.linalg.det(hessian)) > 0
    hessian[~solvable] = np.eye(3)
    offset = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    inside = solvable & (np.abs(offset) <= 0.5).all(axis=1)
    return np.asarray(offset, np.float64), here + 0.5 * (gradient * offset).sum(axis=1), inside
