# SPDX-License-Identifier: BSD-3-Clause
"""Compiled code on disk is made anew when any file it was made from changes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLER = """
from tiepoint.core.numba_cache import cached_njit
from callee import step

@cached_njit()
def twice(x):
    return step(step(x))
"""
CALLEE = """
from tiepoint.core.numba_cache import cached_njit

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
from tiepoint.core.numba_cache import compiled_for
from .values import STEP

@compiled_for(lambda real: real(real))
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


STEP = """
from tiepoint.core.numba_cache import cached_njit

@cached_njit()
def step(x):
    return x + 1
"""
CALL = "import step; print(step.step(1), sum(step.step.stats.cache_hits.values()))"


def called(folder: Path, cache: Path, *, before: str = "") -> tuple[str, str]:
    """What is printed, and what is said of the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home" / "cache")}
    (folder / "step.py").write_text(STEP)
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{CALL}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_damaged_code_is_compiled_anew(tmp_path: Path) -> None:
    """It ended in `EOFError`, in every run, or ran whatever the bits had become."""
    cache = tmp_path / "cache"
    assert called(tmp_path, cache)[0] == "2 0"
    (file,) = (p for p in cache.rglob("*") if p.is_file())
    whole = file.read_bytes()
    for damaged in (b"", whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:]):
        file.write_bytes(damaged)
        assert called(tmp_path, cache) == ("2 0", "")
    assert called(tmp_path, cache) == ("2 1", "")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the mode of a folder says who may write it")
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "shared" / "cache"
    assert called(tmp_path, cache)[0] == "2 0"
    (file,) = (p for p in cache.rglob("*") if p.is_file())
    planted = b"cos\nsystem\n(S'echo owned'\ntR."
    file.write_bytes(hashlib.sha256(planted).digest() + planted)
    (tmp_path / "__pycache__").mkdir(mode=0o700, exist_ok=True)
    for place, mode in ((file.parent, 0o777), (cache.parent, 0o777), (file, 0o666)):
        before = place.stat().st_mode
        place.chmod(mode)
        printed, said = called(tmp_path, cache)
        assert printed.startswith("2 ")
        assert said.count("\n") == (place != file)
        assert (place == file) or "other users can write" in said
        place.chmod(before)


def test_a_cache_that_cannot_be_written_does_not_stop_a_run(tmp_path: Path) -> None:
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))"
    pytest.importorskip("resource", reason="limits the size of files by it")
    assert called(tmp_path, tmp_path / "full", before=limit) == ("2 0", "")
    assert not [p for p in (tmp_path / "full").rglob("*") if p.is_file()]
    gone = "import numba.core.caching as c\nc._CacheLocator.ensure_cache_path = lambda self: open('/no/x')"
    assert called(tmp_path, tmp_path / "gone", before=gone) == ("2 0", "")


def test_a_count_of_threads_that_is_none_is_told_before_numba_fails_on_it():
    ended = subprocess.run(
        [sys.executable, "-c", "import tiepoint.core.numba_cache"],
        env={**os.environ, "NUMBA_NUM_THREADS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "InputError: the environment variable NUMBA_NUM_THREADS is '0'" in ended.stderr
