# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's DAISY, and its trained descriptors: VGG, BoostDesc, BEBLID, TEBLID."""

from __future__ import annotations

from typing import Any

import numpy as np

from .opencv import OneKeypoint, cv2, opencv


class Daisy(OneKeypoint):
    """DAISY: 25 histograms of 8 directions on three rings, each normalised; radius s/3.

    The outer ring has a blur of half the radius, so radius s/3 reaches s/2 at one standard deviation.
    Normalised histogram by histogram as its authors do; OpenCV's default would not normalise at all.
    """

    name, distance, dimension, dtype = "daisy", "l2", 200, np.float32

    def extractor(self, side: int) -> Any:
        """Radius s/3, three rings of eight, eight directions."""
        how = opencv("DAISY_NRM_PARTIAL")
        return opencv("DAISY_create")(side / 3, 3, 8, 8, how)

    def keypoint(self, side: int) -> Any:
        """The centre; size has no effect."""
        return cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side, 0)


class Vgg(OneKeypoint):
    """VGG's learned pooling regions and projection, 120 numbers; support 6.25 · size = s."""

    name, distance, dimension, dtype = "vgg", "l2", 120, np.float32

    def extractor(self, side: int) -> Any:
        """The 120-dimensional model, trained on Liberty; scale factor 6.25."""
        return opencv("VGG_create")()

    def keypoint(self, side: int) -> Any:
        """Size s/6.25 covers the patch."""
        return cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side / 6.25, 0)


class BoostDesc(OneKeypoint):
    """BinBoost, 256 bits; support 6.25 · size = s."""

    name = "boostdesc"

    def extractor(self, side: int) -> Any:
        """The BinBoost model of 256 bits; scale factor 6.25."""
        return opencv("BoostDesc_create")()

    def keypoint(self, side: int) -> Any:
        """Size s/6.25 covers the patch."""
        return cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side / 6.25, 0)


class Beblid(OneKeypoint):
    """BEBLID, 512 bits; scale factor 1, so the support is the keypoint's size, s."""

    name, dimension = "beblid", 64

    def extractor(self, side: int) -> Any:
        """512 bits."""
        return opencv("BEBLID_create")(1.0, opencv("BEBLID_SIZE_512_BITS"))

    def keypoint(self, side: int) -> Any:
        """Size s at the centre (s/2, s/2)."""
        return cv2.KeyPoint(side / 2, side / 2, side, 0)


class Teblid(OneKeypoint):
    """TEBLID, 256 bits; scale factor 1, so the support is the keypoint's size, s."""

    name, dimension = "teblid", 32

    def extractor(self, side: int) -> Any:
        """256 bits."""
        return opencv("TEBLID_create")(1.0, opencv("TEBLID_SIZE_256_BITS"))

    def keypoint(self, side: int) -> Any:
        """Size s at the centre (s/2, s/2)."""
        return cv2.KeyPoint(side / 2, side / 2, side, 0)
