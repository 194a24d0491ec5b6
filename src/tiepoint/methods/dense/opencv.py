# SPDX-License-Identifier: BSD-3-Clause
"""Dense methods of OpenCV: optical flow algorithms and a homography."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...formats.image.reader import to_grey
from ...geometry.flow.reference_resize import resize_u8
from ...geometry.flow.resize import UNKNOWN
from ...geometry.flow.warp import homography_flow, lands_inside

Image = NDArray[np.uint8]
Flow = NDArray[np.float32]


def rescale_flow(flow: Flow, size2: tuple[int, int]) -> Flow:
    """Convert a flow that points into a resized image 2 to one that points into the original image 2.

    The resized image 2 has the size of image 1, as OpenCV requires; `size2` is its original size. With
    half-pixel centres, the target ``x + u`` becomes ``(x + u + 1/2) * w2/w1 - 1/2``.

    >>> rescale_flow(np.zeros((1, 2, 2), np.float32), (1, 4))[0, :, 0].tolist()
    [0.5, 1.5]
    """
    (h1, w1), (h2, w2) = flow.shape[:2], size2
    x, y = np.arange(w1) + 0.5, (np.arange(h1) + 0.5)[:, None]
    out = np.empty_like(flow)
    out[..., 0] = (x + flow[..., 0]) * (w2 / w1) - x
    out[..., 1] = (y + flow[..., 1]) * (h2 / h1) - y
    return out


class _OpenCVFlow:
    """Base of OpenCV's optical flow methods. Image 2 is first resized to the size of image 1."""

    colour = False
    libraries = ("cv2", "numba", "numpy")
    least_px = 1
    """Minimum length of the shorter side. On smaller images OpenCV fails, crashes or never returns."""

    def match(self, image1: Image, image2: Image) -> Flow:
        """Return the flow on image 1."""
        height, width = min((i.shape[:2] for i in (image1, image2)), key=min)
        if min(height, width) < self.least_px:
            raise InputError(
                f"{type(self).__name__} of OpenCV needs images of at least {self.least_px} x {self.least_px} "
                f"pixels, found {width} x {height}; remove the pair"
            )
        pair = [image1, image2] if self.colour else [to_grey(image1), to_grey(image2)]
        second = resize_u8(pair[1], *image1.shape[:2])
        flow = self._flow(np.ascontiguousarray(pair[0]), np.ascontiguousarray(second))
        return rescale_flow(np.asarray(flow, np.float32), (image2.shape[0], image2.shape[1]))

    def _flow(self, first: Image, second: Image) -> Any:
        """Return the flow between two images of the same size."""
        raise NotImplementedError


class Dis(_OpenCVFlow):
    """Dense inverse search (DIS). `preset` is ultrafast, fast or medium."""

    name = "dis"
    least_px = 12

    def __init__(self, preset: str = "medium") -> None:
        presets = {
            "ultrafast": cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST,
            "fast": cv2.DISOPTICAL_FLOW_PRESET_FAST,
            "medium": cv2.DISOPTICAL_FLOW_PRESET_MEDIUM,
        }
        if preset not in presets:
            raise InputError(f"dis: unknown preset {preset!r}; choose one of {', '.join(presets)}")
        self.preset = preset
        self._code = presets[preset]

    def _flow(self, first: Image, second: Image) -> Any:
        return cv2.DISOpticalFlow.create(self._code).calc(first, second, None)


@dataclass(eq=False)
class Farneback(_OpenCVFlow):
    """Farneback's polynomial expansion over a pyramid of `levels` halvings."""

    name = "farneback"
    levels: int = 5
    window: int = 21
    iterations: int = 5

    def _flow(self, first: Image, second: Image) -> Any:
        return cv2.calcOpticalFlowFarneback(
            first, second, None, 0.5, self.levels, self.window, self.iterations, 7, 1.5, 0
        )


def _contrib(name: str) -> Any:
    module = getattr(cv2, "optflow", None)
    if module is None or not hasattr(module, name):
        raise InputError(
            f"cv2.optflow.{name}: missing in the installed OpenCV; run pip install 'tiepoint[opencv]'"
        )
    return getattr(module, name)


@dataclass(eq=False)
class TVL1(_OpenCVFlow):
    """Dual TV-L1 of the contrib module. OpenCV's default settings take minutes per image pair."""

    name = "tvl1"
    warps: int = 2
    iterations: int = 3

    def _flow(self, first: Image, second: Image) -> Any:
        solver = _contrib("createOptFlow_DualTVL1")()
        solver.setWarpingsNumber(self.warps)
        solver.setOuterIterations(self.iterations)
        solver.setInnerIterations(10)
        return solver.calc(first, second, None)


