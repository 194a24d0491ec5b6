# SPDX-License-Identifier: BSD-3-Clause
"""Pictures and numbers of one flow: in colour, as an error map, as a warped image, point by point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..geometry.flow.color import flow_color, max_motion
from ..geometry.flow.warp import warp_image
from ..metrics.dense import endpoint_error
from ..tasks.cases import DenseCase
from .pictures.flow import error_map

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
ERROR_MAP_WHITE_FRACTION = 0.05
"""The error map is white from this share of the target's larger side on."""


@dataclass(frozen=True)
class DenseView:
    """A flow of `source` onto `target`, all pictures (h, w, 3) of the flow's size.

    `flow` is in colour, `warped` the target pulled back onto the source; `error` and `true_flow` are None
    without a true flow. `errors_px` (h, w) are NaN where the truth is unknown and infinite where the flow is.
    `points`, `found` and `true_points` (q, 2) are keypoints, where the flow takes them and where they belong.
    """

    source: Image
    target: Image
    flow: Image
    warped: Image
    error: Image | None
    true_flow: Image | None
    errors_px: Floats | None
    longest_px: float
    """The error that is white in the error map."""
    points: Floats | None = None
    found: Floats | None = None
    true_points: Floats | None = None


def dense_view(case: DenseCase) -> DenseView | None:
    """The pictures of a flow; None where there is none. Colours of both flows have the scale of the true one.

    >>> image, flow = np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6, 2))
    >>> view = dense_view(DenseCase(image, image, flow + 3, flow))
    >>> view.error.shape, float(view.errors_px[0, 0].round(3))
    ((4, 6, 3), 4.243)
    """
    if case.flow is None:
        return None
    flow = np.asarray(case.flow, np.float64)
    truth = None if case.truth is None else np.asarray(case.truth, np.float64)
    longest_px = ERROR_MAP_WHITE_FRACTION * max(case.target.shape[:2])
    scale = max_motion(flow if truth is None else truth)
    coloured = flow_color(flow, longest=scale)
    error, errors, true = None, None, None
    if truth is not None:
        error = error_map(flow, truth, longest_px=longest_px)
        errors = np.asarray(endpoint_error(flow, truth), np.float64)
        true = flow_color(truth, longest=scale)
    return DenseView(
        case.source,
        case.target,
        coloured,
        warp_image(case.target, flow),
        error,
        true,
        errors,
        longest_px,
        case.points,
        case.found,
        case.true_points,
    )
