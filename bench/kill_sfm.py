# SPDX-License-Identifier: BSD-3-Clause
"""Kill reconstructions at random moments, resume them, and compare them with an undisturbed run.

    python bench/kill_sfm.py --kills 100 [--seed 0] [--work DIR]

A life is `tiepoint run` of one method on a small rendered scene with two seeds. SIGKILL hits it at a random
moment: the main process alone (`parent`), its process group (`group`), the child process that calls COLMAP
alone (`child`), which a run survives by starting the child again, or the group while a database is written
and verified (`database`). Every few kills the command runs to
its end. Then scores must equal those of the undisturbed run except for measured times, cached stages must be
intact, and no process, scratch folder or temporary file may be left. The exit code is 1 if anything differs.
Needs Linux and pycolmap.
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

from tiepoint.core.array_cache import has_valid_checksum
from tiepoint.core.processes import remove_orphans
from tiepoint.datasets.demo.rooms import make_rooms

METHOD = "colmap-sift?max_features=1500"
TIMES = ("_s", "peak_mib")
MOST_KILLS = 5
"""Kills of one store before a life may finish."""


def command(data: Path, store: Path) -> list[str]:
    options = ["--task", "sfm/reconstruct", "--data", str(data), "-o", "seeds=2", "--store", str(store)]
    return [sys.executable, "-m", "tiepoint", "-q", "run", METHOD, *options]


def life(data: Path, store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(data, store),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def in_session(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            facts = path.read_text().rpartition(")")[2].split()
            if int(facts[3]) == session and facts[0] != "Z":
                found.append(int(path.parent.name))
    return found


def kill(process: subprocess.Popen[bytes], way: str, chance: random.Random) -> str:
    """Kill one part of a life. Return what was killed."""
    if way == "database":
        folder = Path(tempfile.gettempdir())
        while not (found := [*folder.glob(f"*-{process.pid}-*/database.db")]) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.3))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return "database" if found else "no database"
    if way == "child":
        while not (found := children(process.pid)) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.8))
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return "child" if found else "no child"
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if way == "group" else os.kill)(process.pid, signal.SIGKILL)
    return way


def scores(store: Path) -> dict[str, float]:
    """Scores of the run without measured times."""
    (path,) = (store / "runs").glob("*.json")
    rows = json.loads(path.read_text())["scores"]
    return {f"{r['metric']} {r['group']}": r["value"] for r in rows if not r["metric"].endswith(TIMES)}


def problems(store: Path, session: int, expected: dict[str, float]) -> list[str]:
    deadline = time.monotonic() + 10
    while (left := in_session(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [f"process {pid} is left" for pid in left]
    found += [f"{p.name} is left" for p in store.rglob(".tmp-*")]
    found += [f"{p.name} is corrupt" for p in (store / "lists").glob("*.bin") if not has_valid_checksum(p)]
    own = scores(store)
    found += [f"{k}: {own.get(k)} instead of {v}" for k, v in expected.items() if own.get(k) != v]
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", default="parent,group,child,database", help="what is killed")
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    work = args.work or Path(tempfile.mkdtemp(prefix="kill-sfm-"))
    data = make_rooms(work / "rooms", scenes=["small"], size=(240, 180))
    started = time.monotonic()
    subprocess.run(command(data, work / "plain"), check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - started
    expected = scores(work / "plain")
    print(f"undisturbed run: {whole:.1f} s, {len(expected)} scores", flush=True)
    done, wrong, count, number = 0, [], Counter[str](), 0
    while done < args.kills:
        store, number = work / f"store{number}", number + 1
        for _ in range(chance.randint(1, MOST_KILLS)):
            process = life(data, store)
            way = chance.choice(args.ways.split(","))
            if way != "database":
                time.sleep(chance.uniform(0.05, 1.0) * whole)
            way = kill(process, way, chance)
            count[way if process.poll() is None or way != "child" else "after its end"] += 1
            done += 1
            process.wait()
        last = life(data, store)
        status = last.wait()
        wrong += [f"store {number}: exit status {status}"] if status else []
        wrong += [f"store {number}: {w}" for w in problems(store, last.pid, expected)]
        shutil.rmtree(store)
        print(f"{done} kills, {number} stores, {len(wrong)} problems", flush=True)
    if removed := remove_orphans():  # those of the last life were removed by itself
        wrong.append(f"{removed} scratch folders of dead processes are left")
    print(f"kills: {dict(count)}")
    for line in wrong[:20]:
        print(line)
    print(f"{done} kills, {number} resumed stores, {len(wrong)} problems")
    if args.work is None:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
