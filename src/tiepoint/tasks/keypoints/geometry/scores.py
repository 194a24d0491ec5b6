# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the homography protocols from their records, as the papers print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import Score, group_name
from ....geometry.corners import corner_error
from ....geometry.two_view.homography_errors import COLLAPSED, corner_distance, scaled_homography
from ....metrics.error_curves import accuracy, auc_exact, auc_rounded, auc_trapezoid
from ...scene_means import with_protocol
from .homographies import PRECISION_PX
from .protocols import HEADLINE_PX, LEFT_OUT, HomographyScoring, HomographySetting, protocol_under
from .score import format_threshold

Floats = NDArray[np.float64]
AREAS: Mapping[str, Callable[[Floats, float], float]] = {
    "exact": auc_exact,
    "trapezoid": auc_trapezoid,
    "rounded": auc_rounded,
}
"""Area under the recall curve of errors up to a threshold, by name of the rule."""


def score_homographies(records: Sequence[Records], name: str) -> list[Score]:
    """All scores under a protocol; `homography_auc` of group `all` is that of its first setting at 3 px."""
    if not records:
        return []
    protocol = protocol_under(name, records[0].meta["options"])
    used = [r for r in records if not (protocol.leaves_out and r.meta["scene"] in LEFT_OUT)]
    made: list[Score] = []
    for kind in (None, "i", "v"):
        chosen = [r for r in used if kind is None or is_of(str(r.meta["scene"]), kind, protocol.kinds)]
        if chosen and (kind is None or len(chosen) < len(used) or protocol.kinds == "contain"):
            parts = {} if kind is None else {"kind": kind}
            for number, setting in enumerate(protocol.settings):
                made += _setting(chosen, protocol.scoring, number, setting, parts, len(protocol.settings))
            made += _matches(chosen, parts, medians=name == "glue-factory")
    return with_protocol(_noted(made, name, len(records) - len(used)), name)


def is_of(scene: str, kind: str, rule: str) -> bool:
    """Whether a sequence is of kind `i` or `v`: by its first letters, or by not containing the other's.

    >>> is_of("ox_ubc", "v", "first"), is_of("ox_ubc", "v", "contain"), is_of("i_v_x", "v", "contain")
    (False, True, False)
    """
    return scene.startswith(f"{kind}_") if rule == "first" else {"i": "v_", "v": "i_"}[kind] not in scene


def corner_row_errors(
    record: Records, number: int, setting: HomographySetting, scoring: HomographyScoring
) -> Floats:
    """Corner errors in pixels of the rows of a setting, in order of pairs and repeats."""
    rows = np.flatnonzero(np.asarray(record["setting"]) == number)
    found = []
    for i in rows:
        at = int(record["pair"][i])
        H = record["H"][i].reshape(3, 3) if record["ok"][i] else None
        found.append(_error(H, record.meta["sizes"][at], record.meta["H"][at], setting, scoring))
    return np.array(found, np.float64)


def _error(
    H: Floats | None,
    sizes: Any,
    truth: Sequence[float],
    setting: HomographySetting,
    scoring: HomographyScoring,
) -> float:
    both = (int(sizes[0][0]), int(sizes[0][1])), (int(sizes[1][0]), int(sizes[1][1]))
    true = np.array(truth, np.float64).reshape(3, 3)
    if H is None and not scoring.collapsed:
        return float("inf")
    found = COLLAPSED if H is None else H
    resizes = setting.frame.resizes(both, single=setting.estimator.dtype == "float32")
    expected = scaled_homography(true, *resizes)
    unit = setting.frame.unit(both)
    if scoring.in_front:
        size = int(resizes[0].size[0]), int(resizes[0].size[1])
        return corner_error(found, expected, size) / unit
    dtype = np.float32 if scoring.single else np.float64
    return corner_distance(found, expected, resizes[0].size, edge=scoring.edge, dtype=dtype) / unit


def _setting(
    records: Sequence[Records],
    scoring: HomographyScoring,
    number: int,
    setting: HomographySetting,
    parts: Mapping[str, Any],
    settings: int,
) -> Iterator[Score]:
    """Areas and shares of one setting; the first stands without its name as well."""
    errors = np.concatenate([corner_row_errors(r, number, setting, scoring) for r in records])
    if not len(errors):
        return
    rows = [np.asarray(r["setting"]) == number for r in records]
    pairs = sum(len(r.meta["images"]) for r in records)
    failed = sum(int((~r["ok"][own]).sum()) for r, own in zip(records, rows, strict=True))
    inliers = np.concatenate([r["inliers"][own] for r, own in zip(records, rows, strict=True)])
    names: list[Mapping[str, Any]] = [{}] if number == 0 else []
    names += [setting.parts] if settings > 1 else []
    note = "not repeatable: this estimator has no seed" if setting.estimator.kind == "degensac" else None
    for own in names:
        for px in scoring.thresholds_px:
            area, share = AREAS[scoring.area](errors, px), accuracy(errors, px, strict=False)
            for metric, value in (("homography_auc", area), ("homography_accuracy", share)):
                group = group_name(**{**parts, **own, "tau_px": format_threshold(px)})
                yield Score(metric, group, value, pairs, note=note)
                if px == HEADLINE_PX:
                    yield Score(metric, group_name(**{**parts, **own}), value, pairs, note=note)
        yield Score("inliers", group_name(**{**parts, **own}), float(inliers.mean()), pairs, note=note)
        yield Score("failures", group_name(**{**parts, **own}), float(failed), pairs, note=note)


def _matches(records: Sequence[Records], parts: Mapping[str, Any], *, medians: bool) -> Iterator[Score]:
    """Numbers of matches, and the shares within each threshold of the truth; glue-factory prints medians."""
    counts = np.array([n for r in records for n in r.meta["matches"]], np.float64)
    middle = _median if medians else np.mean
    yield Score("putative_matches", group_name(**parts), float(middle(counts)), len(counts))
    within = np.array([row for r in records for row in r.meta["within"]], np.float64).reshape(-1, 2)
    if medians:
        shares = np.divide(within, counts[:, None], out=np.zeros_like(within), where=counts[:, None] > 0)
        for px, column in zip(PRECISION_PX, shares.T, strict=True):
            yield Score(
                "match_precision",
                group_name(**{**parts, "tau_px": format_threshold(px)}),
                _median(column),
                len(counts),
            )


def _median(values: Floats) -> float:
    return float(np.round(np.median(values), 3))


def _noted(scores: Sequence[Score], name: str, left_out: int) -> list[Score]:
    """The scores, those of group `all` with what was left out or cannot be compared."""
    told = [f"{left_out} sequences left out, as {name} does"] if left_out else []
    if name == "dad":
        told.append("dad prints illumination and viewpoint apart")
    if not told:
        return list(scores)
    note = "; ".join(told)
    return [replace(s, note=note) if s.group == "all" and s.metric == "homography_auc" else s for s in scores]
