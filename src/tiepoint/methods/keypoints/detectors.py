# SPDX-License-Identifier: BSD-3-Clause
"""What all detectors share: border, order, cap. Strongest first, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.keypoints import Keypoints
from ...geometry.covisibility import in_view

MAX_FEATURES = 2000
"""Default cap of every detector, per image."""


def strongest_first(keypoints: Keypoints) -> NDArray[np.int64]:
    """Order by response, falling; equal responses by y, x, size, angle, octave, class.

    Every column takes part, so that two rows in doubt are equal rows and the order is the same whatever
    order the detector's threads produced.

    >>> strongest_first(Keypoints.at([[5, 1], [2, 1], [9, 9]], response=[1, 1, 3])).tolist()
    [2, 1, 0]
    """
    k = keypoints
    angle = np.nan_to_num(k.angle_deg, nan=-1.0)
    return np.lexsort((k.class_id, k.octave, angle, k.size_px, k.xy[:, 0], k.xy[:, 1], -k.response))


def select_keypoints(
    keypoints: Keypoints, image: NDArray[Any], *, max_features: int | None, border_px: float
) -> Keypoints:
    """Keypoints off the border, strongest first, at most `max_features` (None: all).

    The border is that of `geometry.covisibility.in_view`: border_px = 40 keeps 39.5 <= x <= width - 40.5.
    It is applied before the cap, so that the cap is filled where the image allows it.
    """
    if max_features is not None and max_features < 1:
        raise InputError(f"max_features must be a positive number or none, not {max_features}")
    if border_px < 0:
        raise InputError(f"border_px must not be negative, but is {border_px:g}")
    size = (image.shape[1], image.shape[0])
    inside = keypoints[in_view(keypoints.xy, size, border_px=border_px)]
    return inside[strongest_first(inside)[:max_features]]


@dataclass(eq=False)
class CappedDetector:
    """A detector with a cap and a border; see `select_keypoints`."""

    max_features: int | None = MAX_FEATURES
    border_px: float = 0.0

    def __post_init__(self) -> None:
        self.border_px = float(self.border_px)

    def select(self, keypoints: Keypoints, image: NDArray[Any]) -> Keypoints:
        """Keypoints that are kept, strongest first."""
        return select_keypoints(keypoints, image, max_features=self.max_features, border_px=self.border_px)
