# SPDX-License-Identifier: BSD-3-Clause
"""Distances of the 2017 verification lists, one noise level at a time, without holding all descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.hpatches_layout import NOISES
from ..datasets.v2_draws import Verification
from ..formats.task_csv import PairTable
from ..kernels import pair_distances
from ..kernels.threads import Team
from ..model.errors import InputError
from ..model.records import Records
from ..model.units import Features
from .v2_common import Setting, base_meta, rows_of, smallest

NAME = "hpatches/verification"
LISTS = ("pos", "intra", "inter")
BLOCK_BYTES = 448 << 20
"""Descriptors copied side by side at a time; more are split into blocks of half of it, two at a time."""
Ints = NDArray[Any]


def compare(setting: Setting, lists: Verification, noise: str, features: Features) -> Records:
    """Distances of all pairs of the three lists for one noise level.

    Columns, in the order of the lists pos, intra, inter: `distance` (reference, squared for l2, infinite
    where a descriptor failed) and the scenes `scene_a`, `scene_b` of the two patches.
    """
    scenes = setting.split.test
    tables = [getattr(lists, name) for name in LISTS]
    images = ("ref", *(f"{NOISES[noise]}{k}" for k in range(1, setting.levels + 1)))
    scene_a, image_a, index_a = _side(tables, scenes, "1")
    scene_b, image_b, index_b = _side(tables, scenes, "2")
    image_a += len(images) * scene_a
    image_b += len(images) * scene_b
    every = len(scenes) * len(images)
    used = np.flatnonzero(np.bincount(image_a, minlength=every) + np.bincount(image_b, minlength=every))
    keys = [f"{scenes[i // len(images)]}/{images[i % len(images)]}" for i in used]
    code = np.zeros(every, np.int32)
    code[used] = np.arange(len(used))
    distance = listed_distances(features, keys, code[image_a], index_a, code[image_b], index_b)
    meta = base_meta(NAME, scenes, features)
    meta |= {"noise": noise, "rows": {name: len(t) for name, t in zip(LISTS, tables, strict=True)}}
    columns = {
        "distance": distance,
        "scene_a": smallest(scene_a),
        "scene_b": smallest(scene_b),
    }
    return Records("pair", columns, meta)


def items_of(setting: Setting, noise: str, images: int) -> tuple[str, ...]:
    """Images that the pairs of a noise level can use: the reference and the first `images` - 1."""
    names = ("ref", *(f"{NOISES[noise]}{k}" for k in range(1, images)))
    return tuple(f"{s}/{m}" for s in setting.split.test for m in names)


def _side(tables: Sequence[PairTable], scenes: Sequence[str], side: str) -> tuple[Ints, Ints, Ints]:
    """Scene (a number into `scenes`), image number and patch of one side of all pairs, list after list."""
    place = {s: i for i, s in enumerate(scenes)}
    parts = []
    for t in tables:
        of = np.array([place[s] for s in t.sequences], np.int32)
        parts.append((of[getattr(t, f"seq{side}")], getattr(t, f"image{side}"), getattr(t, f"index{side}")))
    scene, image, index = (np.concatenate(p) for p in zip(*parts, strict=True))
    return scene, image, index


def listed_distances(
    features: Features, keys: Sequence[str], image_a: Ints, index_a: Ints, image_b: Ints, index_b: Ints
) -> NDArray[np.float64]:
    """Reference distances of pairs given by image (a number into `keys`) and row; infinite for failures.

    Images are put side by side in blocks of limited size; every distance is the same for any block size.
    """
    rows = [rows_of(features, key) for key in keys]
    _check_width(keys, rows)
    valid = np.concatenate([v for _, v in rows])
    starts = np.concatenate([[0], np.cumsum([len(v) for v, _ in rows])])
    a, b = starts[image_a] + index_a, starts[image_b] + index_b
    # In order of the first image, one side stays in the processor's cache; the result does not depend on it.
    order = np.argsort(image_a.astype(np.uint16) if len(keys) < 1 << 16 else image_a, kind="stable")
    a, b = a[order], b[order]
    if not valid.all():
        good = valid[a] & valid[b]
        a, b, order = a[good], b[good], order[good]
    out = np.full(len(image_a), np.inf)
    edges = _edges(rows, starts)
    squared = features.distance == "l2"
    for i in range(len(edges) - 1):
        left = _stack(rows, edges, i)
        for j in range(len(edges) - 1):
            right = left if i == j else _stack(rows, edges, j)
            low = starts[[edges[i], edges[i + 1], edges[j], edges[j + 1]]]
            at: Any = slice(None)
            if len(edges) > 2:
                at = np.flatnonzero((a >= low[0]) & (a < low[1]) & (b >= low[2]) & (b < low[3]))
            out[order[at]] = pair_distances(
                left, right, a[at] - low[0], b[at] - low[2], distance=features.distance, squared=squared
            )
    return out


def _check_width(keys: Sequence[str], rows: Sequence[tuple[NDArray[Any], Any]]) -> None:
    width = rows[0][0].shape[1]
    for key, (values, _) in zip(keys, rows, strict=True):
        if values.shape[1] != width:
            raise InputError(
                f"{key} has descriptors of {values.shape[1]} columns, {keys[0]} of {width}; all need the same"
            )


def _edges(rows: Sequence[tuple[NDArray[Any], Any]], starts: Ints) -> list[int]:
    """Blocks of images: one if all fit into `BLOCK_BYTES`, else such that two fit."""
    row_bytes = rows[0][0].dtype.itemsize * rows[0][0].shape[1]
    total = int(starts[-1]) * row_bytes
    if total <= BLOCK_BYTES:
        return [0, len(rows)]
    edges, size = [0], 0
    for i in range(len(rows)):
        own = int(starts[i + 1] - starts[i]) * row_bytes
        if size and size + own > BLOCK_BYTES // 2:
            edges.append(i)
            size = 0
        size += own
    return [*edges, len(rows)]


def _stack(rows: Sequence[tuple[NDArray[Any], Any]], edges: Sequence[int], i: int) -> NDArray[Any]:
    """Descriptors of a block of images one below the other; reading them is shared by the threads."""
    own = [values for values, _ in rows[edges[i] : edges[i + 1]]]
    start = np.cumsum([0] + [len(v) for v in own])
    out = np.empty((start[-1], own[0].shape[1]), np.result_type(*{v.dtype for v in own}))

    def copy(first: int, stop: int) -> None:
        for k in range(first, stop):
            out[start[k] : start[k + 1]] = own[k]

    with Team() as team:
        team.split(len(own), copy, smallest=8)
    return out
