# SPDX-License-Identifier: BSD-3-Clause
"""The same matches of three pairs, written as several programs would write them."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass

import h5py
import numpy as np

from tiepoint.core.records import ImageFacts, Item
from tiepoint.formats.matches.native import write_matches

SIZE = (1296, 968)
NAMES = [("s0/a.jpg", "s0/b.jpg"), ("s0/a.jpg", "s1/a.jpg"), ("s1/a.jpg", "s0/b.jpg")]


@dataclass
class Indexed:
    """Keypoints of both images, the partner of each of the first, and scores."""

    keypoints: tuple[np.ndarray, np.ndarray]
    partner: np.ndarray
    scores: np.ndarray


def keypoints(seed=3, n=60):
    rng = np.random.default_rng(seed)
    names = sorted({name for pair in NAMES for name in pair})
    return {name: rng.uniform(0, 1, (n, 2)) * (np.array(SIZE) - 1) for name in names}


def world(seed=3, n=60):
    """Pairs by their two image names."""
    rng, known = np.random.default_rng(seed + 1), keypoints(seed, n)
    out = {}
    for first, second in NAMES:
        partner = np.full(n, -1, np.int64)
        rows = rng.permutation(n)[: n // 2]
        partner[rows] = rng.permutation(n)[: n // 2]
        scores = np.where(partner >= 0, rng.uniform(0.1, 1, n), 0.0)
        out[first, second] = Indexed((known[first], known[second]), partner, scores)
    return out


def item(first, second, size=SIZE, root="/data/set/"):
    return Item(
        f"{first}--{second}",
        "content",
        images=(ImageFacts(root + first, size), ImageFacts(root + second, size)),
    )


def items():
    return [item(*pair) for pair in NAMES]


def matched(pair):
    rows = np.flatnonzero(pair.partner >= 0)
    return pair.keypoints[0][rows], pair.keypoints[1][pair.partner[rows]], pair.scores[rows]


def cast(points, dtype):
    return points if dtype is None else points.astype(dtype).astype(np.float64)


def write_own(folder, pairs, dtype=None):
    """Our npz, of points rounded to a type."""
    for (first, second), pair in pairs.items():
        a, b, scores = matched(pair)
        write_matches(
            folder, f"{first}--{second}", points0=cast(a, dtype), points1=cast(b, dtype), confidence=scores
        )
    return folder


def write_hloc(folder, pairs, dtype=np.float64, joint="/", reverse=False):
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "feats.h5", "w") as file:
        for (first, second), pair in pairs.items():
            for name, points in zip((first, second), pair.keypoints, strict=True):
                if name not in file:
                    group = file.create_group(name)
                    group.create_dataset("keypoints", data=points.astype(dtype))
                    group.create_dataset("descriptors", data=np.zeros((8, len(points)), np.float16))
    with h5py.File(folder / "matches.h5", "w") as file:
        for (first, second), pair in pairs.items():
            partner, names = pair.partner, [first.replace("/", "-"), second.replace("/", "-")]
            scores = pair.scores
            if reverse:
                names, (partner, scores) = names[::-1], reversed_partner(pair)
            group = file.create_group(joint.join(names))
            group.create_dataset("matches0", data=partner.astype(np.int16))
            group.create_dataset("matching_scores0", data=scores)
    return folder


def reversed_partner(pair):
    n = len(pair.keypoints[1])
    partner, scores = np.full(n, -1, np.int64), np.zeros(n)
    rows = np.flatnonzero(pair.partner >= 0)
    partner[pair.partner[rows]] = rows
    scores[pair.partner[rows]] = pair.scores[rows]
    return partner, scores


def write_glue_factory(folder, pairs, dtype=np.float64):
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "predictions.h5", "w") as file:
        for (first, second), pair in pairs.items():
            group = file.create_group(f"{first.replace('/', '-')}/{second.replace('/', '-')}")
            group.create_dataset("keypoints0", data=pair.keypoints[0].astype(dtype))
            group.create_dataset("keypoints1", data=pair.keypoints[1].astype(dtype))
            group.create_dataset("matches0", data=pair.partner)
            group.create_dataset("matching_scores0", data=pair.scores)
    return folder


def write_superglue(folder, pairs, dtype=np.float64, resized=(640, 480)):
    folder.mkdir(exist_ok=True)
    scale = np.array(resized) / np.array(SIZE)
    for (first, second), pair in pairs.items():
        names = [n.replace("/", "-").removesuffix(".jpg") for n in (first, second)]
        np.savez(
            folder / f"{'_'.join(names)}_matches.npz",
            keypoints0=(pair.keypoints[0] * scale).astype(dtype),
            keypoints1=(pair.keypoints[1] * scale).astype(dtype),
            matches=pair.partner,
            match_confidence=pair.scores,
        )
    return folder


def write_loftr(folder, pairs, **more):
    folder.mkdir(exist_ok=True)
    dumps = []
    for (first, second), pair in pairs.items():
        a, b, scores = matched(pair)
        dumps.append(
            {"mkpts0_f": a, "mkpts1_f": b, "mconf": scores, "identifier": f"{first}#{second}", **more}
        )
    np.save(folder / "LoFTR_pred_eval.npy", np.array(dumps, dtype=object))
    return folder


SCHEMA = """
create table images (image_id integer primary key, name text unique, camera_id integer);
create table keypoints (image_id integer primary key, rows integer, cols integer, data blob);
create table matches (pair_id integer primary key, rows integer, cols integer, data blob);
create table two_view_geometries (pair_id integer primary key, rows integer, cols integer, data blob,
  config integer, F blob, E blob, H blob);
"""


def write_colmap(path, pairs, columns=2, order=None):
    """Write a database as COLMAP does; `order` are the image names by ascending id."""
    names = order or sorted({name for pair in pairs for name in pair})
    ids = {name: number for number, name in enumerate(names, start=1)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        for name, number in ids.items():
            db.execute("insert into images values (?, ?, 1)", (number, name))
        done = set()
        for (first, second), pair in pairs.items():
            for name, points in zip((first, second), pair.keypoints, strict=True):
                if name not in done:
                    table = np.ones((len(points), columns), "<f4")
                    table[:, :2] = points + 0.5
                    values = (ids[name], *table.shape, table.tobytes())
                    db.execute("insert into keypoints values (?, ?, ?, ?)", values)
                    done.add(name)
            rows = np.flatnonzero(pair.partner >= 0)
            both = np.stack([rows, pair.partner[rows]], axis=1)
            low, high = sorted((ids[first], ids[second]))
            if ids[first] > ids[second]:
                both = both[:, ::-1]
            stored = (low * 2147483647 + high, len(both), 2, np.ascontiguousarray(both, "<u4").tobytes())
            db.execute("insert into matches values (?, ?, ?, ?)", stored)
            few = (stored[0], 3, 2, np.ascontiguousarray(both[:3], "<u4").tobytes())
            F = np.arange(1.0, 10).tobytes()
            db.execute("insert into two_view_geometries values (?, ?, ?, ?, 3, ?, null, null)", (*few, F))
    return path
