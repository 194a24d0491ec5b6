# SPDX-License-Identifier: BSD-3-Clause
"""Scores of TSS, computed from the values of all pairs: by subset, over subsets, over pairs, by flip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import SceneCurves, SceneValues, Score, group_name
from ...methods.dense.files import NO_FOLDER, missing_pairs_message
from ..dense.options import mean_note
from .compare import THRESHOLDS

KIT = ("tss-cpp", "tss-matlab")
Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
HEADLINE = 5


@dataclass(frozen=True)
class TssPairValues:
    """Values of p pairs in both directions (axis 1: 1 to 2, 2 to 1). Undefined values are NaN.

    `counted_flow` (p, 2) and `counted_mask` (p,) select the directions and pairs that enter the means.
    Missing values are not counted. A counted but undefined value makes the means of the kit NaN. `absent`
    selects the pairs without a results folder.
    """

    keys: tuple[str, ...]
    subsets: tuple[str, ...]
    flips: NDArray[np.int64]
    names: tuple[tuple[str, str], ...]
    accuracy: Values
    iou: Values
    pixel_accuracy: Values
    aepe_px: Values
    counted_flow: Flags
    counted_mask: Flags
    listed: Flags
    absent: Flags


def pair_table(records: Sequence[Records], protocol: str) -> TssPairValues:
    """Return the values of all pairs, sorted by subset and name.

    Missing flows or masks count as wrong with ``missing=zero`` and are excluded otherwise. If a pair has only
    one flow, the other direction is missing; the kit's protocols drop both flows with ``missing=zero``. A
    pair with unreadable ground truth is excluded. A pair without a results folder is excluded under the kit's
    protocols. Under `exact` it counts as wrong with ``missing=zero``.
    """
    ordered = sorted(records, key=lambda r: (r.meta["subset"], r.meta["pair"]))
    rows = [_pair(r, protocol) for r in ordered]
    return TssPairValues(
        tuple(f"{r.meta['subset']}/{r.meta['pair']}" for r in ordered),
        tuple(str(r.meta["subset"]) for r in ordered),
        np.array([int(r.meta["flip"]) for r in ordered], np.int64),
        tuple((str(r.meta["src"]), str(r.meta["ref"])) for r in ordered),
        np.stack([r[0] for r in rows]),
        np.stack([r[1] for r in rows]),
        np.stack([r[2] for r in rows]),
        np.stack([r[3] for r in rows]),
        np.stack([r[4] for r in rows]),
        np.array([r[5] for r in rows], bool),
        np.array([_listed(r, protocol) for r in ordered], bool),
        np.array([bool(r.meta["absent"]) for r in ordered], bool),
    )


def _listed(r: Records, protocol: str) -> bool:
    """Return whether a pair is scored: it has ground truth and, under the kit's protocols, results."""
    return "no_truth" not in r.meta and not (r.meta["absent"] and protocol in KIT)


def _pair(r: Records, protocol: str) -> tuple[Values, Values, Values, Values, Flags, bool]:
    zero = r.meta["missing"] == "zero" and _listed(r, protocol)
    has_flow, has_mask = np.asarray(r["has_flow"], bool), bool(r["has_mask"].all())
    empty = 0.0 if zero else np.nan
    no_flow = 1.0 if zero and r.meta.get("complement") else empty
    iou, pixel_accuracy = np.full(2, empty), np.full(2, empty)
    with np.errstate(invalid="ignore", divide="ignore"):
        # The kit's own expression: 1 - wrong/n and right/n may differ in the last bit.
        wrong = (r["valid"][:, None] - r["correct"]) / r["valid"][:, None]
        right = wrong if r.meta.get("complement") else 1.0 - wrong
        accuracy = np.where(has_flow[:, None], right, no_flow)
        aepe_px = np.where(has_flow, r["error_sum_px"] / r["known"], np.nan)
        if has_mask:
            iou = r["intersection"] / r["union"]
            pixel_accuracy = 1.0 - r["differing"] / r["pixels"]
    return accuracy, iou, pixel_accuracy, aepe_px, has_flow | zero, has_mask or zero


@dataclass(frozen=True)
class _Scope:
    """A named group of pairs, split into `cells`. Scores are averaged within each cell, then over cells."""

    parts: dict[str, str | int]
    cells: tuple[Flags, ...]


