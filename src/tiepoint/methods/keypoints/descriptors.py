# SPDX-License-Identifier: BSD-3-Clause
"""Patch descriptors at keypoints: a square around each keypoint is cut out and described.

The square has a side of `magnification` times the keypoint's size, in image pixels, and is rotated with the
keypoint. Sizes are diameters, so a `magnification` of 6 covers the same area as SIFT's grid. Outside the
image, squares repeat its edge pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.keypoints import Keypoints
from ...core.plugins import distance_of
from ...formats.image.reader import to_grey
from ...geometry.patch_sampling import sample_patches, similarity_frames
from ..transforms import l2_normalise

Image = NDArray[np.uint8]
MAGNIFICATION = 6.0
_BLOCK = 2048


def patches_at(
    image: Image, keypoints: Keypoints, *, magnification: float, patch_px: int, upright: bool = False
) -> NDArray[np.uint8]:
    """Cut grey square patches around keypoints, uint8 (n, patch_px, patch_px).

    >>> centre = Keypoints.at([[4, 4]], size_px=2)
    >>> patches_at(np.full((9, 9), 7, np.uint8), centre, magnification=2, patch_px=4).max()
    np.uint8(7)
    """
    angle = np.zeros(len(keypoints)) if upright else np.nan_to_num(keypoints.angle_deg, nan=0.0)
    frames = similarity_frames(keypoints.xy, keypoints.size_px * magnification / 2, np.deg2rad(angle))
    return np.clip(np.rint(sample_patches(to_grey(image), frames, patch_px)), 0, 255).astype(np.uint8)


class PatchAtKeypoints:
    """Base of patch descriptors at keypoints.

    `magnification` is the side of the square relative to the keypoint's size. `patch_px` is the side in
    pixels of the patch that the descriptor receives. `upright` ignores orientations.
    """

    libraries = ("numba", "numpy")

    def __init__(self, inner: Any, magnification: float, patch_px: int, upright: bool) -> None:
        if not magnification > 0:
            raise InputError(f"magnification must be positive, found {magnification:g}")
        if patch_px < 2:
            raise InputError(f"patch_px must be at least 2, found {patch_px}")
        self.inner = inner
        self.magnification, self.patch_px, self.upright = float(magnification), int(patch_px), upright
        self.distance = distance_of(inner)
        self.tiepoint_parts = {"patch": inner}
        self.warnings = getattr(inner, "warnings", [])
        self.rooted = bool(getattr(inner, "rooted", False))
        self.config = {"magnification": self.magnification, "patch_px": self.patch_px, "upright": upright}

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[Any, NDArray[np.bool_]]:
        """Return descriptors (n, d) and a mask (n,) of patches that have contrast and were described."""
        parts, masks = [], []
        for start in range(0, len(keypoints), _BLOCK):
            some = keypoints[start : start + _BLOCK]
            patches = patches_at(
                image, some, magnification=self.magnification, patch_px=self.patch_px, upright=self.upright
            )
            made = self.inner.describe(patches)
            values, valid = made if isinstance(made, tuple) else (made, np.ones(len(some), bool))
            flat = patches.min(axis=(1, 2)) == patches.max(axis=(1, 2))
            parts.append(np.asarray(values))
            masks.append(np.asarray(valid, bool) & ~flat)
        values, valid = np.concatenate(parts), np.concatenate(masks)
        if values.dtype.kind == "f":
            valid &= np.isfinite(values).all(axis=1) & values.any(axis=1)
        return np.where(valid[:, None], values, values.dtype.type(0)), valid


class PatchMethod(PatchAtKeypoints):
    """``patch:NAME``: a registered patch descriptor (``patch:vlfeat-sift``), on 65-px squares."""

    def __init__(
        self, name: str, magnification: float = MAGNIFICATION, patch_px: int = 65, upright: bool = False
    ) -> None:
        from ..registry import METHODS

        made: Any = METHODS.load(name, family="patches")
        inner = made()
        if not hasattr(inner, "describe"):
            raise InputError(
                f"patch:{name}: the method reads stored descriptors and cannot describe new patches; "
                "choose a patch descriptor that computes them"
            )
        super().__init__(inner, magnification, patch_px, upright)


class KorniaNetwork(PatchAtKeypoints):
    """``kornia:NAME?weights=FILE``: HardNet, HyNet, SOSNet, TFeat or HardTFeat on 32-px squares."""

    @staticmethod
    def variant(name: str | None) -> Any:
        """Return the class for a kornia name. Networks on complete images detect their own keypoints."""
        from ..registry import METHODS

        images: Any = METHODS.load("pairs/kornia")
        return images if images.knows(str(name)) else KorniaNetwork

    def __init__(
        self,
        name: str,
        weights: str,
        magnification: float = MAGNIFICATION,
        patch_px: int = 32,
        upright: bool = False,
        batch: int | None = None,
        device: str = "cpu",
    ) -> None:
        from ..networks.kornia import Kornia

        super().__init__(Kornia(name, weights, batch, device), magnification, patch_px, upright)


class OnnxNetwork(PatchAtKeypoints):
    """``onnx:FILE``: a patch network run by onnxruntime."""

    def __init__(
        self,
        path: str,
        magnification: float = MAGNIFICATION,
        patch_px: int = 32,
        upright: bool = False,
        input: str = "unit",
        output: str | None = None,
    ) -> None:
        from ..networks.onnx import Onnx

        inner = Onnx(path, size=patch_px, input=input, output=output)
        super().__init__(inner, magnification, patch_px, upright)


class TorchScriptNetwork(PatchAtKeypoints):
    """``torchscript:FILE``: a patch network as TorchScript."""

    def __init__(
        self,
        path: str,
        magnification: float = MAGNIFICATION,
        patch_px: int = 32,
        upright: bool = False,
        input: str = "unit",
        batch: int | None = None,
        device: str = "cpu",
    ) -> None:
        from ..networks.torch_module import TorchScript

        inner = TorchScript(str(Path(path)), size=patch_px, input=input, batch=batch, device=device)
        super().__init__(inner, magnification, patch_px, upright)


SIDE, CELLS, CLIP = 32, 4, 0.2
MEAN, DEVIATION = 127.5, 50.0
_HONC_BLOCK = 512


class Honc:
    """HONC: spatial histograms of colours, after normalising brightness and contrast of the patch.

    The patch has a side of `magnification` times the keypoint's size and is rotated with the keypoint.

    1. Each colour channel is shifted to mean 127.5. The patch is then scaled so that the standard deviations
       of the channels have mean 50.
    2. Each pixel contributes linearly to the dark and bright bins of each channel (8 combinations) and to
       neighbouring cells, weighted by a Gaussian of half the patch.
    3. The row is normalised to length 1, clipped at 0.2 and normalised again.

    A patch without contrast fails.
    """

    name, distance, libraries = "honc", "l2", ("numba", "numpy")

    def __init__(self, magnification: float = 6.0) -> None:
        self.magnification = float(magnification)

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return descriptors (n, 128) and a mask (n,) of patches that have contrast."""
        colour = np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
        angle = np.deg2rad(np.nan_to_num(keypoints.angle_deg, nan=0.0))
        frames = similarity_frames(keypoints.xy, keypoints.size_px * self.magnification / 2, angle)
        values = np.zeros((len(keypoints), CELLS * CELLS * 8), np.float32)
        valid = np.zeros(len(keypoints), bool)
        weights = _pixel_weights()
        for start in range(0, len(keypoints), _HONC_BLOCK):
            rows = slice(start, start + _HONC_BLOCK)
            patches = np.stack(
                [
                    sample_patches(colour[:, :, c], frames[rows], SIDE).reshape(-1, SIDE * SIDE)
                    for c in range(3)
                ],
                axis=2,
            )
            values[rows], valid[rows] = _histograms(patches, weights)
        return values, valid


