# SPDX-License-Identifier: BSD-3-Clause
"""Poses of a scene as arrays: the true poses, and the models that a method reconstructed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...geometry.quaternions import camera_centres

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PosedModel:
    """Estimated poses x_camera = R(q) x_world + t of the m images of one model.

    `image` (m,) is the index of each image; images with truth have the indices below n, the number of true
    poses. Poses that are not finite are NaN. `unregistered` lists the images that the file names in this
    model without a pose.
    """

    image: Integers
    q: Floats
    t: Floats
    unregistered: Integers

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Whether each pose is finite, (m,)."""
        return np.asarray(np.isfinite(self.q).all(axis=1) & np.isfinite(self.t).all(axis=1))

    @cached_property
    def centres(self) -> Floats:
        """Camera centres, (m, 3)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return camera_centres(self.q, self.t)


@dataclass(frozen=True)
class PosedScene:
    """True poses of n images, and the models that a method reconstructed.

    `component` (n,) numbers groups of images; the motion between two groups is unknown. `outlier` has one
    entry for each image without truth (indices n, n + 1, …): whether the dataset marks it as belonging to no
    group. `position_accuracy` is in units of the truth, 0 if unknown.
    """

    q: Floats
    t: Floats
    component: Integers
    outlier: NDArray[np.bool_]
    models: tuple[PosedModel, ...]
    position_accuracy: float = 0.0

    def __len__(self) -> int:
        return len(self.q)

    @cached_property
    def centres(self) -> Floats:
        """True camera centres, (n, 3)."""
        return camera_centres(self.q, self.t)

    @cached_property
    def extent(self) -> float:
        """Diagonal of the bounding box of the true centres, in units of the truth."""
        return float(np.linalg.norm(np.ptp(self.centres, axis=0)))

    def with_truth(self, model: PosedModel) -> Integers:
        """Return the rows of a model whose images have truth, in the order of the true images."""
        rows = np.flatnonzero(model.image < len(self))
        return rows[np.argsort(model.image[rows], kind="stable")]

    @cached_property
    def largest(self) -> PosedModel | None:
        """The model with most images, the first one if several are equal. None without models."""
        return max(self.models, key=lambda m: len(m.image), default=None)
