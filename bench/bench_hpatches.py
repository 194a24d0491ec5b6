# SPDX-License-Identifier: BSD-3-Clause
"""The three HPatches 2017 tasks at full size, compared with bare products and a plain implementation.

python bench/bench_hpatches.py [--folder DIR] [--sequences 116] [--repeats 3] [--threads 1,2,4,8,16] [--every]

The script generates descriptors at the published lengths (116 sequences x 16 images, 2.51 M x 128 float32,
1.2 GiB in DIR, default a temporary folder) and reads them memory-mapped from the feature cache. "Bare" is the
float32 products of the tasks, one pass over their score tiles, and one pass over the gathered rows of the
pairs. The products are split by image or query over as many threads as the tasks use. Each thread has one
BLAS thread and its own memory, which is faster than one product on all threads. The plain implementation is
timed on an even sample of the three lists, and scaled. All measurements are repeated in turns, each with a
newly opened task, and the median is printed. Memory excludes mapped files.

With `--threads`, the script measures only how matching and retrieval scale, each compared with the bare work
on as many threads. `--every` adds retrieval among every patch of every other sequence.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, euclidean
from threadpoolctl import threadpool_limits

from tiepoint.core.records import Features
from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
from tiepoint.datasets.hpatches.sampling_2017 import draw_retrieval_lists
from tiepoint.datasets.hpatches.splits import official_lengths, official_splits, open_lengths
from tiepoint.formats.file_io import write_bytes
from tiepoint.formats.hpatches.task_lists import Split, patches_csv_chunks, write_splits
from tiepoint.kernels import get_threads, set_threads
from tiepoint.run.costs import machine
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.tasks import TASKS

DIM = 128
NOISE = {"r": 0.0, "e": 0.6, "h": 1.0, "t": 1.5}
POOLS = (100, 500, 1000, 5000, 10000, 15000, 20000)


class Memory:
    """Sampled peak of the anonymous memory of this process."""

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


_own = threading.local()


def _tile(rows: int, columns: int) -> np.ndarray:
    """Return the tile buffer of this thread, which is reused."""
    if getattr(_own, "memory", np.empty(0)).size < rows * columns:
        _own.memory = np.empty(rows * columns, np.float32)
    return _own.memory[: rows * columns].reshape(rows, columns)


def _product(q: np.ndarray, d: np.ndarray, some: int = 512) -> None:
    for i in range(0, len(q), some):
        rows = q[i : i + some]
        tile = _tile(len(rows), len(d))
        np.matmul(rows, d.T, out=tile)
        tile.min(axis=1)


def _shared_out(work: Any, parts: list[Any], threads: int) -> None:
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


def bare_matching(cache: FeatureCache, lengths: dict[str, int], threads: int) -> None:
    def one(part: tuple[str, str]) -> None:
        ref, other = (np.asarray(cache.get(f"{part[0]}-{m}")["values"]) for m in ("ref", part[1]))
        _product(ref, other)

    _shared_out(one, [(s, m) for s in lengths for m in STANDARD_IMAGES[1:]], threads)


def bare_retrieval(q: np.ndarray, pool: Any, threads: int) -> None:
    """Multiply all queries, split into stripes, by each matrix in the list `pool`."""

    def one(part: tuple[int, int]) -> None:
        for d in pool:
            for j in range(0, len(d), 4096):
                _product(q[slice(*part)], np.asarray(d[j : j + 4096]))

    count = max(threads, -(-len(q) // 512))
    _shared_out(one, [(len(q) * i // count, len(q) * (i + 1) // count) for i in range(count)], threads)


def bare_gather(cache: FeatureCache, lists: Any, lengths: dict[str, int]) -> None:
    """Gather the rows of all pairs of one noise level once from the concatenated descriptors."""
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
    """Return seconds per pair (a Python loop, one SciPy call per row) and seconds of two curves."""
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
    """Return evenly spaced rows of a table as names and numbers, as the plain implementation uses them."""
    at = np.linspace(0, len(t) - 1, count).astype(int)
    names = np.array(t.sequences, dtype=object)
    columns = (names[t.seq1[at]], t.image1[at], t.index1[at], names[t.seq2[at]], t.image2[at], t.index2[at])
    return np.stack([c.astype(object) for c in columns], axis=1)


def plain_matching(cache: FeatureCache, names: list[str]) -> tuple[float, float]:
    """Return seconds and distances of one cdist, argmin and sort per pair of images."""
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
    """Return seconds per query: all distractors, fifteen single distances, seven sorts per noise level."""
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
    p.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")])
    p.add_argument("--every", action="store_true")
    given = p.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-", dir=given.folder) as scratch:
        if given.threads or given.every:
            every = "every" if given.every else None
            scaling(Path(scratch), given.sequences, given.repeats, given.threads or [get_threads()], every)
        else:
            run(Path(scratch), given.sequences, given.repeats)


def scaling(folder: Path, sequences: int, repeats: int, threads: list[int], every: str | None) -> None:
    """Time matching, retrieval and the bare work by number of threads; print medians measured in turns."""
    m = machine()
    print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}; threads, median of {repeats}")
    data, cache, lengths = make_data(folder, sequences)
    features, names = features_of(cache), ["matching", "retrieval"] + ["every"] * bool(every)
    queries, distractors = _retrieval_rows(cache, folder, lengths)
    pool = [cache.get(f"{s}-{m}")["values"] for s in lengths for m in STANDARD_IMAGES] if every else []
    tasks = {n: TASKS.load(f"hpatches/{n}") for n in ("matching", "retrieval")}
    warm_up(folder / "small", tasks)
    bare = {
        "matching": lambda k: bare_matching(cache, lengths, k),
        "retrieval": lambda k: bare_retrieval(queries, [distractors], k),
        "every": lambda k: bare_retrieval(queries, pool, k),
    }
    first: dict[str, float] = {}
    for k in threads:
        set_threads(k)
        for name in names:
            more = {"distractors": "every"} if name == "every" else {}
            task = tasks["retrieval" if name == "every" else name]
            spent = []
            for _ in range(repeats):
                opened = task.open(data, {"tasks": folder / "tasks", "split": "full", **more})
                with Memory() as memory:
                    ours = timed(lambda o=opened: [o.compare(u, features, "reference") for u in o.units])[0]
                spent.append((ours, timed(lambda n=name, k=k: bare[n](k))[0]))
            ours, base = (float(np.median(column)) for column in zip(*spent, strict=True))
            first.setdefault(name, ours * k)
            held = (memory.peak - memory.start) / 2**20
            print(
                f"{k:>3} {name:<10} {ours:7.2f} s, bare {base:7.2f} s, ratio {ours / base:5.2f}, "
                f"{first[name] / ours:5.1f} times one thread, {held:5.0f} MiB",
                flush=True,
            )
    set_threads(None)


def run(folder: Path, sequences: int, repeats: int) -> None:
    m = machine()
    print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}")
    spent, (data, cache, lengths) = timed(lambda: make_data(folder, sequences))
    rows = 16 * sum(lengths.values())
    print(f"{len(lengths)} sequences, {rows:,} x {DIM} float32 generated in {spent:.0f} s")
    features = features_of(cache)
    options = {"tasks": folder / "tasks", "split": "full"}
    names = ("verification", "matching", "retrieval")
    tasks = {n: TASKS.load(f"hpatches/{n}") for n in names}
    spent, lists = timed(lambda: tasks["verification"].open(data, options).content.lists)
    print(f"verification lists sampled in {spent:.1f} s")
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
            ("matching", lambda: bare_matching(cache, lengths, get_threads())),
            ("retrieval", lambda: bare_retrieval(queries, [distractors], get_threads())),
        ):
            bare[name].append(timed(work)[0])
            opened = tasks[name].open(data, options)
            if name == "verification":
                opened.content.__dict__["lists"] = lists  # sampled once, not timed
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
    """Run the three tasks on two sequences, so that compiling and importing are not timed."""
    data, cache, _ = make_data(folder, 2)
    for name, task in tasks.items():
        opened = task.open(data, {"tasks": folder / "tasks", "split": "full"})
        _score(task, name, [opened.compare(u, features_of(cache), "reference") for u in opened.units])


def _retrieval_rows(cache: FeatureCache, folder: Path, lengths: dict[str, int]) -> Any:
    from tiepoint.formats.hpatches.task_lists import read_patches_csv

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