def score(records: Sequence[Records], protocol: str) -> list[Score]:
    """Return all scores under a protocol.

    Group ``all`` is the unweighted mean of the subset means. Group ``weighting=pairs`` is the mean over all
    pairs. The literature uses both, and they differ. Group ``flip=0`` excludes mirrored pairs. Without a part
    ``threshold``, the threshold of flow accuracy is 5 % of the target image's larger side. The value of a
    pair is the mean of its two directions.
    """
    table = pair_table(records, protocol)
    strict = protocol in KIT
    scores: list[Score] = []
    seen = table.counted_flow.any(axis=1) & table.listed
    masked = table.counted_mask & table.listed
    accuracy = _accuracies(table, strict)
    named = {
        "iou": (_pair_means(table.iou, _there(table.iou, strict)), masked),
        "pixel_accuracy": (_pair_means(table.pixel_accuracy, _there(table.pixel_accuracy, strict)), masked),
        "flow_auc": (accuracy.mean(axis=1), seen),
        "aepe": (
            _pair_means(table.aepe_px, ~np.isnan(table.aepe_px)),
            seen & ~np.isnan(table.aepe_px).all(axis=1),
        ),
    }
    if protocol == "tss-matlab":
        del named["pixel_accuracy"]
    for scope in _scopes(table):
        headline = accuracy[:, HEADLINE - 1]
        scores.append(_score("flow_accuracy", scope, headline, seen, table, protocol, scenes=True))
        for metric, (values, counted) in named.items():
            scores.append(_score(metric, scope, values, counted, table, protocol, scenes=True))
        for k, t in enumerate(THRESHOLDS):
            part = _Scope({**scope.parts, "threshold": t}, scope.cells)
            scores.append(_score("flow_accuracy", part, accuracy[:, k], seen, table, protocol))
    use_prec = "pixel_accuracy" in named and any(r.meta.get("use_prec") for r in records)
    return [*scores, *_rows(table, protocol, use_prec=use_prec)]


def _accuracies(table: TssPairValues, strict: bool) -> Values:
    """Return the flow accuracy of every pair at each threshold, averaged over directions that have a flow."""
    counted = np.broadcast_to(table.counted_flow[:, :, None], table.accuracy.shape)
    return _pair_means(table.accuracy, counted & _there(table.accuracy, strict))


def _there(values: Values, strict: bool) -> Flags:
    """Return the mask of values that enter a pair's mean. Undefined values enter only if `strict`."""
    return np.ones(values.shape, bool) if strict else ~np.isnan(values)


