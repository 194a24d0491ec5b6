# SPDX-License-Identifier: BSD-3-Clause
"""Data of tasks that transfer points from image 0 to image 1, and optionally back."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_json
from ...core.records import Arrays, Features, Item, Records, Unit
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...geometry.flow.warp import transfer
from ...methods.dense.sparse_to_dense import interpolated_points
from ..cases import MatchedPair
from .data import OpenPairs, PairsTask, transfer_errors

Points = NDArray[np.float64]


def transferred_points(arrays: Arrays, queries: Points, where: str) -> Points:
    """Return the positions (q, 2) to which a method transfers query points; NaN if it has no answer.

    If the method returns positions, these are used. Otherwise its flow is interpolated. Without a flow, its
    matches are interpolated within their triangles (`methods.dense.sparse`); outside the triangles, the match
    closest in pixels is used.
    """
    if "answers" in arrays:
        found = np.asarray(arrays["answers"], np.float64)
        if found.shape != queries.shape:
            raise InputError(f"{where}: {len(found)} answers for {len(queries)} points; return one per point")
        return found
    if "flow" in arrays:
        return transfer(queries, np.asarray(arrays["flow"]))
    if {"points0", "points1"} <= set(arrays):
        first, second = (np.asarray(arrays[name], np.float64) for name in ("points0", "points1"))
        return interpolated_points(first, second, queries)
    raise InputError(
        f"{where}: expected points, matches or a flow, found only {', '.join(sorted(arrays))}; return "
        "points from the method"
    )


class OpenPointTransfer(OpenPairs):
    """Data of tasks that transfer points. A pair may have a second item, from image 1 to image 0."""

    task: PointsTask

    def __init__(self, task: PairsTask, data: PairSet, options: Any) -> None:
        super().__init__(task, data, options)
        there = {(str(p.image0), str(p.image1)): p for p in self.pairs.values() if p.image0 and p.image1}
        self.back: dict[str, PairTruth] = {}
        for name, pair in self.pairs.items():
            other = there.get((str(pair.image1), str(pair.image0)))
            if other is not None:
                self.back[name] = self.data.truth(other.name)
            elif self.task.asks_back(options):
                self.back[name] = self.data.truth(name).swapped()
        self.truths = {t.pair.name: t for t in (*self.back.values(), *self.data.truths)}

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per pair, and one per reversed pair if requested."""
        return tuple(map(self.item, self.truths.values()))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per pair. It refers to the features of both directions if both exist."""
        return tuple(
            Unit(u.key, (u.key, self.back[u.key].pair.name), hash_json([u.definition, "both"]))
            if u.key in self.back
            else u
            for u in super().units
        )

    def truth(self, item: str) -> PairTruth:
        """Return the ground truth of an item, in the item's direction."""
        return self.truths[item]

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the query points and their transferred positions, without unanswered points."""
        truth = self.truth(name)
        asked, true = truth.queries(), truth.correspondences()
        if asked is None or true is None:
            return super().draw_matches(name, features)
        answers = transferred_points(features.arrays(name), asked, name)
        return transfer_errors(truth.pair, asked, answers, true[:, 2:])

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one pair."""
        truth, back = self.truth(unit.key), self.back.get(unit.key)
        arrays = [features.arrays(name) for name in unit.items]
        other = None if back is None else (back, arrays[1])
        return self.task.compare_both((truth, arrays[0]), other, self.options, comparison)


Asked = tuple[PairTruth, Arrays]
"""Ground truth of a pair, and the features of a method for it."""


class PointsTask(PairsTask):
    """Base class of the tasks that transfer points."""

    opened = OpenPointTransfer

    def asks_back(self, options: Any) -> bool:
        """Return whether a method is also run from image 1 to image 0."""
        return False

    def compare_both(self, there: Asked, back: Asked | None, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair from the features of both directions.

        `back` is None if the method was run in one direction only.
        """
        raise NotImplementedError
