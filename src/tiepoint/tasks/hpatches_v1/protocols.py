# SPDX-License-Identifier: BSD-3-Clause
"""Scoring rules of the 2016 tool and of `exact`, as switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import UnknownNameError
from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ...formats.hpatches_v1.matching import matlab_numbers
from ..scene_means import scene_means, score_from_scenes

PROTOCOLS = ("exact", "hbench-2016")
STEPS = {
    "normaliser": "divide by all that could be found",
    "ties": "expectation over random orders of ties",
    "text": "full precision instead of the text of the results file",
    "failures": "a failed descriptor is a miss",
    "averaging": "plain mean, query left out by identity",
}
Floats = NDArray[np.float64]


def _quirk(step: str, tasks: str, about: str) -> Any:
    return field(default=True, metadata={"step": step, "tasks": tasks.split(), "about": about})


@dataclass(frozen=True)
class HPatchesV1Rules:
    """Scoring rules of a protocol: switches, all on for `hbench-2016`. See docs/tasks/hpatches-v1.md.

    >>> HPatchesV1Rules().divisor_q_plus_one, exact_rules().divisor_q_plus_one
    (True, False)
    """

    matching_normaliser_valid: bool = _quirk("normaliser", "matching", "divide by the right matches only")
    zero_without_match: bool = _quirk("normaliser", "matching", "0/0 of a pair without right match is 0")
    retrieval_normaliser_retrieved: bool = _quirk("normaliser", "retrieval", "divide by what the 50 hold")
    file_order: bool = _quirk(
        "ties", "classification matching retrieval", "equal distances stay in file order"
    )
    lowest_index_match: bool = _quirk("ties", "matching", "the first of equally near targets is the match")
    squared: bool = _quirk("text", "classification matching", "l2 distances are printed squared")
    single_precision: bool = _quirk("text", "classification matching", "distances are float32")
    six_decimals: bool = _quirk("text", "classification", "results are printed with %.6f")
    six_digits: bool = _quirk("text", "matching", "results are printed with %e, six digits after the point")
    roc_stops: bool = _quirk("failures", "classification", "the ROC curve ends at the last finite distance")
    nan_is_infinite: bool = _quirk(
        "failures", "classification", "off in 2016's first months: NaN ranked first"
    )
    both_infinite: bool = _quirk(
        "failures", "matching", "an infinite second neighbour makes the first infinite"
    )
    ratio_nan_first: bool = _quirk(
        "failures", "matching", "a ratio of 0/0 or Inf/Inf ranks before all others"
    )
    first_label_line: bool = _quirk("averaging", "matching", "only the first line of labels is read")
    balanced_first_negatives: bool = _quirk("averaging", "classification", "balanced: the first P negatives")
    headline_imbalanced: bool = _quirk("averaging", "classification", "AUC is reported on the full list")
    query_swapped_first: bool = _quirk(
        "averaging", "retrieval", "the query is swapped or written into place 1"
    )
    divisor_q_plus_one: bool = _quirk("averaging", "retrieval", "Q queries are averaged with Q + 1")


def exact_rules() -> HPatchesV1Rules:
    """Return the scoring rules of `exact`: all off except `nan_is_infinite` and `balanced_first_negatives`.

    Both protocols use these two: a failure has infinite distance, and the balanced list has as many negatives
    as positives, from the start of the list.

    >>> exact_rules().file_order
    False
    """
    off = {f.name: False for f in fields(HPatchesV1Rules)}
    return HPatchesV1Rules(**off | {"nan_is_infinite": True, "balanced_first_negatives": True})


EXACT = exact_rules()


def hpatches_v1_rules(protocol: str) -> HPatchesV1Rules:
    """Return the scoring rules of a protocol.

    >>> hpatches_v1_rules("hbench-2016") == HPatchesV1Rules()
    True
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol of HPatches v1", protocol, PROTOCOLS)
    return HPatchesV1Rules() if protocol == "hbench-2016" else EXACT


def convention_steps(task: str) -> list[tuple[str, HPatchesV1Rules]]:
    """Return the scoring rules after each step from `hbench-2016` to `exact`, with their names.

    `task` is the last part of the task name.

    >>> [name.split(":")[0] for name, _ in convention_steps("retrieval")]
    ['hbench-2016', 'normaliser', 'ties', 'averaging']
    """
    rules = HPatchesV1Rules()
    steps = [("hbench-2016", rules)]
    for step, about in STEPS.items():
        names = [f.name for f in fields(rules) if f.metadata["step"] == step and task in f.metadata["tasks"]]
        changed = replace(rules, **{name: getattr(EXACT, name) for name in names})
        if changed != rules:
            rules = changed
            steps.append((f"{step}: {about}", rules))
    return steps


