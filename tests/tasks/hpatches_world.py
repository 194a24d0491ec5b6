# SPDX-License-Identifier: BSD-3-Clause
"""Small made-up worlds for the 2017 tasks: lengths, splits, task files, descriptors. No pixels needed."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiepoint.core.records import Features

LETTERS = {"easy": "e", "hard": "h", "tough": "t"}
IMAGES = ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6)))
LENGTHS = {"i_ant": 9, "i_bee": 14, "v_cat": 11, "v_dog": 8, "v_elk": 13}
SPLITS = {
    "full": {"name": "full", "test": list(LENGTHS)},
    "a": {"name": "a", "test": ["v_cat", "i_bee", "v_dog"], "train": ["i_ant", "v_elk"]},
}


@dataclass
class World:
    """A dataset without pixels, and its task files."""

    root: Path
    lengths: dict = field(default_factory=lambda: dict(LENGTHS))

    @property
    def data(self):
        return self.root / "lengths.json"

    @property
    def tasks(self):
        return self.root / "tasks"


def make_world(root, *, rows=90, queries=20, distractors=30, seed=0):
    world = World(Path(root))
    world.tasks.mkdir(parents=True, exist_ok=True)
    world.data.write_text(json.dumps(world.lengths))
    (world.tasks / "splits.json").write_text(json.dumps(SPLITS))
    rng = np.random.default_rng(seed)
    for name, split in SPLITS.items():
        _write_lists(world, name, split["test"], rng, rows, queries, distractors)
    return world


def _write_lists(world, name, test, rng, rows, queries, distractors):
    tables = {"pos": [], "neg_intra": [], "neg_inter": []}
    for _ in range(rows):
        s, s2 = rng.choice(test, 2)
        i, j = rng.permutation(world.lengths[s])[:2]
        t, t2 = rng.permutation(6)[:2]
        k = rng.integers(world.lengths[s2])
        tables["pos"].append((s, t, i, s, t2, i))
        tables["neg_intra"].append((s, t, i, s, t2, j))
        tables["neg_inter"].append((s, t, i, s2, t2, k))
    for kind, table in tables.items():
        path = world.tasks / f"verif_{kind}_split-{name}.csv"
        path.write_text("s1,t1,idx1,s2,t2,idx2\n" + "".join(",".join(map(str, r)) + "\n" for r in table))
    every = [(s, i) for s in test for i in range(world.lengths[s])]
    chosen = rng.permutation(len(every))[: queries + distractors]
    size = min(queries, len(chosen) // 2)
    for kind, part in (("queries", chosen[:size]), ("distractors", chosen[size:])):
        text = "s,idx\n" + "".join(f"{every[i][0]},{every[i][1]}\n" for i in part)
        (world.tasks / f"retr_{kind}_split-{name}.csv").write_text(text)


def make_descriptors(kind, seed=0, dim=8, lengths=LENGTHS):
    """Descriptors by item key; `noisy` carries information, `ties` has few distinct values."""
    rng = np.random.default_rng(seed)
    out = {}
    for scene, n in lengths.items():
        base = rng.normal(size=(n, dim))
        for im in IMAGES:
            noise = rng.normal(size=(n, dim)) * {"r": 0, "e": 0.5, "h": 0.8, "t": 1.2}[im[0]]
            if kind == "random":
                d = rng.normal(size=(n, dim))
            elif kind == "noisy":
                d = base + noise
            elif kind == "integer":
                d = np.rint(3 * (base + noise))
            elif kind == "ties":
                d = np.sign(base + noise)[:, :4]
            elif kind == "binary":
                d = np.packbits(base + noise > 0, axis=1)
            elif kind == "masked":
                d = np.concatenate([base + noise, rng.random((n, dim)) < 0.7], axis=1)
            elif kind == "constant":
                d = np.ones((n, dim))
            else:
                raise ValueError(kind)
            out[f"{scene}/{im}"] = d if kind == "binary" else d.astype(np.float32)
    return out


def features_of(descriptors, distance="l2", valid=None):
    def arrays(key):
        found = {"values": descriptors[key]}
        if valid is not None and key in valid:
            found["valid"] = valid[key]
        return found

    return Features(arrays, distance)


def run_task(task, world, features, **options):
    """Open, compare every unit; returns (opened, records)."""
    opened = task.open(world.data, {"tasks": world.tasks, **options})
    return opened, [opened.compare(u, features, task.comparison("exact")) for u in opened.units]


def value(scores, metric, group="all"):
    found = [s.value for s in scores if s.metric == metric and s.group == group]
    assert len(found) == 1, (metric, group, sorted({(s.metric, s.group) for s in scores}))
    return found[0]


def lists_of(world, split):
    """Task files as lists of tuples with whole numbers where they are numbers."""
    found = {}
    for kind in ("pos", "neg_intra", "neg_inter"):
        lines = (world.tasks / f"verif_{kind}_split-{split}.csv").read_text().split()[1:]
        found[kind] = [
            (a, int(t), int(i), b, int(u), int(j)) for a, t, i, b, u, j in (x.split(",") for x in lines)
        ]
    for kind in ("queries", "distractors"):
        lines = (world.tasks / f"retr_{kind}_split-{split}.csv").read_text().split()[1:]
        found[kind] = [(s, int(i)) for s, i in (x.split(",") for x in lines)]
    return found
