# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's descriptors on patches: one upright keypoint at the centre whose support covers the patch.

There are two ways to cover the patch. If a method scales with the keypoint, the size of the keypoint grows
with the side of the patch. If a method has a fixed sampling pattern, the patch is resized to the pixels that
the pattern reads (by area when shrinking, linear when enlarging).

Every patch is a separate image with one keypoint, because OpenCV drops keypoints near a border and may
reorder others. A dropped patch is a failure (`valid` False). One call describes many patches, so that threads
rarely wait for Python's interpreter lock.
"""

from __future__ import annotations

from typing import Any

import cv2 as _cv2
import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..transforms import rootsift

Array = NDArray[Any]
cv2: Any = _cv2  # the type stubs lack SIFT, ORB and xfeatures2d


PATCHES_PER_CALL = 64
"""Number of patches that one call of OpenCV describes, with Python's interpreter lock released."""


def opencv(name: str) -> Any:
    """Return OpenCV's `name` from `cv2` or `cv2.xfeatures2d` (AKAZE and BRISK moved in OpenCV 5)."""
    for place in (cv2, getattr(cv2, "xfeatures2d", None)):
        if hasattr(place, name):
            return getattr(place, name)
    raise InputError(
        f"OpenCV {cv2.__version__} has no {name}; run pip install opencv-contrib-python-headless"
    )


def resize_patch(patch: Array, side: int) -> Array:
    """Resize a patch to side x side: by area when shrinking (no aliasing), linear when enlarging."""
    if patch.shape[0] == side:
        return patch
    how = cv2.INTER_AREA if side < patch.shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(patch, (side, side), interpolation=how))


