# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/matching`: are the first-neighbour matches of an image pair right, and the right ones first?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...geometry.correspondence import OUT_OF_VIEW, answers, locations
from ...metrics import (
    average_precision,
    chance_average_precision,
)
from ...metrics.ranking.chance import chance_of_found_matches
from ...metrics.ranking.normaliser import Normaliser
from ...model.curves import SceneCurves
from ...model.records import Records
from ...model.scores import SceneValues, Score, group_name
from ...model.units import Features
from ..base import MetricInfo, StepTable, TaskInfo
from ..scene_means import mean_precision_recall, scene_score, with_protocol
from .bojanic import drawn_queries, is_nearest, kind_of, nearest_rows, reference_of, rows_of
from .first_neighbours import first_neighbours, misses, wrong_examples
from .opened import CITE, LICENCE, KeypointTask, OpenKeypoints, step_means
from .options import DrawOptions

_COLUMNS = (("iteration", np.int16), ("image", np.int16), ("distance", np.float64), ("right", np.float64))


def _records(parts: list[tuple[int, int, Any, Any]], meta: dict[str, Any]) -> Records:
    rows = [(np.full(len(d), i), np.full(len(d), k), d, np.asarray(r, float)) for i, k, d, r in parts]
    joined = [np.concatenate(c) for c in zip(*rows, (np.empty(0),) * 4, strict=True)]
    columns = {n: c.astype(kind) for (n, kind), c in zip(_COLUMNS, joined, strict=True)}
    return Records("pair", columns, meta)