def six_decimals(values: Floats) -> Floats:
    """Return each value as it is after writing it with ``%.6f`` and reading it. Infinity is unchanged.

    For speed, only values close to a rounding limit are converted through text.

    >>> six_decimals(np.array([0.12345649, 2.0, np.inf]))
    array([0.123456, 2.      ,      inf])
    """
    out = np.array(values, np.float64)
    finite = np.flatnonzero(np.isfinite(out))
    x = out[finite]
    scaled = x * 1e6
    unsure = np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) <= 2.0 * np.spacing(
        np.maximum(np.abs(scaled), 1.0)
    )
    unsure |= np.abs(scaled) >= 2.0**52
    rounded = np.rint(scaled) / 1e6
    for i in np.flatnonzero(unsure):
        rounded[i] = float(f"{x[i]:.6f}")
    out[finite] = rounded
    return out


def six_digits(values: Floats) -> Floats:
    """Return each value as it is after writing it with MATLAB's ``%d`` (``%e`` for fractions) and reading it.

    >>> six_digits(np.array([7.17484312, 12.0, np.inf]))
    array([ 7.174843, 12.      ,       inf])
    """
    if not len(values):
        return np.array(values, np.float64)
    return np.array(matlab_numbers(np.asarray(values, np.float64)).split(","), np.float64)


def as_distance(records: Records, values: NDArray[Any], rules: HPatchesV1Rules) -> Floats:
    """Convert recorded distances to those that the rules rank: squared or not, single or double precision.

    Distances from a results file are unchanged.
    """
    kept = np.asarray(values, np.float64)
    if records.meta["source"] == "results":
        return kept
    if records.meta["squared"] and not rules.squared:
        kept = np.sqrt(kept)
    if rules.single_precision:
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32).astype(np.float64)
    return kept


def printed_classification(records: Records, values: NDArray[Any], rules: HPatchesV1Rules) -> Floats:
    """Return classification distances, rounded like the text of result files if the rules require it."""
    kept = as_distance(records, values, rules)
    return six_decimals(kept) if rules.six_decimals and records.meta["source"] != "results" else kept


def printed_matching(records: Records, values: NDArray[Any], rules: HPatchesV1Rules) -> Floats:
    """Return matching distances, rounded like the text of result files if the rules require it."""
    kept = as_distance(records, values, rules)
    return six_digits(kept) if rules.six_digits and records.meta["source"] != "results" else kept


def benchmark_score(
    metric: str,
    records: Records,
    values: NDArray[np.float64],
    scene: NDArray[np.int64],
    *,
    scale: float = 1.0,
    **more: Any,
) -> Score:
    """Return the score of one benchmark from the values of its items (image pairs, patches, queries).

    Items with value NaN are excluded from the mean of their scene. `scene` is the scene index of each item.
    """
    meta = records.meta
    means, weights = scene_means(values, scene, len(meta["scenes"]), scale=scale)
    table = SceneValues(tuple(meta["scenes"]), tuple(meta["kinds"]), means[None], weights[None])
    return score_from_scenes(metric, group_name(benchmark=meta["benchmark"]), len(values), table, **more)


def with_mean(scores: Sequence[Score]) -> list[Score]:
    """Return the scores of benchmarks, their mean as group `all`, and one mean per scene."""
    metric, protocol = scores[0].metric, scores[0].protocol
    together = _union([s.scenes for s in scores if s.scenes is not None])
    notes = tuple(dict.fromkeys(s.note for s in scores if s.note))
    chances = [s.chance for s in scores if s.chance is not None]
    whole = Score(
        metric,
        group_name(),
        float(np.mean([s.value for s in scores])),
        sum(s.n for s in scores),
        protocol,
        scenes=together if all(np.isfinite(s.value) for s in scores) else None,
        chance=float(np.mean(chances)) if len(chances) == len(scores) else None,
        note="; ".join(notes) or None,
    )
    found = [replace(s, scenes=None) if np.isnan(s.value) else s for s in scores]
    found.append(whole)
    weights = np.asarray(together.weights)
    for i, scene in enumerate(together.scenes):
        column = together.cells[:, i]
        known = np.isfinite(column) & (weights[:, i] > 0)
        if known.any():
            n = int(weights[known, i].sum())
            found.append(Score(metric, group_name(scene=scene), float(column[known].mean()), n, protocol))
    return found


def _union(tables: Sequence[SceneValues]) -> SceneValues:
    """Combine the scene values of benchmarks in one table: rows are benchmarks, columns are scenes."""
    kinds = {s: k for t in tables for s, k in zip(t.scenes, t.kinds, strict=True)}
    scenes = tuple(kinds)
    place = {s: i for i, s in enumerate(scenes)}
    cells = np.full((len(tables), len(scenes)), np.nan)
    weights = np.zeros((len(tables), len(scenes)))
    for row, t in enumerate(tables):
        at = [place[s] for s in t.scenes]
        cells[row, at] = t.cells[0]
        weights[row, at] = np.asarray(t.weights)[0]
    return SceneValues(scenes, tuple(kinds[s] for s in scenes), cells, weights)
