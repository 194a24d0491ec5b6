# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods, `plan` its size, estimate from a `subset`, `stress` methods.

`choose` compares methods on images without ground truth.
"""

from .choosing import ChoiceResult, choose
from .planning import plan
from .racing import RaceResult, race
from .stress import StressResult, stress
from .subsets import Subset, subset

__all__ = [
    "ChoiceResult", "RaceResult", "StressResult", "Subset", "choose", "plan", "race", "stress", "subset",
]  # fmt: skip
