# SPDX-License-Identifier: BSD-3-Clause
"""Count, for each correct answer of the 2017 retrieval task, the distractors that are nearer to the query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.records import Features, Records
from ....formats.hpatches.task_lists import RefPatches
from ....kernels import (
    fit_across,
    nearest,
    pair_distances,
    pair_distances_across,
    rank_counts,
    rank_counts_across,
)
from ..data import DatasetSplit, base_meta, descriptor_rows, max_mapped_images, smallest_unsigned

SIZES = (100, 500, 1000, 2000, 5000, 10000, 15000, 20000)
PYTHON_SIZES = (100, 500, 1000, 5000, 10000, 15000, 20000)
MATLAB_SIZE = 2000
"""Default number of distractors in the MATLAB tool. The tool's script for the article uses all of them."""
ALL = "all"
EVERY = "every"
"""Name of the pool that contains every patch of every other sequence."""
Ints = NDArray[np.int64]
NAME = "hpatches/retrieval"
MAX_SHOWN_DISTRACTORS = 500
"""Number of first queries whose nearest distractor is recorded for the gallery of wrong answers."""
NEAR = 8


@dataclass(frozen=True)
class DistractorPool:
    """Set of distractors: its size (None: all) and its selection rule.

    * `others`: the first `size` patches of other sequences in the list of distractors.
    * `with`: the same, but the size includes the correct answers.
    * `first`: the first `size` patches of the list.
    * `all`: the complete list.
    * `every`: every patch of every other sequence.
    """

    rule: str
    size: int | None

    @property
    def label(self) -> str:
        """Name of the pool in the groups of scores."""
        if self.rule == EVERY:
            return EVERY
        return ALL if self.size is None else str(self.size)


def pools() -> list[DistractorPool]:
    """Return all distractor pools of the records. The complete list of distractors is last."""
    return [
        *(DistractorPool("others", k) for k in SIZES),
        *(DistractorPool("with", k) for k in PYTHON_SIZES),
        DistractorPool("first", MATLAB_SIZE),
        DistractorPool(ALL, None),
    ]


def limits(
    columns: list[DistractorPool],
    scenes: int,
    query_scene: NDArray[Any],
    pool_scene: NDArray[Any],
    positives: int,
) -> tuple[Ints, Ints]:
    """Return how far each pool extends in the list of distractors, and its number of distractors.

    Both arrays are (queries, pools). Patches of the query's own sequence are not counted as distractors. A
    pool that is larger than the list ends with the list.

    >>> pools = [DistractorPool("others", 2), DistractorPool("first", 2)]
    >>> at, inside = limits(pools, 2, np.array([0]), np.array([0, 1, 1]), 5)
    >>> at.tolist(), inside.tolist()
    ([[3, 2]], [[2, 1]])
    """
    total = len(pool_scene)
    at = np.zeros((scenes, len(columns)), np.int64)
    inside = np.zeros_like(at)
    for scene in np.unique(query_scene):
        others = np.cumsum(pool_scene != scene)
        for s, column in enumerate(columns):
            if column.size is None:
                at[scene, s] = total
            elif column.rule == "first":
                at[scene, s] = min(column.size, total)
            else:
                wanted = column.size - (positives if column.rule == "with" else 0)
                end = int(np.searchsorted(others, wanted)) + 1 if wanted > 0 else 0
                at[scene, s] = min(end, total)
            inside[scene, s] = others[at[scene, s] - 1] if at[scene, s] else 0
    return at[query_scene], inside[query_scene]


def items_for_retrieval(
    setting: DatasetSplit, queries: RefPatches | None, distractors: RefPatches | None
) -> tuple[str, ...]:
    """Return the needed images: all images of query sequences, reference images of other sequences."""
    of_query = setting.split.test if queries is None else _used(queries)
    more = setting.split.test if distractors is None else _used(distractors)
    references = [f"{s}/ref" for s in setting.split.test if s in of_query or s in more]
    return (*references, *(f"{s}/{m}" for s in setting.split.test if s in of_query for m in setting.images))


