# SPDX-License-Identifier: BSD-3-Clause
"""Compute the distances of the 2017 verification pairs, by noise level, with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.array_cache import cached_arrays
from ....core.buffers import Workspace
from ....core.errors import InputError
from ....core.records import Features, Records
from ....datasets.hpatches.layout import NOISES
from ....datasets.hpatches.sampling_2017 import VerificationDraw
from ....formats.hpatches.task_lists import VerificationPairs
from ....kernels import ThreadTeam, fit_across, pair_distances, pair_distances_across
from ..data import DatasetSplit, base_meta, compact, descriptor_rows, max_mapped_images, smallest_unsigned
from ..pair_lists import VerificationSource

NAME = "hpatches/verification"
LISTS = ("pos", "intra", "inter")
BLOCK_BYTES = 448 << 20
"""Memory limit in bytes for copied descriptors. Larger sets are split into blocks of half this size."""
PLAN = 1
"""Version of the cache of pair plans. Increase it if plans are built differently."""
Ints = NDArray[Any]
_SINGLE: dict[str, Any] = {"l2": np.int8, "l1": np.int8, "masked_l1": np.int32}
"""Type of the record column `steps` (the effect of float32 rounding), by distance."""


@dataclass(frozen=True)
class PairPlan:
    """Where to find both patches of every listed pair: image and descriptor row.

    The plan is the same for every noise level. `images` are (scene, image number) and `starts` the first row
    of each image after concatenation. Pair i consists of row row_a[i] of image image_a[i] and row row_b[i] of
    image image_b[i]. Pairs are sorted by their first image, so that one side stays in the processor's cache.
    `order` (n,) is the position of each pair in the lists. `scene_a` and `scene_b` are in list order. `rows`
    are the numbers of pairs of the three lists.
    """

    scenes: tuple[str, ...]
    images: tuple[tuple[str, int], ...]
    starts: Ints
    image_a: Ints
    row_a: Ints
    image_b: Ints
    row_b: Ints
    order: Ints
    scene_a: Ints
    scene_b: Ints
    rows: dict[str, int]


def pair_plan(setting: DatasetSplit, source: VerificationSource) -> PairPlan:
    """Return the plan of a split's pair lists. It is cached, so that the lists are read only once."""
    scenes, width = setting.split.test, setting.levels + 1
    key = [PLAN, source.definition, list(setting.lengths.items()), setting.levels]
    made = cached_arrays("plan", key, lambda: _plan(setting, source.lists))
    whole = {name: made[name].astype(np.int32) for name in ("image_a", "row_a", "image_b", "row_b", "order")}
    return PairPlan(
        scenes=scenes,
        images=tuple((scenes[i // width], int(i % width)) for i in made["used"]),
        starts=made["starts"],
        scene_a=made["scene_a"],
        scene_b=made["scene_b"],
        rows={name: int(n) for name, n in zip(LISTS, made["rows"], strict=True)},
        **whole,
    )


def _plan(setting: DatasetSplit, lists: VerificationDraw) -> dict[str, Ints]:
    """Return the arrays of a `PairPlan` in small types, and `used`, the image numbers that occur."""
    scenes, width = setting.split.test, setting.levels + 1
    tables = [getattr(lists, name) for name in LISTS]
    with ThreadPoolExecutor(2) as pool:
        sides = pool.map(lambda side: _side(tables, scenes, side, width), "12")
    (scene_a, image_a, index_a, used_a), (scene_b, image_b, index_b, used_b) = sides
    every = width * len(scenes)
    used = np.flatnonzero(used_a + used_b)
    code = np.zeros(every, np.int32)
    code[used] = np.arange(len(used))
    counts = [setting.data.count(scenes[i // width]) for i in used]
    order = np.argsort(image_a.astype(np.uint16) if every < 1 << 16 else image_a, kind="stable")
    columns = {"image_a": code[image_a], "row_a": index_a, "image_b": code[image_b], "row_b": index_b}
    return {
        "used": used,
        "starts": np.concatenate([[0], np.cumsum(counts)]),
        **{name: smallest_unsigned(x)[order] for name, x in columns.items()},
        "order": order.astype(np.int32),
        "scene_a": smallest_unsigned(scene_a),
        "scene_b": smallest_unsigned(scene_b),
        "rows": np.array([len(t) for t in tables]),
    }


def compare(plan: PairPlan, noise: str, features: Features, space: Workspace) -> Records:
    """Compute the distances of all pairs of the three lists for one noise level.

    Columns, in the order of the lists pos, intra, inter:

    * `distance`: squared for l2, infinite if a descriptor failed.
    * `scene_a`, `scene_b`: scenes of the two patches.
    * `steps`: change of the distance, in float32 steps, if differences (l2) or products and sums (l1 and
      masked l1) are computed in float32. Missing if all are 0.

    ``meta["double"]`` states whether the descriptors are float64.
    """
    letter = NOISES[noise]
    keys = [f"{scene}/{f'{letter}{k}' if k else 'ref'}" for scene, k in plan.images]
    distance, steps = listed_distances(features, keys, plan, space)
    double = bool(descriptor_rows(features, keys[0])[0].dtype == np.float64)
    meta = base_meta(NAME, plan.scenes, features) | {"noise": noise, "rows": plan.rows, "double": double}
    columns = {"distance": compact(distance), "scene_a": plan.scene_a, "scene_b": plan.scene_b}
    if steps.any():
        columns["steps"] = steps
    return Records("pair", columns, meta)


def items_for_noise(setting: DatasetSplit, noise: str, images: int) -> tuple[str, ...]:
    """Return the images of a noise level: the reference and `images` - 1 other images of each sequence."""
    names = ("ref", *(f"{NOISES[noise]}{k}" for k in range(1, images)))
    return tuple(f"{s}/{m}" for s in setting.split.test for m in names)


def _side(
    tables: Sequence[VerificationPairs], scenes: Sequence[str], side: str, width: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return scene, image and patch of one side of all listed pairs, and the number of uses of each image.

    `side` is a or b. The lists are concatenated. A scene is an index into `scenes`.
    """
    place = {s: i for i, s in enumerate(scenes)}
    parts = []
    for t in tables:
        of = np.array([place[s] for s in t.sequences], np.int32)
        parts.append((of[getattr(t, f"seq{side}")], getattr(t, f"image{side}"), getattr(t, f"index{side}")))
    scene, image, index = (np.concatenate(p) for p in zip(*parts, strict=True))
    image += width * scene
    return scene, image, index, np.bincount(image, minlength=width * len(scenes))


def listed_distances(
    features: Features, keys: Sequence[str], plan: PairPlan, space: Workspace
) -> tuple[NDArray[np.float64], Ints]:
    """Compute the distance of each pair of a plan, in list order; infinite for failed descriptors.

    Also return `steps` as in `pair_distances_across` (empty if undefined for the dtype or distance). The
    function reads memory-mapped features in place if it can. It copies them in blocks of limited size if the
    distance needs prepared rows, or if there are more images than the process can map at the same time. Both
    ways give the same results.
    """
    out = np.full(len(plan.order), np.inf)
    single = features.distance in _SINGLE and descriptor_rows(features, keys[0])[0].dtype == np.float32
    steps: Ints = np.zeros(len(out) if single else 0, _SINGLE.get(features.distance, np.int8))
    if len(keys) <= max_mapped_images():
        images, valid = _mapped(features, keys)
        _check_alike(images, keys)
        if fit_across(images, features.distance):
            pairs: tuple[Ints, ...] = (plan.image_a, plan.row_a, plan.image_b, plan.row_b, plan.order)
            if not valid.all():
                good = valid[plan.starts[plan.image_a] + plan.row_a]
                good &= valid[plan.starts[plan.image_b] + plan.row_b]
                pairs = tuple(x[good] for x in pairs)
            pair_distances_across(
                images, pairs, out, distance=features.distance, steps=steps if single else None
            )
            return out, steps
    _in_blocks(features, keys, plan, space, out, steps)
    return out, steps


def _mapped(features: Features, keys: Sequence[str]) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
    """Return the memory-mapped descriptors of all images, and the concatenated mask of valid rows."""
    images, valid = [], []
    for key in keys:
        values, good = descriptor_rows(features, key)
        images.append(values)
        valid.append(np.array(good))  # a copy keeps no file open
    return images, np.concatenate(valid)


def _check_alike(images: Sequence[NDArray[Any]], keys: Sequence[str]) -> None:
    first = images[0]
    for key, own in zip(keys, images, strict=True):
        if own.shape[1:] != first.shape[1:] or own.dtype != first.dtype:
            raise _differs(key, own, keys[0], first)


def _differs(key: str, own: NDArray[Any], first_key: str, first: NDArray[Any]) -> InputError:
    return InputError(
        f"{key} has descriptors of {own.shape[1]} x {own.dtype}, {first_key} of {first.shape[1]} x "
        f"{first.dtype}; all images need the same"
    )


def _in_blocks(
    features: Features,
    keys: Sequence[str],
    plan: PairPlan,
    space: Workspace,
    out: NDArray[np.float64],
    steps: Ints,
) -> None:
    starts = plan.starts
    a, b = starts[plan.image_a] + plan.row_a, starts[plan.image_b] + plan.row_b
    edges = _edges(features, keys, starts)
    squared = features.distance == "l2"
    for i in range(len(edges) - 1):
        left = _stack(features, keys, starts, edges[i : i + 2], space, "left")
        for j in range(len(edges) - 1):
            right = left if i == j else _stack(features, keys, starts, edges[j : j + 2], space, "right")
            low = starts[[edges[i], edges[i + 1], edges[j], edges[j + 1]]]
            at: Any = slice(None)
            if len(edges) > 2:
                at = np.flatnonzero((a >= low[0]) & (a < low[1]) & (b >= low[2]) & (b < low[3]))
            x, y, place = a[at] - low[0], b[at] - low[2], plan.order[at]
            if not (left[1].all() and right[1].all()):
                good = left[1][x] & right[1][y]
                x, y, place = x[good], y[good], place[good]
            rows = left[0], right[0]
            if len(steps) and features.distance != "masked_l1":
                sides = np.zeros(len(x), np.int32), x, np.ones(len(y), np.int32), y, place
                pair_distances_across(rows, sides, out, distance=features.distance, steps=steps)
                continue
            out[place] = pair_distances(*rows, x, y, distance=features.distance, squared=squared)
            if len(steps):
                steps[place] = _masked_steps(rows, x, y, out[place])


def _masked_steps(rows: tuple[NDArray[Any], NDArray[Any]], x: Ints, y: Ints, distance: Any) -> Ints:
    """Return the `steps` of masked l1: the float32 rounding of value x mask, then of l1."""
    half = rows[0].shape[1] // 2
    parts = [side[:, :half] * side[:, half:] for side in rows]
    value, moved, place = np.empty(len(x)), np.empty(len(x), np.int8), np.arange(len(x))
    sides = np.zeros(len(x), np.int32), x, np.ones(len(y), np.int32), y, place
    pair_distances_across(parts, sides, value, distance="l1", steps=moved)
    single, rounded = (v.astype(np.float32).view(np.int32) for v in (value, distance))
    return np.asarray(single + moved - rounded)


def _edges(features: Features, keys: Sequence[str], starts: Ints) -> list[int]:
    """Return the limits of the blocks of images: one block if all fit into `BLOCK_BYTES`, else more."""
    first = descriptor_rows(features, keys[0])[0]
    row_bytes = first.dtype.itemsize * first.shape[1]
    if int(starts[-1]) * row_bytes <= BLOCK_BYTES:
        return [0, len(keys)]
    edges, size = [0], 0
    for i in range(len(keys)):
        own = int(starts[i + 1] - starts[i]) * row_bytes
        if size and size + own > BLOCK_BYTES // 2:
            edges.append(i)
            size = 0
        size += own
    return [*edges, len(keys)]


def _stack(
    features: Features, keys: Sequence[str], starts: Ints, edges: Sequence[int], space: Workspace, side: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Read the descriptors and validity masks of a block of images into the workspace, with all threads."""
    first, stop = edges
    model = descriptor_rows(features, keys[0])[0]
    place = starts[first : stop + 1] - starts[first]
    values = space.take(side, (int(place[-1]), model.shape[1]), model.dtype)
    valid = np.empty(place[-1], bool)

    def copy(low: int, high: int) -> None:
        for k in range(low, high):
            own, good = descriptor_rows(features, keys[first + k])
            at = slice(place[k], place[k + 1])
            if own.shape != values[at].shape or own.dtype != values.dtype:
                raise _differs(keys[first + k], own, keys[0], model)
            values[at], valid[at] = own, good

    ThreadTeam().split(stop - first, copy, smallest=8)
    return values, valid
