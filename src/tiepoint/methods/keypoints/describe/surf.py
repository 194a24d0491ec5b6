# SPDX-License-Identifier: BSD-3-Clause
"""SURF's descriptor at given keypoints: sums of Haar responses, 64 or 128 numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....model.keypoints import Keypoints
from ...transforms import l2_normalised
from ..detect import _surf
from ..detect.surf_common import Image, integral, oriented, scales


class Surf:
    """Rows of length 1 from a window of 20 scales, a scale being 1.2/9 of the keypoint's size.

    Each of 4 x 4 regions gives the sums of du, |du|, dv, |dv| in the keypoint's frame; `extended` splits each
    by the sign of the other direction (128 numbers). Keypoints without orientation get SURF's own, or
    are described as they stand if `upright`. The wavelets read up to 11 scales from the centre; what lies
    outside the image counts nothing.
    """

    name, distance, libraries = "surf", "l2", ("numba", "numpy")

    def __init__(self, extended: bool = False, upright: bool = False) -> None:
        self.extended, self.upright = extended, upright

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(n, 64) or (n, 128), and which rows are not blank."""
        ii = integral(image)
        angle = np.zeros(len(keypoints)) if self.upright else keypoints.angle_deg.copy()
        unset = np.isnan(angle)
        if unset.any():
            angle[unset] = oriented(ii, keypoints.xy[unset], keypoints.size_px[unset])
        out = np.zeros((len(keypoints), 128 if self.extended else 64))
        xy = np.ascontiguousarray(keypoints.xy)
        _surf.describe(ii, xy, scales(keypoints.size_px), np.deg2rad(angle), self.extended, out)
        values = l2_normalised(out)
        return values, np.asarray(values.any(axis=1))
