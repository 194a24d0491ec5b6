# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/matching`: correctness and ranking of nearest-neighbour matches of image pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import SceneCurves, SceneValues, Score
from ....metrics import average_precision, chance_average_precision
from ....metrics.ranking.average_precision import Normaliser
from ....metrics.ranking.chance import chance_of_found_matches
from ...base import MetricInfo, TaskInfo
from ...cases import Cases
from ...info import METHOD_QUERIES
from ...scene_means import grouped_scores, mean_precision_recall, score_from_scenes, with_protocol
from ...steps import StepTable
from ..data import CITE, LICENCE, KeypointTask, image_cases, scene_records, step_means
from ..options import DrawOptions
from .compare import compare_bojanic, compare_exact, wrong_answers

Pairs = list[tuple[int, float, float]]
"""Iteration, AP and chance level of each image pair of a scene. Pairs without an AP are omitted."""


def _scores(records: Sequence[Records], found: Sequence[Pairs], protocol: str, note: str) -> list[Score]:
    """Compute the scores overall, by kind and by scene.

    `note` explains why some image pairs have no value.
    """
    of = {id(r): pairs for r, pairs in zip(records, found, strict=True)}

    def score(chosen: Sequence[Records], group: str) -> Score:
        """Compute the mean over the image pairs of each random draw, then over the draws."""
        rows = [(s, *row) for s, r in enumerate(chosen) for row in of[id(r)]]
        rounds = sorted({iteration for _, iteration, _, _ in rows})
        if not rounds:
            return Score("map", group, float("nan"), 0)
        cells, weights = (np.zeros((len(rounds), len(chosen))) for _ in range(2))
        chance = np.zeros_like(cells)
        for scene, iteration, ap, random in rows:
            at = rounds.index(iteration), scene
            cells[at] += ap
            chance[at] += random
            weights[at] += 1
        total = weights.sum(axis=1)
        value = float((cells.sum(axis=1) / total).mean())
        means = np.divide(cells, weights, out=np.full_like(cells, np.nan), where=weights > 0)
        names, kinds = (tuple(str(r.meta[key]) for r in chosen) for key in ("scene", "kind"))
        table = SceneValues(names, kinds, means, weights)
        guess = float((chance.sum(axis=1) / total).mean())
        return score_from_scenes("map", group, len(rows), table, value=value, chance=guess)

    first, *others = grouped_scores(records, score)
    return with_protocol([replace(first, note=note or None), *others], protocol)


def score_bojanic(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP over image pairs with a correct match.

    Equal distances form one step of the precision-recall curve.
    """
    found: list[Pairs] = [[] for _ in records]
    skipped = 0
    for own, r in zip(found, records, strict=True):
        for image in np.unique(r["image"]):
            for iteration in np.unique(r["iteration"]):
                rows = (r["image"] == image) & (r["iteration"] == iteration)
                if not r["right"][rows].any():
                    skipped += int(rows.any())
                    continue
                ap = average_precision(r["distance"][rows], r["right"][rows], ties="group")
                random = chance_of_found_matches(int(rows.sum()), 1 / r.meta["candidates"][image])
                own.append((int(iteration), ap, random))
    note = f"{skipped} pairs without a correct match are skipped, as in the original" if skipped else ""
    return _scores(records, found, "bojanic", note)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP over image pairs. AP is relative to all queries that have a correct answer."""
    found: list[Pairs] = [[] for _ in records]
    skipped = 0
    for own, r in zip(found, records, strict=True):
        for image, pair in enumerate(r.meta["pairs"]):
            answered, rows = int(pair["answered"]), r["image"] == image
            if answered == 0:
                skipped += 1
                continue
            ap = average_precision(r["distance"][rows], r["right"][rows], normaliser=answered)
            random = chance_average_precision(
                int(rows.sum()), float(pair["chance_right"]), normaliser=answered, certain=False
            )
            own.append((0, ap, random))
    note = f"{skipped} pairs without a re-detected keypoint have no value" if skipped else ""
    return _scores(records, found, "exact", note)


class KeypointMatching(KeypointTask):
    """Task `keypoints/matching`: match the keypoints of image 1 to every other image of the scene."""

    name = "keypoints/matching"
    protocols = ("exact", "bojanic")
    options = DrawOptions
    info = TaskInfo(
        "Are nearest-neighbour matches correct, and are the correct ones ranked first?",
        ("map", "all"),
        {
            "map": MetricInfo(
                "average precision of the nearest-neighbour matches of co-visible keypoints ranked by "
                "distance, re-detected keypoints (`bojanic`: correct matches) in the denominator, mean over "
                "image pairs"
            )
        },
        cite=CITE,
        licence=LICENCE,
        title="Keypoint matching",
        not_raceable=METHOD_QUERIES,
    )
    comparisons: ClassVar = {"exact": compare_exact, "bojanic": compare_bojanic}
    scorings: ClassVar = {"exact": score_exact, "bojanic": score_bojanic}

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return `map` after each step from `exact` to `bojanic`: new AP divisor, then new tie rule."""
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
        """Compute the mean precision-recall curve over the image pairs of each scene. Its area is `map`."""
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

    def wrong_answers(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Return wrong matches of a fixed sample of keypoints: (query, correct answer, method's answer)."""
        return wrong_answers(records)

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return all images of a scene except image 1, scored by average precision."""
        if (r := scene_records(records, scene)) is None:
            return None
        values = []
        for image, pair in enumerate(r.meta["pairs"]):
            rows, most = r["image"] == image, int(pair["answered"])
            values.append(
                average_precision(r["distance"][rows], r["right"][rows], normaliser=most) if most else np.nan
            )
        return image_cases([str(p["image"]) for p in r.meta["pairs"]], np.array(values))


TASK = KeypointMatching()
