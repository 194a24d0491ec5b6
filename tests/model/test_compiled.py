# SPDX-License-Identifier: BSD-3-Clause
"""Compiled code on disk is made anew when any file it was made from changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CALLER = """
from tiepoint.model.compiled import cached_njit
from callee import step

@cached_njit()
def twice(x):
    return step(step(x))
"""
CALLEE = """
from tiepoint.model.compiled import cached_njit

@cached_njit()
def step(x):
    return x + {}
"""


def answer(folder: Path) -> str:
    code = "import caller; print(caller.twice(1), sum(caller.twice.stats.cache_hits.values()))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_change_in_a_called_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    assert answer(tmp_path) == "3 0"
    assert answer(tmp_path) == "3 1"
    (tmp_path / "callee.py").write_text(CALLEE.format(5))
    assert answer(tmp_path) == "11 0"
