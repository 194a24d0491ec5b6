# SPDX-License-Identifier: BSD-3-Clause
"""Photometric changes and camera noise, in linear light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]


def relight(image: Image, strength: float, rng: np.random.Generator) -> Image:
    """Other light on the same view: exposure, colour, a slope of brightness, a soft shadow.

    `strength` (0..1) scales all of them: exposure by up to 2.3 stops (mostly darker, as a brighter one would
    clip), red against blue by up to 40 %, brightness along a random direction by a factor of up to 4, and a
    soft-edged half plane in shadow of up to 60 %.
    """
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float64)
    x, y = x / width - 0.5, y / height - 0.5

    stops = strength * rng.uniform(0.5, 2.3) * rng.choice([-1.0, -1.0, 0.4])
    warmth = 1 + 0.4 * strength * rng.uniform(-1, 1)
    angle, edge = rng.uniform(0, 2 * np.pi, 2)
    slope = np.exp(np.log(4) * strength * (x * np.cos(angle) + y * np.sin(angle)))
    side = x * np.cos(edge) + y * np.sin(edge) - rng.uniform(-0.2, 0.2)
    shadow = 1 - 0.6 * strength * rng.uniform(0, 1) / (1 + np.exp(-side / 0.05))
    light = 2.0**stops * slope * shadow
    colour = np.array([warmth, 1.0, 1 / warmth])
    return (image * light[:, :, None] * colour).astype(np.float32)


def expose(image: Image, noise: float, rng: np.random.Generator) -> Image:
    """Sensor noise on linear light: variance = noise^2 (0.05 v + 0.0005), a shot and a read part.

    At noise 0.1 a mid grey (v = 0.2) deviates by 0.01, about 3 of 255 levels once encoded.
    """
    v = np.clip(image, 0, None)
    deviation = noise * np.sqrt(0.05 * v + 0.0005)
    return (image + deviation * rng.standard_normal(image.shape)).astype(np.float32)
