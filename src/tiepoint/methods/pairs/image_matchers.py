# SPDX-License-Identifier: BSD-3-Clause
"""Matchers that receive both images: corner tracking (`klt`), and the matchers of vismatch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...formats.image.reader import to_grey

Image = NDArray[np.uint8]
Points = NDArray[np.float64]


@dataclass(eq=False)
class Klt:
    """KLT tracker: corners of image 1 are tracked to image 2 and back by pyramidal Lucas-Kanade.

    The initial displacement is the global image shift, estimated by phase correlation. A track is returned if
    tracking back ends within `back_px` of its start. Its confidence is 1 - distance / `back_px`. The tracker
    works for small motions and fails if the camera rolls.
    """

    name = "klt"
    libraries = ("cv2", "numpy")
    max_features: int = 2000
    window_px: int = 21
    levels: int = 4
    back_px: float = 1.0

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points, Points]:
        """Return the positions of tracked corners in both images and their confidence."""
        (h1, w1), (h2, w2) = image1.shape[:2], image2.shape[:2]
        first, second = (_padded(to_grey(i), max(h1, h2), max(w1, w2)) for i in (image1, image2))
        start: Any = cv2.goodFeaturesToTrack(first[:h1, :w1], self.max_features, 0.01, 3)
        if start is None:
            return np.empty((0, 2)), np.empty((0, 2)), np.empty(0)
        shift = _shift(first, second)
        settings: dict[str, Any] = {
            "winSize": (self.window_px, self.window_px),
            "maxLevel": self.levels,
            "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
        }
        end, there, _ = cv2.calcOpticalFlowPyrLK(first, second, start, start + shift, **settings)
        again, back, _ = cv2.calcOpticalFlowPyrLK(second, first, end, end - shift, **settings)
        away = np.linalg.norm((again - start).reshape(-1, 2).astype(np.float64), axis=1)
        points0, points1 = (p.reshape(-1, 2).astype(np.float64) for p in (start, end))
        inside = ((points1 >= 0) & (points1 <= [w2 - 1, h2 - 1])).all(axis=1)
        kept = (there.ravel() == 1) & (back.ravel() == 1) & (away < self.back_px) & inside
        return points0[kept], points1[kept], 1 - away[kept] / self.back_px


def _padded(grey: Image, height: int, width: int) -> Image:
    """Pad an image below and to the right with its mean."""
    more = ((0, height - grey.shape[0]), (0, width - grey.shape[1]))
    return np.ascontiguousarray(np.pad(grey, more, constant_values=round(float(grey.mean()))))


def _shift(first: Image, second: Image) -> NDArray[np.float32]:
    """Return the shift (2,) from the first image to the second."""
    one, two = (np.asarray(i, np.float32) for i in (first, second))
    moved, _ = cv2.phaseCorrelate(one - one.mean(), two - two.mean())
    return np.asarray(moved, np.float32)


class Vismatch:
    """A matcher of vismatch, at the original size of the images.

    `most` limits the keypoints of sparse matchers. The random generators of torch and NumPy are set to `seed`
    before every pair, because some matchers sample their matches. vismatch downloads the weights, which only
    its version identifies. The returned matches are not filtered by vismatch's RANSAC.
    """

    libraries = ("numpy", "torch", "vismatch")

    def __init__(self, path: str, most: int = 2048, seed: int = 0, device: str = "cpu") -> None:
        self.matcher_name, self.most, self.seed, self.device = path, most, seed, device
        if find_spec("vismatch") is None:
            raise InputError(
                f"vismatch:{path} needs the package 'vismatch', which requires other versions of OpenCV and "
                "kornia; install tiepoint and vismatch into a new environment, see docs/adding-a-method.md"
            )
        known = list(import_module("vismatch").available_models)
        if path not in known:
            raise UnknownNameError("matcher of vismatch", path, known)
        self.name = f"vismatch:{path}"
        self.config = {"matcher": path, "most": most, "seed": seed}
        self._matcher: Any = None

    def match(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return matches in original pixels, with numbers of keypoints and confidences if known."""
        import torch

        if self._matcher is None:
            self._matcher = import_module("vismatch").get_matcher(
                self.matcher_name, device=self.device, max_num_keypoints=self.most
            )
        torch.manual_seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002 - what the matchers draw from is the legacy generator
        found = self._matcher(*(_channels_first(i) for i in (image1, image2)))
        out = {"points0": found["matched_kpts0"], "points1": found["matched_kpts1"]}
        if found.get("matched_confidences") is not None:
            out["confidence"] = found["matched_confidences"]
        for side in (0, 1):
            if len(found.get(f"all_kpts{side}", ())):
                out[f"keypoints{side}"] = np.array([len(found[f"all_kpts{side}"])], np.int64)
        return out


def _channels_first(image: Image) -> NDArray[np.float32]:
    """Return an image as (3, h, w) between 0 and 1."""
    return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / np.float32(255)
