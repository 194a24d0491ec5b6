# SPDX-License-Identifier: BSD-3-Clause
"""Cameras and points of a reconstructed scene for pictures, and its worst image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.formatting import count_text, first_few

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Camera:
    """A camera in a picture: its image, centre (3,), and rotation (3, 3) from world to camera."""

    name: str
    centre: Floats
    R: Floats


@dataclass(frozen=True)
class ViewedModel:
    """A reconstructed model for a picture, in the coordinates of the ground truth.

    `cloud` (n, 3) are 3D points. `aligned` is False if too few of the model's images have truth to align it.
    """

    cameras: tuple[Camera, ...]
    cloud: Floats
    aligned: bool


@dataclass(frozen=True)
class SceneView:
    """Cameras and points of one scene and seed, for a picture.

    The third axis points up, judged by the orientation of the images. `note` says what the picture shows.
    """

    scene: str
    seed: int
    truth: tuple[Camera, ...]
    models: tuple[ViewedModel, ...]
    note: str

    @property
    def centres(self) -> Floats:
        """All camera centres (n, 3), those of the truth first."""
        cameras = [*self.truth, *(c for m in self.models for c in m.cameras)]
        return np.array([c.centre for c in cameras]).reshape(-1, 3)


@dataclass(frozen=True)
class WorstImage:
    """Worst image of a scene, and its failed pairs (those without enough verified matches).

    It has the lowest `area` or, without ground truth, the most failed pairs. `failed` has (other
    image, matches, verified matches).
    """

    scene: str
    name: str
    area: float | None
    pairs: int
    failed: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        parts = [
            f"{name} ({matches:,} matches, {inliers} verified)" for name, matches, inliers in self.failed
        ]
        what = f"{self.scene}: the worst image is {self.name}"
        what += "" if self.area is None else f" ({100 * self.area:.1f} % of the area of its pairs)"
        if not parts:
            return f"{what}; all its {count_text(self.pairs, 'pair')} passed verification"
        return f"{what}; {len(parts)} of its {count_text(self.pairs, 'pair')} failed: {first_few(parts, 6)}"
