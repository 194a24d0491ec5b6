# SPDX-License-Identifier: BSD-3-Clause
"""From `exact` towards the older tools, one rule at a time, as far as the exact records can tell.

What needs another comparison (keypoints instead of locations, queries out of view, other draws) is the rest
of the gap to the value under the older protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics import (
    average_precision,
    average_precision_from_counts,
    half_tie_rank,
    precision_recall_curve,
)
from ...model.records import Records
from ..base import StepTable
from .geometry_scores import THRESHOLDS_PX
from .ranking_scores import RANKS, query_values

Curves = Iterator[tuple[str, str, Any, Any]]


def ranking_conventions(records: Sequence[Records]) -> list[StepTable]:
    """`true_map_micro` from all answers, failures as misses, to one answer and the tool's tie rule."""
    steps: dict[str, list[NDArray[np.float64]]] = {}
    for r in records:
        lt, eq = r["lt"][:, 0].astype(np.int64), r["eq"][:, 0].astype(np.int64)
        owner, lists = _owners(r)
        kept = r["retrieved"]
        every = average_precision_from_counts(lt, eq, owner=owner, lists=lists, retrieved=kept)
        works = np.bincount(owner[kept], minlength=lists) > 0
        row, better, ties = _nearest_answer(r, owner, lt, eq)
        usable = kept[row]
        single = average_precision_from_counts(better[usable], ties[usable], owner=np.arange(usable.sum()),
                                               lists=int(usable.sum()))  # fmt: skip
        for name, values in (
            ("exact: every location within tau is right, a failure is a miss", every),
            ("failed descriptors leave the denominator", every[works]),
            ("only the location nearest to the true place is right", single),
            ("a tie is worth half a place, rounded up", 1.0 / half_tie_rank(better[usable], ties[usable])),
        ):
            steps.setdefault(name, []).append(np.asarray(values, np.float64))
    return [StepTable("true_map_micro", _means(steps))]


def _means(steps: dict[str, list[NDArray[np.float64]]]) -> list[tuple[str, float]]:
    joined = {name: np.concatenate(parts) for name, parts in steps.items()}
    return [(name, float(v.mean()) if v.size else float("nan")) for name, v in joined.items()]


def _owners(r: Records) -> tuple[NDArray[np.int64], int]:
    image, query = r["image"], r["query"]
    new = np.append(True, (image[1:] != image[:-1]) | (query[1:] != query[:-1]))[: len(image)]
    return np.cumsum(new) - 1, int(new.sum())


def _nearest_answer(
    r: Records, owner: NDArray[np.int64], lt: NDArray[np.int64], eq: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row of the nearest answer of each query, and its counts with the other answers taken as wrong."""
    order = np.lexsort((np.arange(len(owner)), r["error_px"], owner))
    first = order[np.append(True, owner[order][1:] != owner[order][:-1])[: len(order)]]
    mine = first[owner]
    other = np.arange(len(owner)) != mine
    nearer = other & (r["distance"] < r["distance"][mine])
    equal = other & (r["distance"] == r["distance"][mine]) & r["retrieved"]
    lists = len(first)
    better = lt[first] + np.bincount(owner[nearer], minlength=lists)
    return first, better, eq[first] + np.bincount(owner[equal], minlength=lists)


def verification_conventions(records: Sequence[Records]) -> list[StepTable]:
    """`ap` with expected ties over all scenes, ties as one step, and as a mean over scenes."""

    def value(chosen: Sequence[Records], ties: str) -> float:
        distance, right, iteration = (
            np.concatenate([r[c] for r in chosen]) for c in ("distance", "right", "iteration")
        )
        rows = [iteration == i for i in np.unique(iteration)]
        return float(np.mean([average_precision(distance[m], right[m], ties=ties) for m in rows]))

    used = [r for r in records if r["right"].any()]
    if not used:
        return [StepTable("ap", [])]
    steps = [
        ("exact: one list over all scenes, expected ties", value(used, "expected")),
        ("a tie is one step of the curve", value(used, "group")),
        ("one list per scene, mean over scenes", float(np.mean([value([r], "group") for r in used]))),
    ]
    return [StepTable("ap", steps)]


def matching_conventions(records: Sequence[Records]) -> list[StepTable]:
    """`map` over answered queries, over found right matches, and with ties as one step."""
    table: dict[str, list[NDArray[np.float64]]] = {}
    for r in records:
        for image, pair in enumerate(r.meta["pairs"]):
            rows = r["image"] == image
            if not pair["answered"]:
                continue
            distance, right = r["distance"][rows], r["right"][rows]
            values = {"exact: over the queries that could be right": (int(pair["answered"]), "expected")}
            if right.any():
                values["over the right matches found; pairs without one are skipped"] = ("all", "expected")  # type: ignore[assignment]
                values["a tie is one step of the curve"] = ("all", "group")  # type: ignore[assignment]
            for name, (by, ties) in values.items():
                found = average_precision(distance, right, normaliser=by, ties=ties)
                table.setdefault(name, []).append(np.array([found]))
    return [StepTable("map", _means(table))]


def ranking_curves(records: Sequence[Records]) -> Curves:
    """Success at k, and mean AP over the gallery size."""
    tables = [query_values(r, 0) for r in records]
    ranks = np.arange(1, RANKS + 1)
    if any(len(t) for t in tables):
        yield "all", "success_at_k", ranks, [_pooled(tables, f"success{k}") for k in ranks]
    sizes = records[0].meta["galleries"] if records else []
    points = []
    for column, size in enumerate(sizes, start=1):
        chosen = [query_values(r, column) for r in records]
        if any(len(t) for t in chosen):
            points.append((size, _pooled(chosen, "ap")))
    if points:
        yield "all", "true_map_micro_by_gallery", [p[0] for p in points], [p[1] for p in points]


def _pooled(tables: Sequence[Any], name: str) -> float:
    return float(np.concatenate([t.values[name] for t in tables]).mean())


def verification_curves(records: Sequence[Records]) -> Curves:
    """Precision against recall, all iterations together, overall and by scene."""
    groups = [("all", list(records)), *((f"scene={r.meta['scene']}", [r]) for r in records)]
    for group, chosen in groups:
        right = np.concatenate([r["right"] for r in chosen])
        if right.any():
            curve = precision_recall_curve(np.concatenate([r["distance"] for r in chosen]), right)
            yield group, "precision_recall", curve.x, curve.y


def geometry_curves(records: Sequence[Records]) -> Curves:
    """Mean matching accuracy over the threshold, overall and by scene."""
    groups = [("all", list(records)), *((f"scene={r.meta['scene']}", [r]) for r in records)]
    for group, chosen in groups:
        rows = np.concatenate([r["accuracy_mutual"] for r in chosen])
        yield group, "mma", THRESHOLDS_PX, rows.mean(axis=0)
