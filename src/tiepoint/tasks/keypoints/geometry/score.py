# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/geometry`: means over image pairs, by threshold, matcher and estimator.

The headline uses MAGSAC with mutual neighbours or with the matches that a method returns. Other matchers and
estimators have separate groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import Score, group_name
from ....geometry.homography import corner_error
from ....geometry.two_view.homography_errors import COLLAPSED, corner_distance, scaled_homography
from ....metrics.error_curves import (
    accuracy,
    auc_exact,
    auc_rounded,
    auc_trapezoid,
    homography_accuracy,
    homography_auc,
)
from ....metrics.repeatability import matching_score, repeatability
from ...cases import Cases, Floats
from ...scene_means import SceneSums, by_scene, micro_score, with_protocol
from ..data import image_cases, scene_records
from .protocols import HEADLINE_PX, LEFT_OUT, HomographyScoring, HomographySetting, protocol_under

THRESHOLDS_PX = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
HOMOGRAPHY_PX = (1, 3, 5)
OWN_MATCHER = "own"
"""Name of the user's matcher in columns and groups."""
GIVEN = "given"
"""Column name of the matches that a method for image pairs returns."""
_DEFAULT = {"matcher": ("mutual", GIVEN), "estimator": ("magsac",)}

Values = Callable[[Records], NDArray[np.float64]]


D2NET = "d2net"


D2NET_LIMITS_PX = tuple(range(1, 16))


D2NET_PAIRS = 5
"""Number of image pairs in a sequence."""


PRECISION_PX = (1.0, 3.0)


