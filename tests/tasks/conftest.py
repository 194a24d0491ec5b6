# SPDX-License-Identifier: BSD-3-Clause
"""Small worlds and plain restatements that the tests of all tasks share stand beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
