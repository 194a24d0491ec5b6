# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods, `plan` its size, estimate from a `subset`, `stress` methods."""

from .planning import plan
from .racing import RaceResult, race
from .stress import StressResult, stress
from .subsets import Subset, subset

__all__ = ["RaceResult", "StressResult", "Subset", "plan", "race", "stress", "subset"]