def geometry_thresholds(options: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the thresholds in pixels: 1 to 10 and those that the options of the records add.

    >>> geometry_thresholds({"tau_px": [0.5, 3]})[:4].tolist()
    [0.5, 1.0, 2.0, 3.0]
    """
    return np.array(sorted({*THRESHOLDS_PX, *options.get("tau_px", ())}), np.float64)


def format_threshold(px: float) -> int | float:
    """Return a threshold as used in group names: 3 instead of 3.0.

    >>> format_threshold(3.0), format_threshold(0.5)
    (3, 0.5)
    """
    return int(px) if px == int(px) else float(px)


def _sums(records: Sequence[Records], values: Values) -> SceneSums:
    """Return the sums over the pairs of each scene, ignoring NaN."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    found = [values(r) for r in records]
    total = np.array([np.nansum(v) for v in found])
    return SceneSums(scenes, kinds, total, np.array([np.isfinite(v).sum() for v in found], float))


def _emit(metric: str, sums: SceneSums, *, headline: bool = False, **parts: Any) -> list[Score]:
    """Return the scores of a metric over all pairs, by kind and by scene.

    Only scores of the default matcher and estimator are computed by kind, and only the headline by scene.
    """
    named = {k: v for k, v in parts.items() if v not in _DEFAULT.get(k, ())}
    scores = [micro_score(metric, sums, group=group_name(**named))]
    if not set(named) & set(_DEFAULT):
        for kind in sorted(set(sums.kinds)):
            scores.append(micro_score(metric, sums.of_kind(kind), group=group_name(kind=kind, **named)))
    if headline:
        scores.append(micro_score(metric, sums, group="all"))
        scores += by_scene(metric, sums)
    return scores


def _pairs(rule: Callable[[int, int, int], float], column: str, at: int) -> Values:
    def values(r: Records) -> NDArray[np.float64]:
        rows = zip(r[column][:, at], r["visible_first"], r["visible_second"], strict=True)
        return np.array([rule(int(n), int(a), int(b)) for n, a, b in rows])

    return values


def _mean_error(at: int) -> Values:
    def values(r: Records) -> NDArray[np.float64]:
        count = r["corresponding"][:, at].astype(float)
        out = np.full(len(count), np.nan)
        return np.divide(r["error_sum_px"][:, at], count, out=out, where=count > 0)

    return values


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Return all scores of `exact`. For matches without keypoints, omit the scores of keypoints."""
    scores: list[Score] = []
    if not records:
        return scores
    matchers = [m for m in (GIVEN, "mutual", "nn", "ratio", OWN_MATCHER) if _has(records, f"putative_{m}")]
    for at, limit in enumerate(geometry_thresholds(records[0].meta.get("options", {}))):
        tau = format_threshold(float(limit))
        head = tau == HEADLINE_PX
        if _has(records, "corresponding"):
            found = _sums(records, _pairs(repeatability, "corresponding", at))
            scores += _emit("repeatability", found, headline=head, tau_px=tau)
            scores += _emit(
                "localisation_error_px", _sums(records, _mean_error(at)), headline=head, tau_px=tau
            )
        for matcher in matchers:
            main = head and matcher in _DEFAULT["matcher"]
            if _has(records, f"placed_{matcher}"):
                found = _sums(records, _pairs(matching_score, f"placed_{matcher}", at))
                scores += _emit("matching_score", found, headline=main, tau_px=tau, matcher=matcher)
            found = _sums(records, lambda r, m=matcher, i=at: r[f"accuracy_{m}"][:, i])  # type: ignore[misc]
            scores += _emit("mma", found, headline=main, tau_px=tau, matcher=matcher)
    for matcher in matchers:
        found = _sums(records, lambda r, m=matcher: r[f"putative_{m}"].astype(float))  # type: ignore[misc]
        scores += _emit("putative_matches", found, matcher=matcher)
        for estimator in ("magsac", "ransac"):
            scores += _homographies(records, matcher, estimator)
    return with_protocol(list({(s.metric, s.group): s for s in scores}.values()), "exact")


def _has(records: Sequence[Records], column: str) -> bool:
    return all(column in r.columns for r in records)


def _homographies(records: Sequence[Records], matcher: str, estimator: str) -> list[Score]:
    """Return scores of inlier counts and corner errors: means, AUC, and shares below thresholds.

    If the records have the mean error over all four corners, the groups ``corners=4`` use that error.
    """
    name = f"{matcher}_{estimator}"
    parts: dict[str, Any] = {"matcher": matcher, "estimator": estimator}
    found = _sums(records, lambda r: r[f"inliers_{name}"].astype(float))
    scores = _emit("inliers", found, **parts)
    rules = {"homography_auc": homography_auc, "homography_accuracy": homography_accuracy}
    kinds: list[tuple[str, dict[str, Any]]] = [(f"corner_px_{name}", {})]
    if _has(records, f"corners4_px_{name}"):
        kinds.append((f"corners4_px_{name}", {"corners": 4}))
    more = {format_threshold(float(px)) for px in records[0].meta.get("options", {}).get("tau_px", ())}
    for tau in sorted({*HOMOGRAPHY_PX, *more}):
        for column, extra in kinds:
            default = all(parts[k] in v for k, v in _DEFAULT.items())
            main = tau == HEADLINE_PX and default and not extra
            for metric, rule in rules.items():
                # Both are means over pairs, so the value of one pair is the rule applied to it alone.
                found = _sums(
                    records,
                    lambda r, f=rule, t=tau, c=column: np.array([f([e], t) for e in r[c]]),  # type: ignore[misc]
                )
                scores += _emit(metric, found, headline=main, tau_px=tau, **parts, **extra)
    return scores


D2NET_SEQUENCES: Mapping[str, Mapping[str, int]] = {
    "108": {"i": 52, "v": 56, "": 108},
    "116": {"i": 57, "v": 59, "": 116},
}
"""Numbers of sequences by which D2-Net divides, even if the data lacks sequences."""


def d2net_thresholds(options: Mapping[str, Any]) -> list[float]:
    """Return the thresholds of D2-Net in pixels: 1 to 15 and those that the options add."""
    return sorted({*D2NET_LIMITS_PX, *options.get("tau_px", ())})


def counted_records(records: Sequence[Records]) -> tuple[list[Records], str]:
    """Return the records of the requested sequences, and the number of sequences: `108` or `116`."""
    which = str(records[0].meta["options"].get("sequences") or "108") if records else "108"
    return [r for r in records if which == "116" or r.meta["scene"] not in LEFT_OUT], which


def score_d2net(records: Sequence[Records]) -> list[Score]:
    """Compute `mma` with the fixed divisors of D2-Net, and `mma_of_pairs` over the existing pairs."""
    if not records:
        return []
    return with_protocol(list(_d2net_scores(*counted_records(records))), D2NET)


def _d2net_scores(records: Sequence[Records], which: str) -> Iterator[Score]:
    limits = d2net_thresholds(records[0].meta["options"]) if records else []
    for kind, sequences in D2NET_SEQUENCES[which].items():
        # D2-Net treats every name that does not begin with i as viewpoint
        own = [r for r in records if not kind or (str(r.meta["scene"])[0] == "i") == (kind == "i")]
        pairs = sum(len(r) for r in own)
        sums = np.sum([r["accuracy"].sum(axis=0) for r in own], axis=0) if own else np.zeros(len(limits))
        parts: dict[str, Any] = {"kind": kind} if kind else {}
        note = None
        if pairs != sequences * D2NET_PAIRS:
            note = f"divided by {sequences * D2NET_PAIRS} pairs; there are {pairs}"
        for at, px in enumerate(limits):
            constant = Score(
                "mma",
                group_name(**parts, tau_px=format_threshold(px)),
                float(sums[at]) / (sequences * D2NET_PAIRS),
                pairs,
                note=note,
            )
            mean = float(sums[at] / pairs) if pairs else float("nan")
            found = [constant, Score("mma_of_pairs", constant.group, mean, pairs)]
            yield from found
            if px == HEADLINE_PX:
                for score in found:
                    yield Score(score.metric, group_name(**parts), score.value, pairs, note=score.note)
        matches = [float(n) for r in own for n in r["matches"]]
        mean = float(np.mean(matches)) if matches else float("nan")
        yield Score("putative_matches", group_name(**parts), mean, pairs)


AREAS: Mapping[str, Callable[[Floats, float], float]] = {
    "exact": auc_exact,
    "trapezoid": auc_trapezoid,
    "rounded": auc_rounded,
}
"""Functions that compute the area under the recall curve up to a threshold, by name."""


def score_homographies(records: Sequence[Records], name: str) -> list[Score]:
    """Compute the scores of a paper's homography protocol.

    `homography_auc` of group `all` uses the first setting at 3 px.
    """
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
                made += _setting_scores(
                    chosen, protocol.scoring, number, setting, parts, len(protocol.settings)
                )
            made += _match_scores(chosen, parts, medians=name == "glue-factory")
    return with_protocol(_noted(made, name, len(records) - len(used)), name)


def is_of(scene: str, kind: str, rule: str) -> bool:
    """Return whether a sequence is of kind `i` or `v`.

    The rule `first` checks the prefix of the name. The rule `contain` checks that the name does not contain
    the prefix of the other kind.

    >>> is_of("ox_ubc", "v", "first"), is_of("ox_ubc", "v", "contain"), is_of("i_v_x", "v", "contain")
    (False, True, False)
    """
    return scene.startswith(f"{kind}_") if rule == "first" else {"i": "v_", "v": "i_"}[kind] not in scene


def corner_row_errors(
    record: Records, number: int, setting: HomographySetting, scoring: HomographyScoring
) -> Floats:
    """Return the corner errors in pixels of all estimates of a setting, in order of pairs and repeats."""
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


def exact_area(record: Records, name: str, px: float) -> float:
    """Return the exact area under a scene's recall curve, for the first setting of a paper's protocol."""
    protocol = protocol_under(name, record.meta["options"])
    errors = corner_row_errors(record, 0, protocol.settings[0], protocol.scoring)
    return auc_exact(errors, px)


def _setting_scores(
    records: Sequence[Records],
    scoring: HomographyScoring,
    number: int,
    setting: HomographySetting,
    parts: Mapping[str, Any],
    settings: int,
) -> Iterator[Score]:
    """Yield the scores of one setting. The first setting also has scores without its name in the group."""
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


def _match_scores(records: Sequence[Records], parts: Mapping[str, Any], *, medians: bool) -> Iterator[Score]:
    """Yield the mean number of matches. With `medians`, also yield the median number and the precision.

    glue-factory prints these medians.
    """
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
    """Add notes to `homography_auc` of group `all`: on excluded sequences, and on what `dad` prints."""
    told = [f"{left_out} sequences left out, as {name} does"] if left_out else []
    if name == "dad":
        told.append("dad prints illumination and viewpoint separately, without this mean")
    if not told:
        return list(scores)
    note = "; ".join(told)
    return [replace(s, note=note) if s.group == "all" and s.metric == "homography_auc" else s for s in scores]


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the images of a scene, scored by the share of mutual or given matches within 3 px."""
    if (r := scene_records(records, scene)) is None:
        return None
    matcher = _case_matcher(r)
    at = int(np.flatnonzero(geometry_thresholds(r.meta.get("options", {})) == HEADLINE_PX)[0])
    return image_cases(r.meta["images"], np.asarray(r[f"accuracy_{matcher}"][:, at], np.float64))


def match_count(records: Sequence[Records], scene: str, key: str) -> int | None:
    """Return the number of mutual or given matches between an image and the reference. None if unknown."""
    if (r := scene_records(records, scene)) is None or key not in r.meta["images"]:
        return None
    return int(r[f"putative_{_case_matcher(r)}"][r.meta["images"].index(key)])


def _case_matcher(records: Records) -> str:
    return GIVEN if f"accuracy_{GIVEN}" in records.columns else "mutual"
