# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/verification` under `bojanic` and `exact`: first neighbours in the same and in other scenes.

Records hold the list of one scene: iteration, distance, right or not, and the scene the neighbour is from.
The AP is pooled over all scenes when scoring.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...geometry.correspondence import ANSWERED, OUT_OF_VIEW
from ...model.records import Records
from ...model.units import Features
from .bojanic import drawn_queries, is_nearest, kind_of, nearest_rows, reference_of, rows_of, searched_rows
from .distractors import bojanic_images, by_image, other_images, query_sample
from .location_table import answered_targets, least, location_table, nearest_distance, right_table
from .opened import OpenKeypoints

Floats = NDArray[np.float64]


class _List:
    """Grows a list of (iteration, distance, right, scene of the neighbour)."""

    def __init__(self, scenes: tuple[str, ...]) -> None:
        self._number = {scene: i for i, scene in enumerate(scenes)}
        self._parts: list[tuple[int, Floats, Any, str]] = []

    def add(self, iteration: int, distance: Floats, right: Any, scene: str) -> None:
        self._parts.append((iteration, distance, np.broadcast_to(right, len(distance)), scene))

    def columns(self) -> dict[str, NDArray[Any]]:
        def join(parts: list[Any], dtype: type) -> NDArray[Any]:
            return np.concatenate([*parts, np.empty(0)]).astype(dtype)

        sizes = [len(p[1]) for p in self._parts]
        return {
            "iteration": join([np.full(n, p[0]) for n, p in zip(sizes, self._parts, strict=True)], np.int16),
            "distance": join([p[1] for p in self._parts], np.float64),
            "right": join([p[2] for p in self._parts], np.float64),
            "other": join(
                [np.full(n, self._number[p[3]]) for n, p in zip(sizes, self._parts, strict=True)], np.int32
            ),
        }


def _meta(opened: OpenKeypoints, scene: str, kind: str, **more: Any) -> dict[str, Any]:
    scenes = list(opened.sequences.scenes)
    return {"scene": scene, "kind": kind, "scenes": scenes, "iterations": opened.options.iterations, **more}


def compare_bojanic(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """First neighbours of the drawn queries in each target (right or not) and in each distractor image."""
    _, *others = opened.sequences.images(scene)
    reference = reference_of(opened, scene, features)
    targets = {k: rows_of(features, f"{scene}/{k}") for k in others}
    made = _List(opened.sequences.scenes)
    rounds = range(opened.options.iterations)
    drawn = [drawn_queries(opened, scene, reference, i) for i in rounds]
    distractors = 0
    for k, target in targets.items():
        for iteration, chosen in enumerate(drawn):
            if len(target.usable) and len(chosen):
                queries = reference.rows.values[chosen]
                index, distance = nearest_rows(queries, target, features.distance)
                right = is_nearest(reference.projected[k][chosen], target.xy, index)
                made.add(iteration, distance, right, scene)
    for key, used in by_image([bojanic_images(opened, scene, i) for i in rounds]).items():
        image = searched_rows(opened, features, key)
        chosen = np.concatenate([drawn[i] for i in used])
        if len(image.usable) and len(chosen):
            distance = nearest_rows(reference.rows.values[chosen], image, features.distance)[1]
            distractors += len(used)
            for i, part in zip(used, np.split(distance, len(used)), strict=True):
                made.add(i, part, 0.0, key.rpartition("/")[0])
    meta = _meta(opened, scene, kind_of(scene), kept=len(reference.kept), distractor_images=distractors)
    return Records("pair", made.columns(), meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """The question repaired: a list whose right pairs do not depend on what the method finds.

    A drawn query location that a target image shows and re-detects gives a right pair, with the nearest of
    its right answers (within tau), and a wrong pair, with the nearest wrong location; one that is shown and
    not re-detected gives the wrong pair alone; so does every distractor image, always of another scene. A
    failed descriptor has infinite distance and stays in the list.
    """
    s, options = opened.sequences, opened.options
    source, places, targets = answered_targets(opened, scene, features)
    made = _List(s.scenes)
    away = distractors = 0
    rounds = range(options.iterations)
    drawn = [query_sample(len(places.xy), options.queries, options.seed, scene, i) for i in rounds]
    for iteration, chosen in enumerate(drawn):
        for target, spots, found in targets:
            seen = chosen[found.status[chosen] != OUT_OF_VIEW]
            away += len(chosen) - len(seen)
            table = location_table(source, places, target, spots, seen, features.distance)
            right = right_table(found.query, found.target, seen, table.shape)
            answered = found.status[seen] == ANSWERED
            made.add(iteration, least(table, right)[answered], 1.0, scene)
            made.add(iteration, least(table, ~right), 0.0, scene)
    for key, used in by_image([other_images(opened, scene, i) for i in rounds]).items():
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        chosen = np.concatenate([drawn[i] for i in used])
        distance = nearest_distance(source, places, target, chosen, features.distance)
        distractors += len(used)
        for i, part in zip(used, np.split(distance, len(used)), strict=True):
            made.add(i, part, 0.0, other)
    meta = _meta(opened, scene, s.kind(scene), out_of_view=away, distractor_images=distractors)
    return Records("pair", made.columns(), meta)
