# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2017 matching task, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import SceneCurves, SceneValues, Score, group_name
from ....kernels import get_threads
from ....metrics.ranking.average_precision import average_precision_of_lists
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.matching import expected_validity, ratio_dissimilarity
from ...cases import Cases, Floats, QueryCase, nearest_candidates, ratio_of
from ...scene_means import mean_precision_recall, scene_means, score_from_scenes
from ..data import DatasetSplit, distances_to, failure_note, first_share, right_candidate
from ..protocols import (
    HPatchesRules,
    floored_area,
    hpatches_rules,
    is_imported,
    scored_as_imported,
    without_numbers,
)

METRICS = ("map", "success_rate", "map_ratio")
MAX_MATCHING_MISSES = 50
"""Number of evenly spaced patches of an image pair checked for wrong matches; the same for every method."""


@dataclass(frozen=True)
class ImagePairs:
    """Metrics by sequence and noise level, averaged over the image pairs; arrays (scenes, noises).

    A value is NaN if a sequence has no image pair of a noise level. `count` is the number of image pairs.
    """

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    noises: tuple[str, ...]
    count: Floats
    values: dict[str, Floats]
    chance: dict[str, Floats]


def neighbour_distances_and_validity(records: Records, rules: HPatchesRules) -> tuple[Floats, Floats, Floats]:
    """Return the distances to the nearest and second patch, and the probability of a correct match.

    All three arrays have shape (images, patches).
    """
    shape = (len(records.meta["images"]), int(records.meta["patches"]))
    d1, d2 = (as_ranked(records, records[c], rules).reshape(shape) for c in ("d1", "d2"))
    if not rules.lowest_index_match:
        wrong = ~np.asarray(records["right"], bool)
        return d1, d2, expected_validity(wrong, records["ties"]).reshape(shape)
    found = np.isfinite(d1)
    if rules.failed_match_is_first and "failed_ref" in records.columns:
        found |= records["failed_ref"].reshape(shape)
    index = np.asarray(records["index"], np.int64).reshape(shape)
    return d1, d2, ((index == np.arange(shape[1])) & found).astype(np.float64)


def matching_stop_reason(records: Sequence[Records], rules: HPatchesRules) -> str | None:
    """Return why the original tool computes no score from these records. None if it does.

    The tool stops if the distances of a list contain no finite value. A single target with NaN causes this,
    because it becomes the nearest target of every patch. The tool also stops if all matches have infinite
    distance.
    """
    if not rules.stops_at_failures:
        return None
    for r in records:
        shape = (len(r.meta["images"]), int(r.meta["patches"]))
        stops = ~np.isfinite(np.asarray(r["d1"])).reshape(shape).any(axis=1)
        if "failed_target" in r.columns:
            failed = np.array(r["failed_target"], bool)
            if rules.infinity_is_far:
                failed &= ~np.asarray(r["far_target"], bool)
            stops |= failed.reshape(shape).any(axis=1)
        if stops.any():
            image = f"{r.meta['scenes'][0]}/{r.meta['images'][int(stops.argmax())]}"
            return f"the Python tool stops at a target descriptor that failed (NaN), as in {image}"
    return None


def as_ranked(records: Records, values: NDArray[Any], rules: HPatchesRules) -> Floats:
    """Convert recorded distances to those that the rules rank: squared or not, single or double precision."""
    kept = np.asarray(values, np.float64)
    if records.meta["squared"] and rules.rooted:
        kept = np.sqrt(kept)
    if rules.single_precision_match:
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32).astype(np.float64)
    return kept


def image_values(records: Records, rules: HPatchesRules) -> dict[str, Floats]:
    """Return the metrics of every image of a sequence, one array (images,) per metric."""
    d1, d2, valid = neighbour_distances_and_validity(records, rules)
    images, n = d1.shape
    owner = np.repeat(np.arange(images), n)
    ties = "file" if rules.file_order else "expected"
    flavour = "trapezoid" if rules.trapezoid else "trec"
    found = {"success_rate": valid.sum(axis=1) / n}
    ratio = ratio_dissimilarity(d1, d2)
    if rules.ratio_nan_first:
        undefined = (d1 == 0) & (d2 == 0)
        alone = (undefined | ~np.isfinite(ratio)).all(axis=1, keepdims=True)
        ratio = np.where(undefined, np.where(alone, np.inf, -1.0), ratio)
    for name, d in (("map", d1), ("map_ratio", ratio)):
        found[name] = average_precision_of_lists(
            d.ravel(), valid.ravel(), owner, images, flavour=flavour, normaliser=n, ties=ties
        )
    if rules.precision_floor:
        order = np.argsort(d1, axis=1, kind="stable")
        right = np.take_along_axis((valid > 0) & np.isfinite(d1), order, axis=1)
        found["map"] = found["map"] + floored_area(right.argmax(axis=1), n)
    return found


