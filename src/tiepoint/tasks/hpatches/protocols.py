# SPDX-License-Identifier: BSD-3-Clause
"""Scoring rules of the two 2017 tools, as switches. With all switches off, the protocol is `exact`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ...core.errors import InputError, UnknownNameError
from ...core.records import Records
from ...core.scores import Score, group_name

PROTOCOLS = ("exact", "hpatches-python", "hpatches-matlab")
VERIFICATION, MATCHING, RETRIEVAL = "verification", "matching", "retrieval"
PRECISION_FLOOR = 1e-10


def _rule(tools: str, tasks: str, about: str) -> Any:
    return field(default=False, metadata={"tools": tools.split(), "tasks": tasks.split(), "about": about})


@dataclass(frozen=True)
class HPatchesRules:
    """Scoring rules of a protocol: switches for the differences from `exact`. See docs/tasks/hpatches.md.

    One difference is not reproduced. The tools rank retrieval distractors and matching targets by float32
    squares (MATLAB) or float64 roots (Python). Here all protocols rank by the distance computed in float64,
    so ties caused only by the tools' rounding are missing: records contain counts instead of distances. For
    random descriptors this changes the average precision by less than 1e-6. Adversarial descriptors can
    change it more.

    >>> [hpatches_rules(p).trapezoid for p in PROTOCOLS]
    [False, True, False]
    """

    trapezoid: bool = _rule(
        "python", "verification matching retrieval", "AP is the trapezoid under the raw curve from (0, 1)"
    )
    precision_floor: bool = _rule(
        "python",
        "verification matching retrieval",
        "before the first right item the precision is 1e-10 / rank",
    )
    negatives_first: bool = _rule("python", "verification", "negatives stand before equally near positives")
    positives_first: bool = _rule("matlab", "verification", "positives stand before equally near negatives")
    retrieval_positives_first: bool = _rule(
        "python matlab", "retrieval", "the five right ones stand before equally near distractors"
    )
    lowest_index_match: bool = _rule(
        "python matlab", "matching", "the first of equally near targets is the match"
    )
    file_order: bool = _rule("python matlab", "matching", "equally near matches stay in order of the patches")
    rooted: bool = _rule(
        "python", "verification matching", "l2 distances are roots, which single precision merges"
    )
    single_precision: bool = _rule("python matlab", "verification", "distances are float32")
    single_differences: bool = _rule(
        "python", "verification", "differences of float32 coordinates are float32 before they are squared"
    )
    single_sums: bool = _rule(
        "python", "verification", "l1 and masked l1 of float32 descriptors are added in float32"
    )
    double_stays: bool = _rule(
        "python", "verification", "distances of float64 descriptors (after the tool's --pcapl) stay float64"
    )
    single_precision_match: bool = _rule("matlab", "matching", "distances of matches are float32")
    roc_stops: bool = _rule("python matlab", "verification", "the ROC curve ends at the last finite distance")
    nan_first: bool = _rule("matlab", "verification retrieval", "failures (NaN) stand before all others")
    stops_at_failures: bool = _rule(
        "python",
        "verification matching retrieval",
        "no number exists where the tool stops: a failure (NaN) among targets of matching, queries of "
        "retrieval, pairs of l2 verification",
    )
    infinity_is_far: bool = _rule(
        "python", "matching", "a row with infinity is an ordinary point that is infinitely far"
    )
    failed_match_is_first: bool = _rule(
        "python", "matching", "a patch without any finite distance is matched to the first target"
    )
    ratio_nan_first: bool = _rule(
        "matlab", "matching", "a ratio of 0/0 (NaN) stands before all others, and alone it is not retrieved"
    )
    sequence_weighted: bool = _rule(
        "python", "matching", "mean over sequences whatever their kind, not over six cells"
    )
    all_sequences: bool = _rule("matlab", "matching", "all sequences of the dataset whatever the split")
    pool_counts_positives: bool = _rule("python", "retrieval", "a pool of k holds the five right ones too")
    pool_before_exclusion: bool = _rule(
        "matlab", "retrieval", "a pool of k is cut before distractors of the query's sequence are left out"
    )
    mean_over_pools: bool = _rule(
        "python", "retrieval", "the one number is the mean over seven pool sizes, not that of the largest"
    )


def hpatches_rules(protocol: str) -> HPatchesRules:
    """Return the scoring rules of a protocol.

    >>> hpatches_rules("exact") == HPatchesRules()
    True
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol of HPatches", protocol, PROTOCOLS)
    tool = protocol.removeprefix("hpatches-")
    return HPatchesRules(**{f.name: tool in f.metadata["tools"] for f in fields(HPatchesRules)})


def floored_area(before: Any, positives: Any) -> Any:
    """Return the area that the Python tool's floor of 1e-10 true positives adds to an average precision.

    `before` is the number of wrong items before the first correct one, `positives` the number of correct
    items. The trapezoid up to the first correct item starts at the precision 1e-10 / `before` instead of 0,
    and has the width 1 / `positives`.

    >>> f"{floored_area(4, 5):.3g}"
    '2.5e-12'
    """
    return np.where(before > 0, PRECISION_FLOOR / np.maximum(before, 1) / positives / 2, 0.0)[()]


