"""Short versions of ``bench/kill.py`` and ``bench/kill_exec.py``: nothing differs or is left after kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "bench" / "kill.py"


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_six_kills_change_nothing_and_leave_nothing() -> None:
    pytest.importorskip("skimage.data", reason="the dense pairs are made of its photographs")
    command = [
        sys.executable,
        str(SCRIPT),
        "--kills",
        "6",
        "--families",
        "dense",
        "--jobs",
        "1",
        "--lanes",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "differences and leftovers: 0" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_kills_of_programs_change_nothing_and_leave_nothing() -> None:
    script = SCRIPT.with_name("kill_exec.py")
    command = [sys.executable, str(script), "--kills", "6", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "differences and leftovers 0" in done.stdout
