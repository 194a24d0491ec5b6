# SPDX-License-Identifier: BSD-3-Clause
"""Worlds of the tasks stand in `tests/tasks`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks"))
sys.path.insert(0, str(Path(__file__).parent))
