"""Worker processes: what they raise arrives, and none is left when the work is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path

import pytest

from tiepoint.core.errors import InputError, ProblemsError, UnitError
from tiepoint.run.context import ContextRecipe
from tiepoint.run.engine import evaluate
from tiepoint.run.executors import process_pool
from tiepoint.run.executors.process_pool import ProcessPool, block_interrupts_in_workers
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")

MINE = """
import time
import numpy as np

class OwnError(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")

class Slow:
    name = "slow"
    def describe(self, patches):
        time.sleep(0.6)
        return patches.reshape(len(patches), -1)[:, :4] + 1.0

class Raises:
    name = "raises"
    def describe(self, patches):
        raise OwnError("this", "that")
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use workers however small the work is."""
    monkeypatch.setattr("tiepoint.run.compute.MIN_PARALLEL_WORK_S", 0.0)


@pytest.mark.usefixtures("always")
def test_bad_input_met_by_a_worker_is_told_as_it_is_without(
    patches: Path, tables: Path, tmp_path: Path, edit: Callable[[Path, int, str], None]
) -> None:
    edit(tables / "v_cc" / "t4.csv", 5, "1,2,3")
    edit(tables / "v_bb" / "e1.csv", 2, "nan,1,1,1")
    edit(tables / "v_bb" / "e2.csv", 2, "x,1,1,1")
    told = []
    for jobs in (1, 2):
        with Store.open(tmp_path / f"s{jobs}") as store, pytest.raises(ProblemsError) as found:
            evaluate(RunRequest(f"files:{tables}", "hpatches/matching", patches, jobs=jobs), store)
        told.append(str(found.value))
    assert told[0] == told[1]
    assert "3 problems" in told[0]


@pytest.mark.usefixtures("always")
def test_an_error_that_cannot_travel_is_a_failed_unit(patches: Path, mine: Path, tmp_path: Path) -> None:
    request = RunRequest(f"{mine}:Raises", "hpatches/matching", patches, jobs=2)
    with Store.open(tmp_path / "s") as store, pytest.raises(UnitError, match="this and that"):
        evaluate(request, store)


@pytest.mark.usefixtures("always")
def test_a_worker_that_cannot_start_says_why(
    patches: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiepoint.run import engine

    made = engine.worker_recipe

    def lost(request: RunRequest, *rest: object) -> object:
        from dataclasses import replace

        recipe = made(request, *rest)  # type: ignore[arg-type]
        return None if recipe is None else replace(recipe, data="nowhere")

    monkeypatch.setattr(engine, "worker_recipe", lost)
    request = RunRequest(f"files:{tables}", "hpatches/matching", patches, jobs=2)
    with Store.open(tmp_path / "s") as store, pytest.raises(InputError, match="nowhere"):
        evaluate(request, store)


def _children(pid: int) -> list[int]:
    """Workers of a process that have begun to run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            command = stat.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(stat.parent.name))
    return found


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_no_worker_is_left_when_the_command_is_stopped(
    patches: Path, mine: Path, tmp_path: Path, number: int, code: int
) -> None:
    store = tmp_path / "s"
    command = [sys.executable, "-m", "tiepoint", "run", f"{mine}:Slow", "--task", "hpatches/matching"]
    command += ["--data", str(patches), "--store", str(store), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while len(workers := _children(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    while len(list(store.glob("features/*/*/meta.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=120)
    assert len(workers) == 2
    assert process.returncode == code
    if code > 0:
        assert said.endswith("tiepoint: Interrupted. Finished work is saved; rerun the command to resume.\n")
        assert not list(store.rglob(".tmp-*"))
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_runs, workers))


@pytest.mark.slow
@linux
def test_an_interrupt_while_workers_start_is_not_lost() -> None:
    def starting() -> None:
        with block_interrupts_in_workers():
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        starting()


@linux
def test_a_ctrl_c_does_not_reach_the_first_workers_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's tracker of semaphores, started with the first of them, lets the signal in again."""
    blocked: list[bool] = []

    def is_blocked() -> bool:
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def started() -> None:
        blocked.append(is_blocked())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    monkeypatch.setattr("multiprocessing.resource_tracker.ensure_running", started)
    with block_interrupts_in_workers():
        assert is_blocked()
    assert blocked == [False]


def test_a_pool_whose_worker_died_before_all_jobs_were_handed_over_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The executor refuses work at once when it has noticed the death."""

    def refuse(*_: object) -> None:
        raise BrokenProcessPool("A child process terminated abruptly")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", refuse)
    recipe = ContextRecipe("t", "d", {}, "m", {}, "nowhere", 1, None)
    with pytest.raises(UnitError, match="a worker process died"):
        ProcessPool(2).run(print, {"a": 1}, recipe, lambda: None, None)  # type: ignore[arg-type]


def _nothing(_context: object, _argument: object) -> int:
    return 1


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_worker_that_does_not_end_is_killed_when_the_pool_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tiepoint.run.executors.process_pool.SHUTDOWN_TIMEOUT_S", 0.5)
    pool = ProcessPool(2)
    pool._started().submit(_nothing, None, None).result()
    workers = list((pool._pool._processes or {}).values()) if pool._pool else []
    assert workers
    for worker in workers:  # like one that waits for a lock of a dead one
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
    pool.close()
    for worker in workers:  # its exit code may be on its way to another thread that waits for it
        assert connection.wait([worker.sentinel], 60)


def test_a_script_without_its_guard_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers run it again and die at once, which is no lack of memory."""
    main = types.ModuleType("__main__")
    main.__file__ = "mine.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert 'mine.py has no `if __name__ == "__main__":`' in str(process_pool._died())
    main.__file__ = "/usr/bin/tiepoint"
    assert "__main__" not in str(process_pool._died())