def _used(patches: RefPatches) -> set[str]:
    return {patches.sequences[i] for i in np.unique(patches.seq)}


def compare(setting: DatasetSplit, lists: tuple[RefPatches, RefPatches], features: Features) -> Records:
    """Compute the rank counts of every correct answer of every query.

    Records have one row per query. Columns:

    * `scene`, `index`: the query.
    * `distance` (q, images): distances of its correct answers (squared for l2, infinite for failures).
    * `lt`, `eq` (q, images x pools): numbers of nearer and equally near distractors of other sequences.
    * `negatives` (q, pools): numbers of distractors.
    * `failed`: whether the query's own descriptor failed.
    * `lost` (q, pools): numbers of failed distractors, if there are any.

    The first queries also have a `rival` for the gallery: the distractor of smallest distance.
    """
    scenes, images = setting.split.test, setting.images
    queries, distractors = lists
    q_scene, d_scene = _scenes(queries, scenes), _scenes(distractors, scenes)
    references = [f"{s}/ref" for s in scenes]
    q, good = _gather(features, references, q_scene, queries.index)
    d, usable = _gather(features, references, d_scene, distractors.index)
    columns = pools()
    at, inside = limits(columns, len(scenes), q_scene, d_scene, setting.levels)
    squared = features.distance == "l2"
    distance = _distances(setting, queries, q_scene, q, good, features)
    rows = np.flatnonzero(usable)
    asked = np.flatnonzero(good)
    kept = np.concatenate([[0], np.cumsum(usable)])
    shape = (len(q), len(images), len(columns))
    lt, eq = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    number, which = np.nonzero(np.isfinite(distance[asked]))
    body = d if usable.all() else d[rows]
    if len(number) and len(rows):
        counts = rank_counts(
            q if good.all() else q[asked],
            body,
            number,
            distance[asked[number], which],
            np.zeros(len(number), np.int64),
            distance=features.distance,
            limits=kept[at[asked]],
            query_group=q_scene[asked],
            pool_group=d_scene[rows],
            squared=squared,
        )
        lt[asked[number], which], eq[asked[number], which] = counts.lt, counts.eq
    lost = None if usable.all() else _lost(usable, q_scene, d_scene, at)
    found = _columns(q_scene, queries, distance, lt, eq, inside, good, lost)
    found |= _rivals(q, good, q_scene, body, d_scene[rows], distractors.index[rows], features.distance)
    return Records("rank", found, _meta(setting, features, columns, len(d)))


def compare_every(setting: DatasetSplit, queries: RefPatches, features: Features) -> Records:
    """Compute the records of `compare` with all patches of all other sequences as distractors.

    The distractors are read image by image and are never all in memory. The `rival` of the gallery is the
    nearest reference patch of another sequence.
    """
    scenes, images = setting.split.test, setting.images
    q_scene = _scenes(queries, scenes)
    q, good = _gather(features, [f"{s}/ref" for s in scenes], q_scene, queries.index)
    distance = _distances(setting, queries, q_scene, q, good, features)
    total, lost = np.zeros(len(scenes), np.int64), np.zeros(len(scenes), np.int64)
    asked = np.flatnonzero(good)
    near = _Nearest(
        q[asked[asked < MAX_SHOWN_DISTRACTORS]],
        q_scene[asked[asked < MAX_SHOWN_DISTRACTORS]],
        features.distance,
    )

    def parts() -> Iterator[tuple[int, NDArray[Any]]]:
        for i, s in enumerate(scenes):
            for m in ("ref", *images):
                values, usable = descriptor_rows(features, f"{s}/{m}")
                total[i] += len(values)
                lost[i] += len(values) - np.count_nonzero(usable)
                kept = values if usable.all() else values[usable]
                if m == "ref":
                    near.add(i, kept, np.flatnonzero(usable))
                yield i, kept

    lt, eq = (np.zeros((len(q), len(images), 1), np.int64) for _ in range(2))
    number, which = np.nonzero(np.isfinite(distance[asked]))
    counts = rank_counts_across(
        q if good.all() else q[asked],
        parts(),
        number,
        distance[asked[number], which],
        query_group=q_scene[asked],
        distance=features.distance,
        squared=features.distance == "l2",
    )
    lt[asked[number], which], eq[asked[number], which] = counts.lt, counts.eq
    rest, gone = ((n.sum() - n)[q_scene][:, None] for n in (total, lost))
    found = _columns(q_scene, queries, distance, lt, eq, rest, good, gone if lost.any() else None)
    found |= near.columns(asked[asked < MAX_SHOWN_DISTRACTORS], len(q))
    return Records("rank", found, _meta(setting, features, [DistractorPool(EVERY, None)], int(total.sum())))


