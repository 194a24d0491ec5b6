# SPDX-License-Identifier: BSD-3-Clause
"""Reproducible random samples of distractors: images and keypoints of other scenes.

A random number below n is a 64-bit number modulo n; its bias is under n / 2^64. A random order comes from
sorting random numbers. The samples do not depend on a library, so that other programs can reproduce them.
They are the same for every method with the same keypoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import permutation, raw_stream
from ...core.records import Features
from ...core.scores import Score, group_name
from ...geometry.correspondence import OUT_OF_VIEW, Locations, locations
from ...kernels import group_rank_counts, group_rows
from ...metrics import average_precision
from ..cases import Cases, Floats, QueryCase, nearest_candidates
from ..scene_means import KIND_NAMES
from .data import ComparedFeatures, KeypointTask, OpenKeypoints
from .neighbours import answered_targets, location_table, right_table
from .options import DistractorOptions

Ints = NDArray[np.int64]
_BLOCK_ROWS = 1 << 16


_DRAWN = 100


def draw_below(n: int, count: int, *names: str | int) -> Ints:
    """Return `count` independent random integers in 0 … n-1, n >= 1. The seed consists of `names`."""
    return (raw_stream(count, *names) % np.uint64(n)).astype(np.int64)


def subsets(n: int, size: int, count: int, *names: str | int) -> Ints:
    """Sample `count` subsets of distinct integers in 0 … n-1, int64 (count, min(size, n)).

    The seed consists of `names`. The function runs Floyd's algorithm on all subsets at the same time. Step j
    takes a random number up to j, or j itself if that number is already in the subset.

    >>> subsets(3, 5, 2, "x").shape
    (2, 3)
    """
    k = min(size, n)
    chosen = np.full((count, k), -1, np.int64)
    raw = raw_stream(count * k, *names).reshape(count, k)
    for i, j in enumerate(range(n - k, n)):
        t = (raw[:, i] % np.uint64(j + 1)).astype(np.int64)
        taken = (chosen[:, :i] == t[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, j, t)
    return chosen


def query_sample(available: int, count: int, seed: int, scene: str, iteration: int) -> Ints:
    """Return the indices of min(count, available) sampled queries, in sampling order."""
    return permutation(available, seed, "queries", scene, iteration)[:count]


def workbench_scenes(opened: OpenKeypoints, scene: str) -> list[str]:
    """Return the distractor scenes sampled for a scene under `workbench`, in sampling order."""
    others = [s for s in opened.sequences.scenes if s != scene]
    order = permutation(len(others), opened.options.seed, "distractor-scenes", scene)
    return [others[i] for i in order[: opened.options.num_distractor_scenes]]


class DistractorDraw(NamedTuple):
    """Sampled distractors of one image: keypoint indices `rows` (m, k) for the queries `query` (m,)."""

    image: str
    query: Ints
    rows: Ints


def workbench_rows(
    role: str, scene: str, other: str, sizes: Mapping[str, int], queries: int, per_scene: int, seed: int
) -> list[DistractorDraw]:
    """For every query, sample one image of scene `other` and `per_scene` distinct keypoints in it.

    `sizes` are the numbers of keypoints by image, in image order. An image with fewer keypoints contributes
    all its keypoints.
    """
    names = list(sizes)
    image = draw_below(len(names), queries, seed, "distractor-image", role, scene, other)
    drawn = []
    for i, name in enumerate(names):
        asked = np.flatnonzero(image == i)
        key = (seed, "distractor-rows", role, scene, other, name)
        rows = subsets(sizes[name], per_scene, len(asked), *key)
        drawn.append(DistractorDraw(f"{other}/{name}", asked, rows))
    return drawn


def bojanic_images(opened: OpenKeypoints, scene: str, iteration: int) -> list[str]:
    """Return the distractor images of the original protocol, as item keys.

    The S scenes are numbered, and s is the number of the query's scene. Distinct offsets d are sampled. Each
    selects one image of scene (s + d) mod S: image d mod n, if that scene has n images. By default, d >= 1.
    With `self_distractor`, d may be 0 and the first sample is dropped, as in the original protocol. Offset 0
    is the query's own reference image, a distractor at distance zero.
    """
    scenes = opened.sequences.scenes
    options, total, number = opened.options, len(scenes), scenes.index(scene)
    names = (options.seed, "bojanic-images", scene, iteration)
    if options.self_distractor:
        offsets = permutation(total, *names)[: options.distractor_images + 1][1:]
    else:
        offsets = 1 + permutation(total - 1, *names)[: options.distractor_images]
    keys = []
    for offset in offsets.tolist():
        other = scenes[(number + offset) % total]
        images = opened.sequences.images(other)
        keys.append(f"{other}/{images[offset % len(images)]}")
    return keys


def other_images(opened: OpenKeypoints, scene: str, iteration: int) -> list[str]:
    """Sample the distractor images under `exact` from all other scenes. Return their item keys."""
    keys = every_image(opened, scene)
    order = permutation(len(keys), opened.options.seed, "exact-images", scene, iteration)
    return [keys[i] for i in order[: opened.options.distractor_images]]


def every_image(opened: OpenKeypoints, scene: str) -> list[str]:
    """Return all images of all other scenes, as item keys."""
    s = opened.sequences
    return [f"{other}/{k}" for other in s.scenes if other != scene for k in s.images(other)]


def count_every(
    opened: OpenKeypoints,
    scene: str,
    features: Features,
    source: ComparedFeatures,
    places: Locations,
    place: Ints,
    value: NDArray[np.float64],
) -> tuple[Ints, Ints, int]:
    """Count the locations of all other scenes that are nearer than each correct answer, or equally near.

    Answer t belongs to query location place[t] and has distance value[t], squared for l2. If its descriptor
    failed, the distance is infinite and the counts are 0. Also return the total number of locations. The
    function joins images into blocks for fast matrix products. Only one block is in memory at a time.
    """
    lt, eq = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
    kept = np.flatnonzero(np.isfinite(value))
    kept = kept[np.argsort(place[kept], kind="stable")]
    rows, names, start = group_rows(places.of, source.valid & np.isin(places.of, place[kept]))
    group = np.searchsorted(names, place[kept])
    total, held = 0, 0
    block: list[tuple[NDArray[Any], Ints]] = []

    def count() -> None:
        size = np.concatenate([s for _, s in block])
        bounds = np.full((len(names), 1), len(size), np.int64)
        found = group_rank_counts(
            source.values[rows], start, np.concatenate([v for v, _ in block]), np.append(0, np.cumsum(size)),
            np.arange(len(size)), group, value[kept], distance=features.distance, limits=bounds,
        )  # fmt: skip
        lt[kept] += found.lt[:, 0]
        eq[kept] += found.eq[:, 0]

    for key in every_image(opened, scene):
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        spots = locations(target.xy)
        total += len(spots.xy)
        chosen, _, ends = group_rows(spots.of, target.valid)
        if len(chosen) and len(kept):
            block.append((target.values[chosen], np.diff(ends)))
            held += len(chosen)
        if held >= _BLOCK_ROWS:
            count()
            block, held = [], 0
    if block:
        count()
    return lt, eq, total


def uses_all_distractors(options: DistractorOptions) -> bool:
    """Return whether every keypoint of all other scenes is a distractor."""
    return getattr(options, "distractors", None) == "every"


def by_image(lists: list[list[str]]) -> dict[str, list[int]]:
    """Map each image to the iterations that sample it, so that each image is read only once.

    >>> by_image([["a/1", "b/2"], ["b/2"]])
    {'a/1': [0], 'b/2': [0, 1]}
    """
    found: dict[str, list[int]] = {}
    for iteration, keys in enumerate(lists):
        for key in keys:
            found.setdefault(key, []).append(iteration)
    return found


def named_by_kind(scores: Sequence[Score], metric: str, role: str) -> list[Score]:
    """Return the scores over all scenes and over each kind, named as in DescriptorWorkbench. NaN if missing.

    >>> [s.metric for s in named_by_kind([Score("ap", "all", 0.5, 2)], "ap", "verification")]
    ['keypoint_verification_ap', 'verification_viewpoint_ap', 'verification_illumination_ap']
    """
    by = {s.group: s for s in scores if s.metric == metric}
    named = {f"keypoint_{role}_ap": "all"}
    named |= {f"{role}_{name}_ap": group_name(kind=kind) for kind, name in KIND_NAMES.items()}
    missing = Score(metric, "all", float("nan"), 0)
    return [replace(by.get(group, missing), metric=name, group="all") for name, group in named.items()]


class OpenDistractors(OpenKeypoints):
    """Task data whose cases are random samples of queries."""

    def case_pair(self, scene: str, key: str) -> None:
        """Return None: a case is a sample of queries, so it has no image pair."""

    def replay_query(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """Recompute the query of lowest AP in a sample. None without features, which define the queries.

        `key` is the number of the sample.
        """
        if features is None:
            return None
        return worst_of_draw(self, scene, int(key), self.without_border(features))


def draw_cases(rounds: Ints, values: Sequence[float]) -> Cases:
    """Return random samples of queries as cases, with the number and the score of each sample."""
    score = np.array(values, np.float64)
    return Cases(rounds.astype(np.int64), score, None, lambda key: f"draw {int(key) + 1}")


class DistractorTask(KeypointTask):
    """Base class of `keypoints/verification` and `keypoints/retrieval`, which sample distractors."""

    protocols = ("exact", "workbench", "bojanic")
    options = DistractorOptions
    opened = OpenDistractors
    reads_others = True

    def others(self, opened: OpenKeypoints, scene: str) -> tuple[str, ...]:
        """Return the images of other scenes that any protocol reads for this scene."""
        s, options = opened.sequences, opened.options
        if uses_all_distractors(options):
            return tuple(every_image(opened, scene))
        keys = [f"{other}/{k}" for other in workbench_scenes(opened, scene) for k in s.images(other)]
        for iteration in range(options.iterations):
            keys += bojanic_images(opened, scene, iteration) + other_images(opened, scene, iteration)
        return tuple(dict.fromkeys(keys))

    def protocol_warnings(self, opened: OpenKeypoints, protocols: Sequence[str]) -> list[str]:
        """Return warnings if the data has fewer scenes or images than the protocols require."""
        s, options = opened.sequences, opened.options
        others = len(s.scenes) - 1
        notes = []
        if "workbench" in protocols and others < options.num_distractor_scenes:
            wanted = options.num_distractor_scenes
            notes.append(
                f"workbench requires {wanted} distractor scenes, but only {others} exist; all are used"
            )
        if uses_all_distractors(options):
            return notes
        asked = options.distractor_images
        if "bojanic" in protocols and others < asked:
            notes.append(
                f"bojanic requires {asked} distractor images, one per scene, but only {others} other scenes "
                "exist; all are used"
            )
        images = sum(len(s.images(scene)) for scene in s.scenes)
        fewest = min((images - len(s.images(scene)) for scene in s.scenes), default=0)
        if "exact" in protocols and fewest < asked:
            notes.append(f"exact requires {asked} distractor images, but only {fewest} exist; all are used")
        return notes


def drawn_rows(opened: OpenKeypoints, scene: str, iteration: int, key: str, available: int) -> Ints:
    """Return the sampled keypoints of a distractor image, among which the nearest descriptor is searched."""
    return permutation(available, opened.options.seed, "retrieval-rows", scene, iteration, key)[:_DRAWN]


def worst_of_draw(opened: OpenKeypoints, scene: str, iteration: int, features: Features) -> QueryCase | None:
    """Recompute the query with the lowest average precision in a sample. None without queries.

    For `keypoints/retrieval`, the query's ranked list has the correct location of every image that has one.
    Each distractor image adds one of its sampled locations: that with the nearest descriptor. For
    `keypoints/verification`, a distractor image adds the nearest of all its locations, and each image of the
    scene also adds its nearest wrong location.
    """
    if uses_all_distractors(opened.options):
        return None
    options, pooled = opened.options, opened.task.name == "keypoints/verification"
    first, *others = opened.sequences.images(scene)
    source, places, targets = answered_targets(opened, scene, features)
    chosen = query_sample(len(places.xy), options.queries, options.seed, scene, iteration)
    made: list[tuple[str, Floats, Floats]] = []
    kept: list[tuple[bool, Any]] = []  # whether a candidate is correct, and which queries have it
    for image, (target, spots, found) in zip(others, targets, strict=True):
        table = location_table(source, places, target, spots, chosen, features.distance)
        right = right_table(found.query, found.target, chosen, table.shape)
        made.append((f"{scene}/{image}", spots.xy, np.where(right, table, np.inf)))
        kept.append((True, right.any(axis=1)))
        if pooled:
            made.append((f"{scene}/{image}", spots.xy, np.where(right, np.inf, table)))
            kept.append((False, found.status[chosen] != OUT_OF_VIEW))
    for key in other_images(opened, scene, iteration):
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        spots = locations(target.xy)
        rows = None if pooled else drawn_rows(opened, scene, iteration, key, len(spots.xy))
        table = location_table(source, places, target, spots, chosen, features.distance, only=rows)
        made.append((key, spots.xy, table))
        kept.append((False, np.ones(len(chosen), bool)))
    near = np.array([table.min(axis=1, initial=np.inf) for _, _, table in made]).T
    is_right, has = np.array([r for r, _ in kept]), np.array([h for _, h in kept]).T
    asked = np.flatnonzero((has & is_right).any(axis=1))
    if not len(asked):
        return None
    values = [average_precision(near[n, has[n]], is_right[has[n]]) for n in asked]
    q = int(asked[int(np.argmin(values))])

    def picture(candidate: int) -> str:
        item, xy, table = made[candidate]
        x, y = xy[int(table[q].argmin())]
        return f"{item}@{x:.1f},{y:.1f}"

    values_of = np.where(has[q], near[q], np.inf)
    rights = np.flatnonzero(is_right & np.isfinite(values_of)).tolist()
    nearest, known = nearest_candidates(values_of, rights, picture, squared=False)
    x, y = places.xy[chosen[q]]
    query = f"{scene}/{first}@{x:.1f},{y:.1f}"
    note = f"{query}, the query of this draw whose list has the lowest average precision"
    return QueryCase(query, nearest, known, float(min(values)), note)
