# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `semantic/pck`, computed from its records: per pair, per point and per class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import Score, group_name
from ...geometry.areas import disc_share
from ...metrics.dense import points_right
from ...stats.intervals import MIN_IMAGES, image_interval
from ..options import parse_ascending
from ..scene_means import ratio_score, with_protocol
from ..steps import StepTable
from .protocols import PROTOCOLS, PckFrame, PckRule, errors_of, is_correct, length_of, make_pck_frame

Floats = NDArray[np.float64]
HEADLINE_ALPHA = 0.1
ABSENT = "points are carried from target to source: run with `back=yes`, or bring matches"


def score(records: Sequence[Records], protocol: str) -> list[Score]:
    """Return all scores under a protocol. Pairs without keypoints are skipped."""
    if not records:
        return []
    rule = PROTOCOLS[protocol]
    if all(r.meta["absent"] for r in records):
        return with_protocol([Score("pck", "all", float("nan"), 0, note=ABSENT)], protocol)
    used = [r for r in records if len(r)]
    if not used:
        return with_protocol([Score("pck", "all", float("nan"), 0, note="no pair has a keypoint")], protocol)
    exact = protocol == "exact"
    pairs = [make_pck_frame(r, rule, str(r.meta["length"]) if exact else "") for r in used]
    errors = [errors_of(p, rule) for p in pairs]
    made: list[Score] = []
    for alpha in parse_ascending([*rule.alphas, HEADLINE_ALPHA, *used[0].meta["alphas"]]):
        counts = np.array([_count(e, p, alpha, rule) for e, p in zip(errors, pairs, strict=True)], np.float64)
        chance = _chance(used, pairs, alpha) if exact else None
        made += _by_alpha(used, counts, alpha, chance, headline_words(used, rule, exact=exact))
        made += _ambiguous(used, pairs, errors, alpha, rule)
    made.sort(key=lambda s: s.group != "all")  # the headline first
    return with_protocol([*made, *_missing(used, len(records))], protocol)


def headline_words(records: Sequence[Records], rule: PckRule, *, exact: bool) -> str:
    """Return a description of the headline score."""
    named = {str(r.meta["length"]) if exact and r.meta["length"] else length_of(r, rule) for r in records}
    return f"alpha {HEADLINE_ALPHA}, length {' or '.join(sorted(named))}, mean over pairs"


def _count(error: Floats, pair: PckFrame, alpha: float, rule: PckRule) -> int:
    if rule.compare == "float64" and not rule.strict:
        return points_right(error, pair.length, alpha)
    return int(is_correct(error, pair.length, alpha, rule).sum())


def shares(records: Sequence[Records], rule: PckRule, alpha: float, length: str = "") -> Floats:
    """Return the PCK of each pair, (pairs,). NaN for pairs without keypoints."""
    made = []
    for r in records:
        pair = make_pck_frame(r, rule, length)
        n = len(r)
        made.append(_count(errors_of(pair, rule), pair, alpha, rule) / n if n else np.nan)
    return np.array(made, np.float64)


def _by_alpha(
    records: Sequence[Records], counts: Floats, alpha: float, chance: Floats | None, words: str
) -> list[Score]:
    """Return the scores at one alpha: means over pairs, points and classes; scores of each class and flag."""
    points = np.array([len(r) for r in records], np.float64)
    scenes = [str(r.meta["scene"]) for r in records]
    classes = [str(r.meta["category"]) for r in records]
    made: list[Score] = []
    for per in ("pair", "point"):
        parts = {"alpha": alpha, "per": per}
        score = ratio_score("pck", parts, scenes, classes, counts, points, per=per)
        weights = np.ones(len(points)) if per == "pair" else points
        if chance is not None:
            blind = float((chance * weights).sum() / weights.sum())
            score = replace(_with_interval(score, records, counts / points, weights), chance=blind)
        else:
            score = replace(score, scenes=None)
        made.append(score)
        if alpha == HEADLINE_ALPHA and per == "pair":
            note = "; ".join(part for part in (score.note, words) if part)
            made.insert(0, replace(score, group="all", note=note))
    values = counts / points
    names = sorted(set(classes))
    by_class = [float(values[np.array(classes) == c].mean()) for c in names]
    made.append(Score("pck", group_name(alpha=alpha, per="class"), float(np.mean(by_class)), len(names)))
    for name, value in zip(names, by_class, strict=True):
        if name:
            n = classes.count(name)
            made.append(Score("pck", group_name(alpha=alpha, category=name, per="pair"), value, n))
    made += _flags(records, values, alpha)
    return made


def _flags(records: Sequence[Records], values: Floats, alpha: float) -> Iterator[Score]:
    """Yield the mean PCK of the pairs with each value of each flag, such as `truncation`."""
    for flag in sorted({name for r in records for name in r.meta["flags"]}):
        own = np.array([str(r.meta["flags"].get(flag, "")) for r in records])
        for value in sorted(set(own.tolist()) - {""}):
            parts: dict[str, Any] = {"alpha": alpha, flag: value, "per": "pair"}
            chosen = own == value
            yield Score("pck", group_name(**parts), float(values[chosen].mean()), int(chosen.sum()))