def _distances(
    setting: DatasetSplit,
    queries: RefPatches,
    q_scene: Ints,
    q: NDArray[Any],
    good: NDArray[np.bool_],
    features: Features,
) -> NDArray[np.float64]:
    """Return the distances (q, images) of the correct answers; squared for l2, infinite for failures."""
    scenes, images = setting.split.test, setting.images
    out = np.full((len(q), len(images)), np.inf)
    keys = [f"{scenes[s]}/{m}" for s in np.unique(q_scene) for m in images]
    if len(keys) <= max_mapped_images():
        # All mapped images are read together.
        opened = [descriptor_rows(features, key) for key in keys]
        parts = [q, *(values for values, _ in opened)]
        if fit_across(parts, features.distance):
            starts = np.concatenate([[0], np.cumsum([len(valid) for _, valid in opened])])
            valid = np.concatenate([valid for _, valid in opened])
            part = np.searchsorted(np.unique(q_scene), q_scene)[:, None] * len(images)
            part = (part + np.arange(len(images))).reshape(-1)
            row = np.repeat(np.asarray(queries.index, np.int64), len(images))
            query = np.repeat(np.arange(len(q)), len(images))
            chosen = np.flatnonzero(good[query] & valid[starts[part] + row])
            lists = np.zeros(len(chosen), np.int32), query[chosen], part[chosen] + 1, row[chosen], chosen
            pair_distances_across(parts, lists, out.reshape(-1), distance=features.distance)
            return out
    squared = features.distance == "l2"
    for m, image in enumerate(images):
        x, there = _gather(features, [f"{s}/{image}" for s in scenes], q_scene, queries.index)
        own = np.flatnonzero(good & there)
        out[own, m] = pair_distances(q, x, own, own, distance=features.distance, squared=squared)
    return out


def _columns(
    q_scene: Ints,
    queries: RefPatches,
    distance: NDArray[np.float64],
    lt: Ints,
    eq: Ints,
    inside: Ints,
    good: NDArray[np.bool_],
    lost: Ints | None,
) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {
        "scene": smallest_unsigned(q_scene),
        "index": smallest_unsigned(np.asarray(queries.index)),
        "distance": distance,
        "lt": smallest_unsigned(lt.reshape(len(lt), -1)),
        "eq": smallest_unsigned(eq.reshape(len(eq), -1)),
        "negatives": smallest_unsigned(inside),
        "failed": ~good,
    }
    return found if lost is None else found | {"lost": smallest_unsigned(lost)}


def _meta(
    setting: DatasetSplit, features: Features, columns: list[DistractorPool], distractors: int
) -> dict[str, Any]:
    meta = base_meta(NAME, setting.split.test, features)
    return meta | {
        "images": list(setting.images),
        "noises": list(setting.noises),
        "pools": [[c.rule, c.size] for c in columns],
        "distractors": distractors,
    }


def _scenes(patches: RefPatches, scenes: Sequence[str]) -> Ints:
    place = {s: i for i, s in enumerate(scenes)}
    return np.array([place[s] for s in patches.sequences], np.int64)[patches.seq]


