# SPDX-License-Identifier: BSD-3-Clause
"""Tools around a benchmark. `race` finds out with few units which method is ahead."""

from .racing import RaceResult, race

__all__ = ["RaceResult", "race"]
