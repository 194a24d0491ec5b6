# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of image changes for stress tests: their levels, the label of the axis, and the changed image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..geometry.image_changes import (
    Image,
    Size,
    Warp,
    blurred,
    darkened,
    jpeg_compressed,
    noisy,
    reduction,
    rotation,
    tilt,
    warped,
)
from ..stats.breakdown import LINEAR, LOG2, QUALITY, Axis

RULES = 1
"""Version of the image changes, part of the cache key of the changed images."""


@dataclass(frozen=True)
class StressKind:
    """A kind of image change, such as rotation or noise.

    * `levels`: default levels; the first leaves the image unchanged.
    * `last`: bound of the levels that a user may choose.
    * `label`: label of the axis. `shown`: format of one level with `digits` decimals.
    * `unit`: unit of the levels, a key of `tasks.info.UNITS`.
    * `warp`: returns the plane warp of a level.
    * `change`: for kinds without warp, returns the changed image from image, level, scene and seed.
    """

    name: str
    levels: tuple[float, ...]
    last: float
    axis: Axis
    label: str
    shown: str
    unit: str
    digits: int = 1
    warp: Callable[[Size, float], Warp] | None = None
    change: Callable[[Image, float, str, int], Image] | None = None

    def homography(self, size: Size, level: float) -> NDArray[np.float64]:
        """Return the homography from the original to the changed image at a level."""
        return np.eye(3) if self.warp is None else self.warp(size, level).H

    def size(self, size: Size, level: float) -> Size:
        """Return (width, height) of the changed image at a level."""
        return size if self.warp is None else self.warp(size, level).size

    def changed(self, image: Image, level: float, scene: str, seed: int) -> Image:
        """Return the image, changed at a level. `scene` and `seed` seed the random generator."""
        if level == self.levels[0]:
            return image.copy()
        if self.warp is not None:
            return warped(image, self.warp((image.shape[1], image.shape[0]), level))
        assert self.change is not None
        return self.change(image, level, scene, seed)

    def level_text(self, level: float, *, exact: bool = False) -> str:
        """Return a level as text for display, rounded unless `exact`.

        >>> KINDS["tilt"].level_text(46.957), KINDS["jpeg"].level_text(2), KINDS["scale"].level_text(2.5)
        ('47.0°', 'q 2.0', '2.50x')
        """
        return self.shown.format(f"{level:g}" if exact else f"{level:.{self.digits}f}")

    def check(self, levels: Sequence[float]) -> tuple[float, ...]:
        """Check levels and return them. The first must leave the image unchanged, and each must be harder.

        Raise `ValueError` otherwise.
        """
        first, found = self.levels[0], tuple(map(float, levels))
        if len(found) < 2 or found[0] != first:
            raise ValueError(f"expected at least two levels, the first {first:g} (unchanged image)")
        low, high = sorted((first, self.last))
        if not all(low <= level <= high for level in found):
            raise ValueError(f"expected levels from {first:g} to {self.last:g}")
        steps = np.diff([self.axis.to(level) for level in found])
        if not (steps > 0).all():
            raise ValueError(f"expected levels from {first:g} towards {self.last:g}, in this order")
        if self.name == "jpeg" and any(level != int(level) for level in found):
            raise ValueError("expected whole qualities")
        return found


KINDS = {
    kind.name: kind
    for kind in (
        StressKind(
            "rotation",
            tuple(15.0 * i for i in range(13)),
            360,
            LINEAR,
            "rotation (degrees, clockwise)",
            "{}°",
            "deg",
            warp=rotation,
        ),
        StressKind(
            "scale",
            (1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4),
            16,
            LOG2,
            "reduction (factor)",
            "{}x",
            "level",
            2,
            warp=reduction,
        ),
        StressKind(
            "tilt",
            (0, 15, 30, 40, 50, 60, 65, 70, 75),
            85,
            LINEAR,
            "tilt of the plane (degrees)",
            "{}°",
            "deg",
            warp=tilt,
        ),
        StressKind(
            "blur",
            (0, 1, 2, 3, 4, 6, 8, 12),
            100,
            LINEAR,
            "blur (sigma, px)",
            "{} px",
            "level",
            change=lambda image, level, _scene, _seed: blurred(image, level),
        ),
        StressKind(
            "gamma",
            (1, 1.5, 2, 3, 4, 6, 8),
            100,
            LINEAR,
            "gamma (darker)",
            "{}",
            "level",
            change=lambda image, level, _scene, _seed: darkened(image, level),
        ),
        StressKind(
            "jpeg",
            (100, 80, 60, 40, 20, 10, 5, 2),
            1,
            QUALITY,
            "JPEG quality",
            "q {}",
            "level",
            change=lambda image, level, _scene, _seed: jpeg_compressed(image, level),
        ),
        StressKind(
            "noise",
            (0, 5, 10, 20, 30, 40, 60, 80),
            1000,
            LINEAR,
            "noise (sigma, grey levels)",
            "{}",
            "level",
            change=noisy,
        ),
    )
}
"""Kinds of changes by name, in display order."""
