# SPDX-License-Identifier: BSD-3-Clause
"""Optical flow from OpenCV: DIS, Farnebäck, and the contrib module's where the installed wheel has them."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...formats.image.read import to_grey
from ...geometry.flow.interpolation import resize_u8
from ...model.errors import InputError

Image = NDArray[np.uint8]
Flow = NDArray[np.float32]


def rescaled(flow: Flow, size2: tuple[int, int]) -> Flow:
    """Flow into image 2 from the flow into image 2 stretched to the size of image 1.

    Half-pixel centres: a target ``x + u`` of the stretched image is ``(x + u + 1/2) * w2/w1 - 1/2``.

    >>> rescaled(np.zeros((1, 2, 2), np.float32), (1, 4))[0, :, 0].tolist()
    [0.5, 1.5]
    """
    (h1, w1), (h2, w2) = flow.shape[:2], size2
    x, y = np.arange(w1) + 0.5, (np.arange(h1) + 0.5)[:, None]
    out = np.empty_like(flow)
    out[..., 0] = (x + flow[..., 0]) * (w2 / w1) - x
    out[..., 1] = (y + flow[..., 1]) * (h2 / h1) - y
    return out


class _OpenCVFlow:
    """Both images in grey or colour, image 2 stretched to the size of image 1, then OpenCV's flow."""

    colour = False
    libraries = ("cv2", "numba", "numpy")

    def match(self, image1: Image, image2: Image) -> Flow:
        """Flow on image 1."""
        pair = [image1, image2] if self.colour else [to_grey(image1), to_grey(image2)]
        second = resize_u8(pair[1], *image1.shape[:2])
        flow = self.flow(np.ascontiguousarray(pair[0]), np.ascontiguousarray(second))
        return rescaled(np.asarray(flow, np.float32), (image2.shape[0], image2.shape[1]))

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        raise NotImplementedError


class Dis(_OpenCVFlow):
    """Dense inverse search; `preset` is ultrafast, fast or medium."""

    name = "dis"

    def __init__(self, preset: str = "medium") -> None:
        presets = {
            "ultrafast": cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST,
            "fast": cv2.DISOPTICAL_FLOW_PRESET_FAST,
            "medium": cv2.DISOPTICAL_FLOW_PRESET_MEDIUM,
        }
        if preset not in presets:
            raise InputError(f"dis: unknown preset {preset!r}; one of {', '.join(presets)}")
        self.preset = preset
        self._code = presets[preset]

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return cv2.DISOpticalFlow.create(self._code).calc(first, second, None)


class Farneback(_OpenCVFlow):
    """Polynomial expansion over a pyramid of `levels` halvings."""

    name = "farneback"

    def __init__(self, levels: int = 5, window: int = 21, iterations: int = 5) -> None:
        self.levels, self.window, self.iterations = levels, window, iterations

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return cv2.calcOpticalFlowFarneback(
            first, second, None, 0.5, self.levels, self.window, self.iterations, 7, 1.5, 0
        )


def _contrib(name: str) -> Any:
    module = getattr(cv2, "optflow", None)
    if module is None or not hasattr(module, name):
        raise InputError(f"the installed OpenCV has no cv2.optflow.{name}: pip install 'tiepoint[opencv]'")
    return getattr(module, name)


class TVL1(_OpenCVFlow):
    """Dual TV-L1 of the contrib module; its own defaults (`warps` 5, `iterations` 10) take minutes a pair."""

    name = "tvl1"

    def __init__(self, warps: int = 2, iterations: int = 3) -> None:
        self.warps, self.iterations = warps, iterations

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        solver = _contrib("createOptFlow_DualTVL1")()
        solver.setWarpingsNumber(self.warps)
        solver.setOuterIterations(self.iterations)
        solver.setInnerIterations(10)
        return solver.calc(first, second, None)


class DeepFlow(_OpenCVFlow):
    """DeepFlow of the contrib module, without its matches."""

    name = "deepflow"

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return _contrib("createOptFlow_DeepFlow")().calc(first, second, None)


class PCAFlow(_OpenCVFlow):
    """PCA-Flow of the contrib module, without a learned prior."""

    name = "pcaflow"

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return _contrib("createOptFlow_PCAFlow")().calc(first, second, None)


class SparseToDense(_OpenCVFlow):
    """Pyramidal Lucas-Kanade on a grid, interpolated, of the contrib module."""

    name = "sparse-to-dense"

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return _contrib("calcOpticalFlowSparseToDense")(first, second)


class Rlof(_OpenCVFlow):
    """Robust local flow of the contrib module, interpolated."""

    name = "rlof"
    colour = True

    def flow(self, first: Image, second: Image) -> Any:
        """Flow between two images of one size."""
        return _contrib("calcOpticalFlowDenseRLOF")(first, second, None)
