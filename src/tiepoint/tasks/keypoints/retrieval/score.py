# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/retrieval`, and its samples with their scores, computed from its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import SceneValues, Score, group_name
from ....metrics import average_precision_from_counts, average_precision_of_lists, chance_average_precision
from ....metrics.ranking.chance import chance_against_nearest
from ...cases import Cases
from ...scene_means import count_score, grouped_scores, score_from_scenes, with_protocol
from ..data import scene_records
from ..distractors import draw_cases, named_by_kind

MAIN = ("map", "all")


def query_aps(record: Records, ties: str) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the AP, the iteration and the number of correct items of every ranked list of a scene."""
    iteration, query = record["iteration"].astype(np.int64), record["query"].astype(np.int64)
    new = np.append(True, (iteration[1:] != iteration[:-1]) | (query[1:] != query[:-1]))[: len(query)]
    owner = np.cumsum(new) - 1
    lists = int(new.sum())
    if _is_every(record):
        found = [record[name].astype(np.int64) for name in ("lt", "eq")]
        kept = record["retrieved"]
        ap = average_precision_from_counts(*found, owner=owner, lists=lists, retrieved=kept, ties=ties)
        return ap, iteration[new], np.bincount(owner, minlength=lists)
    ap = average_precision_of_lists(record["distance"], record["right"], owner, lists, ties=ties)
    relevant = np.bincount(owner, weights=record["right"], minlength=lists).astype(np.int64)
    return ap, iteration[new], relevant


def _is_every(record: Records) -> bool:
    return record.meta.get("pool") == "every"


def _map(records: Sequence[Records], ties: str, group: str) -> Score:
    """Compute the mean AP over queries, then over iterations."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    found = [query_aps(r, ties) for r in records]
    rounds = sorted({int(i) for _, iteration, _ in found for i in np.unique(iteration)})
    if not rounds:
        return Score("map", group, float("nan"), 0)
    cells, weights = (np.full((len(rounds), len(records)), v) for v in (np.nan, 0.0))
    chance = np.zeros_like(weights)
    for s, (ap, iteration, relevant) in enumerate(found):
        by_count = _chances(records[s], relevant)
        for c, i in enumerate(rounds):
            rows = iteration == i
            weights[c, s] = rows.sum()
            if rows.any():
                cells[c, s] = ap[rows].mean()
                chance[c, s] = np.mean([by_count[int(r)] for r in relevant[rows]])
    random = float(((chance * weights).sum(axis=1) / weights.sum(axis=1)).mean())
    table = SceneValues(scenes, kinds, cells, weights)
    return score_from_scenes("map", group, int(weights.sum()), table, chance=random)


def _chances(record: Records, relevant: NDArray[np.int64]) -> dict[int, float]:
    if _is_every(record):
        wrong = int(record.meta["distractors"])
        return {int(r): chance_average_precision(wrong + int(r), int(r)) for r in np.unique(relevant)}
    searched = [int(n) for n in record.meta["searched"]]
    images = len(searched) // max(1, len(np.unique(record["iteration"])))
    typical = searched[:images]
    return {int(r): chance_against_nearest(int(r), typical) for r in np.unique(relevant)}


def _score(records: Sequence[Records], protocol: str, ties: str) -> list[Score]:
    scores = grouped_scores(records, lambda chosen, group: _map(chosen, ties, group))
    scores += named_by_kind(scores, "map", "retrieval")
    every = [r for r in records if _is_every(r)]
    if every:
        scores += [replace(s, group=group_name(pool="every")) for s in scores if (s.metric, s.group) == MAIN]
        right = sum(len(r) for r in every)
        wrong = sum(len(query_aps(r, ties)[0]) * int(r.meta["distractors"]) for r in every)
    else:
        right = sum(int((r["right"] > 0).sum()) for r in records)
        wrong = sum(len(r) for r in records) - right
    scores.append(count_score("retrieval_num_true_positives", right))
    scores.append(count_score("retrieval_num_hard_negatives", 0, note="label 0 is not in the lists"))
    scores.append(count_score("retrieval_num_distractors", wrong))
    if protocol == "exact":
        scores.append(count_score("queries_unanswered", sum(int(r.meta["unanswered"]) for r in records)))
    return with_protocol(scores, protocol)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP of the queries. Ties count as the mean over all orders."""
    return _score(records, "exact", "expected")


def score_bojanic(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP of the queries. Equal distances form one step of the precision-recall curve."""
    return _score(records, "bojanic", "group")


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the random samples of a scene, scored by the mean average precision of their ranked lists."""
    if (r := scene_records(records, scene)) is None:
        return None
    rounds = np.unique(r["iteration"])
    ap, iteration, _ = query_aps(r, "expected")
    return draw_cases(rounds, [float(ap[iteration == i].mean()) for i in rounds])
