# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs with exact cameras: the stereo pair in the scikit-image wheel, its right camera turned.

A camera that turns on the spot sees what a homography makes of its photograph, whatever the depths are, so
that turned views of the right photograph are true views and K, R and t stay exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats.image.reader import write_image
from ...geometry.covisibility import Size, centre
from ...geometry.render import render_view
from ..image_pairs.pair import ImagePair
from ..image_pairs.write import write_pairs
from .photos import linear_photo, to_srgb

Matrix = NDArray[np.float64]
FOCAL_PX = 994.978
LEFT, RIGHT = (311.193, 254.877), (311.193 + 31.086, 254.877)
BASELINE_M = 0.193001
"""The camera of Middlebury 2014 `Motorcycle` at a quarter of its size, the pixels of the photographs."""

VIEW: Size = (400, 300)
ZOOM = 1.04
"""Turned views are a little longer in focus, so that they show the photograph only."""


class CameraRotation(NamedTuple):
    """How the right camera is turned, in degrees: about its axis, to the right, upwards."""

    roll_deg: float = 0.0
    pan_deg: float = 0.0
    tilt_deg: float = 0.0

    def rotation(self) -> Matrix:
        """From coordinates of the camera as it stood to those of the turned one.

        >>> CameraRotation(roll_deg=90).rotation().round(12).tolist()
        [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        """
        (cr, sr), (cp, sp), (ct, st) = ((np.cos(a), np.sin(a)) for a in np.deg2rad(self))
        roll = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        pan = np.array([[cp, 0, -sp], [0, 1, 0], [sp, 0, cp]])
        tilt = np.array([[1, 0, 0], [0, ct, st], [0, -st, ct]])
        return np.asarray(roll @ tilt @ pan)


TURNS = {
    "roll020": CameraRotation(20),
    "roll090": CameraRotation(90),
    "roll180": CameraRotation(180),
    "pan": CameraRotation(pan_deg=8),
    "tilt": CameraRotation(tilt_deg=-3.5),
    "roll045pan": CameraRotation(-45, 4),
}


def make_stereo(out: str | Path) -> Path:
    """Write photographs, turned views and ``pairs.json`` to a folder; returns the path of the list.

    The left photograph is image 0 of every pair; image 1 is the right one as it is, then turned.
    """
    root = Path(out)
    root.mkdir(parents=True, exist_ok=True)
    left, right = linear_photo("motorcycle"), linear_photo("motorcycle-right")
    write_image(root / "left.png", to_srgb(left))
    write_image(root / "right.png", to_srgb(right))
    K0, K1 = camera(FOCAL_PX, LEFT), camera(FOCAL_PX, RIGHT)
    photo = (left.shape[1], left.shape[0])
    pairs = [_pair(root, "right", (K0, K1), (photo, photo), np.eye(3))]
    for name, turn in TURNS.items():
        K, R = camera(ZOOM * FOCAL_PX, centre(VIEW)), turn.rotation()
        view = render_view(right, K1 @ R.T @ np.linalg.inv(K), VIEW)
        write_image(root / f"{name}.png", to_srgb(view))
        pairs.append(_pair(root, name, (K0, K), (photo, VIEW), R))
    write_pairs(root / "pairs.json", pairs)
    return root / "pairs.json"


def camera(focal_px: float, middle: tuple[float, float]) -> Matrix:
    """K of a camera with square pixels.

    >>> camera(2.0, (1.0, 3.0)).tolist()
    [[2.0, 0.0, 1.0], [0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]
    """
    return np.array([[focal_px, 0, middle[0]], [0, focal_px, middle[1]], [0, 0, 1]], np.float64)


def _pair(
    root: Path, name: str, cameras: tuple[Matrix, Matrix], sizes: tuple[Size, Size], R: Matrix
) -> ImagePair:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, R @ [-BASELINE_M, 0.0, 0.0]
    return ImagePair(
        f"left--{name}",
        "motorcycle",
        image0=root / "left.png",
        image1=root / f"{name}.png",
        size0=sizes[0],
        size1=sizes[1],
        K0=cameras[0],
        K1=cameras[1],
        T_0to1=T,
    )
