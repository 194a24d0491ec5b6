# SPDX-License-Identifier: BSD-3-Clause
"""Compare the principal point of a camera with the size of its image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .pair import Matrix, Size

MIN_RESIZED, MIN_SWAPPED = 0.35, 0.25
"""Minimum offset of the principal point from the image centre, for a resized image or for swapped cx and cy.

The unit is half the image size. If K belongs to an image of 3/4 of the size, the offset is 0.35.
"""
MAX_EXPLAINED = 0.25
"""Largest offset after the suspected mistake is corrected. It excludes crops, whose offset stays large."""
_FRACTIONS = {0.25: "a quarter of", 0.5: "half", 2.0: "twice", 4.0: "four times"}


class CameraDoubt(NamedTuple):
    """A principal point that contradicts the image size: the kind of mistake, and the message."""

    kind: str
    message: str


def doubt_principal_point(K: Matrix, size: Size) -> CameraDoubt | None:
    """Return why K is probably wrong for an image of (width, height); None if it is plausible.

    The principal point of most cameras is near the image centre. It is suspicious if it is far from the
    centre, and scaling K or exchanging cx and cy moves it close to the centre.

    >>> K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    >>> doubt_principal_point(K, (640, 480)) is None
    True
    >>> doubt_principal_point(K, (1280, 960)).kind, doubt_principal_point(K, (480, 640)).kind
    ('resized', 'swapped')
    """
    point = K[:2, 2].astype(np.float64)
    share = 2 * point / np.array(size)
    factor = float(share.mean())
    offset = _offset(share)
    resized = _offset(share / factor) if factor > 0 else np.inf
    swapped = _offset(2 * point[::-1] / np.array(size))
    where = f"the principal point ({point[0]:g}, {point[1]:g})"
    limit = min(offset / 2, MAX_EXPLAINED)
    if offset > MIN_SWAPPED and swapped < min(limit, resized):
        message = f"{where} fits an image of {size[0]} x {size[1]} pixels if cx and cy are exchanged"
        return CameraDoubt("swapped", f"{message}; are they given in the order of rows and columns?")
    if offset > MIN_RESIZED and resized < limit:
        message = (
            f"{where} fits an image of {_times(factor)} the size, and the image has {size[0]} x {size[1]}"
        )
        return CameraDoubt("resized", f"{message} pixels; is K given for resized images? Scale it")
    if not (0 <= share[0] <= 2 and 0 <= share[1] <= 2):
        message = f"{where} is outside the image of {size[0]} x {size[1]} pixels"
        return CameraDoubt("outside", f"{message}; is K that of another size?")
    return None


def _offset(share: Matrix) -> float:
    """Return the distance from the image centre, in units of half the image size."""
    return float(np.hypot(*(share - 1)))


def _times(factor: float) -> str:
    near = min(_FRACTIONS, key=lambda known: abs(np.log(factor / known)))
    return _FRACTIONS[near] if abs(factor / near - 1) < 0.1 else f"{factor:.2g} times"
