"""What killed processes leave outside a store goes with the next one that starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tiepoint.core import processes
from tiepoint.core.processes import is_alive, started_at, this_host
from tiepoint.run.session import RunSession


def killed() -> str:
    """How names of a process begin that was killed."""
    code = "import sys; from tiepoint.core.processes import process_prefix\n"
    code += "print(process_prefix(), flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return name


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Own folders for temporary files and shared memory."""
    made = tmp_path / "tmp", tmp_path / "shm"
    for place in made:
        place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made[0]))
    monkeypatch.setattr(processes, "SHARED_MEMORY", made[1])
    return made


def test_only_what_dead_processes_of_this_machine_left_is_removed(places: tuple[Path, Path]) -> None:
    temporary, memory = places
    dead = killed()
    (temporary / f"{dead}x").mkdir()
    (temporary / f"{dead}x" / "file").touch()
    (memory / f"sem.{dead}y").touch()
    stay = [
        temporary / f"{processes.process_prefix()}z",
        temporary / f"{dead}".replace(this_host(), "0" * 8),
        temporary / "tiepoint-notes",
        memory / "sem.mp-abc",
    ]
    for path in stay:
        path.touch()
    with processes.scratch_folder() as folder:
        assert set(temporary.iterdir()) == {Path(folder), *stay[:3]}
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert list(memory.iterdir()) == stay[3:]


@pytest.mark.skipif(started_at(os.getpid()) is None, reason="the system does not tell when a process started")
def test_what_killed_runs_left_goes_when_the_next_begins(places: tuple[Path, Path], tmp_path: Path) -> None:
    temporary, _ = places
    mine = processes.process_prefix()
    dead = mine.removesuffix(f"{started_at(os.getpid())}-") + "1-"  # one that had our number before
    for name in (dead, mine):
        (temporary / f"{name}x").mkdir()
    with RunSession(tmp_path / "store"):
        assert [p.name for p in temporary.iterdir()] == [f"{mine}x"]


def test_a_process_that_took_the_number_of_another_is_not_it() -> None:
    me = os.getpid()
    assert is_alive(me, started_at(me))
    assert not is_alive(me, (started_at(me) or 2) - 1) or started_at(me) is None
    assert not is_alive(-1)
    assert not is_alive(10**30)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no folder of shared memory")
def test_semaphores_bear_the_name_of_their_process() -> None:
    code = """
import multiprocessing, os
from tiepoint.core.processes import process_prefix, name_semaphores
name_semaphores()
lock = multiprocessing.get_context("spawn").Lock()
print(any(name.startswith(f"sem.{process_prefix()}") for name in os.listdir("/dev/shm")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