def without_numbers(scores: Sequence[Score], reason: str | None) -> list[Score]:
    """Return the scores.

    If a `reason` is given, all their values are NaN and their notes state the reason.
    """
    if reason is None:
        return list(scores)
    none: dict[str, Any] = {"value": float("nan"), "low": None, "high": None, "scenes": None, "pooled": None}
    said = f'no number exists: {reason}; rows of zeros do not stop it with `on_bad="keep-zeros"`'
    return [replace(s, **none, note=said) for s in scores]


Steps = tuple[tuple[str, dict[str, bool]], ...]
_STEPS: dict[str, Steps] = {
    VERIFICATION: (
        ("TREC average precision", {"trapezoid": False, "precision_floor": False}),
        ("positives first in ties", {"negatives_first": False, "positives_first": True}),
        (
            "hpatches-matlab (squared distances, failures first)",
            {
                "rooted": False,
                "single_differences": False,
                "single_sums": False,
                "double_stays": False,
                "stops_at_failures": False,
                "nan_first": True,
            },
        ),
        ("full precision", {"single_precision": False}),
        ("expectation over random orders of ties", {"positives_first": False}),
        ("exact (a failed descriptor is a miss)", {"nan_first": False, "roc_stops": False}),
    ),
    MATCHING: (
        ("mean of six cells (matplotlib-fig branch)", {"sequence_weighted": False}),
        ("TREC average precision", {"trapezoid": False, "precision_floor": False}),
        (
            "hpatches-matlab (float32 squares, a failed target only misses, all sequences at hand)",
            {
                "rooted": False,
                "single_precision_match": True,
                "stops_at_failures": False,
                "infinity_is_far": False,
                "failed_match_is_first": False,
                "ratio_nan_first": True,
                "all_sequences": True,
            },
        ),
        ("sequences of the split", {"all_sequences": False}),
        ("full precision", {"single_precision_match": False}),
        (
            "exact (expectation over random orders of ties)",
            {"lowest_index_match": False, "file_order": False, "ratio_nan_first": False},
        ),
    ),
    RETRIEVAL: (
        ("largest pool only, not the mean over seven", {"mean_over_pools": False}),
        ("TREC average precision", {"trapezoid": False, "precision_floor": False}),
        (
            "hpatches-matlab (all distractors, failures first)",
            {
                "pool_counts_positives": False,
                "pool_before_exclusion": True,
                "stops_at_failures": False,
                "nan_first": True,
            },
        ),
        ("a failed descriptor is a miss", {"nan_first": False}),
        (
            "exact (expectation over random orders of ties)",
            {"retrieval_positives_first": False, "pool_before_exclusion": False},
        ),
    ),
}
_START = {
    VERIFICATION: "hpatches-python (master)",
    MATCHING: "hpatches-python (master, weighted by sequences)",
    RETRIEVAL: "hpatches-python (matplotlib-fig branch: mean over seven pool sizes)",
}


def convention_steps(task: str) -> list[tuple[str, HPatchesRules]]:
    """Return the scoring rules after each step from `hpatches-python` via `hpatches-matlab` to `exact`.

    >>> steps = convention_steps("matching"); steps[0][1] == hpatches_rules("hpatches-python"), len(steps)
    (True, 7)
    """
    rules = hpatches_rules(PROTOCOLS[1])
    found = [(_START[task], rules)]
    for name, change in _STEPS[task]:
        rules = replace(rules, **change)
        found.append((name, rules))
    return found


def pool_groups(
    noises: Sequence[str], pools: Mapping[int, str], rules: HPatchesRules
) -> dict[str, list[tuple[int, int]]]:
    """Return the (noise, pool) combinations that each group of scores averages: by pool, by noise, and `all`.

    `pools` must be in ascending order of size.
    """
    head = list(pools) if rules.mean_over_pools else list(pools)[-1:]
    levels = range(len(noises))
    groups = {group_name(pool=label): [(z, s) for z in levels] for s, label in pools.items()}
    groups |= {group_name(noise=noises[z]): [(z, s) for s in head] for z in levels}
    return {**groups, "all": [(z, s) for z in levels for s in head]}


FORM = "ap"


def is_imported(records: Sequence[Records]) -> bool:
    """Return whether the records contain imported scores instead of distances."""
    return any(r.meta.get("form") == FORM for r in records)


def refuse_imported(records: Sequence[Records], what: str) -> None:
    """Raise an error that `what` needs distances if the records contain imported scores only."""
    if is_imported(records):
        raise InputError(
            f"{what} needs distances, but these results were imported as scores; run the method with "
            "tiepoint instead"
        )


def scored_as_imported(records: Sequence[Records], protocol: str) -> bool:
    """Return whether records are imported scores.

    Raise an error if they were imported under another protocol.
    """
    if not is_imported(records):
        return False
    made = records[0].meta["protocol"]
    if made != protocol:
        raise InputError(
            f"these results were imported as scores under {made}; they cannot be scored under {protocol}, "
            f'only under `protocol="{made}"`'
        )
    return True
