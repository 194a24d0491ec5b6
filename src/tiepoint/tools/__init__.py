# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods, `plan` a benchmark, estimate scores from a `subset`."""

from .planning import plan
from .racing import RaceResult, race
from .subsets import Subset, subset

__all__ = ["RaceResult", "Subset", "plan", "race", "subset"]
