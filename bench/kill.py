# SPDX-License-Identifier: BSD-3-Clause
"""Kill commands at random moments, resume them, and compare scores and leftovers.

    python bench/kill.py --kills 1000 [--seed 0] [--jobs 1,2] [--families patches,keypoints,dense,pairs]
                         [--lanes 2] [--fresh 0.1] [--work DIR]

The script generates tiny datasets of every family and runs every command once without a kill. Then it builds
stores by repeated processes ("lives") of the same command. Each life is killed at a random time of its
duration, or right before a random file operation; after one to six kills, one life may finish. The kill hits
the process group, the main process alone, or one worker alone. The content and exports of the finished store
must equal those of the run without kills byte for byte, except for measured times. The script also searches
for leftovers: temporary files and states of dead processes in the store, files in the temporary folder, the
current folder and shared memory, and processes of the session.

Most lives are forked from a process that has imported everything, which saves the import time; a fraction
`--fresh` are new commands. The exit code is 1 if anything differs or is left over. Needs Linux.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib
import json
import mmap
import os
import pickle
import platform
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.datasets.demo.dataset import make_dense
from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.datasets.image_pairs.native_json import write_pairs
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.image.reader import write_image

FAMILIES = ("patches", "keypoints", "dense", "pairs")
PHASES = ("start", "features", "records", "scores", "saving", "end")
MOST_LIVES = 6
"""Kills of one store before a life may finish."""
GONE_S = 10.0
"""By then all processes of a killed life have ended."""
STUCK_S = 180.0
START_S = 3.0
"""What a process takes longer that imports everything first."""
BY_OPERATION = 0.35
"""Share of kills right before a file operation, where one of the main process is drawn."""
DATABASE = "tiepoint.sqlite"
TIMES = ("created_at", "time_s", "efficiency", "machine", "seal", "repeated", "changes")
"""Keys of values that are measured, depend on the time budget of repeated items, or count writes."""


def make_data(root: Path) -> dict[str, list[str]]:
    """Write the datasets; return the command lines by family."""
    rng = np.random.default_rng(15)
    for scene in ("i_aa", "v_bb"):
        base = rng.normal(128, 40, (24, 17, 17))
        for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
            strip = np.clip(base + rng.normal(0, 15, base.shape), 0, 255).astype(np.uint8)
            write_strip(root / "patches" / scene / f"{image}.png", strip)
    photo = _texture(rng, 220)
    for scene, (dy, dx) in {"v_a": (6, 9), "i_b": (3, 4), "v_c": (-5, 7)}.items():
        folder = root / "sequences" / scene
        folder.mkdir(parents=True)
        for k in (1, 2, 3):
            y, x = 40 + dy * (k - 1), 30 + dx * (k - 1)
            write_image(folder / f"{k}.png", np.ascontiguousarray(photo[y : y + 120, x : x + 140]))
        for k in (2, 3):
            np.savetxt(folder / f"H_1_{k}", [[1, 0, -dx * (k - 1)], [0, 1, -dy * (k - 1)], [0, 0, 1]])
    make_dense(root / "dense", size=(64, 48))
    pairs = []
    K, size = np.array([[150.0, 0, 70], [0, 150, 60], [0, 0, 1]]), (140, 120)
    for k, scene in enumerate(("v_a", "i_b", "v_c")):
        T = np.eye(4)
        T[0, 3] = 0.1 * (k + 1)
        first, second = (root / "sequences" / scene / f"{i}.png" for i in (1, 2))
        pair = ImagePair(scene, scene, image0=first, image1=second, size0=size, size1=size)
        pairs.append(PairTruth(pair, K0=K, K1=K, T_0to1=T))
    write_pairs(root / "pairs.json", pairs)
    found = {
        "patches": f"meanstd resize --task hpatches/matching --data {root}/patches "
        "--protocol exact --protocol hpatches-python",
        "keypoints": "sift?max_features=60 orb?max_features=60 --task keypoints/matching "
        f"--data {root}/sequences",
        "dense": f"zero farneback --task tss,dense/flow --data {root}/dense",
        "pairs": "sift?max_features=60 klt --task pose/relative -o estimator=opencv "
        f"--data {root}/pairs.json",
    }
    return {family: ["run", *line.split()] for family, line in found.items()}


def _texture(rng: np.random.Generator, side: int) -> Any:
    from scipy.ndimage import zoom

    layers = (zoom(rng.normal(0, 1, (side // s, side // s)), s, order=1)[:side, :side] for s in (4, 10, 20))
    whole = sum(np.pad(a, [(0, side - n) for n in a.shape], mode="edge") for a in layers)
    grey = np.clip(128 + 40 * whole, 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


@dataclass
class Life:
    """One process: its command line, folders, and the file operation (from 1) before which it dies.

    `whole` is whether its process group dies with it.
    """

    arguments: list[str]
    place: str
    at_operation: int = 0
    whole: bool = True
    operations: int = 0

    def lead(self) -> int:
        """Run the command in this dedicated process; return the exit code."""
        os.chdir(Path(self.place) / "here")
        os.environ["TMPDIR"] = str(Path(self.place) / "tmp")
        os.environ.pop("TIEPOINT_STORE", None)
        tempfile.tempdir = None
        with open(Path(self.place) / "said", "ab", 0) as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        prepare(Path(self.place) / "phase")
        if self.at_operation:
            sys.addaudithook(self._hook())
        from tiepoint.cli.main import run

        code = run(self.arguments)
        (Path(self.place) / "operations").write_text(str(self.operations))
        return code

    def _hook(self) -> Any:
        def hook(event: str, given: tuple[Any, ...]) -> None:
            if event == "open":
                written = isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            else:
                written = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect")
            self.operations += bool(written)
            if written and self.operations == self.at_operation:
                os.kill(0 if self.whole else os.getpid(), signal.SIGKILL)

        return hook


def prepare(phase: Path | None = None) -> None:
    """Import all modules of a run, and use workers for any work."""
    for name in (
        "cli.commands.run",
        "run.compute",
        "run.costs",
        "report.export",
        "store.status_files",
        "cli.common",
    ):
        importlib.import_module(f"tiepoint.{name}")
    for name in ("cv2", "pyarrow.parquet", "numba", "pandas", "scipy.stats", "poselib"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    compute, status_files = (sys.modules[f"tiepoint.{n}"] for n in ("run.compute", "store.status_files"))
    vars(compute)["MIN_PARALLEL_WORK_S"] = 0.0
    if phase is None:
        return
    with phase.open("r+b") as file:
        shown = mmap.mmap(file.fileno(), 1)
    track_progress = status_files.track_progress

    @contextlib.contextmanager
    def watched(*given: Any) -> Iterator[Any]:
        with track_progress(*given) as progress:

            def update(stage: str, done: int, total: int) -> None:
                if stage.startswith("scores"):
                    shown[0] = PHASES.index("saving" if done == total else "scores")
                else:
                    shown[0] = PHASES.index("features" if stage.endswith("features") else "records")
                progress(stage, done, total)

            yield update
        shown[0] = PHASES.index("end")

    vars(status_files)["track_progress"] = watched


def start(life: Life, fresh: bool) -> int:
    """Start a life in a new session; return its process id."""
    (Path(life.place) / "phase").write_bytes(b"\0")
    if fresh:
        command = [sys.executable, __file__, "--life", json.dumps(vars(life))]
        return subprocess.Popen(command, start_new_session=True).pid
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.setsid()
        code = life.lead()
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    """Return the exit status of a child, None if it does not end in time."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], max(0.0, seconds))[0]:
            return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def of_session(session: int) -> dict[int, bytes]:
    """Return the running processes of a session with their command lines."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[3]) == session and words[0] not in "ZX":
                found[int(stat.parent.name)] = stat.with_name("cmdline").read_bytes()
    return found


def all_gone(session: int) -> list[int]:
    """Return the processes of a session that do not end."""
    until = time.monotonic() + GONE_S
    while (left := of_session(session)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(left)


def strike(pid: int, victim: str, rng: random.Random) -> str:
    """Kill a life, or one of its workers; return which was killed."""
    workers = [p for p, line in of_session(pid).items() if b"spawn_main" in line and p != pid]
    if victim == "worker" and workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)
            return "a worker"
    if victim == "group":
        os.killpg(pid, signal.SIGKILL)
        return "the group"
    os.kill(pid, signal.SIGKILL)
    return "the main process"


def contents(store: Path) -> dict[str, str]:
    """Return hashes of the files and rows of a finished store by name, without measured times."""
    found = {}
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        name, data = path.relative_to(store).as_posix(), path.read_bytes()
        if name in ("hashes.json", DATABASE):
            data = b""
        elif path.suffix == ".json":
            data = json.dumps(_untimed(json.loads(data)), sort_keys=True).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    with contextlib.closing(sqlite3.connect(store / DATABASE)) as database:
        tables = [t for (t,) in database.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            columns = [c[1] for c in database.execute(f"pragma table_info({table})")]
            rows = [
                dict(zip(columns, row, strict=True)) for row in database.execute(f"select * from {table}")
            ]
            text = sorted(json.dumps(_untimed(row), sort_keys=True, default=repr) for row in rows)
            found[f"{DATABASE}:{table}"] = hashlib.sha256("\n".join(text).encode()).hexdigest()
    return found


def _untimed(plain: Any) -> Any:
    if isinstance(plain, str) and plain.startswith("{"):  # a column of JSON
        plain = json.loads(plain)
    if isinstance(plain, dict):
        return {key: _untimed(value) for key, value in plain.items() if key not in TIMES}
    return [_untimed(value) for value in plain] if isinstance(plain, list) else plain


@dataclass
class Figures:
    """Counts of kills and results; `bad` lists differences and leftovers as text."""

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    victims: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    stores: int = 0
    resumed: int = 0
    torn: int = 0
    compared: int = 0
    pids: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Add the figures of another lane."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def table(self) -> str:
        """The figures to print."""
        heads = [f"{h:>9s}" for h in (*PHASES, "all")]
        lines = [f"{'killed in':18s}{''.join(heads)}"]
        for family in dict.fromkeys(f for f, _ in self.kills):
            own = [self.kills[family, phase] for phase in PHASES]
            lines.append(f"{family:18s}" + "".join(f"{n:9d}" for n in (*own, sum(own))))
        whole = [sum(n for (_, p), n in self.kills.items() if p == phase) for phase in PHASES]
        lines.append(f"{'all':18s}" + "".join(f"{n:9d}" for n in (*whole, sum(whole))))
        told = [f"{n} {what}" for what, n in [*self.victims.most_common(), *self.ways.most_common()]]
        lines += [
            f"killed: {', '.join(told)}; {self.torn} left a half-written file",
            f"lives {self.lives}, stores {self.stores}, finished after a kill {self.resumed}, "
            f"files and tables compared {self.compared}",
            f"differences and leftovers: {len(self.bad)}",
        ]
        return "\n".join([*lines, *(f"  {b}" for b in self.bad[:40])])


@dataclass
class Case:
    """A command line, the expected content of its store, and its seconds, forked and fresh."""

    name: str
    arguments: list[str]
    jobs: int
    expected: dict[str, str] = field(default_factory=dict)
    seconds: dict[bool, float] = field(default_factory=dict)
    operations: int = 1


class Lane:
    """Builds one store after the other by lives that are killed."""

    def __init__(self, work: Path, cases: Sequence[Case], seed: int, fresh: float) -> None:
        self.work, self.cases, self.fresh = work, cases, fresh
        self.rng = random.Random(seed)
        self.figures = Figures()

    def run(self, kills: int) -> Figures:
        """Run lives until the given number of kills."""
        number = 0
        while sum(self.figures.victims.values()) < kills:
            case = self.cases[number % len(self.cases)]
            self.make_store(case, self.work / f"store{number}")
            number += 1
        return self.figures

    def make_store(self, case: Case, place: Path) -> None:
        """Kill up to six lives, let one finish, and compare."""
        new_place(place)
        figures, struck = self.figures, 0
        for left in range(self.rng.randint(1, MOST_LIVES), -1, -1):
            before = sum(figures.victims.values())
            code = self.one_life(case, place, may_die=left > 0)
            struck += sum(figures.victims.values()) - before
            if code == 0:
                break
        figures.stores += 1
        figures.resumed += struck > 0
        if code != 0:
            return  # reported before
        bad = [*differences(case.expected, contents(place / "store")), *left_behind(place)]
        figures.compared += len(case.expected)
        figures.bad += [f"{place.name} ({case.name}, {struck} kills): {b}" for b in bad]
        if not bad:
            shutil.rmtree(place)

    def one_life(self, case: Case, place: Path, *, may_die: bool) -> int:
        """Start, kill and count a life; return its exit code, which is 0 if it finished before the kill."""
        rng, figures = self.rng, self.figures
        fresh = rng.random() < self.fresh
        victim = rng.choices(("group", "main", "worker"), (5, 3, 4 if case.jobs > 1 else 0))[0]
        life = Life([*case.arguments, "--store", str(place / "store")], str(place), whole=victim == "group")
        if may_die and victim != "worker" and rng.random() < BY_OPERATION:
            life.at_operation = rng.randint(1, case.operations)
        delay_s = rng.uniform(0, case.seconds[fresh]) * rng.choice((1.0, 1.0, 0.5))
        pid = start(life, fresh)
        figures.lives += 1
        figures.pids.append(pid)
        code = ended(pid, delay_s if may_die and not life.at_operation else STUCK_S)
        who, way = None, "at a moment"
        phase = PHASES[(place / "phase").read_bytes()[0]]
        if code is None:
            who = strike(pid, victim, rng)
            code = ended(pid, STUCK_S)
            if code is None:
                figures.bad.append(f"{place.name} ({case.name}): does not end though {who} was killed")
                os.killpg(pid, signal.SIGKILL)
                code = ended(pid, STUCK_S)
        elif code == -signal.SIGKILL:
            who, way = "the group" if life.whole else "the main process", "at a file operation"
        if orphans := all_gone(pid):
            figures.bad.append(f"{place.name} ({case.name}): processes left: {orphans}")
        if who is not None:
            figures.kills[case.name, phase] += 1
            figures.victims[who] += 1
            figures.ways[way] += 1
            figures.torn += any((place / "store").rglob(".tmp-*"))
        expected = (0,) if who is None else (0, 1) if who == "a worker" else (0, -signal.SIGKILL)
        if code not in expected:
            said = (place / "said").read_text(errors="replace").strip()[-800:]
            figures.bad.append(f"{place.name} ({case.name}): ended with code {code}, {who} killed: {said}")
        return -1 if code is None else code


def new_place(place: Path) -> None:
    """Create empty folders for a store and its surroundings."""
    for name in ("tmp", "here"):
        (place / name).mkdir(parents=True)
    (place / "said").touch()


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return the differences from a store without kills."""
    told = []
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            told.append(f"{name} is {'left over' if name in found else 'missing'}")
        elif found[name] != expected[name]:
            told.append(f"{name} differs")
    return told


