# SPDX-License-Identifier: BSD-3-Clause
"""``vismatch:NAME``: the matchers of the package vismatch, which lives in an environment of its own."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError

Image = NDArray[np.uint8]


class Vismatch:
    """One matcher of vismatch, at the original size of the images.

    `most` is the number of keypoints that sparse matchers may find. The generators of torch and NumPy are
    set to `seed` before every pair, because some matchers draw from their matches. Weights are downloaded by
    vismatch itself when a matcher is made; they are known by the version of vismatch only. Matches are those
    before its RANSAC, which is not used.
    """

    libraries = ("numpy", "torch", "vismatch")

    def __init__(self, path: str, most: int = 2048, seed: int = 0, device: str = "cpu") -> None:
        self.matcher_name, self.most, self.seed, self.device = path, most, seed, device
        if find_spec("vismatch") is None:
            raise InputError(
                f"vismatch:{path} needs the package 'vismatch', which asks for other versions of OpenCV and "
                "kornia: install both into an environment of their own, as docs/adding-a-method.md shows"
            )
        known = list(import_module("vismatch").available_models)
        if path not in known:
            raise UnknownNameError("matcher of vismatch", path, known)
        self.name = f"vismatch:{path}"
        self.config = {"matcher": path, "most": most, "seed": seed}
        self._matcher: Any = None

    def match(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Matches in original pixels, with numbers of keypoints and confidences where there are some."""
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
    """(3, h, w) between 0 and 1."""
    return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / np.float32(255)
