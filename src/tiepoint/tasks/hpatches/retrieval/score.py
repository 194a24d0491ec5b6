# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2017 retrieval task from its records, under any set of rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import SceneValues, Score, group_name
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.from_counts import average_precision_from_counts
from ...scene_means import scene_means, score_from_scenes
from ..protocols import HPatchesRules, pool_groups, without_numbers
from .compare import EVERY, DistractorPool

METRIC = "map"
Floats = NDArray[np.float64]


def pool_columns(records: Records, rules: HPatchesRules) -> list[int]:
    """Columns of the pools that the rules report, smallest first, the largest last.

    `exact` reports those sizes that every query can fill, and all distractors. A pool of every patch of the
    other sequences is the only one.
    """
    known = [DistractorPool(rule, size) for rule, size in records.meta["pools"]]
    if known == [DistractorPool(EVERY, None)]:
        return [0]
    if rules.pool_counts_positives:
        return [s for s, p in enumerate(known) if p.rule == "with"]
    if rules.pool_before_exclusion:
        return [s for s, p in enumerate(known) if p.rule in ("first", "all")]
    full = np.asarray(records["negatives"], np.int64).min(axis=0)
    return [
        s
        for s, p in enumerate(known)
        if p.rule == "all" or (p.rule == "others" and p.size is not None and full[s] >= p.size)
    ]


def query_values(records: Records, noise: int, column: int, rules: HPatchesRules) -> Floats:
    """Average precision of every query, (q,)."""
    noises, images = len(records.meta["noises"]), len(records.meta["images"])
    per, pools = images // noises, len(records.meta["pools"])
    q = len(records)
    own = slice(noise * per, (noise + 1) * per)
    lt, eq = (
        np.asarray(records[c]).reshape(q, images, pools)[:, own, column].astype(np.int64)
        for c in ("lt", "eq")
    )
    retrieved = np.isfinite(records["distance"][:, own])
    if rules.nan_first:
        if "lost" in records.columns:
            lt = lt + records["lost"][:, column].astype(np.int64)[:, None]
        lt, eq = np.where(retrieved, lt, 0), np.where(retrieved, eq, 0)
        lt = np.where(records["failed"][:, None], 0, lt)
        retrieved = np.ones_like(retrieved)
    return average_precision_from_counts(
        lt.ravel(),
        eq.ravel(),
        owner=np.repeat(np.arange(q), per),
        lists=q,
        retrieved=retrieved.ravel(),
        flavour="trapezoid" if rules.trapezoid else "trec",
        ties="optimistic" if rules.retrieval_positives_first else "expected",
    )


def retrieval_stop_reason(records: Records, rules: HPatchesRules) -> str | None:
    """Why the tool gives no number, or None: it stops at a list without any finite distance.

    A query with NaN or infinity has such a list, and so has one whose right answers and distractors failed.
    """
    if not rules.stops_at_failures:
        return None
    known = len(records)
    there = np.isfinite(records["distance"]).reshape(known, len(records.meta["noises"]), -1).any(axis=2)
    pools = pool_columns(records, rules)
    rest = np.asarray(records["negatives"], np.int64)[:, pools]
    if "lost" in records.columns:
        rest = rest - records["lost"][:, pools]
    stops = np.asarray(records["failed"], bool) | (~there.all(axis=1) & (rest <= 0).any(axis=1))
    if not stops.any():
        return None
    first = int(stops.argmax())
    query = f"{records.meta['scenes'][records['scene'][first]]}/ref#{records['index'][first]}"
    return f"the Python tool stops at a query that failed (NaN or infinity), as {query} did"


def _cell(
    records: Records, noise: int, column: int, rules: HPatchesRules, scenes: int
) -> tuple[Floats, float]:
    """Mean AP by scene of one noise level and pool, (scenes,), and the chance level of the mean."""
    value = query_values(records, noise, column, rules)
    means, _ = scene_means(value, records["scene"], scenes)
    per = len(records.meta["images"]) // len(records.meta["noises"])
    sizes, times = np.unique(records["negatives"][:, column], return_counts=True)
    flavour = "trapezoid" if rules.trapezoid else "trec"
    guess = [chance_average_precision(int(n) + per, per, flavour=flavour) for n in sizes]
    return means, float(np.sum(np.array(guess) * times) / times.sum())


def score(records: Sequence[Records], rules: HPatchesRules, protocol: str) -> list[Score]:
    """By noise and pool, means over noise, and the one number of the protocol."""
    (r,) = records
    noises, columns = r.meta["noises"], pool_columns(r, rules)
    weights = np.bincount(r["scene"], minlength=len(r.meta["scenes"])).astype(np.float64)
    label = {s: DistractorPool(*r.meta["pools"][s]).label for s in columns}
    cells = {(z, s): _cell(r, z, s, rules, len(weights)) for z in range(len(noises)) for s in columns}
    groups = {group_name(noise=noises[z], pool=label[s]): [(z, s)] for z, s in cells}
    groups |= pool_groups(noises, label, rules)
    found = []
    for group, parts in groups.items():
        table = np.array([cells[c][0] for c in parts])
        share = np.broadcast_to(weights, table.shape).copy()
        scenes = SceneValues(tuple(r.meta["scenes"]), tuple(r.meta["kinds"]), table, share)
        chance = float(np.mean([cells[c][1] for c in parts]))
        n = len(r) * len(parts)
        found.append(score_from_scenes(METRIC, group, n, scenes, protocol=protocol, chance=chance))
    every = np.array([cells[c][0] for c in groups["all"]])
    for i in np.flatnonzero(weights):
        group = group_name(scene=r.meta["scenes"][i])
        found.append(Score(METRIC, group, float(every[:, i].mean()), int(weights[i]), protocol))
    return without_numbers(found, retrieval_stop_reason(r, rules))


def wrong_answers(records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
    """Right answers behind a distractor, of the first queries: (query, right answer, nearest distractor)."""
    for r in records:
        if r.meta.get("form") == "ap":
            continue
        scenes, images, pools = r.meta["scenes"], r.meta["images"], len(r.meta["pools"])
        behind = np.asarray(r["lt"]).reshape(len(r), len(images), pools)[:, :, -1] > 0
        for i in np.flatnonzero(r["rival_known"]):
            scene, patch = scenes[r["scene"][i]], int(r["index"][i])
            rival = f"{scenes[r['rival_scene'][i]]}/ref#{r['rival_index'][i]}"
            for m in np.flatnonzero(behind[i]):
                yield f"{scene}/ref#{patch}", f"{scene}/{images[m]}#{patch}", rival
