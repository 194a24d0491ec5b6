# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's descriptors on patches: one upright keypoint in the middle, its support covering the patch.

Two ways to make the support cover the patch. Methods that scale with the keypoint get a keypoint whose
size grows with the side of the patch. Methods with a fixed sampling pattern get the patch resized (by
area when shrinking, linear when growing) to exactly the pixels the pattern needs. Each class says which.

Patches are described one at a time: OpenCV drops keypoints near a border and may reorder the rest, and one
call a patch keeps a dropped one from shifting the others. A dropped patch is a failure (`valid` False).
"""

from __future__ import annotations

from typing import Any

import cv2 as _cv2
import numpy as np
from numpy.typing import NDArray

from ...model.errors import InputError
from ..transforms import rootsift

Array = NDArray[Any]
cv2: Any = _cv2  # its type stubs lack what the wheel has: SIFT, ORB and all of xfeatures2d


def opencv(name: str) -> Any:
    """OpenCV's object `name`, wherever this version keeps it (5 moved AKAZE and BRISK to xfeatures2d)."""
    for place in (cv2, getattr(cv2, "xfeatures2d", None)):
        if hasattr(place, name):
            return getattr(place, name)
    raise InputError(f"OpenCV {cv2.__version__} has no {name}: pip install opencv-contrib-python-headless")


def resized(patch: Array, side: int) -> Array:
    """The patch at side x side: by area when shrinking (no aliasing), linear when growing."""
    if patch.shape[0] == side:
        return patch
    how = cv2.INTER_AREA if side < patch.shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(patch, (side, side), interpolation=how))


class OneKeypoint:
    """Describes each patch by one keypoint; subclasses say how the keypoint and the image are made."""

    name = ""
    distance = "hamming"
    dimension = 32
    dtype: type[np.generic] = np.uint8
    work_side: int | None = None
    libraries = ("cv2", "numpy")

    def extractor(self, side: int) -> Any:
        """OpenCV's object for patches of a side."""
        raise NotImplementedError

    def keypoint(self, side: int) -> Any:
        """The keypoint for patches of a side; angle 0 keeps the patch upright."""
        raise NotImplementedError

    def describe(self, patches: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(n, s, s) -> (n, dimension) and which patches OpenCV described."""
        side = self.work_side or patches.shape[1]
        extractor, keypoints = self.extractor(side), [self.keypoint(side)]
        values = np.zeros((len(patches), self.dimension), self.dtype)
        valid = np.zeros(len(patches), bool)
        for i, patch in enumerate(patches):
            _, found = extractor.compute(np.ascontiguousarray(resized(patch, side)), keypoints)
            if found is not None and len(found) == 1:
                values[i], valid[i] = found[0], True
        return values, valid


class Sift(OneKeypoint):
    """SIFT with the keypoint of the reference script: centre (s/2, s/2), size s/5.303, angle unset (-1).

    OpenCV's SIFT reads out to 3/2 size · sqrt(2) · 5/2 = 5.303 size around the keypoint, so s is the radius
    of its circle, and the 4 x 4 grid spans 6 size = 1.13 s: a little more than the patch. OpenCV takes
    the unset angle as -1 degree. Values are whole numbers from 0 to 255.
    """

    name, distance, dimension, dtype = "sift", "l2", 128, np.uint8

    def extractor(self, side: int) -> Any:
        """SIFT with the default blur of 1.6."""
        return opencv("SIFT_create")()

    def keypoint(self, side: int) -> Any:
        """Size s/5.303 at (s/2, s/2); OpenCV rounds half to even, so 32.5 is pixel 32, the centre."""
        return cv2.KeyPoint(side / 2, side / 2, side / 5.303)


class RootSift(Sift):
    """`sift` over the sum of its entries, then the square root: l2 becomes the Hellinger distance."""

    name = "rootsift"

    def describe(self, patches: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(n, s, s) -> (n, 128), rows of length 1."""
        values, valid = super().describe(patches)
        return rootsift(values), valid