def _with_interval(score: Score, records: Sequence[Records], values: Floats, weights: Floats) -> Score:
    """Return a score with an interval that resamples images within classes, or with a note.

    The note states that a class has too few images.
    """
    classes = [str(r.meta["category"]) for r in records]
    images = [(str(r.meta["images"][0]), str(r.meta["images"][1])) for r in records]
    found = image_interval(values, images, weights, classes=classes)
    if found is None:
        said = f"no interval: a class has fewer than {MIN_IMAGES} images, or all pairs have the same value"
        return replace(score, scenes=None, note="; ".join(p for p in (score.note, said) if p))
    said = "interval over images of the same classes"
    return replace(score, low=found[0], high=found[1], note="; ".join(p for p in (score.note, said) if p))


def _chance(records: Sequence[Records], pairs: Sequence[PckFrame], alpha: float) -> Floats:
    """Return the chance PCK of each pair: the share of the target image within each threshold disc."""
    n = [len(r) for r in records]
    truth = np.concatenate([np.asarray(p.truth, np.float64) for p in pairs])
    radius = np.repeat([alpha * p.length for p in pairs], n)
    sizes = np.repeat(np.array([r.meta["size"] for r in records], np.float64), n, axis=0)
    share = disc_share(truth, radius, sizes, steps=48)
    owner = np.repeat(np.arange(len(n)), n)
    return np.asarray(np.bincount(owner, weights=share) / np.array(n), np.float64)


def _ambiguous(
    records: Sequence[Records],
    pairs: Sequence[PckFrame],
    errors: Sequence[Floats],
    alpha: float,
    rule: PckRule,
) -> list[Score]:
    """Return PCK and share of ambiguous keypoints, which differ from another one only by left and right."""
    known = [i for i, r in enumerate(records) if (np.asarray(r["ambiguous"]) >= 0).all()]
    if not known:
        return []
    chosen = [np.asarray(records[i]["ambiguous"]) == 1 for i in known]
    n = int(sum(c.sum() for c in chosen))
    hits = 0
    for i, c in zip(known, chosen, strict=True):
        hits += int(is_correct(errors[i][c], pairs[i].length, alpha, rule).sum())
    note = None if len(known) == len(records) else f"{len(known)} of {len(records)} pairs have groups"
    group = group_name(alpha=alpha, geometry="ambiguous", per="point")
    made = [Score("pck", group, hits / n if n else float("nan"), n, note=note)]
    if alpha == HEADLINE_ALPHA:
        total = sum(len(c) for c in chosen)
        pairs_with = sum(bool(c.any()) for c in chosen)
        made.append(Score("ambiguous_pairs", "all", pairs_with / len(known), len(known), note=note))
        made.append(Score("ambiguous_points", "all", n / total, total, note=note))
    return made


def _missing(records: Sequence[Records], given: int) -> list[Score]:
    """Return the share of keypoints without an estimate, and the number of pairs without any estimate."""
    lost = [~np.isfinite(np.asarray(r["found"])).all(axis=1) for r in records]
    total = sum(len(x) for x in lost)
    share = sum(int(x.sum()) for x in lost) / total
    note = f"{given - len(records)} pairs have no keypoint" if given > len(records) else None
    return [
        Score("unanswered", "all", share, total),
        Score("failures", "all", float(sum(bool(x.all()) for x in lost)), len(records), note=note),
    ]


def convention_steps(records: Sequence[Records]) -> list[StepTable]:
    """Return the PCK at 0.1 per pair after each step from a tool's convention to `exact`."""
    used = [r for r in records if len(r)]
    if not used:
        return []
    tables = []
    for name, rule in PROTOCOLS.items():
        if name == "exact" or rule.back:
            continue
        steps: list[tuple[str, float]] = []
        for words, changed, length in _walk(name, rule, str(used[0].meta["length"])):
            value = float(np.nanmean(shares(used, changed, HEADLINE_ALPHA, length)))
            steps.append((words, value))
        tables.append(StepTable("pck", steps, f"{name} to exact, alpha={HEADLINE_ALPHA}"))
    return tables


def _walk(name: str, rule: PckRule, length: str) -> Iterator[tuple[str, PckRule, str]]:
    """Yield the steps from a tool's convention to `exact`: (change, rule, reference length)."""
    original = replace(rule, frame="original", box_scale="both")
    bare = replace(original, padding=False, lengths={})
    precise = replace(bare, compare="float64", single_length=False)
    yield name, rule, ""
    yield "frame: original pixels", original, ""
    yield "length: without padding, as exact", bare, length
    yield "precision: float64", precise, length
    yield "rim: an error of exactly alpha L is right", replace(precise, strict=False), length