def image_pairs(records: Sequence[Records], rules: HPatchesRules) -> ImagePairs:
    """Return the metrics of all sequences that the rules include."""
    used = counted_sequences(records, rules)
    noises = tuple(used[0].meta["noises"]) if used else ()
    per = len(used[0].meta["images"]) // max(len(noises), 1) if used else 1
    with ThreadPoolExecutor(get_threads()) as pool:
        tables = list(pool.map(lambda r: image_values(r, rules), used))
    flavour = "trapezoid" if rules.trapezoid else "trec"
    sizes = {int(r.meta["patches"]) for r in used}
    guess = {n: chance_average_precision(n, 1.0, normaliser=n, certain=False, flavour=flavour) for n in sizes}
    patches = [int(r.meta["patches"]) for r in used]
    chance = {"map": [guess[n] for n in patches], "success_rate": [1.0 / n for n in patches]}
    chance["map_ratio"] = chance["map"]
    shape = (len(used), len(noises))
    return ImagePairs(
        tuple(r.meta["scenes"][0] for r in used),
        tuple(r.meta["kinds"][0] for r in used),
        noises,
        np.full(shape, float(per)),
        {m: np.array([t[m].reshape(len(noises), per).mean(axis=1) for t in tables]) for m in METRICS},
        {m: np.array(c)[:, None] * np.ones(shape) for m, c in chance.items()},
    )


def score(records: Sequence[Records], rules: HPatchesRules, protocol: str) -> list[Score]:
    """Return all scores of records that contain distances."""
    pairs = image_pairs(records, rules)
    scores = scores_of_pairs(pairs, rules, protocol, note=_note(records, rules))
    return without_numbers(scores, matching_stop_reason(counted_sequences(records, rules), rules))


def counted_sequences(records: Sequence[Records], rules: HPatchesRules) -> list[Records]:
    """Return the records of the sequences that the rules include: those of the split, or all."""
    return [r for r in records if rules.all_sequences or r.meta["in_split"]]


def _note(records: Sequence[Records], rules: HPatchesRules) -> str | None:
    whole = any(not r.meta["in_split"] for r in records) or not records[0].meta["is_subset"]
    if not rules.all_sequences or whole:
        return None
    return 'the split alone; the MATLAB tool matches all sequences of the dataset, `sequences="all"`'


def scores_of_pairs(
    pairs: ImagePairs, rules: HPatchesRules, protocol: str, *, note: str | None = None
) -> list[Score]:
    """Return the scores by noise, by kind, by noise and kind, by scene, and by weighting.

    `all` is the mean over the six combinations of noise and kind.
    """
    kinds = tuple(dict.fromkeys(sorted(pairs.kinds)))
    cells = [(z, k) for z in range(len(pairs.noises)) for k in kinds]
    plain: list[tuple[int, str | None]] = [(z, None) for z in range(len(pairs.noises))]
    head: Sequence[tuple[int, str | None]] = plain if rules.sequence_weighted else cells
    groups: dict[str, Sequence[tuple[int, str | None]]] = {"all": head}
    groups |= {group_name(weighting="cells"): cells, group_name(weighting="sequences"): plain}
    for z, noise in enumerate(pairs.noises):
        groups[group_name(noise=noise)] = [c for c in head if c[0] == z]
        groups |= {group_name(noise=noise, kind=k): [(z, k)] for k in kinds}
        groups[group_name(noise=noise, weighting="sequences")] = [(z, None)]
    groups |= {group_name(kind=k): [(z, k) for z in range(len(pairs.noises))] for k in kinds}
    found = []
    for metric in pairs.values:
        for group, parts in groups.items():
            found.append(_score(pairs, metric, group, parts, protocol, note if group == "all" else None))
        found += [s for i in range(len(pairs.scenes)) if (s := _scene(pairs, metric, i, protocol))]
    return found


def _score(
    pairs: ImagePairs,
    metric: str,
    group: str,
    parts: Sequence[tuple[int, str | None]],
    protocol: str,
    note: str | None,
) -> Score:
    of = np.array(pairs.kinds)
    cells, n = np.full((len(parts), len(of)), np.nan), 0
    chances = []
    for row, (z, kind) in enumerate(parts):
        own = np.flatnonzero((of == kind) if kind is not None else np.ones(len(of), bool))
        own = own[np.isfinite(pairs.values[metric][own, z])]
        cells[row, own] = pairs.values[metric][own, z]
        n += int(pairs.count[own, z].sum())
        if pairs.chance and len(own):
            chances.append(float(pairs.chance[metric][own, z].mean()))
    chance = float(np.mean(chances)) if chances else None
    scenes = SceneValues(pairs.scenes, pairs.kinds, cells)
    return score_from_scenes(metric, group, n, scenes, protocol=protocol, chance=chance, note=note)


def _scene(pairs: ImagePairs, metric: str, i: int, protocol: str) -> Score | None:
    row = pairs.values[metric][i]
    known = np.isfinite(row)
    if not known.any():
        return None
    n = int(pairs.count[i, known].sum())
    return Score(metric, group_name(scene=pairs.scenes[i]), float(row[known].mean()), n, protocol)


