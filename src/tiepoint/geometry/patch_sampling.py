# SPDX-License-Identifier: BSD-3-Clause
"""Affine frames of image regions, and sampling of patches and views.

A frame is an affine map [A | t] (2, 3) from normalised patch coordinates u to image coordinates, x = A u + t.
It maps the unit circle to the ellipse of the region, and the square [-1, 1]^2 to the patch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from ..core.numba_cache import cached_njit
from .correspondence import Size, centre, in_view
from .homography import Floats, as_homography, corners, denominator, local_affine, project


def as_frames(frames: ArrayLike) -> Floats:
    """Convert frames to float64 (n, 2, 3); raise `InputError` for other shapes."""
    f = np.asarray(frames, dtype=np.float64)
    if f.size == 0:
        return np.empty((0, 2, 3))
    if f.ndim != 3 or f.shape[1:] != (2, 3):
        raise InputError(
            f"frames: expected shape (n, 2, 3), found {f.shape}; pass one affine 2 x 3 matrix per region"
        )
    return f


def similarity_frames(points: ArrayLike, radius: ArrayLike, angle_rad: ArrayLike = 0.0) -> Floats:
    """Return frames of oriented circles: A = radius (cos, -sin; sin, cos). Angles are clockwise (y is down).

    >>> similarity_frames([[3, 4]], [2])[0]
    array([[ 2., -0.,  3.],
           [ 0.,  2.,  4.]])
    """
    p = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    r = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(p))
    a = np.broadcast_to(np.asarray(angle_rad, dtype=np.float64), len(p))
    c, s = r * np.cos(a), r * np.sin(a)
    return np.stack([np.stack([c, -s, p[:, 0]], -1), np.stack([s, c, p[:, 1]], -1)], axis=1)


def magnify(frames: ArrayLike, factor: float) -> Floats:
    """Multiply the linear part of frames by `factor`; the centres do not change.

    >>> magnify([[[1, 0, 7], [0, 1, 8]]], 5)[0, 0].tolist()
    [5.0, 0.0, 7.0]
    """
    f = as_frames(frames).copy()
    f[:, :, :2] *= factor
    return f


def project_frames(h: ArrayLike, frames: ArrayLike, source: Size) -> Floats:
    """Project frames by the local affine approximation of a homography at their centres.

    A frame [A | t] becomes [J A | H t], where J is the Jacobian of the homography H at t. A frame is NaN if
    its centre projects to infinity or behind the camera. `source` is (width, height) of the source image.

    >>> project_frames([[2, 0, 1], [0, 2, 0], [0, 0, 1]], [[[1, 0, 7], [0, 1, 8]]], (20, 20))[0]
    array([[ 2.,  0., 15.],
           [ 0.,  2., 16.]])
    """
    f = as_frames(frames)
    out = np.empty_like(f)
    out[:, :, 2] = project(h, f[:, :, 2], reference=centre(source))
    out[:, :, :2] = local_affine(h, f[:, :, 2]) @ f[:, :, :2]
    out[np.isnan(out[:, 0, 2])] = np.nan
    return out


def square_in_view(frames: ArrayLike, size: Size) -> NDArray[np.bool_]:
    """Return whether the square [-1, 1]^2 of each frame is entirely inside an image of (width, height), (n,).

    >>> square_in_view([[[2, 0, 2], [0, 2, 2]], [[2, 0, 1], [0, 2, 2]]], (5, 5)).tolist()
    [True, False]
    """
    f = as_frames(frames)
    unit = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]], dtype=np.float64)
    square = (f[:, :, :2] @ unit + f[:, :, 2:]).transpose(0, 2, 1)
    return np.asarray(in_view(square.reshape(-1, 2), size).reshape(-1, 4).all(axis=1))


_MAX_SAMPLES = 64


def sample_patches(image: ArrayLike, frames: ArrayLike, size: int = 65) -> NDArray[np.float32]:
    """Sample square patches of a grey image, as given by affine frames.

    `image` (h, w) has any real type, and its values are not rescaled. The square [-1, 1]^2 of each frame (n,
    2, 3) becomes a patch, float32 (n, size, size). Outside the image the nearest edge pixel is repeated. To
    avoid that, select frames with `square_in_view` first.

    >>> ramp = np.tile(np.arange(9.0), (9, 1))
    >>> sample_patches(ramp, [[[1.5, 0, 4], [0, 1.5, 4]]], 3)[0, 0].tolist()
    [3.0, 4.0, 5.0]
    """
    pixels = np.ascontiguousarray(image, dtype=np.float32)
    if pixels.ndim != 2 or pixels.size == 0:
        raise InputError(
            f"image: expected a grey image (h, w), found shape {pixels.shape}; convert it to grey before "
            "sampling patches"
        )
    f = as_frames(frames)
    if not np.isfinite(f).all():
        raise InputError("frames: a frame has NaN or infinite values; remove invalid frames before sampling")
    steps = np.linalg.norm(f[:, :, :2], axis=1) * 2 / size
    narrow = np.linalg.svd(f[:, :, :2], compute_uv=False)[:, 1] * 2 / size
    levels = np.floor(np.log2(np.clip(narrow / 2, 1, None))).astype(np.int64)
    levels = np.minimum(levels, int(np.log2(min(pixels.shape))))
    out = np.empty((len(f), size, size), dtype=np.float32)
    for level in range(int(levels.max(initial=0)) + 1):
        rows = np.flatnonzero(levels == level)
        if level > 0:
            pixels = _halve(pixels)
        scaled = f[rows] / 2.0**level
        scaled[:, :, 2] += 0.5 / 2.0**level - 0.5
        counts = np.clip(np.ceil(steps[rows] / 2.0**level - 1e-9), 1, _MAX_SAMPLES).astype(np.int64)
        _sample(pixels, scaled, counts, rows, out)
    return out


def _halve(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Halve an image by averaging 2 x 2 blocks; an odd last row or column is repeated first."""
    h, w = image.shape
    padded = np.pad(image, ((0, h % 2), (0, w % 2)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // 2, 2, padded.shape[1] // 2, 2)
    return np.ascontiguousarray(blocks.mean(axis=(1, 3), dtype=np.float32))


@cached_njit(nogil=True)
def _sample(image, frames, counts, rows, out):  # type: ignore[no-untyped-def]
    """Write sampled patches to `out`. A pixel of patch k is the mean of a grid of bilinear samples.

    counts[k] is the number of samples (along x, along y). `rows` are the positions of the patches in `out`.
    """
    height, width = image.shape
    size = out.shape[1]
    for k in range(len(frames)):
        a, b, tx = frames[k, 0]
        c, d, ty = frames[k, 1]
        nx, ny = counts[k]
        for i in range(size):
            for j in range(size):
                total = 0.0
                for q in range(ny):
                    v = (2 * (i + (q + 0.5) / ny)) / size - 1
                    for p in range(nx):
                        u = (2 * (j + (p + 0.5) / nx)) / size - 1
                        x = min(max(a * u + b * v + tx, 0.0), width - 1.0)
                        y = min(max(c * u + d * v + ty, 0.0), height - 1.0)
                        x0, y0 = int(x), int(y)
                        x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
                        fx, fy = x - x0, y - y0
                        top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
                        bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
                        total += top * (1 - fy) + bottom * fy
                out[rows[k], i, j] = total / (nx * ny)


_MAX_RENDER_SAMPLES = 16


def render_view(image: ArrayLike, to_source: ArrayLike, size: Size) -> NDArray[np.float32]:
    """Warp an image by a homography with antialiasing.

    `image` has shape (h, w, channels), and `to_source` (3, 3) maps **output** pixels to source pixels. No
    output pixel may map to infinity or behind the camera. The output is float32 (height, width, channels) for
    `size` (width, height).

    Each output pixel is the mean of k x k bilinear samples of the source area it covers. k is the largest
    scale factor of the homography at the output corners, rounded up, and at least 1. Samples are then at most
    one source pixel apart, and the identity returns the image itself. Outside the source image its nearest
    edge pixel is repeated.

    >>> ramp = np.arange(12.0).reshape(1, 12, 1)
    >>> render_view(ramp, [[3, 0, 1], [0, 1, 0], [0, 0, 1]], (4, 1)).ravel().tolist()
    [1.0, 4.0, 7.0, 10.0]
    """
    pixels = np.ascontiguousarray(image, dtype=np.float32)
    if pixels.ndim != 3 or pixels.size == 0:
        raise InputError(f"image: expected shape (h, w, channels), found {pixels.shape}; add a channel axis")
    m, around = as_homography(to_source), corners((size[0] + 1, size[1] + 1)) - 0.5
    w = denominator(m, around)
    if not (np.all(w > 0) or np.all(w < 0)):
        raise InputError("homography: part of the output is mapped to infinity; choose another view")
    stretch = float(np.linalg.norm(local_affine(m, around), ord=2, axis=(1, 2)).max())
    # A scale of one may come out slightly larger.
    count = min(max(math.ceil(stretch - 1e-9), 1), _MAX_RENDER_SAMPLES)
    out = np.empty((size[1], size[0], pixels.shape[2]), dtype=np.float32)
    _render(pixels, m, count, out)
    return out


@cached_njit(nogil=True)
def _render(image, m, count, out):  # type: ignore[no-untyped-def]
    height, width, channels = image.shape
    total = np.empty(channels)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total[:] = 0.0
            for q in range(count):
                v = i + (q + 0.5) / count - 0.5
                for p in range(count):
                    u = j + (p + 0.5) / count - 0.5
                    w = m[2, 0] * u + m[2, 1] * v + m[2, 2]
                    x = min(max((m[0, 0] * u + m[0, 1] * v + m[0, 2]) / w, 0.0), width - 1.0)
                    y = min(max((m[1, 0] * u + m[1, 1] * v + m[1, 2]) / w, 0.0), height - 1.0)
                    x0, y0 = int(x), int(y)
                    x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
                    fx, fy = x - x0, y - y0
                    for c in range(channels):
                        top = image[y0, x0, c] * (1 - fx) + image[y0, x1, c] * fx
                        bottom = image[y1, x0, c] * (1 - fx) + image[y1, x1, c] * fx
                        total[c] += top * (1 - fy) + bottom * fy
            for c in range(channels):  # assigning a slice takes four times as long to compile
                out[i, j, c] = total[c] / (count * count)
