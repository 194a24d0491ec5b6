# SPDX-License-Identifier: BSD-3-Clause
"""SURF: the fast Hessian detector and the Haar descriptor, on an integral image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints
from ...core.numba_cache import cached_njit
from ...formats.image.reader import to_grey
from ..transforms import l2_normalise
from .detectors import CappedDetector


@cached_njit(nogil=True, inline="always")
def _box(ii, y0, x0, y1, x1):  # type: ignore[no-untyped-def]
    """Return the sum of pixels in rows y0 .. y1 - 1 and columns x0 .. x1 - 1, from the integral image `ii`.

    The box is clipped to the image.
    """
    h, w = ii.shape[0] - 1, ii.shape[1] - 1
    y0, y1 = min(max(y0, 0), h), min(max(y1, 0), h)
    x0, x1 = min(max(x0, 0), w), min(max(x1, 0), w)
    return ii[y1, x1] - ii[y0, x1] - ii[y1, x0] + ii[y0, x0]


@cached_njit(nogil=True)
def hessian_layer(ii, size, step, det, trace):  # type: ignore[no-untyped-def]
    """Write determinant and trace of the box-filter Hessian at every `step`-th pixel to `det` and `trace`.

    `size` is the side of the filter; its lobes are size/3 wide. Sums are divided by 255 size², so that one
    threshold on grey values in 0 to 1 applies to all filter sizes. Both arrays are 0 where the filter extends
    beyond the image.
    """
    h, w = ii.shape[0] - 1, ii.shape[1] - 1
    lobe, half = size // 3, size // 2
    norm = 1.0 / (255.0 * size * size)
    for i in range(det.shape[0]):
        y = i * step
        for j in range(det.shape[1]):
            x = j * step
            if y < half or x < half or y + half >= h or x + half >= w:
                det[i, j] = 0.0
                trace[i, j] = 0.0
                continue
            side = lobe - 1
            xx = _box(ii, y - side, x - half, y + lobe, x + half + 1)
            xx -= 3 * _box(ii, y - side, x - lobe // 2, y + lobe, x + lobe // 2 + 1)
            yy = _box(ii, y - half, x - side, y + half + 1, x + lobe)
            yy -= 3 * _box(ii, y - lobe // 2, x - side, y + lobe // 2 + 1, x + lobe)
            xy = _box(ii, y - lobe, x + 1, y, x + lobe + 1) + _box(ii, y + 1, x - lobe, y + lobe + 1, x)
            xy -= _box(ii, y - lobe, x - lobe, y, x) + _box(ii, y + 1, x + 1, y + lobe + 1, x + lobe + 1)
            xx, yy, xy = xx * norm, yy * norm, xy * norm
            det[i, j] = xx * yy - 0.81 * xy * xy
            trace[i, j] = xx + yy


@cached_njit(nogil=True, inline="always")
def _haar(ii, y, x, half):  # type: ignore[no-untyped-def]
    """Return the Haar responses right - left and lower - upper of a filter with side 2 `half`.

    Because the side is even, the filter's centre is between pixels, at (x - 0.5, y - 0.5).
    """
    left = _box(ii, y - half, x - half, y + half, x)
    right = _box(ii, y - half, x, y + half, x + half)
    upper = _box(ii, y - half, x - half, y, x + half)
    lower = _box(ii, y, x - half, y + half, x + half)
    return right - left, lower - upper


@cached_njit(nogil=True)
def orientations(ii, xy, scale, out):  # type: ignore[no-untyped-def]
    """Write the dominant direction of each keypoint to `out`, in radians, with y down.

    Directions are those of Haar responses in the integral image `ii`, within 6 scales of the keypoint.
    """
    dx, dy, angle = np.empty(113), np.empty(113), np.empty(113)
    window = math.pi / 3
    for k in range(len(xy)):
        s = scale[k]
        half = max(1, math.floor(2 * s + 0.5))
        n = 0
        for i in range(-6, 7):
            for j in range(-6, 7):
                if i * i + j * j < 36:
                    weight = math.exp(-(i * i + j * j) / (2 * 2.5 * 2.5))
                    y = math.floor(xy[k, 1] + i * s + 1)
                    x = math.floor(xy[k, 0] + j * s + 1)
                    gx, gy = _haar(ii, y, x, half)
                    dx[n], dy[n] = weight * gx, weight * gy
                    angle[n] = math.atan2(gy, gx)
                    n += 1
        best, found = -1.0, 0.0
        for step in range(72):
            start = step * (2 * math.pi / 72) - math.pi
            sx, sy = 0.0, 0.0
            for m in range(n):
                turn = angle[m] - start
                if turn < 0:
                    turn += 2 * math.pi
                if turn < window:
                    sx += dx[m]
                    sy += dy[m]
            length = sx * sx + sy * sy
            if length > best:
                best, found = length, math.atan2(sy, sx)
        out[k] = found


@cached_njit(nogil=True)
def describe(ii, xy, scale, angle, extended, out):  # type: ignore[no-untyped-def]
    """Write the SURF descriptor of each keypoint to `out`: sums of Haar responses in 4 x 4 regions.

    A region has 5 x 5 samples and is rotated by `angle`. `ii` is the integral image.
    """
    per = 8 if extended else 4
    for k in range(len(xy)):
        s, c, z = scale[k], math.cos(angle[k]), math.sin(angle[k])
        half = max(1, math.floor(s + 0.5))
        for i in range(20):
            v = i - 9.5
            for j in range(20):
                u = j - 9.5
                weight = math.exp(-(u * u + v * v) / (2 * 3.3 * 3.3))
                x = math.floor(xy[k, 0] + s * (c * u - z * v) + 1)
                y = math.floor(xy[k, 1] + s * (z * u + c * v) + 1)
                gx, gy = _haar(ii, y, x, half)
                du = weight * (c * gx + z * gy)
                dv = weight * (-z * gx + c * gy)
                at = ((i // 5) * 4 + j // 5) * per
                if extended:
                    a = at + (0 if dv < 0 else 2)
                    b = at + 4 + (0 if du < 0 else 2)
                    out[k, a] += du
                    out[k, a + 1] += abs(du)
                    out[k, b] += dv
                    out[k, b + 1] += abs(dv)
                else:
                    out[k, at] += du
                    out[k, at + 1] += abs(du)
                    out[k, at + 2] += dv
                    out[k, at + 3] += abs(dv)


Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
BASE_SIZE = 9
BASE_SCALE = 1.2


def integral(image: Image) -> Floats:
    """Return the integral image (h + 1, w + 1) of the grey values. It is exact, because they are integers.

    >>> integral(np.full((2, 2), 255, np.uint8))[-1, -1]
    np.float64(1020.0)
    """
    grey = to_grey(image).astype(np.float64)
    out = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    out[1:, 1:] = grey.cumsum(axis=0).cumsum(axis=1)
    return out


def scales(size_px: Floats) -> Floats:
    """Return the scale s of keypoints from their sizes. A 9 x 9 filter has s = 1.2, its Gaussian's sigma."""
    return np.asarray(size_px * (BASE_SCALE / BASE_SIZE))