def _pixel_weights() -> NDArray[np.float32]:
    """Return the weight of each pixel in each cell, (side², cells²).

    Weights are linear between cell centres, times a Gaussian.
    """
    at = (np.arange(SIDE) + 0.5) / SIDE * CELLS - 0.5
    share = np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(CELLS)))
    fall = np.exp(-0.5 * ((at - (CELLS - 1) / 2) / (CELLS / 2)) ** 2)
    line = share * fall[:, None]
    return np.einsum("ya,xb->yxab", line, line).reshape(SIDE * SIDE, -1).astype(np.float32)


def _histograms(
    patches: NDArray[np.float32], weights: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return colour histograms of patches (n, pixels, 3), and a mask (n,) of patches that have contrast.

    `weights` are the weights of each pixel in each cell.
    """
    deviation = patches.std(axis=1).mean(axis=1)
    valid = deviation > 1e-3
    gain = DEVIATION / np.where(valid, deviation, 1)
    even = (patches - patches.mean(axis=1, keepdims=True)) * gain[:, None, None] + MEAN
    bright = np.clip(even / 255, 0, 1)
    shares = np.stack([1 - bright, bright], axis=3)
    colours = np.einsum("npi,npj,npk->npijk", shares[:, :, 0], shares[:, :, 1], shares[:, :, 2])
    colours = colours.reshape(*colours.shape[:2], 8)
    # one product per patch, so that the rounding of a row does not depend on the other patches
    rows = np.matmul(weights.T, colours).reshape(len(patches), -1)
    cut = np.minimum(l2_normalise(rows), np.float32(CLIP))
    return np.where(valid[:, None], l2_normalise(cut), np.float32(0)), valid