def _pair_means(values: Values, there: Flags) -> Values:
    """Return the mean over the directions of each pair selected by `there`. NaN if both are missing."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0).sum(axis=1) / there.sum(axis=1))


def _scopes(table: TssPairValues) -> Iterator[_Scope]:
    subsets = sorted(set(table.subsets))
    inside = [np.array([s == name for s in table.subsets]) for name in subsets]
    for parts, keep in (({}, np.ones(len(table.keys), bool)), ({"flip": 0}, table.flips == 0)):
        cells = [flags & keep for flags in inside]
        yield _Scope(dict(parts), tuple(cells))
        yield _Scope({**parts, "weighting": "pairs"}, (keep,))
        for name, flags in zip(subsets, cells, strict=True):
            yield _Scope({**parts, "subset": name}, (flags,))


def _score(
    metric: str,
    scope: _Scope,
    values: Values,
    counted: Flags,
    table: TssPairValues,
    protocol: str,
    *,
    scenes: bool = False,
) -> Score:
    strict = protocol in KIT
    usable = counted if strict else counted & ~np.isnan(values)
    cells = [flags & usable for flags in scope.cells]
    filled = [c for c in cells if c.any()]
    value = (
        float(np.mean([sum(values[c].tolist()) / len(values[c]) for c in filled])) if filled else float("nan")
    )
    n = int(np.logical_or.reduce(cells).sum())
    note = _mean_note(metric, scope, counted, n, table, strict)
    rows = np.stack([np.where(c, values, np.nan) for c in cells])
    basis = None
    if scenes and np.isfinite(value):
        present = np.logical_or.reduce(cells)
        keys = tuple(k for k, p in zip(table.keys, present, strict=True) if p)
        kinds = tuple(s for s, p in zip(table.subsets, present, strict=True) if p)
        basis = SceneValues(keys, kinds, rows[[c.any() for c in cells]][:, present])
    return Score(metric, group_name(**scope.parts), value, n, protocol, scenes=basis, note=note)


def _mean_note(
    metric: str, scope: _Scope, counted: Flags, n: int, table: TssPairValues, strict: bool
) -> str | None:
    """Return a note if a mean excludes pairs or, for flow metrics, directions. None if it is complete."""
    inside = np.logical_or.reduce(scope.cells)
    total = int(inside.sum())
    unseen = strict and bool((inside & table.absent).any())
    reason = ": the kit does not see a pair without a results folder" if unseen else ""
    flows = int(table.counted_flow[inside & counted].sum())
    if metric in ("flow_accuracy", "flow_auc") and n and flows < 2 * n:
        return mean_note(flows, 2 * total, "flows", reason=reason)
    return mean_note(n, total, "pairs", reason=reason)


def _rows(table: TssPairValues, protocol: str, *, use_prec: bool) -> Iterator[Score]:
    """Yield the scores of each direction of each pair.

    The scores are the flow accuracy at the headline threshold, the IoU and, with `use_prec`, the pixel
    accuracy.
    """
    for i, key in enumerate(table.keys):
        if not table.listed[i]:
            continue
        for d, direction in enumerate(("1to2", "2to1")):
            group = group_name(pair=key, direction=direction)
            yield Score("flow_accuracy", group, float(table.accuracy[i, d, HEADLINE - 1]), 1, protocol)
            yield Score("iou", group, float(table.iou[i, d]), 1, protocol)
            if use_prec:
                yield Score("pixel_accuracy", group, float(table.pixel_accuracy[i, d]), 1, protocol)


def scene_curves(records: Sequence[Records], protocol: str) -> Iterator[SceneCurves]:
    """Compute curves of flow accuracy against threshold: of each subset, and their mean."""
    if not records:
        return
    table = pair_table(records, protocol)
    accuracy = _accuracies(table, protocol in KIT)
    keep = table.counted_flow.any(axis=1) & table.listed & ~np.isnan(accuracy).any(axis=1)
    for scope in [_Scope({}, (keep,)), *(s for s in _scopes(table) if set(s.parts) == {"subset"})]:
        at = np.flatnonzero(np.logical_or.reduce(scope.cells) & keep)
        if not len(at):
            continue
        of = tuple(table.subsets[i] for i in at)
        yield SceneCurves(
            group_name(**scope.parts),
            "flow_accuracy",
            np.array(THRESHOLDS, np.float64),
            tuple(table.keys[i] for i in at),
            of,
            accuracy[at],
            np.array([1.0 / of.count(s) for s in of]),
        )


def record_warnings(records: Sequence[Records]) -> list[str]:
    """Return one warning per kind of unusual result, with the number of pairs and pixels.

    >>> r = Records("pixel", {}, {"warnings": [["flow1 has NaN", 3]]})
    >>> record_warnings([r, r])
    ['flow1 has NaN: 2 of 2 pairs, 6 pixels']
    """
    pairs: dict[str, int] = {}
    pixels: dict[str, int] = {}
    for r in records:
        for text, count in r.meta.get("warnings", ()):
            pairs[text] = pairs.get(text, 0) + 1
            pixels[text] = pixels.get(text, 0) + int(count or 0)
    pairs.pop(NO_FOLDER, None)
    absent = sorted(str(r.meta["scene"]) for r in records if r.meta.get("absent"))
    found = [missing_pairs_message(absent, len(records))] if absent else []
    flows: dict[str, bool] = {}
    for r in records:
        if r.meta.get("missing") == "skip" and "has_flow" in r.columns:
            subset = str(r.meta["subset"])
            flows[subset] = flows.get(subset, False) or bool(r["has_flow"].any())
    found += [
        f"subset {s} has no pair with flows and is not in the flow accuracy of all"
        for s, any_flow in flows.items()
        if not any_flow
    ]
    return found + [
        f"{text}: {n} of {len(records)} pairs" + (f", {pixels[text]} pixels" if pixels[text] else "")
        for text, n in sorted(pairs.items())
    ]
