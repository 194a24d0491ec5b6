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
    return printed(
        folder, "import caller; print(caller.twice(1), sum(caller.twice.stats.cache_hits.values()))"
    )


def printed(folder: Path, code: str) -> str:
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


KERNEL = """
import numpy as np
from numba import types
from tiepoint.model.compiled import compiled
from .values import STEP

@compiled(lambda real: real(real))
def raised(x):
    return x + STEP
"""


def test_a_change_of_a_constant_of_another_file_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "loops.py").write_text(KERNEL)
    code = (
        "import numpy as np; from kernels.loops import raised; made = [raised(np.float64), raised(np.int64)];"
        "print(*(f(1) for f in made), *(sum(f.stats.cache_hits.values()) for f in made))"
    )
    (folder / "values.py").write_text("STEP = 1\n")
    assert printed(tmp_path, code) == "2.0 2 0 0"
    assert printed(tmp_path, code) == "2.0 2 1 1"
    (folder / "values.py").write_text("STEP = 7\n")
    assert printed(tmp_path, code) == "8.0 8 0 0"
    # A file for each variant and no index that two processes could write at once.
    kept = [p.suffix for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert kept == [".nbc"] * 4
