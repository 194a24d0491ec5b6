# SPDX-License-Identifier: BSD-3-Clause
"""The three HPatches 2017 tasks from descriptor CSV files: the way of the Python tool, and tiepoint.

python bench/bench_from_csv.py [--sequences 12] [--patches 925] [--repeats 3]

The script writes synthetic descriptors (sequences x 16 images x patches x 128) and the task files. Then it
runs two commands in turns, each in a new process: the plain way of the tool (pandas reads every file, one
SciPy call per verification pair, `cdist` per pair of images, and for each query seven stable sorts per noise
level), and `tiepoint run` with an empty store under `hpatches-python`. The scores of both must be equal
within 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DIM = 128
NOISE = {"r": 0.0, "e": 1.2, "h": 2.0, "t": 2.8}
POOLS = (100, 500, 1000, 5000, 10000, 15000, 20000)
TASKS = "hpatches/verification,hpatches/matching,hpatches/retrieval"


def make_data(folder: Path, sequences: int, patches: int) -> None:
    from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
    from tiepoint.datasets.hpatches.sampling_2017 import draw_retrieval_lists, draw_verification
    from tiepoint.datasets.hpatches.splits import official_splits
    from tiepoint.formats.file_io import write_bytes
    from tiepoint.formats.hpatches.descriptors import write_descriptors
    from tiepoint.formats.hpatches.task_lists import (
        Split,
        pairs_csv_chunks,
        patches_csv_chunks,
        write_splits,
    )

    names = official_splits()["full"].test[:sequences]
    lengths = dict.fromkeys(names, patches)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lengths.json").write_text(json.dumps(lengths))
    tasks = folder / "tasks"
    write_splits(tasks / "splits.json", {"some": Split("some", tuple(names))})
    lists = draw_verification(names, lengths, rows=10 * sum(lengths.values()))
    for table, kind in ((lists.pos, "pos"), (lists.intra, "neg_intra"), (lists.inter, "neg_inter")):
        write_bytes(tasks / f"verif_{kind}_split-some.csv", pairs_csv_chunks(table))
    usable = {s: np.ones(n, bool) for s, n in lengths.items()}
    size = min(10_000, sum(lengths.values()) // 4)
    drawn = draw_retrieval_lists(names, lengths, usable, queries=size, distractors=2 * size)
    for kind, table in zip(("queries", "distractors"), drawn, strict=True):
        write_bytes(tasks / f"retr_{kind}_split-some.csv", patches_csv_chunks(table))
    rng = np.random.default_rng(0)
    for s in names:
        base = rng.standard_normal((patches, DIM), dtype=np.float32)
        for image in STANDARD_IMAGES:
            x = base + NOISE[image[0]] * rng.standard_normal((patches, DIM), dtype=np.float32)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            write_descriptors(folder / "descriptors" / s / f"{image}.csv", x)


def trapezoid(labels: np.ndarray, positives: int) -> float:
    """Return the area under the curve of precision and recall, as the tool computes it."""
    tp = np.concatenate([[0], np.cumsum(labels)])
    recall = tp / max(positives, 1e-10)
    precision = np.maximum(tp, 1e-10) / np.maximum(np.arange(len(tp)), 1e-10)
    return float(np.trapezoid(precision, recall))


def staircase(labels: np.ndarray) -> float:
    tp, fp = (np.concatenate([[0], np.cumsum(x)]) for x in (labels, ~labels))
    return float(np.sum(tp[1:] / tp[-1] * np.diff(fp / fp[-1])))


def reference(folder: Path) -> dict[str, float]:
    """Return the scores of the three tasks, computed in the tool's way."""
    import pandas as pd

    tasks = folder / "tasks"
    names = json.loads((tasks / "splits.json").read_text())["some"]["test"]
    images = ["ref"] + [f"{z}{k}" for z in "eht" for k in range(1, 6)]
    descriptors = {
        s: {
            m: pd.read_csv(folder / "descriptors" / s / f"{m}.csv", header=None).to_numpy().astype(np.float32)
            for m in images
        }
        for s in names
    }

    def rows(kind: str) -> np.ndarray:
        return pd.read_csv(tasks / f"{kind}_split-some.csv").to_numpy()

    return (
        plain_verification(descriptors, rows)
        | plain_matching(descriptors, names)
        | plain_retrieval(descriptors, rows)
    )


