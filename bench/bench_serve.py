# SPDX-License-Identifier: BSD-3-Clause
"""Times of every page of `tiepoint serve`, cold and warm, on 100 runs x 116 scenes x 1.7 M queries.

The store has simulated methods on `hpatches/matching`. Runs share a few complete sets of records, but all
have different scene values. A page reads the records of the runs that it shows. The server is a separate
process with an empty cache folder. Cold is the first visit of a page, warm the median of the next visits. If
a page is served before its comparison is ready, the line also has the time of the comparison. There is no
dataset, so pictures are not measured.

Usage: python bench/bench_serve.py [--runs 100] [--scenes 116] [--patches 977] [--sets 4] [--store FOLDER]
"""

from __future__ import annotations

import argparse
import html
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np

from tiepoint.core.hashing import hash_json
from tiepoint.core.records import Records
from tiepoint.core.scores import Score
from tiepoint.run.finish import finish_run
from tiepoint.run.scoring import scores_under
from tiepoint.store.store import Store
from tiepoint.store.stored_run import DatasetFacts, Manifest, MethodFacts
from tiepoint.tasks import load_task

TASK = "hpatches/matching"
IMAGES = [f"{z}{k}" for z in "eht" for k in range(1, 6)]
COLD_S, WARM_S, MOST_MB = 1.0, 0.3, 500
TIMES = 5
PENDING = 'http-equiv="refresh"'


def scene_records(scene: str, patches: int, skill: float, seed: int) -> Records:
    """Simulate the records of one scene: better methods and easier images have more correct matches."""
    rng = np.random.default_rng(seed)
    n = len(IMAGES) * patches
    hard = np.repeat([0.0] * 5 + [0.6] * 5 + [1.2] * 5, patches)
    right = rng.uniform(size=n) < 1 / (1 + np.exp(-(skill - hard)))
    d1 = rng.gamma(4.0, 1.0, n).astype(np.float32)
    truth = np.tile(np.arange(patches), len(IMAGES))
    columns = {
        "d1": d1,
        "d2": (d1 * rng.uniform(1.0, 1.5, n)).astype(np.float32),
        "index": np.where(right, truth, (truth + 1) % patches).astype(np.uint16),
        "ties": np.ones(n, np.uint8),
        "right": right,
    }
    meta = {
        "task": TASK, "scenes": [scene], "kinds": [scene[0]], "distance": "l2", "squared": True,
        "images": IMAGES, "patches": patches, "in_split": True, "noises": ["easy", "hard", "tough"],
        "is_subset": False,
    }  # fmt: skip
    return Records("rank", columns, meta)


def moved(scores: list[Score], rng: np.random.Generator) -> list[Score]:
    """Return the scores with other scene values, like those of another method."""
    shift, made = float(rng.normal(0, 0.03)), []
    for s in scores:
        if s.scenes is None:
            made.append(s)
            continue
        cells = np.clip(s.scenes.cells + shift + rng.normal(0, 0.01, s.scenes.cells.shape), 0, 1)
        known = np.clip(s.value + shift, 0, 1)
        made.append(replace(s, value=float(known), scenes=replace(s.scenes, cells=cells)))
    return made


def make_store(root: Path, runs: int, scenes: int, patches: int, sets: int) -> None:
    task = load_task(TASK)
    names = [f"{'iv'[k % 2]}_{k:03d}" for k in range(scenes)]
    comparison = task.comparison("exact")
    with Store.open(root) as store:
        for s in range(sets):
            by_unit, units = {}, {}
            for k, name in enumerate(names):
                key = hash_json(["bench serve", s, name, patches])
                made = scene_records(name, patches, 0.3 * s + 0.1 * (k % 7), 1000 * s + k)
                store.records.put(key, made)
                by_unit[name], units[name] = {comparison: made}, {comparison: key}
            scored = {p: scores_under(task, p, by_unit) for p in ("exact", "hpatches-python")}
            for m in range(s, runs, sets):
                rng = np.random.default_rng(m)
                manifest = Manifest(
                    task=TASK,
                    method=MethodFacts(name=f"method-{m:03d}", family="patches", spec=f"method-{m:03d}"),
                    dataset=DatasetFacts(hash="made", name="made", path="none", items=0),
                    split="full",
                    lists="made",
                    units=units,
                    efficiency={
                        "per": "patch",
                        "time_s": 1e-5 * (1 + m % 17),
                        "bytes_per_descriptor": 8 * (m % 13 + 4),
                        "time_quartiles_s": [0.9e-5 * (1 + m % 17), 1.1e-5 * (1 + m % 17)],
                        "time_p90_s": 1.2e-5 * (1 + m % 17),
                        "n": 48,
                    },
                )  # fmt: skip
                finish_run(manifest, {p: moved(own, rng) for p, own in scored.items()}, store=store)


