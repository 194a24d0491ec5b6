# SPDX-License-Identifier: BSD-3-Clause
"""When a flow is known, and the choices in which tools differ when they resize, sample and judge flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 1e10
"""Written into both channels where a flow is not known."""

LIMIT = 1e9
"""A component beyond this is not a displacement but a code for unknown."""


def is_known_flow(flow: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a flow (..., 2) is known: ``|u| <= 1e9 and |v| <= 1e9``; NaN, inf and every larger code are not.

    The one predicate of scores, pictures and converters. A component of exactly 1e9 is known.

    >>> is_known_flow(np.array([[0, 0], [1e10, 0], [0, -1e10], [np.nan, 0], [1e9, 0]])).tolist()
    [True, False, False, False, True]
    """
    return (np.abs(flow[..., 0]) <= LIMIT) & (np.abs(flow[..., 1]) <= LIMIT)


def loop_ready(flow: Any) -> NDArray[Any]:
    """A flow (h, w, 2) as compiled loops need it: native float32 or float64 that lies in one piece.

    float16 and big-endian float32 become float32, everything else that is a real number float64. What fits
    already is returned as it is.

    >>> loop_ready(np.ones((2, 3, 2), ">f4")[:, ::-1]).dtype.name
    'float32'
    """
    values = np.asarray(flow)
    if values.ndim != 3 or values.shape[2] != 2 or values.dtype.kind not in "fiub":
        raise ValueError(f"a flow is (height, width, 2) real numbers, found {values.dtype} {values.shape}")
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.require(values, np.float32 if small else np.float64, ["C", "A"])


RESAMPLINGS = ("bilinear", "opencv", "imresize")


@dataclass(frozen=True)
class FlowRule:
    """How flows and masks change size, meet the truth, and become masks. The defaults are the sound ones.

    Attributes:
        resampling: `bilinear` works in float64, and a contributor of weight 0 contributes nothing. `opencv`
            repeats its arithmetic: float32, steps of 1/32 px where a flow is sampled, integer weights for
            masks, and 0 times NaN is NaN. `imresize` repeats MATLAB's: float64, antialiased, and cubic where
            a flow is sampled.
        first_pixel: coordinate of the first pixel in the formula of `resize_flow_pair`. 1/2 keeps pixel areas
            where they are.
        closed_px: there and back must end nearer than this to the start (`consistency_masks`), plus
        closed_share: this part of the larger side of the target image.
        unknown_error_px: error of an unknown estimate.
        double_factors: with `opencv`, a resized flow is scaled by factors of float64, each product rounded to
            float32; else all of it is float32.
        both_unknown: with `opencv`, a round trip that is unknown both ways is judged by its sum; else it is
            not consistent.
        lenient: truth is known where ``u < 1e9``, whatever v is, and a NaN error is above no threshold.

    >>> FlowRule(closed_px=20.0, closed_share=0.0).closed((300, 400))
    20.0
    """

    resampling: str = "bilinear"
    first_pixel: float = 0.5
    closed_px: float = 0.0
    closed_share: float = 0.025
    unknown_error_px: float = float("inf")
    double_factors: bool = False
    both_unknown: bool = False
    lenient: bool = False

    def __post_init__(self) -> None:
        if self.resampling not in RESAMPLINGS:
            raise ValueError(f"unknown resampling {self.resampling!r}; one of {RESAMPLINGS}")

    @property
    def dtype(self) -> type:
        """Type of the arithmetic."""
        return np.float32 if self.resampling == "opencv" else np.float64

    def closed(self, target: tuple[int, int]) -> float:
        """The distance in pixels below which a round trip is consistent; `target` is (height, width)."""
        return self.closed_px + self.closed_share * max(target)


SOUND = FlowRule()
