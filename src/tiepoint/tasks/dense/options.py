# SPDX-License-Identifier: BSD-3-Clause
"""Options of the dense tasks, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..info import MetricInfo
from ..options import Flag, Names, Numbers, TaskOptions

ENDPOINT_ERROR = MetricInfo(
    "mean distance from the true place of the pixels where both flows are known", unit="px", better="lower"
)


class DenseOptions(TaskOptions):
    """What every dense task knows."""

    missing: Literal["error", "skip", "zero"] = "error"
    """What is missing stops the run, is left out of the means (`skip`), or counts 0 (`zero`)."""


class PairOptions(DenseOptions):
    """What `dense/flow` and `dense/pck` know."""

    kinds: Names = ()
    """Subsets or classes to use; all by default."""


class FlowOptions(PairOptions):
    """Options of `dense/flow`."""

    thresholds_px: Numbers = (1.0, 3.0, 5.0, 10.0)
    """Thresholds of the accuracy in pixels."""

    alphas: Numbers = (0.01, 0.05, 0.1)
    """Thresholds of the accuracy as fractions of the target image's larger side."""


class PckOptions(PairOptions):
    """Options of `dense/pck`."""

    alphas: Numbers = (0.01, 0.03, 0.05, 0.1, 0.15)
    """Fractions of the length within which a keypoint is right."""

    scale: Literal["image", "box", "keypoints"] = "keypoints"
    """The length of the headline: the image's larger side, the object's box, or the keypoints' extent."""


class TssOptions(DenseOptions):
    """Options of `tss`."""

    auto_flip: Flag = False
    """Invert both masks of a pair where that raises its score."""

    use_prec: Flag = False
    """Write pixel accuracy instead of intersection over union into ``scores.csv``."""

    subsets: Names = ()
    """Subsets to use; all by default."""


def left_out(problems: Sequence[str], *, shown: int = 5) -> list[str]:
    """Warnings about pairs left out because of their ground truth; many become few and a count.

    >>> left_out(["a: x is missing", "b: x is missing"], shown=1)
    ['pair left out: a: x is missing', 'and 1 more problem of ground truth']
    """
    rest = len(problems) - shown
    more = [f"and {rest} more problem{'s' if rest > 1 else ''} of ground truth"] if rest > 0 else []
    return [*(f"pair left out: {p}" for p in problems[:shown]), *more]
