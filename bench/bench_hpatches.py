# SPDX-License-Identifier: BSD-3-Clause
"""The three HPatches 2017 tasks at full size, against bare products and against the plain way, in one run.

python bench/bench_hpatches.py [--folder DIR] [--sequences 116] [--repeats 3]

Descriptors are made on the spot at the published lengths (116 sequences x 16 images, 2.51 M x 128 float32,
1.2 GiB in DIR, default a temporary folder) and read from the feature cache, memory-mapped. "Bare" is the
float32 products the tasks contain, one pass over their score tiles, one pass over the gathered rows of the
pairs. The plain way is timed on a sample spread evenly over the three lists, and scaled. Everything is
repeated in turns, with the task opened anew, and the median is shown. Memory is what the process holds beyond
mapped files.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, euclidean

from tiepoint.datasets.hpatches.draws_2017 import draw_retrieval_lists
from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
from tiepoint.datasets.hpatches.release_2017 import official_lengths, official_splits, open_lengths
from tiepoint.formats.hpatches.splits import Split, write_splits
from tiepoint.formats.hpatches.task_csv import patches_csv_chunks
from tiepoint.formats.text_file import write_bytes
from tiepoint.model.units import Features
from tiepoint.run.machine import machine
from tiepoint.store.features import FeatureCache
from tiepoint.tasks import TASKS

DIM = 128
NOISE = {"r": 0.0, "e": 0.6, "h": 1.0, "t": 1.5}
POOLS = (100, 500, 1000, 5000, 10000, 15000, 20000)


class Memory:
    """Peak of the anonymous memory of this process, sampled."""

    def __init__(self) -> None:
        self.peak = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @staticmethod
    def _now() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) << 10
        return 0

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, self._now())

    def __enter__(self) -> Memory:
        self.start = self._now()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def make_data(folder: Path, sequences: int) -> tuple[Path, FeatureCache, dict[str, int]]:
    folder.mkdir(parents=True, exist_ok=True)
    every = official_lengths() | {s: low for s, (low, _) in open_lengths().items()}
    names = [s for s in official_splits()["full"].test if s in every][:sequences]
    lengths = {s: every[s] for s in names}
    (folder / "lengths.json").write_text(json.dumps(lengths))
    write_splits(folder / "tasks" / "splits.json", {"full": Split("full", tuple(names))})
    usable = {s: np.ones(n, bool) for s, n in lengths.items()}
    size = min(10_000, sum(lengths.values()) // 4)
    drawn = draw_retrieval_lists(names, lengths, usable, queries=size, distractors=2 * size)
    for kind, table in zip(("queries", "distractors"), drawn, strict=True):
        write_bytes(folder / "tasks" / f"retr_{kind}_split-full.csv", patches_csv_chunks(table))
    cache = FeatureCache(folder / "features")
    rng = np.random.default_rng(0)
    for s, n in lengths.items():
        base = rng.standard_normal((n, DIM), dtype=np.float32)
        for image in STANDARD_IMAGES:
            x = base + NOISE[image[0]] * rng.standard_normal((n, DIM), dtype=np.float32)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            cache.put(f"{s}-{image}", {"values": x})
    return folder / "lengths.json", cache, lengths


def features_of(cache: FeatureCache) -> Features:
    return Features(lambda key: cache.get(key.replace("/", "-")), "l2")


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    out = work()
    return time.perf_counter() - start, out


def bare_matching(cache: FeatureCache, lengths: dict[str, int]) -> None:
    for s in lengths:
        ref = np.asarray(cache.get(f"{s}-ref")["values"])
        for image in STANDARD_IMAGES[1:]:
            (ref @ np.asarray(cache.get(f"{s}-{image}")["values"]).T).min(axis=1)


def bare_retrieval(q: np.ndarray, d: np.ndarray) -> None:
    tile = np.empty((512, 4096), np.float32)
    for j in range(0, len(d), 4096):
        part = d[j : j + 4096].T
        for i in range(0, len(q), 512):
            rows = q[i : i + 512]
            out = tile.ravel()[: len(rows) * part.shape[1]].reshape(len(rows), -1)
            np.matmul(rows, part, out=out)
            out.min(axis=1)


def bare_gather(cache: FeatureCache, lists: Any, lengths: dict[str, int]) -> None:
    """Rows of all pairs of one noise level, fetched once from the descriptors laid end to end."""
    images = STANDARD_IMAGES[:5]
    values = np.empty((5 * sum(lengths.values()), DIM), np.float32)
    at = 0
    for s, n in lengths.items():
        for m in images:
            values[at : at + n] = cache.get(f"{s}-{m}")["values"]
            at += n
    n_of = np.array(list(lengths.values()))
    first = np.cumsum(5 * n_of) - 5 * n_of
    for table in (lists.pos, lists.intra, lists.inter):
        order = np.array([list(lengths).index(s) for s in table.sequences])
        for seq, image, index in (
            (table.seq1, table.image1, table.index1),
            (table.seq2, table.image2, table.index2),
        ):
            rows = first[order[seq]] + image * n_of[order[seq]] + index
            for i in range(0, len(rows), 16384):
                values[rows[i : i + 16384]].sum()


def plain_verification(cache: FeatureCache, lists: Any, count: int) -> tuple[float, float]:
    """Seconds a pair (a Python loop over table rows, one SciPy call each) and seconds of two curves."""
    images = STANDARD_IMAGES[:6]
    names = lists.pos.sequences
    loaded = {
        s: SimpleNamespace(**{m: np.array(cache.get(f"{s}-{m}")["values"]) for m in images}) for s in names
    }
    rows = np.concatenate([_spread(t, count // 3) for t in (lists.pos, lists.intra, lists.inter)])
    count = len(rows)
    start = time.perf_counter()
    out = np.zeros(count, np.float32)
    for i in range(count):
        row = rows[i]
        t1 = "ref" if row[1] == 0 else f"e{row[1]}"
        t2 = "ref" if row[4] == 0 else f"e{row[4]}"
        d1 = getattr(loaded[row[0]], t1)[row[2]]
        d2 = getattr(loaded[row[3]], t2)[row[5]]
        out[i] = euclidean(d1, d2)
    pair = (time.perf_counter() - start) / count
    n = len(lists.pos)
    start = time.perf_counter()
    for positives in (n, n // 5):
        score = np.random.default_rng(0).random(n + positives).astype(np.float32)
        label = (np.arange(len(score)) >= n)[np.argsort(-score, kind="mergesort")]
        tp, fp = np.cumsum(label), np.cumsum(~label)
        np.trapezoid(tp / np.maximum(tp + fp, 1e-10), tp / positives)
    return pair, time.perf_counter() - start


def _spread(t: Any, count: int) -> np.ndarray:
    """Rows of a table at even distances, as the plain way holds them: names and numbers."""
    at = np.linspace(0, len(t) - 1, count).astype(int)
    names = np.array(t.sequences, dtype=object)
    columns = (names[t.seq1[at]], t.image1[at], t.index1[at], names[t.seq2[at]], t.image2[at], t.index2[at])
    return np.stack([c.astype(object) for c in columns], axis=1)


def plain_matching(cache: FeatureCache, names: list[str]) -> tuple[float, float]:
    """Seconds and distances: one cdist, argmin and sort per pair of images."""
    seconds, distances = 0.0, 0.0
    for s in names:
        ref, other = (np.asarray(cache.get(f"{s}-{m}")["values"]) for m in ("ref", "h1"))
        start = time.perf_counter()
        table = cdist(ref, other)
        index = table.argmin(axis=1)
        order = np.argsort(table[np.arange(len(ref)), index], kind="mergesort")
        np.cumsum((index == np.arange(len(ref)))[order])
        seconds += time.perf_counter() - start
        distances += float(len(ref)) ** 2
    return seconds, distances


def plain_retrieval(q: np.ndarray, d: np.ndarray, count: int) -> float:
    """Seconds a query: distances to all distractors, fifteen single ones, seven sorts a noise level."""
    start = time.perf_counter()
    for i in range(count):
        far = cdist(q[i : i + 1], d)[0]
        for _ in range(3):
            near = np.array([cdist(q[i : i + 1], d[k : k + 1])[0, 0] for k in range(5)])
            both = np.concatenate([near, far])
            for k in POOLS:
                order = np.argsort(both[:k], kind="mergesort")
                hits = np.cumsum(order < 5)
                np.trapezoid(hits / np.arange(1, len(hits) + 1), hits / 5)
    return (time.perf_counter() - start) / count


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--folder", type=Path)
    p.add_argument("--sequences", type=int, default=116)
    p.add_argument("--repeats", type=int, default=3)
    given = p.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-", dir=given.folder) as scratch:
        run(Path(scratch), given.sequences, given.repeats)


def run(folder: Path, sequences: int, repeats: int) -> None:
    m = machine()
    print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}")
    spent, (data, cache, lengths) = timed(lambda: make_data(folder, sequences))
    rows = 16 * sum(lengths.values())
    print(f"{len(lengths)} sequences, {rows:,} x {DIM} float32 made in {spent:.0f} s")
    features = features_of(cache)
    options = {"tasks": folder / "tasks", "split": "full"}
    names = ("verification", "matching", "retrieval")
    tasks = {n: TASKS.load(f"hpatches/{n}") for n in names}
    spent, lists = timed(lambda: tasks["verification"].open(data, options).content.lists)
    print(f"verification lists drawn in {spent:.1f} s")
    queries, distractors = _retrieval_rows(cache, folder, lengths)
    warm_up(folder / "small", tasks)
    ours, scored, bare, plain, cpu = ({n: [] for n in names} for _ in range(5))
    samples = {
        "verification": lambda: plain_pairs(cache, lists),
        "matching": lambda: plain_images(cache, lengths),
        "retrieval": lambda: plain_retrieval(queries, distractors, 20) * len(queries),
    }
    peak = 0.0
    for _ in range(repeats):
        for name, work in (
            ("verification", lambda: [bare_gather(cache, lists, lengths) for _ in range(3)]),
            ("matching", lambda: bare_matching(cache, lengths)),
            ("retrieval", lambda: bare_retrieval(queries, distractors)),
        ):
            bare[name].append(timed(work)[0])
            opened = tasks[name].open(data, options)
            if name == "verification":
                opened.content.__dict__["lists"] = lists  # drawn once, outside the clock
            before = time.process_time()
            with Memory() as memory:
                spent, records = timed(
                    lambda o=opened: [o.compare(u, features, "reference") for u in o.units]
                )
                ours[name].append(spent)
                spent, scores = timed(lambda n=name, r=records: _score(tasks[n], n, r))
                scored[name].append(spent)
            cpu[name].append(time.process_time() - before)
            plain[name].append(samples[name]())
            size = sum(r.size_bytes for r in records) / 2**20
            held = (memory.peak - memory.start) / 2**20
            peak = max(peak, held)
            print(
                f"{name}: records {size:.0f} MiB, at most {held:.0f} MiB above the mapped features",
                flush=True,
            )
            del records, scores
    middle = [{n: float(np.median(v)) for n, v in t.items()} for t in (ours, scored, bare, plain, cpu)]
    print(f"median of {repeats}")
    print(f"{'task':<14}{'compare':>9}{'score':>8}{'bare':>8}{'ratio':>7}{'plain':>8}{'times':>7}{'cpu':>8}")
    for n in names:
        compare, score, base, slow, busy = (t[n] for t in middle)
        both = compare + score
        print(
            f"{n:<14}{compare:>8.1f}s{score:>7.1f}s{base:>7.1f}s{both / base:>7.2f}"
            f"{slow:>7.0f}s{slow / both:>7.0f}{busy:>7.1f}s"
        )
    total = sum(middle[0].values()) + sum(middle[1].values())
    base = sum(middle[2].values())
    print(f"{'together':<14}{total:>16.1f}s{base:>7.1f}s{total / base:>7.2f}   (ratio at most 3)")
    print(f"peak above the mapped features {peak / 1024:.2f} GiB (below 1); load {os.getloadavg()[0]:.1f}")
    print("wanted: verification 30, matching 15, retrieval 100 times; 'cpu' is what both threads used")


def plain_pairs(cache: FeatureCache, lists: Any) -> float:
    pair, curves = plain_verification(cache, lists, 20_000)
    return pair * 9 * len(lists.pos) + 6 * curves


def plain_images(cache: FeatureCache, lengths: dict[str, int]) -> float:
    seconds, distances = plain_matching(cache, list(lengths)[:12])
    return seconds / distances * 15 * sum(float(n) ** 2 for n in lengths.values())


def _score(task: Any, name: str, records: Any) -> Any:
    return task.score(records, "exact")


def warm_up(folder: Path, tasks: dict[str, Any]) -> None:
    """The three tasks on two sequences, so that nothing is compiled or imported while the clock runs."""
    data, cache, _ = make_data(folder, 2)
    for name, task in tasks.items():
        opened = task.open(data, {"tasks": folder / "tasks", "split": "full"})
        _score(task, name, [opened.compare(u, features_of(cache), "reference") for u in opened.units])


def _retrieval_rows(cache: FeatureCache, folder: Path, lengths: dict[str, int]) -> Any:
    from tiepoint.formats.hpatches.task_csv import read_patches_csv

    found = []
    for kind in ("queries", "distractors"):
        t = read_patches_csv(folder / "tasks" / f"retr_{kind}_split-full.csv", lengths)
        out = np.empty((len(t), DIM), np.float32)
        for code, name in enumerate(t.sequences):
            own = t.seq == code
            out[own] = cache.get(f"{name}-ref")["values"][t.index[own]]
        found.append(out)
    return found[0], found[1]


if __name__ == "__main__":
    main()
