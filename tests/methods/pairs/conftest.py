# SPDX-License-Identifier: BSD-3-Clause
"""Matches written as several programs would stand beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