def _gather(
    features: Features, keys: Sequence[str], image: Ints, index: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the descriptors (n, d) of listed patches, and whether each is valid.

    Patch i is row index[i] of the image keys[image[i]].
    """
    out: NDArray[Any] | None = None
    valid = np.zeros(len(index), bool)
    order = np.argsort(image, kind="stable")
    edges = np.searchsorted(image[order], np.arange(len(keys) + 1))
    for i, key in enumerate(keys):
        own = order[edges[i] : edges[i + 1]]
        if not len(own):
            continue
        values, good = descriptor_rows(features, key)
        if out is None:
            out = np.empty((len(index), values.shape[1]), values.dtype)
        if values.shape[1] != out.shape[1]:
            raise InputError(
                f"{key} has {values.shape[1]} descriptor columns, but other images have {out.shape[1]}; "
                "use descriptors of one length"
            )
        out[own] = values[index[own]]
        valid[own] = good[index[own]]
    if out is None:
        raise InputError(
            "retrieval lists: one of them is empty; provide at least one query and one distractor"
        )
    return out, valid


def _lost(usable: NDArray[np.bool_], q_scene: Ints, d_scene: Ints, at: Ints) -> Ints:
    """Return the number (q, pools) of failed distractors of other sequences in each pool."""
    out = np.zeros(at.shape, np.int64)
    for scene in np.unique(q_scene):
        own = q_scene == scene
        before = np.concatenate([[0], np.cumsum(~usable & (d_scene != scene))])
        out[own] = before[at[own]]
    return out


def _rivals(
    q: NDArray[Any],
    good: NDArray[np.bool_],
    q_scene: Ints,
    body: NDArray[Any],
    body_scene: Ints,
    body_index: NDArray[Any],
    distance: str,
) -> dict[str, NDArray[Any]]:
    """Return the nearest distractor of another sequence for each of the first queries, as record columns.

    Only the `NEAR` nearest distractors of a query are searched.
    """
    asked = np.flatnonzero(good[:MAX_SHOWN_DISTRACTORS])
    scene, index = np.zeros(len(q), np.int64), np.zeros(len(q), np.int64)
    known = np.zeros(len(q), bool)
    k = min(NEAR, len(body))
    if len(asked) and k:
        near = nearest(q[asked], body, k, distance=distance).index
        other = body_scene[near] != q_scene[asked][:, None]
        first = np.take_along_axis(near, other.argmax(axis=1)[:, None], axis=1)[:, 0]
        known[asked] = other.any(axis=1)
        scene[asked], index[asked] = body_scene[first], body_index[first]
    return {
        "rival_scene": smallest_unsigned(scene),
        "rival_index": smallest_unsigned(index),
        "rival_known": known,
    }


class _Nearest:
    """Search for the nearest descriptor of each query in other sequences, one sequence per call of `add`."""

    def __init__(self, queries: NDArray[Any], scene: Ints, distance: str) -> None:
        self._queries, self._scene, self._distance = queries, scene, distance
        self._least = np.full(len(queries), np.inf)
        self._of, self._index = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)

    def add(self, scene: int, rows: NDArray[Any], index: Ints) -> None:
        own = np.flatnonzero(self._scene != scene)
        if not (len(own) and len(rows)):
            return
        found = nearest(self._queries[own], rows, 1, distance=self._distance, squared=self._distance == "l2")
        nearer = found.distance[:, 0] < self._least[own]
        at, best = own[nearer], found.index[nearer, 0]
        self._least[at], self._of[at], self._index[at] = found.distance[nearer, 0], scene, index[best]

    def columns(self, asked: Ints, queries: int) -> dict[str, NDArray[Any]]:
        scene, index = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
        known = np.zeros(queries, bool)
        scene[asked], index[asked], known[asked] = self._of, self._index, np.isfinite(self._least)
        return {
            "rival_scene": smallest_unsigned(scene),
            "rival_index": smallest_unsigned(index),
            "rival_known": known,
        }
