# SPDX-License-Identifier: BSD-3-Clause
"""SURF: the fast Hessian detector, and sums of Haar responses at given keypoints, on an integral image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..transforms import l2_normalise
from . import _surf
from .detectors import CappedDetector

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
BASE_SIZE = 9
BASE_SCALE = 1.2


def integral(image: Image) -> Floats:
    """Integral image (h + 1, w + 1) of the grey values, whole numbers and so without rounding.

    >>> integral(np.full((2, 2), 255, np.uint8))[-1, -1]
    np.float64(1020.0)
    """
    grey = to_grey(image).astype(np.float64)
    out = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    out[1:, 1:] = grey.cumsum(axis=0).cumsum(axis=1)
    return out


def scales(size_px: Floats) -> Floats:
    """Scale s of a keypoint: the 9 x 9 filter stands for a Gaussian of 1.2."""
    return np.asarray(size_px * (BASE_SCALE / BASE_SIZE))


def dominant_orientations(ii: Floats, xy: Floats, size_px: Floats) -> Floats:
    """Dominant directions in degrees, 0 to 360, clockwise from the x axis."""
    out = np.zeros(len(xy))
    _surf.orientations(ii, np.ascontiguousarray(xy), scales(size_px), out)
    return np.rad2deg(out) % 360


FILTERS = 4


@dataclass(eq=False)
class SurfDetector(CappedDetector):
    """Maxima of the box-filter Hessian determinant over 3 x 3 x 3 neighbours, refined by a quadratic.

    Filter sizes are 9, 15, 21, 27 in the first octave and 3 (2^(o+1) (l+1) + 1) in general, evaluated at
    every 2^o-th pixel. `threshold` is on the determinant of grey values in 0 to 1 with sums over size². The
    keypoint's size is the interpolated filter size (scale = 1.2/9 of it); `class_id` is the sign of the
    Laplacian. Angles are the dominant Haar direction, NaN if `upright`.
    """

    name, libraries = "surf", ("numba", "numpy", "scipy")
    threshold: float = 4e-4
    n_octaves: int = 4
    upright: bool = False

    def detect(self, image: Image) -> Keypoints:
        """Keypoints of an image, strongest first."""
        ii = integral(image)
        parts = [_octave(ii, octave, self.threshold) for octave in range(self.n_octaves)]
        x, y, size, response, sign, octave = (np.concatenate(p) for p in zip(*parts, strict=True))
        found = Keypoints.at(
            np.column_stack([x, y]), size_px=size, response=response, octave=octave, class_id=sign
        )
        kept = self.select(found, image)
        if self.upright:
            return kept
        angle = dominant_orientations(ii, kept.xy, kept.size_px)
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


@dataclass(eq=False)
class SurfDescriptor:
    """Rows of length 1 from a window of 20 scales, a scale being 1.2/9 of the keypoint's size.

    Each of 4 x 4 regions gives the sums of du, |du|, dv, |dv| in the keypoint's frame; `extended` splits each
    by the sign of the other direction (128 numbers). Keypoints without orientation get SURF's own, or
    are described as they stand if `upright`. The wavelets read up to 11 scales from the centre; what lies
    outside the image counts nothing.
    """

    name, distance, libraries = "surf", "l2", ("numba", "numpy")
    extended: bool = False
    upright: bool = False

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(n, 64) or (n, 128), and which rows are not blank."""
        ii = integral(image)
        angle = np.zeros(len(keypoints)) if self.upright else keypoints.angle_deg.copy()
        unset = np.isnan(angle)
        if unset.any():
            angle[unset] = dominant_orientations(ii, keypoints.xy[unset], keypoints.size_px[unset])
        out = np.zeros((len(keypoints), 128 if self.extended else 64))
        xy = np.ascontiguousarray(keypoints.xy)
        _surf.describe(ii, xy, scales(keypoints.size_px), np.deg2rad(angle), self.extended, out)
        values = l2_normalise(out)
        return values, np.asarray(values.any(axis=1))