class DeepFlow(_OpenCVFlow):
    """DeepFlow of the contrib module, without the matches of DeepMatching."""

    name = "deepflow"

    def _flow(self, first: Image, second: Image) -> Any:
        return _contrib("createOptFlow_DeepFlow")().calc(first, second, None)


class PCAFlow(_OpenCVFlow):
    """PCA-Flow of the contrib module, without a learned prior."""

    name = "pcaflow"
    least_px = 32

    def _flow(self, first: Image, second: Image) -> Any:
        return _contrib("createOptFlow_PCAFlow")().calc(first, second, None)


class SparseToDense(_OpenCVFlow):
    """Pyramidal Lucas-Kanade flow on a grid, interpolated to all pixels (contrib module)."""

    name = "sparse-to-dense"
    least_px = 16

    def _flow(self, first: Image, second: Image) -> Any:
        return _contrib("calcOpticalFlowSparseToDense")(first, second)


class Rlof(_OpenCVFlow):
    """Robust local optical flow (RLOF), interpolated to all pixels (contrib module)."""

    name = "rlof"
    least_px = 64
    colour = True

    def _flow(self, first: Image, second: Image) -> Any:
        return _contrib("calcOpticalFlowDenseRLOF")(first, second, None)


_MIN_MATCHES = 4


@dataclass(eq=False)
class HomographyFlow:
    """Flow of a homography that MAGSAC estimates from SIFT matches. The flow is unknown if that fails.

    The mask of an image is the part that the homography maps into the other image. With `precise_upscale`
    False, OpenCV's default, SIFT positions are 0.25 px too large.
    """

    name, libraries = "homography", ("cv2", "numpy")
    ratio: float = 0.85
    threshold_px: float = 3.0
    seed: int = 0
    precise_upscale: bool = True

    def match_both(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return flows and masks of both images."""
        h = self.estimate(image1, image2)
        back = None if h is None or abs(np.linalg.det(h)) < 1e-12 else np.linalg.inv(h).astype(np.float64)
        size1, size2 = ((int(image.shape[0]), int(image.shape[1])) for image in (image1, image2))
        flow1, flow2 = _flow(h, size1), _flow(back, size2)
        masks = {"mask1": lands_inside(flow1, size2), "mask2": lands_inside(flow2, size1)}
        return {"flow1": flow1, "flow2": flow2, **masks}

    def estimate(self, image1: Image, image2: Image) -> NDArray[np.float64] | None:
        """Return the homography from image 1 to image 2. None if fewer than four matches agree."""
        points1, points2 = sift_matches(
            image1, image2, ratio=self.ratio, precise_upscale=self.precise_upscale
        )
        if len(points1) < _MIN_MATCHES:
            return None
        params = cv2.UsacParams()
        params.threshold = self.threshold_px
        params.maxIterations = 5000
        params.confidence = 0.999
        params.randomGeneratorState = self.seed
        params.score = cv2.SCORE_METHOD_MAGSAC
        params.sampler = cv2.SAMPLING_UNIFORM
        params.loMethod = cv2.LOCAL_OPTIM_SIGMA
        h, _ = cv2.findHomography(points1, points2, params)
        return None if h is None else np.asarray(h, np.float64)


def sift_matches(
    image1: Image, image2: Image, *, ratio: float, precise_upscale: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positions (n, 2), in both images, of mutual SIFT matches that pass the ratio test."""
    sift = cv2.SIFT.create(nfeatures=4000, enable_precise_upscale=precise_upscale)
    (k1, d1), (k2, d2) = (sift.detectAndCompute(to_grey(i), None) for i in (image1, image2))
    if d1 is None or d2 is None or len(k1) < 2 or len(k2) < 2:
        return np.empty((0, 2)), np.empty((0, 2))
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    forward = {
        m.queryIdx: m.trainIdx for m, n in matcher.knnMatch(d1, d2, k=2) if m.distance < ratio * n.distance
    }
    backward = {m.queryIdx: m.trainIdx for (m,) in matcher.knnMatch(d2, d1, k=1)}
    kept = [(i, j) for i, j in forward.items() if backward.get(j) == i]
    points1 = np.array([k1[i].pt for i, _ in kept], np.float64).reshape(-1, 2)
    points2 = np.array([k2[j].pt for _, j in kept], np.float64).reshape(-1, 2)
    return points1, points2


def _flow(h: NDArray[np.float64] | None, size: tuple[int, int]) -> NDArray[np.float64]:
    return np.full((*size, 2), UNKNOWN) if h is None else homography_flow(h, size)
