# SPDX-License-Identifier: BSD-3-Clause
"""The short version of ``bench/kill_races.py``: races are killed and resumed, and nothing differs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "bench" / "kill_races.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_four_kills_change_no_race() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "4", "--ways", "process"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "every resumed race equals the undisturbed one" in done.stdout
