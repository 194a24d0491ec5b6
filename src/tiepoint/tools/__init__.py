# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods, `plan` its size, `stress` methods until they break."""

from .planning import plan
from .racing import RaceResult, race
from .stress import StressResult, stress

__all__ = ["RaceResult", "StressResult", "plan", "race", "stress"]
