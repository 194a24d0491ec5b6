# SPDX-License-Identifier: BSD-3-Clause
"""Small made-up worlds for the 2016 tasks: definition files, counts, descriptors. No pixels needed."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiepoint.core.records import Item
from tiepoint.tasks.hpatches_v1 import data as rooms

IMAGES = ("ref", "e1", "e2", "e3", "e4", "e5")


@dataclass
class World:
    """A dataset without pixels: counts by image, descriptors by item key."""

    root: Path
    lengths: dict
    counts: dict = field(default_factory=dict)
    warnings: tuple = ()

    def __post_init__(self):
        self.counts = {f"{s}.{im}": n for s, n in self.lengths.items() for im in IMAGES}

    def item(self, key):
        return Item(key, f"content of {key}", self.counts[key.replace("/", ".")])

    def items(self, keys):
        return [self.item(key) for key in keys]

    def read(self, key):
        return np.zeros((self.counts[key.replace("/", ".")], 5, 5), np.uint8)


def make_descriptors(world, kind, seed=0, dim=8):
    """Descriptors by item key; `noisy` carries information, `ties` has few distinct values."""
    rng = np.random.default_rng(seed)
    out = {}
    for scene, n in world.lengths.items():
        base = rng.normal(size=(n, dim))
        for im in IMAGES:
            noise = rng.normal(size=(n, dim))
            if kind == "random":
                d = noise
            elif kind == "noisy":
                d = base + 0.8 * noise
            elif kind == "integer":
                d = np.rint(3 * (base + 0.6 * noise))
            elif kind == "ties":
                d = np.sign(base + 0.7 * noise)[:, :4]
            elif kind == "constant":
                d = np.ones((n, dim))
            else:
                d = base
            out[f"{scene}/{im}"] = d.astype(np.float32)
    return out


def write_classification_files(folder, world, seed=0, positives=60, negatives=150):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    scenes = list(world.lengths)

    def patch(scene, index):
        return f"{scene}.{rng.choice(IMAGES)}.{index}"

    pos, neg = [], []
    for _ in range(positives):
        s = rng.choice(scenes)
        i = rng.integers(world.lengths[s])
        pos.append(f"{patch(s, i)},{patch(s, i)}")
    while len(neg) < negatives:
        s, t = rng.choice(scenes, 2)
        i, j = rng.integers(world.lengths[s]), rng.integers(world.lengths[t])
        if (s, i) != (t, j):
            neg.append(f"{patch(s, i)},{patch(t, j)}")
    (folder / "b_pos.pairs").write_text("\n".join(pos) + "\n")
    (folder / "b_neg.pairs").write_text("\n".join(neg) + "\n")
    (folder / "bench.benchmark").write_text("b_pos.pairs\nb_neg.pairs\n")


def write_matching_files(folder, world):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{s}.ref,{s}.{im}" for s in world.lengths for im in IMAGES[1:4]]
    (folder / "bench.benchmark").write_text("\n".join(lines) + "\n")


def write_retrieval_files(folder, world, seed=0, queries=20):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    pool = [f"{s}.{im}" for s in world.lengths for im in reversed(IMAGES)]
    every = [f"{s}.ref.{i}" for s, n in world.lengths.items() for i in range(n)]
    chosen = rng.choice(every, queries, replace=False)
    (folder / "bench.benchmark").write_text("\n".join([",".join(pool), *chosen]) + "\n")


def make_world(root, lengths=None):
    world = World(Path(root), lengths or {"i_one": 12, "v_two": 9, "v_three": 14})
    write_classification_files(world.root / "classification", world)
    write_matching_files(world.root / "matching", world)
    write_retrieval_files(world.root / "retrieval", world)
    return world


def run_task(task, world, features, protocol="exact", options=None):
    """Open with the world as data (no pixels), compare every unit, return (opened, records)."""
    opened = open_task(task, world, options)
    records = [opened.compare(u, features, task.comparison(protocol)) for u in opened.units]
    return opened, records


def open_task(task, world, options=None):
    saved = rooms.HPatchesDataset
    rooms.HPatchesDataset = lambda data: world
    try:
        return task.open(world.root, options or {})
    finally:
        rooms.HPatchesDataset = saved