def left_behind(place: Path) -> list[str]:
    """Return leftover files outside the store."""
    known = {"tmp", "here", "said", "phase", "operations", "store"}
    beside = [p for p in place.iterdir() if p.name not in known]
    return [
        f"{p.relative_to(place)} is left over" for f in ("tmp", "here") for p in (place / f).iterdir()
    ] + [f"{p.name} is left over" for p in beside]


def undisturbed(case: Case, work: Path) -> list[str]:
    """Build the expected store, once fresh and once forked; return how the two differ."""
    for fresh in (True, False):
        place = work / f"undisturbed-{case.name.replace(' ', '-')}"
        shutil.rmtree(place, ignore_errors=True)
        new_place(place)
        started = time.monotonic()
        life = Life([*case.arguments, "--store", str(place / "store")], str(place), at_operation=-1)
        code = ended(start(life, fresh), STUCK_S)
        case.seconds[fresh] = time.monotonic() - started
        if code != 0:
            raise SystemExit(f"{case.name}: code {code}: {(place / 'said').read_text()[-2000:]}")
        found = contents(place / "store")
        wrong = differences(case.expected, found) if case.expected else []
        case.expected = found
        if wrong:
            return wrong
    case.seconds[True] = min(case.seconds[True], case.seconds[False] + START_S)  # it may have compiled
    case.operations = int((place / "operations").read_text())
    return [*wrong, *left_behind(place)]


