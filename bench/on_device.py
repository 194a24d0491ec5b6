# SPDX-License-Identifier: BSD-3-Clause
"""Measure everything that needs a GPU or many cores, in one command, for two versions of the source.

python bench/on_device.py --out DIR [--before DIR/src] [--carried DIR] [--seconds 560] [--parts data,sift]

`--before` is the source folder of an earlier version; all commands then run alternately with both versions,
on the same data, each version with a separate store. `--carried` is a folder of archives for a machine
without network: `late.tar.xz` and `cv.tar.xz` have packages that Python uses if the machine lacks them,
`before.tar.xz` the source of the earlier version. Parts, in this order:

learned   `tiepoint run` of a network of HardNet's shape on PNG strips, empty cache: wall time, peak memory
          of the process and of the GPU, GPU utilisation by NVML
v2        `tiepoint run` of the three tasks of 2017 on cached features at full size
features  the features alone, from PNG strips and from a pack (`bench_end_to_end.py --parts features`)
release   the three tasks from mapped features to records (`bench_end_to_end.py --parts tasks`)
sift      features of `sift` with one core and with all, and the bare calls with as many threads
bits      both versions have the same features, records and scores, and CUDA has those of the CPU
kernels   tests of the kernels on CUDA
demo      methods of all families on the demo set, on the CPU and on CUDA (`same_bits.py`)

Results are appended to DIR/results.jsonl as soon as they exist, and all output to DIR/log.txt. A part that
fails or exceeds its time is reported, and the next one starts. The table at the end has medians and spreads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMITS = {
    "data": 100, "learned": 130, "v2": 130, "features": 90, "release": 80, "sift": 90,
    "bits": 70, "kernels": 90, "demo": 120,
}  # fmt: skip
"""Seconds that a part may take."""
REPEATS = 3
PARTS_FILE = str(HERE / "on_device_parts.py")
V2 = "hpatches/verification,hpatches/matching,hpatches/retrieval"
METHOD = "torchscript:{net}?size=32&input=zscore"


class Nvml:
    """Utilisation and memory of the first GPU, sampled by nvidia-smi while a block runs."""

    QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def __enter__(self) -> Nvml:
        try:
            self._process: Any = subprocess.Popen(
                [*self.QUERY, "-lms", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._process = None
            return self
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def _read(self) -> None:
        for line in self._process.stdout:
            parts = line.split(",")
            if len(parts) == 2 and all(p.strip().isdigit() for p in parts):
                self.rows.append((float(parts[0]), float(parts[1])))

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._thread.join(timeout=2)

    def facts(self) -> dict[str, float]:
        """Return mean utilisation in percent and peak memory in MiB."""
        if not self.rows:
            return {}
        used = statistics.fmean(u for u, _ in self.rows)
        return {"nvml_percent": round(used, 1), "gpu_mib": max(m for _, m in self.rows)}


@dataclass
class Session:
    """Folders, versions, time limits and results of one call."""

    given: argparse.Namespace
    out: Path
    work: Path
    versions: dict[str, Path]
    ends: float
    boot: Path | None = None
    late: list[Path] = field(default_factory=list)
    part: str = ""
    part_ends: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a line and append it to the log."""
        print(text, flush=True)
        with (self.out / "log.txt").open("a") as log:
            log.write(text + "\n")

    def note(self, what: str, version: str, **facts: Any) -> None:
        """Append a result to the file of results."""
        row = {"part": self.part, "what": what, "version": version, **facts}
        self.results.append(row)
        with (self.out / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.say(f"  {version:7s} {what}: " + ", ".join(f"{k} {v}" for k, v in facts.items()))

    @property
    def left(self) -> float:
        """Seconds that the current part still has."""
        return min(self.part_ends, self.ends) - time.monotonic()

    def environment(self, version: str, **more: str) -> dict[str, str]:
        """Return the environment of a process with a version of the source."""
        source = self.versions[version]
        places = [*(str(p) for p in (self.boot, source, HERE) if p), os.environ.get("PYTHONPATH", "")]
        made = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in places if p), "PYTHONUNBUFFERED": "1"}
        made |= {"LATE_PATH": os.pathsep.join(map(str, self.late))}
        return made | {"TIEPOINT_CACHE": str(self.work / f"cache-{version}"), **more}

    def run(self, version: str, arguments: list[str], cpus: int | None = None, **more: str) -> dict[str, Any]:
        """Run Python with a version of the source. Return times, memory, exit code and output."""
        if self.left < 5:
            raise TimeoutError("no time left for this part")
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment(version, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, range(cpus)),
        )
        timer = threading.Timer(self.left, lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = code = os.waitstatus_to_exitcode(status)
        text = "".join(lines)
        if code:
            self.say(f"  {version} exit {code}: {' '.join(arguments)[:200]}\n{text[-1500:]}")
        return {
            "wall_s": round(time.perf_counter() - started, 3),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "rss_mib": round(usage.ru_maxrss / 1024),
            "exit": code,
            "text": text,
        }

    def both(self, repeats: int, work: Callable[[str, int], None]) -> None:
        """Call `work` for each version in turns, once to warm up (number 0) and then `repeats` times."""
        slowest = 0.0
        for number in range(repeats + 1):
            for version in self.versions:
                if self.left < 1.2 * slowest:
                    self.say(f"  stopped before repeat {number} of {version}: {self.left:.0f} s left")
                    return
                started = time.monotonic()
                work(version, number)
                slowest = max(slowest, time.monotonic() - started) if number else 0.0


LATE = """
import os, sys
sys.path += [p for p in os.environ.get("LATE_PATH", "").split(os.pathsep) if p]
"""


def unpack(session: Session, carried: Path) -> None:
    """Unpack the archives of `--carried`, and let new processes import packages from them last."""
    to = session.work / "carried"

    def one(archive: Path) -> None:
        name = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as tar:
            tar.extractall(to / name, filter="data")
        if name == "before":
            session.versions = {"before": to / name} | session.versions
        elif name != "demo":
            session.late.append(to / name)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, sorted(carried.glob("*.tar.xz"))))
    session.boot = to / "boot"
    session.boot.mkdir()
    (session.boot / "sitecustomize.py").write_text(LATE)


