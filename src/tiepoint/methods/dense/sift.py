# SPDX-License-Identifier: BSD-3-Clause
"""`dense-sift`: a coarse-to-fine matcher of upright SIFT descriptors at every pixel, without OpenCV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...formats.image.reader import to_grey
from ...geometry.flow.reference_resize import imresize
from ...geometry.flow.resize import resize_flow_pair
from ...geometry.flow.warp import consistency_masks

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]
_ORIENTATIONS = 8
_OFFSETS = (-1.5, -0.5, 0.5, 1.5)


@dataclass(eq=False)
class DenseSift:
    """Coarse-to-fine matching of dense SIFT descriptors, with flow smoothed by belief propagation.

    Both images are resized to at most `side` pixels on their larger side. The coarsest level (about
    `coarsest` pixels) searches displacements of up to half the image. Each finer level searches a window of
    `radius` around the flow of the coarser level. A difference between the displacements of neighbouring
    pixels costs `smooth` per pixel, at most `cut`. Motion costs `still` per pixel, which avoids arbitrary
    flow in flat regions. Masks mark pixels where the two flows agree. Descriptors are upright and of one
    scale: rotations beyond about 30 degrees are not found.
    """

    name, libraries = "dense-sift", ("numba", "numpy", "scipy")
    side: int = 200
    coarsest: int = 25
    radius: int = 2
    smooth: float = 0.2
    cut: float = 4.0
    rounds: int = 5
    still: float = 0.001

    def __post_init__(self) -> None:
        if self.coarsest < 8 or self.side < self.coarsest or self.radius < 1:
            raise InputError(
                "dense-sift: invalid side, coarsest or radius; choose side >= coarsest >= 8 and radius >= 1"
            )

    def match_both(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return flows and masks of both images at their own size."""
        greys = [to_grey(i).astype(np.float64) for i in (image1, image2)]
        pyramids = [self._pyramid(g) for g in greys]
        flow1 = self._match(pyramids[0], pyramids[1])
        flow2 = self._match(pyramids[1], pyramids[0])
        sizes = [(g.shape[0], g.shape[1]) for g in greys]
        flow1, flow2 = resize_flow_pair(flow1, flow2, sizes[0], sizes[1])
        masks = consistency_masks(flow1, flow2)
        return {"flow1": flow1, "flow2": flow2, "mask1": masks[0], "mask2": masks[1]}

    def _pyramid(self, grey: NDArray[np.float64]) -> list[Floats]:
        """Return the descriptors of every pyramid level, coarsest first.

        Coarser levels average the descriptors of the finest level. Descriptors computed on downsized images
        would each cover half of the image and match worse.
        """
        longest, side = max(grey.shape), self.side
        levels: list[Floats] = []
        while True:
            height, width = (max(8, round(n * side / longest)) for n in grey.shape)
            if levels:
                mean = imresize(levels[-1].astype(np.float64), height, width)
                length = np.linalg.norm(mean, axis=2, keepdims=True)
                levels.append(np.ascontiguousarray(mean / (length + 1e-3), np.float32))
            else:
                levels.append(dense_descriptors(imresize(grey, height, width)))
            if side <= self.coarsest:
                return levels[::-1]
            side = max(side // 2, self.coarsest)

    def _match(self, first: list[Floats], second: list[Floats]) -> NDArray[np.float64]:
        flow = np.zeros((*first[0].shape[:2], 2))
        for level, (a, b) in enumerate(zip(first, second, strict=True)):
            if level == 0:
                reach = tuple(max(m, n) // 2 for m, n in zip(a.shape[:2], b.shape[:2], strict=True))
            else:
                back = np.zeros((*second[level - 1].shape[:2], 2))
                flow = np.asarray(resize_flow_pair(flow, back, a.shape[:2], b.shape[:2])[0])
                reach = (self.radius, self.radius)
            flow = self._search(a, b, flow, reach[0], reach[1])
        return _smoothed(flow)

    def _search(
        self, first: Floats, second: Floats, flow: NDArray[np.float64], ry: int, rx: int
    ) -> NDArray[np.float64]:
        from ._sift_loops import propagate, window_cost

        start = np.rint(_median(flow, 3)).astype(np.int64)
        cost = window_cost(first, second, start, ry, rx, 0.7)
        cost += self.still * (np.abs(np.arange(-ry, ry + 1))[:, None] + np.abs(np.arange(-rx, rx + 1)))
        best = propagate(cost.astype(np.float32), start, self.smooth, self.cut, self.rounds)
        return (start + best - [rx, ry]).astype(np.float64)


def dense_descriptors(grey: NDArray[np.float64], cell: int = 3) -> Floats:
    """Compute upright SIFT descriptors at every pixel, float32 (h, w, 128), at most of unit length.

    Gradient magnitudes are distributed to eight orientation planes. Each plane is smoothed over a cell and
    read at 4 x 4 offsets of `cell` pixels. Values are clipped at 0.2, as in SIFT. Flat regions get short
    vectors.

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
    # The added constants prevent amplifying noise in flat regions to full contrast.
    out = np.minimum(out / (np.linalg.norm(out, axis=2, keepdims=True) + 4.0), 0.2)
    return np.ascontiguousarray(out / (np.linalg.norm(out, axis=2, keepdims=True) + 1e-3), np.float32)


def _median(flow: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    from scipy.ndimage import median_filter

    return np.stack([median_filter(flow[..., c], size, mode="nearest") for c in (0, 1)], axis=2)


def _smoothed(flow: NDArray[np.float64]) -> NDArray[np.float64]:
    """Smooth the integer flow of the finest level."""
    from scipy.ndimage import gaussian_filter

    flow = _median(flow, 3)
    return np.stack([gaussian_filter(flow[..., c], 1.0, mode="nearest") for c in (0, 1)], axis=2)
