# SPDX-License-Identifier: BSD-3-Clause
"""Kill races at random moments, resume them, and compare them with undisturbed races.

    python bench/kill_races.py --kills 200 [--seed 0] [--ways process,worker,dask] [--work DIR]

Every store is built by several processes ("lives") of the same race. Each life is killed with SIGKILL at a
random moment: its process group or its main process alone (`process`), one of two worker processes
(`worker`), or one worker of a local Dask cluster (`dask`). Then a last life finishes. Its race file must
equal that of the undisturbed race except for the time of its start, all its records must be readable, and
`store check` must find no problem. The exit code is 1 if anything differs. Needs Linux.

Lives of the way `process` are forked from a process that has imported everything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "run" / "race"))

from race_world import write_world

from tiepoint.cli.main import run as tiepoint
from tiepoint.store.maintenance.verify import check_store

WAYS = {
    "process": (),
    "worker": ("--jobs", "2", "--batch", "8"),
    "dask": ("--cluster", "local:2", "--batch", "8"),
}
"""Options of the race by the way of killing."""
MOST_KILLS = 4
"""Kills of one store before a life may finish."""
START_S = {"process": 0.0, "worker": 3.0, "dask": 6.0}
"""Seconds before a life has workers."""
STUCK_S = 240.0


def command(data: Path, store: Path, way: str) -> list[str]:
    """Return the arguments of a race of three methods."""
    spec = f"{data.parent / 'mine.py'}:Shift?noise="
    methods = [f"{spec}{noise}" for noise in (0.6, 1.0, 1.4)]
    what = [
        "--task",
        "semantic/pck",
        "--data",
        str(data),
        "--group",
        "alpha=0.05,per=pair",
        "--goal",
        "order",
    ]
    return ["race", *methods, *what, "--store", str(store), "-q", *WAYS[way]]


def start(arguments: list[str], way: str, said: Path) -> int:
    """Start a life in a session of its own, whose output goes to a file. Return its process id."""
    if way != "process":
        code = f"import sys; from tiepoint.cli.main import run; sys.exit(run({arguments!r}))"
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        with said.open("wb") as out:
            whole = [sys.executable, "-c", code]
            return subprocess.Popen(whole, start_new_session=True, stdout=out, stderr=out, env=env).pid
    pid = os.fork()
    if pid == 0:
        os.setsid()
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        code = 1
        try:
            code = tiepoint(arguments)
        finally:
            os._exit(code)
    return pid


def wait(pid: int, seconds: float) -> int | None:
    """Wait for a process. Return its exit code, or None if it still runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def session_of(pid: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == pid and fields[0] != "Z":
                    found.append(int(path.name))
    return found


def is_worker(pid: int) -> bool:
    """Return whether a process was started to run jobs."""
    with contextlib.suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def kill(pid: int, way: str, rng: random.Random) -> str:
    """Kill a life, its main process, or one of its workers. Return what was hit."""
    if way == "process":
        whole = rng.random() < 0.5
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(pid, signal.SIGKILL)
        return "group" if whole else "main"
    workers = [p for p in session_of(pid) if p != pid and is_worker(p)]
    if not workers or rng.random() < 0.25:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"main of {way}"
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(workers), signal.SIGKILL)
    return way


def end_session(pid: int) -> None:
    """End what is left of a life."""
    for one in session_of(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def race_of(store: Path) -> dict[str, Any]:
    """Return the only race of a store without its times and checksum."""
    (path,) = (store / "races").glob("*.json")
    plain: dict[str, Any] = json.loads(path.read_text())
    return {k: v for k, v in plain.items() if k not in ("created_at", "seal")}


def finish(arguments: list[str], way: str, said: Path) -> None:
    """Run lives until one ends by itself with success. A life whose worker died may fail."""
    for _ in range(3):
        pid = start(arguments, way, said)
        code = wait(pid, STUCK_S)
        end_session(pid)
        if code == 0:
            return
    raise SystemExit(f"{way}: the race does not finish, exit code {code}: {said.read_text()[-3000:]}")


def problems_of(store: Path, expected: dict[str, Any]) -> list[str]:
    """Return what differs from the undisturbed race, and problems of the store."""
    found = race_of(store)
    wrong = [f"{key} differs" for key in expected if found.get(key) != expected[key]]
    return wrong + [str(p) for p in check_store(store).problems]


def main(arguments: list[str] | None = None) -> int:
    """Kill races and compare. Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", default="process,worker,dask")
    parser.add_argument("--work", type=Path)
    given = parser.parse_args(arguments)
    rng = random.Random(given.seed)
    work = given.work or Path(tempfile.mkdtemp(prefix="kill-races-"))
    work.mkdir(parents=True, exist_ok=True)
    data, said = write_world(work), work / "said"
    ways = given.ways.split(",")
    expected: dict[str, dict[str, Any]] = {}
    took: dict[str, float] = {}
    for way in ways:
        begun = time.monotonic()
        finish(command(data, work / f"whole-{way}", way), way, said)
        took[way] = time.monotonic() - begun
        expected[way] = race_of(work / f"whole-{way}")
    hits: Counter[str] = Counter()
    wrong: list[str] = []
    stores = 0
    while sum(hits.values()) < given.kills:
        way = rng.choices(ways, [8 if w == "process" else 1 for w in ways])[0]
        store = work / "store"
        for _ in range(rng.randint(1, MOST_KILLS)):
            pid = start(command(data, store, way), way, said)
            first = min(START_S[way], 0.5 * took[way])
            if wait(pid, rng.uniform(first, took[way])) is None:
                hits[kill(pid, way, rng)] += 1
                wait(pid, STUCK_S)
            end_session(pid)
        finish(command(data, store, way), way, said)
        found = problems_of(store, expected[way])
        wrong += [f"{way}, store {stores}: {line}" for line in found]
        stores += 1
        shutil.rmtree(store)
        print(f"{sum(hits.values())} kills, {stores} stores, {len(wrong)} problems", flush=True)
    print(f"{sum(hits.values())} kills ({dict(sorted(hits.items()))}) of {stores} races: ", end="")
    print("\n".join(wrong) if wrong else "every resumed race equals the undisturbed one, no record lost")
    if given.work is None:
        shutil.rmtree(work)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
