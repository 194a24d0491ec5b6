# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods with few units, `plan` how many scenes a benchmark needs."""

from .planning import plan
from .racing import RaceResult, race

__all__ = ["RaceResult", "plan", "race"]