class OneKeypoint:
    """Base of methods that describe each patch by one keypoint."""

    name = ""
    distance = "hamming"
    dimension = 32
    dtype: type[np.generic] = np.uint8
    work_side: int | None = None
    libraries = ("cv2", "numpy")
    thread_safe = True  # every call creates its own OpenCV extractor

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return OpenCV's extractor for patches of the given side, and the upright keypoint (angle 0)."""
        raise NotImplementedError

    def describe(self, patches: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return descriptors (n, dimension) of patches (n, s, s), and a mask (n,) of described patches."""
        side = self.work_side or patches.shape[1]
        extractor, keypoint = self.tools(side)
        values = np.zeros((len(patches), self.dimension), self.dtype)
        valid = np.zeros(len(patches), bool)
        for start in range(0, len(patches), PATCHES_PER_CALL):
            some = [
                np.ascontiguousarray(resize_patch(p, side)) for p in patches[start : start + PATCHES_PER_CALL]
            ]
            _, found = extractor.compute(some, [[keypoint]] * len(some))
            for i, rows in enumerate(found, start):
                if rows is not None and len(rows) == 1:
                    values[i], valid[i] = rows[0], True
        return values, valid


class PatchSift(OneKeypoint):
    """SIFT with the keypoint of the HPatches reference script, for patches of side s.

    The keypoint has the centre (s/2, s/2), the size s/5.303 and an unset angle (-1). OpenCV's SIFT reads a
    circle of radius 3/2 size · sqrt(2) · 5/2 = 5.303 size around it, so the radius is s. The 4 x 4 grid spans
    6 size = 1.13 s, a little more than the patch. OpenCV interprets the unset angle as -1 degree. Values are
    integers from 0 to 255.
    """

    name, distance, dimension, dtype = "sift", "l2", 128, np.uint8

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return SIFT and the keypoint. For a side of 65, OpenCV rounds the centre 65/2 to pixel 32."""
        return opencv("SIFT_create")(), cv2.KeyPoint(side / 2, side / 2, side / 5.303)


class PatchRootSift(PatchSift):
    """RootSIFT: square root of the l1-normalised `sift`. Its l2 distance is the Hellinger distance."""

    name = "rootsift"

    def describe(self, patches: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return descriptors (n, 128) of length 1 of patches (n, s, s), and a mask (n,) of usable patches."""
        values, valid = super().describe(patches)
        return rootsift(values), valid


class PatchOrb(OneKeypoint):
    """ORB's 256 learned comparisons, upright, on the patch resized to the size of the pattern, 31 x 31.

    The pattern reads up to 13 px from the centre in an image blurred by 7 x 7. It therefore reads 16 px to
    each side, the entire resized patch. `patchSize` stays 31, because any other value makes OpenCV sample a
    random pattern.
    """

    name, work_side = "orb", 31

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return ORB with one pyramid level and without border, and a keypoint on the middle pixel."""
        made = opencv("ORB_create")(nlevels=1, edgeThreshold=0, patchSize=31)
        return made, cv2.KeyPoint(15, 15, 31, 0)


class PatchBrief(OneKeypoint):
    """BRIEF's 256 comparisons on the patch resized to 57 x 57, upright.

    The pattern reaches 24 px from the centre and compares sums over 9 x 9 boxes, which reach 4 px further.
    The side is therefore 2 · 28 + 1 = 57.
    """

    name, work_side = "brief", 57

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return upright BRIEF (32 bytes) and a keypoint on the middle pixel. OpenCV drops any other."""
        return opencv("BriefDescriptorExtractor_create")(32, False), cv2.KeyPoint(28, 28, 57, 0)


class PatchBrisk(OneKeypoint):
    """BRISK's 512 comparisons, upright, on the patch at 65 x 65 with a keypoint of size 20.

    Size 20 is the largest that OpenCV does not drop. The rings and their smoothing then read 61 of the 65
    pixels (pixels 2 to 62 in both directions). BRISK has discrete scales 5.5 % apart, so other sides are
    resized to 65. OpenCV's BRISK ignores a keypoint's angle and estimates one from the long pairs of its
    pattern. Because the patch is already oriented, this class passes the standard pattern without long pairs.
    """

    name, dimension, work_side = "brisk", 64, 65

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return BRISK with its standard rings and the keypoint. `dMin` excludes the long pairs."""
        radii = [0.85 * r for r in (0.0, 2.9, 4.9, 7.4, 10.8)]
        made = opencv("BRISK_create")(radii, [1, 10, 14, 15, 20], dMax=5.85, dMin=1e6)
        return made, cv2.KeyPoint(32, 32, 20, 0)


class PatchFreak(OneKeypoint):
    """FREAK's 512 comparisons, upright, on the patch at 65 x 65 with a keypoint of size 9.6.

    Size 9.6 is the largest that OpenCV does not drop. The outer receptive fields then read 61 x 55 of the 65
    x 65 pixels. FREAK has discrete scales, so other sides are resized to 65.
    """

    name, dimension, work_side = "freak", 64, 65

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return FREAK without orientation, and a keypoint on the middle pixel."""
        return opencv("FREAK_create")(False), cv2.KeyPoint(32, 32, 9.6, 0)


class PatchLatch(OneKeypoint):
    """LATCH's 256 triplet comparisons on the patch resized to 55 x 55, upright.

    The pattern reaches 24 px from the centre and compares 7 x 7 windows, which reach 3 px further. The side
    is therefore 2 · 27 + 1 = 55.
    """

    name, work_side = "latch", 55

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return upright LATCH (32 bytes) and a keypoint on the middle pixel. OpenCV drops any other."""
        return opencv("LATCH_create")(32, False, 3, 2.0), cv2.KeyPoint(27, 27, 55, 0)


class PatchAkaze(OneKeypoint):
    """AKAZE's 486 bits (M-LDB), upright, on the patch at 65 x 65, as a keypoint of scale space level 1.

    M-LDB samples 10 steps to each side. A step is half the keypoint's size, rounded to pixels. Level 1 (blur
    1.9) has keypoints of size 5.71 and a step of 3 px, so samples reach 30 of 32 px. Each patch has its own
    nonlinear scale space, computed with its own contrast.
    """

    name, dimension, work_side = "akaze", 61, 65

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return upright M-LDB, and a keypoint on the middle pixel, whose class_id is the level (1)."""
        made = opencv("AKAZE_create")(opencv("AKAZE_DESCRIPTOR_MLDB_UPRIGHT"), nOctaves=1)
        return made, cv2.KeyPoint(32, 32, 2 * 1.5 * 1.6 * 2**0.25, 0, 0, 0, 1)


class PatchDaisy(OneKeypoint):
    """DAISY: 25 normalised histograms of 8 directions on three rings.

    For a patch of side s, the outer ring has the radius s/3 and is blurred with a standard deviation of s/6,
    so it covers the patch up to its edge. Histograms are normalised as by DAISY's authors; OpenCV's default
    does not normalise.
    """

    name, distance, dimension, dtype = "daisy", "l2", 200, np.float32

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return DAISY with radius side/3, and a keypoint at the centre.

        The keypoint's size has no effect.
        """
        made = opencv("DAISY_create")(side / 3, 3, 8, 8, opencv("DAISY_NRM_PARTIAL"))
        return made, cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side, 0)


class PatchVgg(OneKeypoint):
    """VGG's learned pooling regions and projection, 120 values. The keypoint's support is the patch."""

    name, distance, dimension, dtype = "vgg", "l2", 120, np.float32

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return VGG (Liberty model), and a keypoint of size side/6.25, whose support is the patch."""
        return opencv("VGG_create")(), cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side / 6.25, 0)


class PatchBoostDesc(OneKeypoint):
    """BinBoost, 256 bits. The keypoint's support is the patch."""

    name = "boostdesc"

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return BinBoost (256 bits), and a keypoint of size side/6.25, whose support is the patch."""
        return opencv("BoostDesc_create")(), cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, side / 6.25, 0)


class PatchBeblid(OneKeypoint):
    """BEBLID, 512 bits, with scale factor 1: the support is the keypoint's size, which is the patch side."""

    name, dimension = "beblid", 64

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return BEBLID (512 bits), and a keypoint at the centre with the side as its size."""
        made = opencv("BEBLID_create")(1.0, opencv("BEBLID_SIZE_512_BITS"))
        return made, cv2.KeyPoint(side / 2, side / 2, side, 0)


class PatchTeblid(OneKeypoint):
    """TEBLID, 256 bits, with scale factor 1: the support is the keypoint's size, which is the patch side."""

    name = "teblid"

    def tools(self, side: int) -> tuple[Any, Any]:
        """Return TEBLID (256 bits), and a keypoint at the centre with the side as its size."""
        made = opencv("TEBLID_create")(1.0, opencv("TEBLID_SIZE_256_BITS"))
        return made, cv2.KeyPoint(side / 2, side / 2, side, 0)
