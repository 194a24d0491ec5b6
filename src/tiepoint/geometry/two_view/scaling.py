# SPDX-License-Identifier: BSD-3-Clause
"""Sizes, intrinsics and poses of resized and rotated images.

Sizes are (width, height). A resize by (sx, sy) = new/old maps K to diag(sx, sy, 1) K and points to (sx x, sy
y), as the evaluation scripts of this field do. The pose T does not change. A threshold in pixels refers to
the resized images.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError

Floats = NDArray[np.float64]
Size = tuple[int, int]

_QUARTERS = ((1, 0), (0, -1), (-1, 0), (0, 1))
"""Cosine and sine of 0, 270, 180 and 90 degrees; the camera rotates opposite to the image."""


class Resize(NamedTuple):
    """New size of an image and the scale factors new/old.

    If `divisor` (old/new) is set, intrinsics are divided by it instead of multiplied by `scale`. The results
    differ in the last bit, which can decide a tie between two poses.
    """

    size: tuple[float, float]
    scale: tuple[float, float]
    divisor: tuple[float, float] | None = None

    def intrinsics(self, K: ArrayLike) -> Floats:
        """Return the intrinsics of the resized image, given those of the original image."""
        if self.divisor is None:
            return scaled_intrinsics(K, *self.scale)
        return np.asarray(K, np.float64) / np.array([[self.divisor[0]], [self.divisor[1]], [1.0]])


def scaled_intrinsics(K: ArrayLike, sx: float, sy: float) -> Floats:
    """Return the intrinsics diag(sx, sy, 1) K of an image resized by (sx, sy).

    >>> scaled_intrinsics([[500, 0, 320], [0, 510, 240], [0, 0, 1]], 2, 0.5).tolist()
    [[1000.0, 0.0, 640.0], [0.0, 255.0, 120.0], [0.0, 0.0, 1.0]]
    """
    return np.asarray(K, np.float64) * np.array([[sx], [sy], [1.0]])


def in_frame(
    x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, resize0: Resize, resize1: Resize
) -> tuple[Floats, Floats, Floats, Floats]:
    """Map matches (n, 2), (n, 2) and intrinsics from original to resized images, as input of an estimator.

    >>> from tiepoint.geometry.two_view.scaling import long_side, original_size
    >>> half = long_side((640, 480), 320)
    >>> in_frame([[10, 20]], [[4, 2]], np.eye(3), np.eye(3), half, original_size((640, 480)))[0].tolist()
    [[5.0, 10.0]]
    """
    a, b = (
        np.asarray(x, np.float64).reshape(-1, 2) * np.asarray(resize.scale)
        for x, resize in ((x0, resize0), (x1, resize1))
    )
    return a, b, resize0.intrinsics(K0), resize1.intrinsics(K1)


def turned_intrinsics(K: ArrayLike, size: Size, turns: int) -> Floats:
    """Return K of an image rotated by `turns` quarter turns counter-clockwise (`np.rot90`).

    `size` is the size before the rotation. Odd numbers of turns swap the focal lengths. The principal point
    moves with its pixel: (cx, cy) becomes (cy, w-1-cx) after 1 turn, (w-1-cx, h-1-cy) after 2 and (h-1-cy,
    cx) after 3. Skew is set to 0.

    >>> turned_intrinsics([[500, 0, 320], [0, 510, 240], [0, 0, 1]], (640, 480), 1).tolist()
    [[510.0, 0.0, 240.0], [0.0, 500.0, 319.0], [0.0, 0.0, 1.0]]
    """
    k = np.asarray(K, np.float64)
    w, h = size
    fx, fy, cx, cy = k[0, 0], k[1, 1], k[0, 2], k[1, 2]
    turned = (
        (fx, fy, cx, cy),
        (fy, fx, cy, w - 1 - cx),
        (fx, fy, w - 1 - cx, h - 1 - cy),
        (fy, fx, h - 1 - cy, cx),
    )[turns % 4]
    return np.array([[turned[0], 0, turned[2]], [0, turned[1], turned[3]], [0, 0, 1]], np.float64)


def turned_pose(T: ArrayLike, turns0: int = 0, turns1: int = 0) -> Floats:
    """Return Z1 T Z0^-1, the pose T_0to1 between images rotated by quarter turns counter-clockwise.

    >>> turned_pose(np.eye(4), 0, 1)[:2, :2].tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    # Adding 0 converts -0 to 0.
    return np.asarray(_about_z(turns1) @ np.asarray(T, np.float64) @ _about_z(turns0).T + 0.0)


def _about_z(turns: int) -> Floats:
    c, s = _QUARTERS[turns % 4]
    z = np.eye(4)
    z[:2, :2] = [[c, -s], [s, c]]
    return z


def original_size(size: Size) -> Resize:
    """Return the resize that keeps the original size, with scale factors 1."""
    return Resize((size[0], size[1]), (1.0, 1.0))


def stretched_to(size: Size, width: float, height: float) -> Resize:
    """Return the resize to exactly (width, height), which ignores the aspect ratio.

    >>> stretched_to((1296, 968), 640, 480).size
    (640, 480)
    """
    w, h = size
    return Resize((width, height), (width / w, height / h), (w / width, h / height))


def superglue_size(size: Size, resize: tuple[int, ...]) -> Resize:
    """Return the resize that SuperGlue's `--resize` option selects.

    Two numbers are the exact new size. One number is the new length of the longer side, with both sides
    rounded half to even. -1 keeps the original size.

    >>> superglue_size((667, 1001), (1600,)).size
    (1066, 1600)
    """
    if len(resize) == 2 and resize[1] > -1:
        return stretched_to(size, *resize)
    if resize[0] == -1:
        return original_size(size)
    return long_side(size, resize[0], rounding="round")


def long_side(size: Size, n: float, rounding: str = "real") -> Resize:
    """Return the resize of the longer side to n pixels; see `short_side` for `rounding`.

    >>> long_side((1600, 1185), 1000).size
    (1000.0, 740.625)
    """
    return _one_side(size, n, n / max(size), size[0] >= size[1], rounding)


def short_side(size: Size, n: float, rounding: str = "real") -> Resize:
    """Return the resize of the shorter side to n pixels.

    `rounding` selects how side lengths are rounded. `real` does not round and uses one factor for both axes.
    `round` rounds half to even. `trunc` computes int(n w/h) or int(n / (w/h)). `round` and `trunc` give
    slightly different factors for x and y.

    >>> short_side((1000, 700), 480, "trunc").size, short_side((1000, 700), 480, "round").size
    ((685, 480), (686, 480))
    """
    return _one_side(size, n, n / min(size), size[0] < size[1], rounding)


def _one_side(size: Size, n: float, factor: float, fixed_width: bool, rounding: str) -> Resize:
    w, h = size
    if rounding == "real":
        return Resize((w * factor, h * factor), (factor, factor))
    if rounding == "round":
        new: Size = (round(w * factor), round(h * factor))
    elif rounding == "trunc":
        new = (int(n), int(n / (w / h))) if fixed_width else (int(n * w / h), int(n))
    else:
        raise InputError(f"`rounding`: unknown value {rounding!r}; choose real, round or trunc")
    return Resize(new, (new[0] / w, new[1] / h))