class Server:
    """`tiepoint serve` on a free port, with an empty cache folder."""

    def __init__(self, store: Path, cache: Path) -> None:
        command = [sys.executable, "-m", "tiepoint", "serve", "--store", str(store), "--port", "0"]
        environment = os.environ | {"TIEPOINT_CACHE": str(cache)}
        started = time.perf_counter()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+?:\d+", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line}")
        self.address = found[0]
        print(f"{'start the server':48s} {time.perf_counter() - started:8.2f} s")

    def get(self, path: str) -> tuple[float, str]:
        """Return the seconds and text of a page."""
        started = time.perf_counter()
        with urllib.request.urlopen(self.address + path) as answer:
            text = answer.read().decode()
        return time.perf_counter() - started, text

    def peak_mb(self) -> float:
        """Return the peak memory of the server until now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        return float("nan")


def timed(server: Server, name: str, path: str) -> str:
    cold, text = server.get(path)
    started, later = time.perf_counter() - cold, ""
    while PENDING in text:  # the page is complete except for its comparison
        time.sleep(0.2)
        text = server.get(path)[1]
        later = f", compared after {time.perf_counter() - started:.1f} s"
    warm = statistics.median(server.get(path)[0] for _ in range(TIMES))
    late = " LATE" if cold > COLD_S or warm > WARM_S else ""
    print(f"{name:48s} {1000 * cold:8.0f} ms cold {1000 * warm:8.0f} ms warm{late}{later}", flush=True)
    return text


def links(text: str, start: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(rf'href="({start}[^"]*)"', text)]


def visit(server: Server) -> None:
    """Time every kind of page, in the order of a typical visit."""
    home = timed(server, "home", "/")
    assert links(home, "/task/"), "the first page names the task"
    timed(server, "all runs", "/runs")
    text = timed(server, "task", f"/task/{TASK}")
    timed(server, "task, another protocol", f"/task/{TASK}?protocol=hpatches-python")
    timed(server, "task, filtered by method", f"/task/{TASK}?method=method-00")
    timed(server, "run", links(text, "/run/")[0])
    for kind in ("intervals", "heat", "time_s"):
        timed(server, f"figure: {kind}", f"/figure/{kind}/{TASK}")
    two = timed(server, "two methods", links(text, "/two/")[0])
    scenes = links(two, "/scene/")
    first = timed(server, "scene, by disagreement", scenes[0])
    other = timed(server, "another scene, confident and wrong", f"{scenes[-1]}?by=confident")
    pages = re.search(r"page 1 of (\d+)", other)
    if pages is not None:
        timed(server, "its last page", f"{scenes[-1]}?by=confident&page={pages[1]}")
    timed(server, "case (without its dataset)", links(first, "/case/")[0])
    timed(server, "save this view (two methods)", f"/save?view={links(text, '/two/')[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("runs", 100), ("scenes", 116), ("patches", 977), ("sets", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--store", type=Path)
    asked = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        root = asked.store or Path(folder) / "store"
        if not (root / "tiepoint.sqlite").exists():
            started = time.perf_counter()
            make_store(root, asked.runs, asked.scenes, asked.patches, min(asked.sets, asked.runs))
            print(f"{'build the store':48s} {time.perf_counter() - started:8.2f} s")
        queries = asked.scenes * len(IMAGES) * asked.patches
        print(f"{asked.runs} runs, {asked.scenes} scenes, {queries:,} queries each")
        server = Server(root, Path(folder) / "cache")
        try:
            visit(server)
            peak = server.peak_mb()
            late = " TOO MUCH" if peak > MOST_MB else ""
            print(f"{'peak memory':48s} {peak:8.0f} MB{late}")
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
