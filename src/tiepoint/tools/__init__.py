# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark: `race` methods with few units, `plan` how many scenes a benchmark needs.

`choose` compares methods on images without ground truth.
"""

from .choosing import ChoiceResult, choose
from .planning import plan
from .racing import RaceResult, race

__all__ = ["ChoiceResult", "RaceResult", "choose", "plan", "race"]