def plain_verification(descriptors: Any, rows: Any) -> dict[str, float]:
    from scipy.spatial.distance import euclidean

    found = {}
    lists = {kind: rows(f"verif_{kind}") for kind in ("pos", "neg_intra", "neg_inter")}
    for z in "eht":
        image = ["ref", *(f"{z}{k}" for k in range(1, 6))]
        far = {}
        for kind, pairs in lists.items():
            far[kind] = np.zeros(len(pairs), np.float32)
            for i, (s1, t1, i1, s2, t2, i2) in enumerate(pairs):
                far[kind][i] = euclidean(descriptors[s1][image[t1]][i1], descriptors[s2][image[t2]][i2])
        for kind in ("intra", "inter"):
            negative = far[f"neg_{kind}"]
            for positive, name in ((far["pos"], "auc"), (far["pos"][: len(far["pos"]) // 5], "ap")):
                label = np.arange(len(negative) + len(positive)) >= len(negative)
                label = label[np.argsort(np.concatenate([negative, positive]), kind="mergesort")]
                area = staircase(label) if name == "auc" else trapezoid(label, len(positive))
                found[f"verification {z} {kind} {name}"] = area
    return found


def plain_matching(descriptors: Any, names: list[str]) -> dict[str, float]:
    from scipy.spatial.distance import cdist

    found: dict[str, list[float]] = {}
    for s in names:
        own = descriptors[s]
        for z in "eht":
            for k in range(1, 6):
                table = cdist(own["ref"], own[f"{z}{k}"])
                index = table.argmin(axis=1)
                order = np.argsort(table[np.arange(len(table)), index], kind="mergesort")
                right = (index == np.arange(len(table)))[order]
                found.setdefault(f"matching {z}", []).append(trapezoid(right, len(right)))
    return {name: float(np.mean(values)) for name, values in found.items()}


def plain_retrieval(descriptors: Any, rows: Any) -> dict[str, float]:
    from scipy.spatial.distance import cdist

    queries, distractors = rows("retr_queries"), rows("retr_distractors")
    sequence = distractors[:, 0]
    table = cdist(
        np.stack([descriptors[s]["ref"][i] for s, i in queries]),
        np.stack([descriptors[s]["ref"][i] for s, i in distractors]),
    )
    found: dict[str, list[float]] = {}
    for (s, i), every in zip(queries, table, strict=True):
        own = descriptors[s]
        query, far = own["ref"][i : i + 1], every[sequence != s]
        for z in "eht":
            near = [cdist(query, own[f"{z}{k}"][i : i + 1])[0, 0] for k in range(1, 6)]
            both = np.concatenate([near, far])
            for k in POOLS:
                label = np.argsort(both[:k], kind="mergesort") < 5
                found.setdefault(f"retrieval {z} {k}", []).append(trapezoid(label, 5))
    return {name: float(np.mean(values)) for name, values in found.items()}


def command(line: list[str]) -> tuple[str, float, float]:
    """Run a command in a new process; return its output, wall time and processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    out = subprocess.run([sys.executable, *line], check=True, stdout=subprocess.PIPE, text=True).stdout
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(folder: Path) -> list[str]:
    return [
        "-m", "tiepoint", "run", f"files:{folder / 'descriptors'}", "--task", TASKS,
        "--data", str(folder / "lengths.json"), "--tasks", str(folder / "tasks"), "--split", "some",
        "--protocol", "hpatches-python", "--store", str(folder / "store"), "--json",
    ]  # fmt: skip


def compared(said: dict[str, str]) -> int:
    """Return the number of scores that the plain way has; stop if tiepoint has another value for one."""
    rows = {(r["task"], r["metric"], r["group"]): r["value"] for r in json.loads(said["tiepoint"])["scores"]}
    plain = json.loads(said["plain"])
    for name, value in plain.items():
        task, z, *rest = name.split()
        noise = {"e": "easy", "h": "hard", "t": "tough"}[z]
        if task == "verification":
            row = rows[f"hpatches/{task}", rest[1], f"negatives={rest[0]},noise={noise}"]
        elif task == "matching":
            row = rows[f"hpatches/{task}", "map", f"noise={noise}"]
        else:
            row = rows[f"hpatches/{task}", "map", f"noise={noise},pool={rest[0]}"]
        if abs(row - value) > 1e-9:
            raise SystemExit(f"{name}: the plain way has {value}, tiepoint {row}")
    return len(plain)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--sequences", type=int, default=12)
    p.add_argument("--patches", type=int, default=925)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--folder", type=Path, help="write the data there, or use what is there")
    p.add_argument("--reference", type=Path, help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.reference:
        print(json.dumps(reference(given.reference)))
        return
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-") as scratch:
        folder = given.folder or Path(scratch)
        if not (folder / "lengths.json").exists():
            make_data(folder, given.sequences, given.patches)
        measure(folder, given.repeats)


def measure(folder: Path, repeats: int) -> None:
    from tiepoint.run.costs import machine

    m = machine()
    count = 16 * sum(json.loads((folder / "lengths.json").read_text()).values())
    print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}; {count:,} descriptors of {DIM}")
    lines = {"plain": [__file__, "--reference", str(folder)], "tiepoint": ours(folder)}
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    said = {}
    shutil.rmtree(folder / "store", ignore_errors=True)
    command(lines["tiepoint"])  # compiles, if the kernels are not cached
    for _ in range(repeats):
        for name, line in lines.items():
            shutil.rmtree(folder / "store", ignore_errors=True)
            said[name], *times = command(line)
            spent[name].append(tuple(times))
            print(f"{name:<9} {times[0]:6.1f} s, processor {times[1]:6.1f} s", flush=True)
    (wall, cpu), (our_wall, our_cpu) = (np.median(np.array(spent[n]), axis=0) for n in lines)
    print(f"plain {wall:.1f} s, tiepoint {our_wall:.1f} s: {wall / our_wall:.1f} times faster; "
          f"processor time {cpu:.1f} and {our_cpu:.1f} s: {cpu / our_cpu:.1f} times less")  # fmt: skip
    print(
        f"largest difference of the {compared(said)} scores of both below 1e-9; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