def shared_memory() -> set[str]:
    """Return Python's semaphores and blocks in shared memory that no process has mapped."""
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            used |= {line.split()[-1] for line in maps.read_text().splitlines() if "/dev/shm/" in line}
    with contextlib.suppress(OSError):
        names = (n for n in os.listdir("/dev/shm") if n.startswith(("sem.", "psm_", "tiepoint")))
        return {n for n in names if f"/dev/shm/{n}" not in used}
    return set()


def _is_of(name: str, pids: list[int]) -> bool:
    """Return whether one of these processes may have created an object; tiepoint names contain its id."""
    return "tiepoint-" not in name or any(f"-{pid}-" in name for pid in pids)


def main() -> int:
    """Write the data, run without kills, then kill and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--lanes", type=int, default=2, help="stores built at the same time")
    parser.add_argument("--fresh", type=float, default=0.1, help="share of lives that are not forked")
    parser.add_argument("--work", type=Path, help="new folder, not removed; default a temporary one")
    parser.add_argument("--life", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.life is not None:
        return Life(**json.loads(options.life)).lead()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    work = options.work or Path(tempfile.mkdtemp(prefix="kill-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        return _campaign(work.resolve(), options)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


def _campaign(work: Path, options: argparse.Namespace) -> int:
    started = time.monotonic()
    lines = make_data(work / "data")
    cases = [
        Case(f"{family} jobs {jobs}", [*lines[family], "--jobs", jobs], int(jobs))
        for family in options.families.split(",")
        for jobs in options.jobs.split(",")
    ]
    prepare()
    figures = Figures()
    for case in cases:
        figures.bad += [f"undisturbed {case.name}: {d}" for d in undisturbed(case, work)]
        told = ", ".join(f"{s:.1f} s {'fresh' if f else 'forked'}" for f, s in case.seconds.items())
        print(
            f"{case.name:18s} {len(case.expected)} files, {case.operations} file operations, {told}",
            flush=True,
        )
    memory = shared_memory()
    sys.stdout.flush()
    lanes = []
    for lane in range(options.lanes):
        share = options.kills // options.lanes + (lane < options.kills % options.lanes)
        turn = lane * len(cases) // options.lanes
        own = Lane(
            work / f"lane{lane}", cases[turn:] + cases[:turn], options.seed * 1000 + lane, options.fresh
        )
        child = os.fork()
        if not child:
            code = 1
            try:
                (work / f"lane{lane}.pickle").write_bytes(pickle.dumps(own.run(share)))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        lanes.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in lanes]
    for lane, code in enumerate(codes):
        if code:
            figures.bad.append(f"lane {lane} ended with code {code}")
        else:
            figures.add(pickle.loads((work / f"lane{lane}.pickle").read_bytes()))
    made = [n for n in sorted(shared_memory() - memory) if _is_of(n, figures.pids)]
    figures.bad += [f"/dev/shm/{name} is left over" for name in made]
    print(f"{figures.table()}\n{time.monotonic() - started:.0f} s")
    return int(bool(figures.bad))


if __name__ == "__main__":
    raise SystemExit(main())
