# SPDX-License-Identifier: BSD-3-Clause
"""Patches of a real photograph, and the same places seen shifted, brighter and noisier."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

SIDE = 65


def cut(image: NDArray[np.uint8], places: NDArray[np.int64], side: int = SIDE) -> NDArray[np.uint8]:
    return np.stack([image[y : y + side, x : x + side] for y, x in places])


@pytest.fixture(scope="session")
def photograph() -> NDArray[np.uint8]:
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.camera())


@pytest.fixture(scope="session")
def places() -> NDArray[np.int64]:
    # the lower part of the photograph: the sky above has next to no texture
    rng = np.random.default_rng(7)
    return np.stack([rng.integers(180, 440, 40), rng.integers(8, 440, 40)], axis=1)


@pytest.fixture(scope="session")
def patches(photograph, places) -> NDArray[np.uint8]:
    return cut(photograph, places)


@pytest.fixture(scope="session")
def seen_again(photograph, places) -> NDArray[np.uint8]:
    rng = np.random.default_rng(8)
    moved = cut(photograph, places + rng.integers(-2, 3, places.shape)).astype(float)
    return np.clip(0.8 * moved + 20 + rng.normal(0, 4, moved.shape), 0, 255).astype(np.uint8)