def facts_of(found: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if k != "text"}


def machine(session: Session) -> None:
    """Print the machine and its versions."""
    session.say(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    code = (
        "import importlib.metadata as m\n"
        "for n in ('numpy scipy numba llvmlite pandas pyarrow torch sqlalchemy pydantic xxhash pillow typer "
        "threadpoolctl opencv-python-headless opencv-contrib-python-headless pytest hypothesis').split():\n"
        "    try: print(n, m.version(n))\n"
        "    except m.PackageNotFoundError: print(n, 'missing')\n"
        "import numba, numpy, pyarrow, sqlalchemy, pydantic, xxhash, PIL, torch\n"
        "print(torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU')\n"
        "try:\n    import cv2; print('cv2', cv2.__version__, cv2.__file__)\n"
        "except ImportError as e: print('cv2', e)\n"
        "import tiepoint; print(tiepoint.__file__)\n"
    )
    for version in session.versions:
        found = session.run(version, ["-c", code])
        session.say(found["text"].replace("\n", "; "))
    for command in filter(shutil.which, ("nvidia-smi", "lscpu")):
        text = subprocess.run([command], capture_output=True, text=True, check=False).stdout
        (session.out / "log.txt").open("a").write(text)
        session.say("\n".join(x for x in text.splitlines() if "Model name" in x or "Thread" in x))


def data(session: Session) -> None:
    """Write strips, a pack, a network and the features at full size."""
    found = session.run(
        list(session.versions)[-1], [PARTS_FILE, "data", str(session.work), str(session.given.scale)]
    )
    session.say(found["text"])
    session.note("written", "both", **facts_of(found))


def tiepoint_run(store: Path, method: str, task: str, folder: Path, device: str, *more: str) -> list[str]:
    line = ["-m", "tiepoint", "run", method, "--task", task, "--data", str(folder), "--store", str(store)]
    return [*line, "--device", device, "--json", *more]


def learned(session: Session) -> None:
    """Time the command of a learned descriptor with an empty cache."""
    method = METHOD.format(net=session.work / "net.pt")

    def once(version: str, number: int) -> None:
        store = session.work / f"learned-{version}"
        shutil.rmtree(store, ignore_errors=True)
        line = tiepoint_run(store, method, "hpatches/matching", session.work / "strips", session.given.device)
        with Nvml() as nvml:
            found = session.run(version, line)
        session.note("warm-up" if not number else "whole command", version, **facts_of(found), **nvml.facts())

    session.both(session.given.repeats, once)


def v2(session: Session) -> None:
    """Time the three tasks on cached features, as `bench_startup.py` does."""

    def once(version: str, number: int) -> None:
        store = session.work / f"v2-{version}"
        if not store.exists():
            shutil.copytree(session.work / "features", store, copy_function=os.link)
        for path in store.iterdir():
            if path.name in ("records", "runs", "values") or path.name.startswith("tiepoint.sqlite"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        line = tiepoint_run(store, "sift", V2, session.work / "release", session.given.device)
        with Nvml() as nvml:
            found = session.run(version, line)
        session.note("warm-up" if not number else "whole command", version, **facts_of(found), **nvml.facts())
        if number:
            found = session.run(version, line)
            session.note("everything stored", version, **facts_of(found))

    session.both(session.given.repeats, once)


def end_to_end(session: Session, part: str) -> None:
    def once(version: str, number: int) -> None:
        given = ["--parts", part, "--device", session.given.device, "--scale", str(session.given.scale)]
        given += ["--folder", str(session.work), "--keep", "--repeats", str(session.given.repeats)]
        found = session.run(version, [str(HERE / "bench_end_to_end.py"), *given])
        session.say(found["text"])
        session.note(f"bench_end_to_end {part}", version, **facts_of(found), lines=found["text"].splitlines())

    session.both(0, once)


def features(session: Session) -> None:
    """Time the features alone."""
    end_to_end(session, "features")


def release(session: Session) -> None:
    """Time the three tasks from mapped features to records."""
    end_to_end(session, "tasks")


def sift(session: Session) -> None:
    """Time SIFT with one core (on one sequence) and with all cores (on all)."""

    def once(version: str, number: int) -> None:
        for cpus, name in ((1, "one"), (os.cpu_count() or 1, "strips")):
            store = session.work / f"sift-{version}"
            line = [PARTS_FILE, "sift", str(session.work / name), str(store), str(session.work / "small")]
            found = session.run(version, line, cpus=cpus)
            made = [json.loads(x) for x in found["text"].splitlines() if x.startswith("{")]
            merged = {k: v for row in made for k, v in row.items()}
            content = [x for x in found["text"].splitlines() if x.startswith("CONTENT")]
            session.note(
                f"sift, {cpus} cores", version, **facts_of(found), **merged, content="".join(content)
            )

    session.both(0, once)


def contents(store: Path) -> dict[str, str]:
    """Return hashes of features, records and scene values of a store by name."""
    import hashlib

    found = {}
    for pattern in ("features/*/*/*.npy", "records/**/*.parquet", "values/**/*.npz"):
        for path in sorted(store.glob(pattern)):
            found[str(path.relative_to(store))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def run_scores(store: Path) -> dict[str, Any]:
    """Return the scores of the run files of a store, without times."""
    found = {}
    for path in sorted((store / "runs").glob("*.json")):
        plain = json.loads(path.read_text())
        rows = [[s["protocol"], s["metric"], s["group"], s["value"], s.get("low"), s.get("high")]
                for s in plain["scores"] if not s["metric"].startswith("time")]  # fmt: skip
        found[path.stem] = rows
    return found


def note_differences(session: Session, what: str, stores: list[Path]) -> None:
    """Compare features, records, scene values and scores of two stores."""
    a, b = (contents(s) for s in stores)
    differ = [n for n in a.keys() | b.keys() if a.get(n) != b.get(n)]
    scores = [run_scores(s) for s in stores]
    session.note(
        what, "both", files=len(a), differing_files=len(differ), runs=len(scores[0]),
        same_scores=scores[0] == scores[1], first=differ[:3],
    )  # fmt: skip


def bits(session: Session) -> None:
    """Compare the stores of both versions, and CUDA with the CPU."""
    names = list(session.versions)
    for what, place in (("learned", "learned-{}"), ("three tasks", "v2-{}"), ("sift", "sift-{}")):
        stores = [session.work / place.format(v) for v in names]
        if len(stores) < 2 or not all(s.is_dir() for s in stores):
            continue
        note_differences(session, f"{what}: before against after", stores)
    stores = [session.work / "v2-cpu", session.work / f"v2-{names[-1]}"]
    if not stores[1].is_dir():
        return
    shutil.copytree(session.work / "features", stores[0], copy_function=os.link)
    line = tiepoint_run(stores[0], "sift", V2, session.work / "release", "cpu")
    found = session.run(names[-1], line)
    session.note("three tasks on the CPU", names[-1], **facts_of(found))
    note_differences(session, f"three tasks: cpu against {session.given.device}", stores)


def demo(session: Session) -> None:
    """Run all families on the demo set, on the CPU and the device, and compare every file."""
    line = [str(HERE / "same_bits.py"), "--work", str(session.work / "bits")]
    line += ["--modes", "jobs=1", f"device={session.given.device}"]
    if (session.work / "carried" / "demo").is_dir():
        line += ["--demo", str(session.work / "carried" / "demo")]
    found = session.run(list(session.versions)[-1], line)
    session.say(found["text"])
    session.note("same_bits", "after", **facts_of(found), lines=found["text"].splitlines()[-12:])


def kernels(session: Session) -> None:
    """Run the tests of the kernels on the device."""
    line = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "tests/kernels"]
    name = list(session.versions)[-1]
    found = session.run(name, line, TIEPOINT_TEST_DEVICES=session.given.device)
    session.say(found["text"][-1500:])
    session.note("tests", name, **facts_of(found), lines=found["text"].splitlines()[-5:])


PARTS: dict[str, Callable[[Session], None]] = {
    "data": data, "learned": learned, "v2": v2, "features": features, "sift": sift, "release": release,
    "bits": bits, "kernels": kernels, "demo": demo,
}  # fmt: skip


def table(session: Session) -> None:
    """Print median, spread and number of repeats of every timed command."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in session.results:
        if row.get("exit") == 0 and row["what"] != "warm-up" and "lines" not in row:
            rows.setdefault((row["part"], row["what"], row["version"]), []).append(row)
    session.say("\npart       what                       version    wall s median (min to max), n    more")
    for (part, what, version), own in rows.items():
        walls = sorted(r["wall_s"] for r in own)
        more = {
            k: statistics.median(r[k] for r in own)
            for k in ("cpu_s", "rss_mib", "gpu_mib", "nvml_percent", "patches_per_s", "bare_patches_per_s")
            if all(k in r for r in own)
        }
        session.say(
            f"{part:10s} {what:26s} {version:8s} {statistics.median(walls):8.2f} ({walls[0]:.2f} to "
            f"{walls[-1]:.2f}), {len(walls)}   " + ", ".join(f"{k} {v:g}" for k, v in more.items())
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "on_device")))
    parser.add_argument("--before", type=Path, help="source folder of an earlier version")
    parser.add_argument("--carried", type=Path, help="folder of archives to unpack first")
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--work", type=Path, help="folder for data and stores; default temporary")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    versions = {} if given.before is None else {"before": given.before.resolve()}
    versions["after"] = HERE.parent / "src"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-") as scratch:
        work = given.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        session = Session(given, given.out, work, versions, begun + given.seconds)
        if given.carried is not None:
            unpack(session, given.carried)
            session.say(f"unpacked after {time.monotonic() - begun:.0f} s")
        for name in ("machine", *given.parts.split(",")):
            session.part, session.part_ends = name, time.monotonic() + LIMITS.get(name, 60)
            session.say(f"-- {name} ({time.monotonic() - begun:.0f} s)")
            try:
                (machine if name == "machine" else PARTS[name])(session)
            except Exception as e:  # the other parts still run
                session.say(f"  {name} failed: {type(e).__name__}: {e}")
                session.note("failed", "both", error=f"{type(e).__name__}: {e}")
        table(session)
        session.say(f"{time.monotonic() - begun:.0f} s in all")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
