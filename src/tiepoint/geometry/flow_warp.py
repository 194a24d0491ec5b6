# SPDX-License-Identifier: BSD-3-Clause
"""What lies where a flow points: warping by a flow, and mirrored flows turned back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .flow_validity import UNKNOWN, known

Flow = NDArray[Any]


def warp_image(
    image: NDArray[np.uint8], flow: Flow, *, outside: tuple[int, ...] = (0, 255, 255)
) -> NDArray[np.uint8]:
    """Image 2 (h, w) or (h, w, c) seen from image 1: its colour at ``p + flow(p)``, uint8.

    Positions are rounded to 1/32 px and weights are integers, as in OpenCV's `remap`, so pictures do not
    depend on its version. Samples outside the image are `outside`, blended in at the border.

    >>> warp_image(np.array([[10, 20]], np.uint8), np.full((1, 2, 2), [0.5, 0.0]), outside=(0,)).tolist()
    [[15, 10]]
    """
    from ._remap import remap_bytes

    stack = np.ascontiguousarray(image.reshape(*image.shape[:2], -1))
    border = np.array(outside[: stack.shape[2]], np.int64)
    values = np.ascontiguousarray(flow, np.float32)
    out = remap_bytes(stack, values, border)
    return out.reshape(flow.shape[:2] + image.shape[2:])


def unflip(flow: Flow, width: int) -> Flow:
    """Flow into an image from the flow into its mirror image; `width` is that image's width.

    Mirrored pairs are easier to match after turning image 2 over (``image2[:, ::-1]``). A flow found that way
    points to ``x + u`` in the mirror image, which is ``width - 1 - (x + u)`` in the image itself:
    ``u' = (width - 1) - (x + u) - x``. v stays, unknown stays unknown. float64 stays float64, all else
    becomes float32, rounded once. Twice gives the flow back up to that rounding: u' can be as large as the
    image is wide, so in float32 u is off by up to 6e-5 px at widths below 1024, by more at larger ones.

    >>> flow = np.zeros((1, 3, 2))
    >>> unflip(flow, 3)[..., 0].tolist()
    [[2.0, 0.0, -2.0]]
    """
    out: Flow = np.array(flow, np.float64 if flow.dtype == np.float64 else np.float32)
    x = np.arange(flow.shape[1])
    turned = (width - 1) - 2 * x - out[..., 0].astype(np.float64)
    out[..., 0] = np.where(known(flow), turned, out[..., 0])
    return out


def flip_source(flow: Flow, width: int) -> Flow:
    """Flow on an image from the flow on its mirror image: columns turned over, u negated and shifted.

    For a flow found on ``image1[:, ::-1]`` (of this `width`) into an image 2 that was not turned over.
    Column x of the image is column ``width - 1 - x`` of its mirror: ``u'(x) = u(x_m) + x_m - x``.

    >>> flip_source(np.zeros((1, 3, 2)), 3)[..., 0].tolist()
    [[2.0, 0.0, -2.0]]
    """
    out: Flow = np.array(flow[:, ::-1], np.float64 if flow.dtype == np.float64 else np.float32)
    x = np.arange(width, dtype=out.dtype)
    valid = known(out)
    out[..., 0] = out[..., 0] + ((width - 1 - x) - x)
    return np.where(valid[..., None], out, out.dtype.type(UNKNOWN))
