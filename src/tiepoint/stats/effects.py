# SPDX-License-Identifier: BSD-3-Clause
"""How large a difference is, how small a one could have been seen, and in how many scenes it shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .signflip import FLIPS, is_exact

Array = NDArray[np.float64]


def effect_size(difference: float, se: float, n_scenes: int) -> float:
    """Difference in units of its spread from scene to scene: difference / (se sqrt(n)).

    For a plain mean of paired differences it is mean / standard deviation. It does not grow with the number
    of scenes, unlike a p-value. NaN without spread.

    >>> effect_size(0.02, 0.01, 4)
    1.0
    """
    return difference / (se * float(np.sqrt(n_scenes))) if se > 0 else float("nan")


def smallest_resolvable(se: float, df: float, *, critical: float | None = None, power: float = 0.8) -> float:
    """The true difference that such data would separate with the given probability.

    (critical + t_power) se, where `critical` is the value |t| must exceed; by default that of a single test
    at 95 %, for a family the one of its max-T. Two methods whose true difference is smaller may well not be
    separated: it then says little that they are not.

    >>> round(smallest_resolvable(0.01, 100), 4)
    0.0283
    """
    from scipy.special import stdtrit

    limit = float(stdtrit(df, 0.975)) if critical is None else critical
    return (limit + float(stdtrit(df, power))) * se


def smallest_p(n_scenes: int, flips: int = FLIPS) -> float:
    """The smallest p-value a sign-flip test of n scenes can reach.

    >>> smallest_p(5), smallest_p(115) < 1.1e-5
    (0.0625, True)
    """
    return 2.0 ** (1 - n_scenes) if is_exact(n_scenes, flips) else 1.0 / (flips + 1)


def win_tie_loss(a: Array, b: Array, *, tolerance: float = 1e-9) -> tuple[int, int, int]:
    """In how many scenes a is above b, level with it, below it; scenes without both values are left out.

    >>> win_tie_loss(np.array([0.3, 0.2, 0.1, np.nan]), np.array([0.1, 0.2, 0.4, 0.5]))
    (1, 1, 1)
    """
    gap = (a - b)[np.isfinite(a) & np.isfinite(b)]
    wins, losses = int((gap > tolerance).sum()), int((gap < -tolerance).sum())
    return wins, len(gap) - wins - losses, losses
