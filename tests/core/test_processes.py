# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiepoint.core.processes import is_alive, started_at


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say how processes are")
def test_a_process_that_ended_is_not_alive_though_nobody_asked_for_its_number() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    until = time.monotonic() + 30
    while " Z " not in Path(f"/proc/{child.pid}/stat").read_text() and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_alive(child.pid)
    assert child.wait() == 0
    assert is_alive(os.getpid(), started_at(os.getpid()))
