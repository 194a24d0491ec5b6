# SPDX-License-Identifier: BSD-3-Clause
"""Photographs that lie inside the scikit-image wheel, found without a network and without importing it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...formats.image.reader import read_image

PHOTOS = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "gravel": "gravel.png",
    "motorcycle": "motorcycle_left.png",
    "motorcycle-right": "motorcycle_right.png",
    "rocket": "rocket.jpg",
}
"""Photograph -> file name in ``skimage/data``; all are part of the wheel itself, none is downloaded."""


def photo_path(name: str) -> Path:
    """File of a photograph; a missing scikit-image, or file in it, is an `InputError` with the remedy."""
    if name not in PHOTOS:
        raise UnknownNameError("photograph", name, PHOTOS)
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "the demo set is made from photographs in scikit-image; pip install 'tiepoint[demo]'"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / PHOTOS[name]
    if not path.is_file():
        raise InputError(f"{path} is not in this scikit-image; pip install --upgrade scikit-image")
    return path


def linear_photo(name: str) -> NDArray[np.float32]:
    """A photograph in linear light, float32 (h, w, 3) in 0..1 (the sRGB curve undone)."""
    return to_linear(read_image(photo_path(name)))


def to_linear(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Undo the sRGB curve: uint8 -> float32 in 0..1.

    >>> to_linear(np.array([0, 255], dtype=np.uint8)).tolist()
    [0.0, 1.0]
    """
    v = np.arange(256) / 255
    table = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)
    return np.asarray(table[image])


def to_srgb(linear: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Apply the sRGB curve, clip to 0..1 and round: the inverse of `to_linear`.

    >>> levels = np.arange(256, dtype=np.uint8)
    >>> bool((to_srgb(to_linear(levels)) == levels).all())
    True
    """
    v = np.clip(np.asarray(linear, dtype=np.float64), 0, 1)
    curve = np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)
    return np.rint(curve * 255).astype(np.uint8)