def dominant_orientations(ii: Floats, xy: Floats, size_px: Floats) -> Floats:
    """Return dominant directions in degrees, 0 to 360, clockwise from the x axis."""
    out = np.zeros(len(xy))
    orientations(ii, np.ascontiguousarray(xy), scales(size_px), out)
    return np.rad2deg(out) % 360


FILTERS = 4


@dataclass(eq=False)
class SurfDetector(CappedDetector):
    """Maxima of the box-filter Hessian determinant over 3 x 3 x 3 neighbours, refined by a quadratic.

    Octave o has filter sizes 3 (2^(o+1) (l+1) + 1), which are 9, 15, 21, 27 in the first octave, and
    evaluates every 2^o-th pixel. `threshold` applies to the determinant for grey values in 0 to 1 and sums
    divided by size². The keypoint's size is the interpolated filter size, and its scale is 1.2/9 of that.
    `class_id` is the sign of the Laplacian. Angles are the dominant Haar direction, NaN if `upright`.
    """

    name, libraries, revision = "surf", ("numba", "numpy", "scipy"), 2
    threshold: float = 4e-4
    n_octaves: int = 4
    upright: bool = False

    def detect(self, image: Image) -> Keypoints:
        """Return the keypoints of an image, strongest first."""
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
    """Find the maxima of one octave. Return x, y, size, response, sign of the Laplacian and octave."""
    step = 1 << octave
    shape = (-(-(ii.shape[0] - 1) // step), -(-(ii.shape[1] - 1) // step))
    sizes = [3 * ((1 << (octave + 1)) * (layer + 1) + 1) for layer in range(FILTERS)]
    det, trace = np.empty((FILTERS, *shape)), np.empty((FILTERS, *shape))
    for number, size in enumerate(sizes):
        hessian_layer(ii, size, step, det[number], trace[number])
    layer, i, j = _maxima(det, threshold)
    offset, value, inside = _refined(det, layer, i, j)
    layer, i, j, offset, value = layer[inside], i[inside], j[inside], offset[inside], value[inside]
    x, y = (j + offset[:, 2]) * step, (i + offset[:, 1]) * step
    sides = np.array(sizes)[layer] + offset[:, 0] * (sizes[1] - sizes[0])
    sign = np.sign(trace[layer, i, j])
    return x, y, sides, value, sign, np.full(len(x), float(octave))


def _maxima(det: Floats, threshold: float) -> tuple[NDArray[np.int64], ...]:
    """Find values of `det` (filters, h, w) that exceed the threshold and all 26 neighbours.

    The first and the last filter are skipped.
    """
    from scipy.ndimage import maximum_filter

    peak = (det > threshold) & (det == maximum_filter(det, 3))
    peak[[0, -1]] = peak[:, [0, -1]] = peak[:, :, [0, -1]] = False
    return np.nonzero(peak)


def _refined(
    det: Floats, layer: NDArray[np.int64], i: NDArray[np.int64], j: NDArray[np.int64]
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Fit a quadratic to `det` around maxima (layer, i, j). Return the offset (3,) and value of its maximum.

    Also return whether the offset is within half a step in layer, y and x.
    """
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
    """SURF descriptor of length 1 from a window of 20 scales. A scale is 1.2/9 of the keypoint's size.

    Each of 4 x 4 regions gives the sums of du, |du|, dv, |dv| of the Haar responses (du, dv), which are
    rotated with the keypoint. `extended` splits each sum by the sign of the other response (128 values). SURF
    estimates the orientation of keypoints that have none, unless `upright` is set. The filters read up to 11
    scales from the centre. Pixels outside the image count as 0.
    """

    name, distance, libraries, revision = "surf", "l2", ("numba", "numpy"), 2
    extended: bool = False
    upright: bool = False

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return descriptors (n, 64) or (n, 128), and a mask (n,) of nonzero rows."""
        ii = integral(image)
        angle = np.zeros(len(keypoints)) if self.upright else keypoints.angle_deg.copy()
        unset = np.isnan(angle)
        if unset.any():
            angle[unset] = dominant_orientations(ii, keypoints.xy[unset], keypoints.size_px[unset])
        out = np.zeros((len(keypoints), 128 if self.extended else 64))
        xy = np.ascontiguousarray(keypoints.xy)
        describe(ii, xy, scales(keypoints.size_px), np.deg2rad(angle), self.extended, out)
        values = l2_normalise(out)
        return values, np.asarray(values.any(axis=1))