def wrong_answers(records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
    """Return wrong matches of a fixed sample of patches: (query, correct answer, method's answer)."""
    for r in records:
        if r.meta.get("form") == "ap" or not r.meta["in_split"]:
            continue
        scene, n = r.meta["scenes"][0], int(r.meta["patches"])
        chosen = np.unique(np.linspace(0, n - 1, min(n, MAX_MATCHING_MISSES)).round().astype(np.int64))
        for i, image in enumerate(r.meta["images"]):
            rows = i * n + chosen
            wrong = np.isfinite(r["d1"][rows]) & ~np.asarray(r["right"][rows], bool)
            for patch, answer in zip(chosen[wrong], r["index"][rows[wrong]], strict=True):
                yield f"{scene}/ref#{patch}", f"{scene}/{image}#{patch}", f"{scene}/{image}#{answer}"


def scene_curves(records: Sequence[Records], rules: HPatchesRules) -> Iterator[SceneCurves]:
    """Compute the mean precision-recall curve of every scene and noise level. Its area approximates `map`."""
    used = [r for r in records if r.meta.get("form") != "ap" and r.meta["in_split"]]
    if not used:
        return
    tables = [neighbour_distances_and_validity(r, rules) for r in used]
    noises = used[0].meta["noises"]
    per = len(used[0].meta["images"]) // len(noises)
    for z, noise in enumerate(noises):
        rows = slice(z * per, (z + 1) * per)
        sizes = np.repeat([int(r.meta["patches"]) for r in used], per)
        yield mean_precision_recall(
            group_name(noise=noise),
            np.concatenate([d1[rows].ravel() for d1, _, _ in tables]),
            np.concatenate([valid[rows].ravel() for _, _, valid in tables]),
            np.repeat(np.arange(len(sizes)), sizes),
            sizes,
            np.repeat(np.arange(len(used)), per),
            scenes=[r.meta["scenes"][0] for r in used],
            kinds=[r.meta["kinds"][0] for r in used],
            by_kind=True,
        )


def score_imported(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Compute the scores of imported matching results. None if the records contain distances instead.

    Imported records have one row per image pair with the columns `scene`, `noise` (indices into the meta),
    `image`, `map` and optionally `success_rate`.
    """
    if not scored_as_imported(records, protocol):
        return None
    return scores_of_pairs(_imported_pairs(records[0]), hpatches_rules(protocol), protocol)


def imported_values(record: Records, metric: str, noise: str | None) -> dict[str, float]:
    """Return the value of every sequence in imported results, for one noise level or averaged over all."""
    pairs = _imported_pairs(record)
    chosen = [z for z, name in enumerate(pairs.noises) if noise in (None, name)]
    return dict(zip(pairs.scenes, pairs.values[metric][:, chosen].mean(axis=1).tolist(), strict=True))


def _imported_pairs(r: Records) -> ImagePairs:
    scenes, noises = tuple(r.meta["scenes"]), tuple(r.meta["noises"])
    cell = np.asarray(r["scene"], np.int64) * len(noises) + r["noise"]
    size = len(scenes) * len(noises)
    shape = (len(scenes), len(noises))
    count = np.bincount(cell, minlength=size).astype(np.float64)
    values = {
        metric: scene_means(r[metric], cell, size)[0].reshape(shape)
        for metric in ("map", "success_rate")
        if metric in r.columns
    }
    return ImagePairs(scenes, tuple(r.meta["kinds"]), noises, count.reshape(shape), values, {})


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the reference patches of a sequence, scored by the probability that their match is correct."""
    own = [r for r in records if not is_imported([r]) and scene in r.meta["scenes"]]
    if not own:
        return None
    (r,) = own
    images, n = r.meta["images"], int(r.meta["patches"])
    _, _, valid = neighbour_distances_and_validity(r, HPatchesRules())
    sure = ratio_of(r["d1"], r["d2"], squared=r.meta["squared"])

    def words(key: str) -> str:
        image, patch = divmod(int(key), n)
        return f"patch {patch} in {images[image]}"

    return Cases(np.arange(valid.size), valid.ravel(), sure, words)


def replay(setting: DatasetSplit, scene: str, key: str, features: Features | None) -> QueryCase | None:
    """Recompute how the patches of another image rank for a reference patch."""
    image, patch = divmod(int(key), setting.data.count(scene))
    there, query = f"{scene}/{setting.images[image]}", f"{scene}/ref#{patch}"
    if features is None:
        return QueryCase(query, (), (right_candidate(f"{there}#{patch}"),))
    values = distances_to(features, f"{scene}/ref", patch, [(there, None)])
    chosen, right = nearest_candidates(
        values, [patch], f"{there}#{{}}".format, squared=features.distance == "l2"
    )
    return QueryCase(query, chosen, right, first_share(values, [patch]), failure_note(values))
