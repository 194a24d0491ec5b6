# SPDX-License-Identifier: BSD-3-Clause
"""``keynet?weights=FILE``: Key.Net through kornia, with a local weight file."""

from __future__ import annotations

from typing import Any

import kornia.feature
import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_file
from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..networks.batches import checked_file
from ..networks.torch_module import load_weights, state_dict
from ..networks.torch_runner import check_torch_device
from .detectors import MAX_FEATURES, select_keypoints

Image = NDArray[np.uint8]
CANDIDATES = 20_000
FRAMES_A_SIZE = 6.0
FRAME_PX = 22.0


class KeyNet:
    """Key.Net detector: maxima of a learned response in a pyramid with scale factor sqrt(2).

    The pyramid has one level above the image size and four below. The keypoint's size is a sixth of kornia's
    patch, which is 44 pixels of the level. A patch of magnification 6, the default of patch networks,
    therefore equals kornia's patch. Positions differ from kornia: it converts pixel u of a level to u ·
    factor, and this class uses the pixel's centre, (u + 1/2) · factor - 1/2. Keypoints have no orientation.
    """

    name, libraries = "keynet", ("kornia", "numpy", "torch")

    def __init__(
        self,
        weights: str,
        max_features: int | None = MAX_FEATURES,
        border_px: float = 0.0,
        threshold: float = 0.0,
        device: str = "cpu",
    ) -> None:
        file = checked_file(weights, "weight file")
        if threshold < 0:
            raise InputError(f"keynet: threshold must not be negative, found {threshold:g}")
        self.device = check_torch_device(device, "keynet")
        self.network: Any = kornia.feature.KeyNetDetector(
            pretrained=False, num_features=CANDIDATES, score_threshold=float(threshold)
        )
        load_weights(self.network.model, state_dict(file), f"{weights} does not fit Key.Net")
        self.network = self.network.eval().to(self.device)
        self.max_features, self.border_px = max_features, float(border_px)
        self.weight_hashes = {file.name: hash_file(file)}
        self.config = {"max_features": max_features, "border_px": self.border_px, "threshold": threshold}

    def detect(self, image: Image) -> Keypoints:
        """Return the keypoints of an image, strongest first."""
        grey = to_grey(image).astype(np.float32) / 255
        with torch.inference_mode():
            response, frames = self.network.detect(torch.from_numpy(grey)[None, None].to(self.device))
        response = response[0].float().cpu().numpy().astype(np.float64)
        frames = frames[0].float().cpu().numpy().astype(np.float64)
        found = response > 0
        response, frames = response[found], frames[found]
        factor = np.abs(frames[:, 0, 0]) / FRAME_PX
        xy = frames[:, :, 2] + (factor[:, None] - 1) / 2
        size = 2 * FRAME_PX * factor / FRAMES_A_SIZE
        keypoints = Keypoints.at(xy, size_px=size, response=response)
        return select_keypoints(keypoints, image, max_features=self.max_features, border_px=self.border_px)
