# SPDX-License-Identifier: BSD-3-Clause
"""`dense-sift`: a coarse-to-fine matcher of upright SIFT descriptors at every pixel. No OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats.image import to_grey
from ..geometry.flow_consistency import consistency_masks
from ..geometry.flow_resize import resize_flow_pair
from ..geometry.imresize import imresize
from ..model.errors import InputError

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]
_ORIENTATIONS = 8
_OFFSETS = (-1.5, -0.5, 0.5, 1.5)


class DenseSift:
    """Dense SIFT matching over a pyramid.

    Both images are shrunk to `side` pixels on their larger side. On the coarsest level (about `coarsest` pixels)
    every position of image 1 is compared with every position of image 2, and costs are averaged over
    neighbours with the same displacement. Each finer level searches a small window around the flow of the
    level above, pulled towards its smoothed version by `smooth`. Masks are where the two flows agree.
    Upright and of one scale: rotations beyond about 30 degrees are not found.
    """

    name = "dense-sift"

    def __init__(self, side: int = 256, coarsest: int = 32, radius: int = 2, smooth: float = 0.02) -> None:
        if coarsest < 8 or side < coarsest or radius < 1:
            raise InputError("dense-sift: needs side >= coarsest >= 8 and radius >= 1")
        self.side, self.coarsest, self.radius, self.smooth = side, coarsest, radius, smooth

    def match_both(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Flows and masks of both images at their own size."""
        greys = [to_grey(i).astype(np.float64) for i in (image1, image2)]
        pyramids = [self._pyramid(g) for g in greys]
        flow1 = self._match(pyramids[0], pyramids[1])
        flow2 = self._match(pyramids[1], pyramids[0])
        sizes = [(g.shape[0], g.shape[1]) for g in greys]
        flow1, flow2 = resize_flow_pair(flow1, flow2, sizes[0], sizes[1])
        masks = consistency_masks(flow1, flow2)
        return {"flow1": flow1, "flow2": flow2, "mask1": masks[0], "mask2": masks[1]}

    def _pyramid(self, grey: NDArray[np.float64]) -> list[Floats]:
        """Descriptors of every level, coarsest first."""
        longest = max(grey.shape)
        levels = []
        side = min(self.side, longest)
        while True:
            height, width = (max(8, round(n * side / longest)) for n in grey.shape)
            levels.append(dense_descriptors(imresize(grey, height, width)))
            if side <= self.coarsest:
                return levels[::-1]
            side = max(side // 2, self.coarsest)

    def _match(self, first: list[Floats], second: list[Floats]) -> NDArray[np.float64]:
        flow = full_search(first[0], second[0], self.smooth)
        for level in range(1, min(len(first), len(second))):
            shape = first[level].shape[0], first[level].shape[1]
            flow = _zoom(flow, shape, first[level - 1].shape, second[level - 1].shape, second[level].shape)
            flow = refine(first[level], second[level], flow, self.radius, self.smooth)
        return flow


def dense_descriptors(grey: NDArray[np.float64], cell: int = 3) -> Floats:
    """Upright SIFT descriptors at every pixel, float32 (h, w, 128), unit length (zero where there is no gradient).

    Gradient magnitudes go into eight orientation planes, each is smoothed over a cell and read at 4 x 4 offsets
    of `cell` pixels; values are cut at 0.2 as usual.

    >>> dense_descriptors(np.tile(np.arange(20.0), (20, 1))).shape
    (20, 20, 128)
    """
    from scipy.ndimage import gaussian_filter, shift

    gy, gx = np.gradient(gaussian_filter(grey, 0.6, mode="nearest"))
    strength = np.hypot(gx, gy)
    angle = (np.arctan2(gy, gx) / (2 * np.pi) * _ORIENTATIONS) % _ORIENTATIONS
    low = np.floor(angle).astype(np.int64) % _ORIENTATIONS
    part = angle - np.floor(angle)
    planes = np.zeros((_ORIENTATIONS, *grey.shape))
    for k in range(_ORIENTATIONS):
        planes[k] = strength * ((low == k) * (1 - part) + ((low + 1) % _ORIENTATIONS == k) * part)
        planes[k] = gaussian_filter(planes[k], cell * 0.6, mode="nearest")
    cells = [
        shift(planes, (0, -dy * cell, -dx * cell), order=1, mode="nearest")
        for dy in _OFFSETS
        for dx in _OFFSETS
    ]
    out = np.moveaxis(np.concatenate(cells), 0, 2)
    # A floor keeps noise in flat regions from being blown up to full contrast.
    out = out / (np.linalg.norm(out, axis=2, keepdims=True) + 4.0)
    out = np.minimum(out, 0.2)
    return np.ascontiguousarray(out / (np.linalg.norm(out, axis=2, keepdims=True) + 1e-3), np.float32)


def full_search(first: Floats, second: Floats, smooth: float) -> NDArray[np.float64]:
    """Integer flow (h, w, 2) of the coarsest level, by comparing everything with everything.

    The displacement that is cheapest after averaging over neighbours and after a few rounds in which each pixel
    pays `smooth` per pixel of distance from the local median of the flow.
    """
    from ._dense_sift_search import diagonal_mean

    (h1, w1), (h2, w2) = first.shape[:2], second.shape[:2]
    depth = first.shape[2]
    cost = 1 - first.reshape(-1, depth) @ second.reshape(-1, depth).T
    cost = diagonal_mean(np.ascontiguousarray(cost.reshape(h1, w1, h2, w2), np.float32), 2)
    y, x = np.mgrid[:h1, :w1]
    ty, tx = np.mgrid[:h2, :w2]
    flow = np.zeros((h1, w1, 2))
    for round_ in range(6):
        wanted = np.zeros_like(flow) if round_ == 0 else _median(flow, 5)
        du = np.abs(tx - (x + wanted[..., 0])[..., None, None])
        dv = np.abs(ty - (y + wanted[..., 1])[..., None, None])
        weight = smooth * (0.1 if round_ == 0 else 0.5)
        total = cost + weight * np.minimum(du + dv, 12)
        best = total.reshape(h1, w1, -1).argmin(axis=2)
        flow = np.stack([best % w2 - x, best // w2 - y], axis=2).astype(np.float64)
    return _median(flow, 3)


def refine(
    first: Floats, second: Floats, flow: NDArray[np.float64], radius: int, smooth: float
) -> NDArray[np.float64]:
    """Search a window of `radius` around a flow; costs averaged over 5 x 5 pixels, `smooth` per pixel moved."""
    from scipy.ndimage import uniform_filter

    from ._dense_sift_search import window_cost

    start = np.rint(_median(flow, 5)).astype(np.int64)
    cost = window_cost(first, second, start, radius)
    cost = uniform_filter(cost, (5, 5, 0), mode="nearest")
    step = np.arange(-radius, radius + 1)
    du, dv = np.tile(step, len(step)), np.repeat(step, len(step))
    best = (cost + smooth * (np.abs(du) + np.abs(dv)) / radius).argmin(axis=2)
    moved = start + np.stack([du[best], dv[best]], axis=2)
    return _smooth(_median(moved.astype(np.float64), 5))


def _median(flow: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    from scipy.ndimage import median_filter

    return np.stack([median_filter(flow[..., c], size, mode="nearest") for c in (0, 1)], axis=2)


def _smooth(flow: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.ndimage import gaussian_filter

    return np.stack([gaussian_filter(flow[..., c], 1.0, mode="nearest") for c in (0, 1)], axis=2)


def _zoom(
    flow: NDArray[np.float64],
    shape: tuple[int, int],
    old1: tuple[int, ...],
    old2: tuple[int, ...],
    new2: tuple[int, ...],
) -> NDArray[np.float64]:
    """The flow of a level on the grid of the next finer one."""
    there = np.zeros((*old2[:2], 2))
    zoomed, _ = resize_flow_pair(flow, there, shape, (new2[0], new2[1]))
    return np.asarray(zoomed)
