# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2017 retrieval task, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import SceneValues, Score, group_name
from ....metrics.ranking.average_precision import average_precision
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.from_counts import average_precision_from_counts
from ...cases import Cases, Floats, QueryCase, nearest_candidates
from ...scene_means import scene_means, score_from_scenes
from ..data import DatasetSplit, distances_to, failure_note, right_candidate
from ..protocols import (
    HPatchesRules,
    floored_area,
    hpatches_rules,
    is_imported,
    pool_groups,
    scored_as_imported,
    without_numbers,
)
from .compare import EVERY, DistractorPool

METRIC = "map"


def pool_columns(records: Records, rules: HPatchesRules) -> list[int]:
    """Return the columns of the distractor pools that the rules report, in ascending order of size.

    `exact` reports the pool sizes that are available for every query, and all distractors. Records with
    `distractors=every` have a single pool, which is always reported.
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
    """Return the average precision (q,) of every query at one noise level, for one pool column."""
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
    found = average_precision_from_counts(
        lt.ravel(),
        eq.ravel(),
        owner=np.repeat(np.arange(q), per),
        lists=q,
        retrieved=retrieved.ravel(),
        flavour="trapezoid" if rules.trapezoid else "trec",
        ties="optimistic" if rules.retrieval_positives_first else "expected",
    )
    if rules.precision_floor:
        before = np.where(retrieved, lt, np.iinfo(np.int64).max).min(axis=1)
        found += floored_area(np.where(retrieved.any(axis=1), before, 0), per)
    return found


def retrieval_stop_reason(records: Records, rules: HPatchesRules) -> str | None:
    """Return why the original tool computes no score from these records. None if it does.

    The tool stops if the distances of a list contain no finite value. This happens if the query has NaN or
    infinity, or if all its correct answers and distractors failed.
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
    """Return the mean AP (scenes,) of one noise level and pool, and its chance level."""
    value = query_values(records, noise, column, rules)
    means, _ = scene_means(value, records["scene"], scenes)
    per = len(records.meta["images"]) // len(records.meta["noises"])
    sizes, times = np.unique(records["negatives"][:, column], return_counts=True)
    flavour = "trapezoid" if rules.trapezoid else "trec"
    guess = [chance_average_precision(int(n) + per, per, flavour=flavour) for n in sizes]
    return means, float(np.sum(np.array(guess) * times) / times.sum())


def score(records: Sequence[Records], rules: HPatchesRules, protocol: str) -> list[Score]:
    """Compute scores by noise and pool, their means over noise levels, and the headline score."""
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
    """Return correct answers that rank behind a distractor: (query, correct answer, nearest distractor)."""
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


def score_imported(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Compute the scores of imported retrieval results. None if the records contain distances instead.

    Imported records have one row per query, noise level and pool, or one row per noise level and pool if only
    means were imported. Columns: `noise` and `pool` (indices into the meta), `map`, and `scene` if the
    queries are known.
    """
    if not scored_as_imported(records, protocol):
        return None
    r = records[0]
    noises, pools = r.meta["noises"], [str(p) for p in r.meta["pools"]]
    kinds = tuple(r.meta.get("kinds", ()))
    scenes = tuple(r.meta.get("scenes", ()))
    table: dict[tuple[int, int], tuple[float, int, SceneValues | None]] = {}
    for z in range(len(noises)):
        for p in range(len(pools)):
            own = (r["noise"] == z) & (r["pool"] == p)
            if own.any():
                by = None
                if "scene" in r.columns:
                    means, weights = scene_means(r["map"][own], r["scene"][own], len(scenes))
                    by = SceneValues(scenes, kinds, means[None], weights[None])
                table[z, p] = float(np.mean(r["map"][own])), int(own.sum()), by
    found = [
        Score("map", group_name(noise=noises[z], pool=pools[p]), v, n, protocol, scenes=s)
        for (z, p), (v, n, s) in table.items()
    ]
    for group, parts in pool_groups(noises, dict(enumerate(pools)), hpatches_rules(protocol)).items():
        if all(c in table for c in parts):
            found.append(_mean_of_cells([table[c] for c in parts], group, protocol))
    return found


def _mean_of_cells(
    cells: Sequence[tuple[float, int, SceneValues | None]], group: str, protocol: str
) -> Score:
    parts = [s for _, _, s in cells if s is not None]
    scenes = None
    if len(parts) == len(cells):
        weights = np.concatenate([np.asarray(s.weights) for s in parts])
        scenes = SceneValues(
            parts[0].scenes, parts[0].kinds, np.concatenate([s.cells for s in parts]), weights
        )
    value = float(np.mean([v for v, _, _ in cells]))
    return Score("map", group, value, sum(n for _, n, _ in cells), protocol, scenes=scenes)


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the queries of a sequence at each noise level, scored by AP among all distractors."""
    if not records or is_imported(records):
        return None
    (r,) = records
    if scene not in r.meta["scenes"]:
        return None
    noises = r.meta["noises"]
    rows = np.flatnonzero(r["scene"] == r.meta["scenes"].index(scene))
    own = Records(r.kind, {name: column[rows] for name, column in r.columns.items()}, r.meta)
    last = len(r.meta["pools"]) - 1
    score = np.stack([query_values(own, z, last, HPatchesRules()) for z in range(len(noises))], axis=1)
    keys = rows[:, None] * len(noises) + np.arange(len(noises))
    patches = np.asarray(r["index"])

    def words(key: str) -> str:
        query, noise = divmod(int(key), len(noises))
        return f"patch {patches[query]}, {noises[noise]}"

    return Cases(keys.ravel(), score.ravel(), None, words)


def replay(
    setting: DatasetSplit, lists: Any, every: bool, scene: str, key: str, features: Features | None
) -> QueryCase | None:
    """Recompute how a query's other views and the distractors rank at a noise level."""
    number, noise = divmod(int(key), len(setting.noises))
    queries, distractors = lists()
    patch = int(queries.index[number])
    query, level = f"{scene}/ref#{patch}", setting.images[noise * setting.levels :][: setting.levels]
    right = [f"{scene}/{image}#{patch}" for image in level]
    if features is None:
        return QueryCase(query, (), tuple(right_candidate(p) for p in right))
    one = np.array([patch])
    places: list[tuple[str, NDArray[Any] | None]] = [(f"{scene}/{image}", one) for image in level]
    others = [s for s in setting.split.test if s != scene]
    if every:
        places += [(f"{s}/{m}", None) for s in others for m in ("ref", *setting.images)]
    else:
        number_of = {s: i for i, s in enumerate(distractors.sequences)}
        listed = {s: distractors.index[distractors.seq == number_of[s]] for s in others if s in number_of}
        places += [(f"{s}/ref", index) for s, index in listed.items() if len(index)]
    values = distances_to(features, f"{scene}/ref", patch, places)
    sizes = [setting.data.count(key.split("/")[0]) if rows is None else len(rows) for key, rows in places]
    ends = np.cumsum(sizes)

    def picture(row: int) -> str:
        part = int(np.searchsorted(ends, row, side="right"))
        item, rows = places[part]
        at = row - int(ends[part] - sizes[part])
        return f"{item}#{at if rows is None else int(rows[at])}"

    rows = list(range(len(level)))
    chosen, found = nearest_candidates(
        values, rows, picture, squared=features.distance == "l2", most=len(level)
    )
    labels = np.arange(len(values)) < len(level)
    return QueryCase(query, chosen, found, average_precision(values, labels), failure_note(values))