def compare_bojanic(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """One-way first neighbours of the drawn queries in each target; right if none is nearer to the place."""
    _, *others = opened.sequences.images(scene)
    reference = reference_of(opened, scene, features)
    parts, candidates = [], []
    for number, k in enumerate(others):
        target = rows_of(features, f"{scene}/{k}")
        candidates.append(len(target.usable))
        for iteration in range(opened.options.iterations):
            chosen = drawn_queries(opened, scene, reference, iteration)
            if len(chosen) and len(target.usable):
                index, distance = nearest_rows(reference.rows.values[chosen], target, features.distance)
                right = is_nearest(reference.projected[k][chosen], target.xy, index)
                parts.append((iteration, number, distance, right))
    meta = {"scene": scene, "kind": kind_of(scene), "images": others, "candidates": candidates}
    return _records(parts, meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """First neighbours of every co-visible query location; right if within tau of the true place.

    No draw. `answered` in the header counts, per target, the queries that could have been right; a failed
    descriptor has infinite distance, so that its query is missed.
    """
    s, options = opened.sequences, opened.options
    first, *others = s.images(scene)
    source = opened.features_of(features, scene, first)
    places = locations(source.xy)
    parts, pairs = [], []
    for number, k in enumerate(others):
        target = opened.features_of(features, scene, k)
        spots = locations(target.xy)
        found = answers(
            s.homography(scene, k), places.xy, spots.xy, source_size=s.size(scene, first),
            target_size=s.size(scene, k), tau_px=options.tau_px,
        )  # fmt: skip
        seen = np.flatnonzero(found.status != OUT_OF_VIEW)
        distance, right = first_neighbours(
            source, places, target, spots, seen, found.query, found.target, distance=features.distance
        )
        parts.append((0, number, distance, right))
        guesses = len(found.query) / max(len(spots.xy), 1)
        wrong = wrong_examples(source, places, target, found, seen, right, distance=features.distance)
        pairs.append({"image": k, "chance_right": guesses, "wrong": wrong, **found.counts()})
    return _records(parts, {"scene": scene, "kind": s.kind(scene), "first": first, "pairs": pairs})


class _Table:
    """AP and chance of every (scene, iteration, target) that has one."""

    def __init__(self, records: Sequence[Records]) -> None:
        self.scenes = tuple(str(r.meta["scene"]) for r in records)
        self.kinds = tuple(str(r.meta["kind"]) for r in records)
        self.rows: list[tuple[int, int, float, float]] = []
        self.skipped = 0

    def score(self, keep: NDArray[np.bool_], group: str, note: str | None = None) -> Score:
        """Mean over the pairs of an iteration, then over iterations; cells are the iterations."""
        chosen = np.flatnonzero(keep)
        rows = [r for r in self.rows if keep[r[0]]]
        rounds = sorted({r[1] for r in rows})
        if not rounds:
            return Score("map", group, float("nan"), 0, note=note)
        cells, weights = (np.zeros((len(rounds), len(chosen))) for _ in range(2))
        chance = np.zeros_like(cells)
        for scene, iteration, ap, random in rows:
            at = rounds.index(iteration), int(np.searchsorted(chosen, scene))
            cells[at] += ap
            chance[at] += random
            weights[at] += 1
        total = weights.sum(axis=1)
        value = float((cells.sum(axis=1) / total).mean())
        means = np.divide(cells, weights, out=np.full_like(cells, np.nan), where=weights > 0)
        names, kinds = (tuple(x[i] for i in chosen) for x in (self.scenes, self.kinds))
        table = SceneValues(names, kinds, means, weights)
        random = float((chance.sum(axis=1) / total).mean())
        return scene_score("map", group, len(rows), table, value=value, chance=random, note=note)

    def scores(self, protocol: str, note: str | None) -> list[Score]:
        """Overall, by kind and by scene."""
        kinds = np.array(self.kinds)
        scores = [self.score(np.ones(len(kinds), bool), "all", note)]
        for kind in sorted(set(self.kinds)):
            scores.append(self.score(kinds == kind, group_name(kind=kind)))
        for i, scene in enumerate(self.scenes):
            one = self.score(np.arange(len(kinds)) == i, group_name(scene=scene))
            scores.append(Score("map", one.group, one.value, one.n, chance=one.chance))
        return with_protocol(scores, protocol)


def score_bojanic(records: Sequence[Records]) -> list[Score]:
    """AP per pair over its right matches, ties as one step; a pair without a right match is skipped."""
    table = _Table(records)
    for s, r in enumerate(records):
        for image in np.unique(r["image"]):
            for iteration in np.unique(r["iteration"]):
                rows = (r["image"] == image) & (r["iteration"] == iteration)
                if not r["right"][rows].any():
                    table.skipped += int(rows.any())
                    continue
                ap = average_precision(r["distance"][rows], r["right"][rows], ties="group")
                random = chance_of_found_matches(int(rows.sum()), 1 / r.meta["candidates"][image])
                table.rows.append((s, int(iteration), ap, random))
    note = (
        f"{table.skipped} pairs without a right match are skipped, as in the original"
        if table.skipped
        else None
    )
    return table.scores("bojanic", note)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """AP per pair over all answered queries, expected ties; pairs without an answer are counted."""
    table = _Table(records)
    for s, r in enumerate(records):
        for image, pair in enumerate(r.meta["pairs"]):
            answered, rows = int(pair["answered"]), r["image"] == image
            if answered == 0:
                table.skipped += 1
                continue
            ap = average_precision(r["distance"][rows], r["right"][rows], normaliser=answered)
            random = chance_average_precision(
                int(rows.sum()), float(pair["chance_right"]), normaliser=answered, certain=False
            )
            table.rows.append((s, 0, ap, random))
    note = f"{table.skipped} pairs without a re-detected keypoint have no value" if table.skipped else None
    return table.scores("exact", note)


class Matching(KeypointTask):
    """First neighbours of the keypoints of image 1 in every other image of the scene."""

    name = "keypoints/matching"
    protocols = ("exact", "bojanic")
    options = DrawOptions
    info = TaskInfo(
        "Are the first neighbours of the keypoints of an image pair right, and the right ones first?",
        ("map", "all"),
        {
            "map": MetricInfo(
                "average precision of the nearest-neighbour matches of co-visible keypoints ranked by "
                "distance, mean over image pairs"
            )
        },
        cite=CITE,
        licence=LICENCE,
    )
    comparisons: ClassVar = {"exact": compare_exact, "bojanic": compare_bojanic}
    scorings: ClassVar = {"exact": score_exact, "bojanic": score_bojanic}

    def conventions(self, records: Sequence[Records]) -> list[StepTable]:
        """`map` over answered queries, over found right matches, and with ties as one step."""
        table: dict[str, list[NDArray[np.float64]]] = {}
        for r in records:
            for image, pair in enumerate(r.meta["pairs"]):
                rows = r["image"] == image
                if not pair["answered"]:
                    continue
                distance, right = r["distance"][rows], r["right"][rows]
                values: dict[str, tuple[Normaliser, str]] = {
                    "exact: over the queries that could be right": (int(pair["answered"]), "expected")
                }
                if right.any():
                    values["over the right matches found; pairs without one are skipped"] = "all", "expected"
                    values["a tie is one step of the curve"] = "all", "group"
                for name, (by, ties) in values.items():
                    found = average_precision(distance, right, normaliser=by, ties=ties)
                    table.setdefault(name, []).append(np.array([found]))
        return [StepTable("map", step_means(table))]

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Precision over recall of the first neighbours, the mean over image pairs; its area is `map`."""
        if not records:
            return
        pairs = [
            (s, image, pair) for s, r in enumerate(records) for image, pair in enumerate(r.meta["pairs"])
        ]
        rows = [records[s]["image"] == image for s, image, _ in pairs]
        distance, right = (
            np.concatenate([records[s][name][at] for (s, _, _), at in zip(pairs, rows, strict=True)])
            for name in ("distance", "right")
        )
        yield mean_precision_recall(
            "all",
            distance,
            right,
            np.repeat(np.arange(len(pairs)), [int(at.sum()) for at in rows]),
            np.array([int(pair["answered"]) for _, _, pair in pairs]),
            np.array([s for s, _, _ in pairs], np.int64),
            scenes=[str(r.meta["scene"]) for r in records],
            kinds=[str(r.meta["kind"]) for r in records],
        )

    def misses(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Wrong matches of a sample of keypoints: (query, right answer, given answer)."""
        return misses(records)


TASK = Matching()
