# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's binary descriptors with hand-made or selected tests: ORB, BRIEF, BRISK, FREAK, LATCH, AKAZE."""

from __future__ import annotations

from typing import Any

from .opencv import OneKeypoint, cv2, opencv


class Orb(OneKeypoint):
    """ORB's 256 learned comparisons on the patch resized to 31 x 31, the pattern's own size, upright.

    The pattern reaches 13 px from the centre and reads an image blurred by 7 x 7, hence 16 px: the whole
    resized patch. `patchSize` stays 31, because any other value makes OpenCV draw a random pattern.
    """

    name, work_side = "orb", 31

    def extractor(self, side: int) -> Any:
        """One pyramid level, and no border in which keypoints are dropped (OpenCV mirrors the image)."""
        return opencv("ORB_create")(nlevels=1, edgeThreshold=0, patchSize=31)

    def keypoint(self, side: int) -> Any:
        """The middle pixel of 31."""
        return cv2.KeyPoint(15, 15, 31, 0)


class Brief(OneKeypoint):
    """BRIEF's 256 comparisons on the patch resized to 57 x 57, upright.

    The pattern reaches 24 px and compares sums over 9 x 9 boxes (4 px more): 2 · 28 + 1 = 57.
    """

    name, work_side = "brief", 57

    def extractor(self, side: int) -> Any:
        """32 bytes, no orientation."""
        return opencv("BriefDescriptorExtractor_create")(32, False)

    def keypoint(self, side: int) -> Any:
        """The middle pixel of 57, the only one OpenCV does not drop."""
        return cv2.KeyPoint(28, 28, 57, 0)


class Brisk(OneKeypoint):
    """BRISK's 512 comparisons, upright, on the patch at 65 x 65 with a keypoint of size 20.

    Size 20 is the largest that OpenCV does not drop there: its rings and their smoothing read 61 of the 65
    pixels (pixels 2 to 62 in both directions). BRISK knows discrete scales 5.5 % apart, so another side is
    resized to 65 rather than the keypoint changed. OpenCV's BRISK ignores a keypoint's angle and finds its
    own from long pairs of its pattern. The patch is oriented already, so the standard pattern is given with
    no pair long enough: the same 512 comparisons, upright.
    """

    name, dimension, work_side = "brisk", 64, 65

    def extractor(self, side: int) -> Any:
        """The standard rings and short pairs; long pairs (for the angle) begin beyond the pattern."""
        radii = [0.85 * r for r in (0.0, 2.9, 4.9, 7.4, 10.8)]
        return opencv("BRISK_create")(radii, [1, 10, 14, 15, 20], dMax=5.85, dMin=1e6)

    def keypoint(self, side: int) -> Any:
        """The middle pixel of 65."""
        return cv2.KeyPoint(32, 32, 20, 0)


class Freak(OneKeypoint):
    """FREAK's 512 comparisons, upright, on the patch at 65 x 65 with a keypoint of size 9.6.

    The largest that OpenCV does not drop: the outer receptive fields read 61 x 55 of the 65 x 65 pixels.
    Discrete scales again, so another side is resized to 65.
    """

    name, dimension, work_side = "freak", 64, 65

    def extractor(self, side: int) -> Any:
        """FREAK without orientation."""
        return opencv("FREAK_create")(False)

    def keypoint(self, side: int) -> Any:
        """The middle pixel of 65."""
        return cv2.KeyPoint(32, 32, 9.6, 0)


class Latch(OneKeypoint):
    """LATCH's 256 triplet comparisons on the patch resized to 55 x 55, upright.

    The pattern reaches 24 px and compares 7 x 7 windows (3 px more): 2 · 27 + 1 = 55.
    """

    name, work_side = "latch", 55

    def extractor(self, side: int) -> Any:
        """32 bytes, no orientation, windows of 7 x 7, blur 2."""
        return opencv("LATCH_create")(32, False, 3, 2.0)

    def keypoint(self, side: int) -> Any:
        """The middle pixel of 55, the only one OpenCV does not drop."""
        return cv2.KeyPoint(27, 27, 55, 0)


class Akaze(OneKeypoint):
    """AKAZE's 486 bits (M-LDB), upright, on the patch at 65 x 65, as a keypoint of the scale space's level 1.

    M-LDB samples 10 steps to each side, a step being half the keypoint's size in whole pixels: 3 px reach 30
    of 32. Level 1 (blur 1.9) has keypoints of size 5.71, whose step is 3. The nonlinear scale space is
    built for each patch, with its own contrast.
    """

    name, dimension, work_side = "akaze", 61, 65

    def extractor(self, side: int) -> Any:
        """M-LDB without orientation, full size."""
        kind = opencv("AKAZE_DESCRIPTOR_MLDB_UPRIGHT")
        return opencv("AKAZE_create")(kind, nOctaves=1)

    def keypoint(self, side: int) -> Any:
        """OpenCV reads the level from class_id."""
        return cv2.KeyPoint(32, 32, 2 * 1.5 * 1.6 * 2**0.25, 0, 0, 0, 1)
