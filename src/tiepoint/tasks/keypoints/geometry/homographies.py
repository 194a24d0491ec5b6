# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of the homography protocols: estimator calls on matches, every homography kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import Score, group_name
from ....geometry.homography import corner_error
from ....geometry.two_view.homography_errors import (
    COLLAPSED,
    corner_distance,
    scaled_homography,
    transfer_distances,
)
from ....geometry.two_view.linear_estimation import HomographyEstimate, estimate_homography
from ....geometry.two_view.pose_estimation import shuffles
from ....metrics.error_curves import accuracy, auc_exact, auc_rounded, auc_trapezoid
from ...pairs.data import PairMatches
from ...scene_means import with_protocol
from .protocols import (
    HEADLINE_PX,
    LEFT_OUT,
    HomographyProtocol,
    HomographyScoring,
    HomographySetting,
    protocol_under,
)
from .score import format_threshold

PRECISION_PX = (1.0, 3.0)
KINDS: Mapping[str, Any] = {
    "pair": np.int16, "setting": np.int16, "repeat": np.int16, "H": np.float64, "ok": bool,
    "inliers": np.int32,
}  # fmt: skip


def homography_records(
    opened: Any, scene: str, features: Features, protocol: HomographyProtocol, comparison: str
) -> Records:
    """Homographies of a scene's pairs, one row an estimator call, under every setting of a protocol.

    H of a row maps resized images where the frame of its setting resizes them.
    """
    sequences = opened.sequences
    first, *others = sequences.images(scene)
    rows: dict[str, list[Any]] = {name: [] for name in KINDS}
    about: dict[str, list[Any]] = {"sizes": [], "H": [], "matches": [], "scored": [], "within": []}
    for pair, k in enumerate(others):
        sizes = sequences.size(scene, first), sequences.size(scene, k)
        truth = sequences.homography(scene, k)
        given = opened.matches(features, scene, k)
        for number, setting in enumerate(protocol.settings):
            if not is_installed(setting):
                continue
            used = opened.matches(features, scene, k, exact=True) if setting.order == "exact" else given
            for repeat, made in enumerate(_homographies(used, setting, sizes, opened.options, scene, k)):
                values = (pair, number, repeat, made.H.reshape(9), made.ok, made.inliers)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
        about["sizes"].append([list(size) for size in sizes])
        about["H"].append(truth.ravel().tolist())
        about["matches"].append(len(given))
        about["scored"].append(given.confidence is not None)
        about["within"].append(_within(given, protocol.settings[0], sizes, truth))
    columns = {name: np.asarray(values, KINDS[name]) for name, values in rows.items()}
    columns["H"] = columns["H"].reshape(-1, 9)
    meta = {
        "scene": scene, "kind": sequences.kind(scene), "images": others, "protocol": comparison,
        "options": opened.options.settings(), **about,
    }  # fmt: skip
    return Records("pair", columns, meta)


def is_installed(setting: HomographySetting) -> bool:
    """Whether a setting can be called: pydegensac is used where it is installed."""
    return setting.estimator.kind != "degensac" or find_spec("pydegensac") is not None


def _homographies(
    matches: PairMatches, setting: HomographySetting, sizes: Any, options: Any, scene: str, k: str
) -> Iterator[HomographyEstimate]:
    """The estimates of all repeats of a setting."""
    if setting.top is not None and matches.confidence is not None:
        matches = matches.best(setting.top, f"{scene}/1-{k}")
    x0, x1 = _in_frame(matches, setting, sizes)
    scale = setting.frame.threshold_unit(sizes)
    estimator = replace(setting.estimator, threshold_px=setting.estimator.threshold_px * scale)
    weighted = matches.confidence is not None and estimator.kind == "dlt"
    for order in _orders(len(matches), setting, options.permutation_seed):
        weights = matches.confidence[order] if weighted and matches.confidence is not None else None
        yield estimate_homography(estimator, x0[order], x1[order], weights=weights)


def _orders(n: int, setting: HomographySetting, seed: int) -> Iterator[NDArray[Any]]:
    if setting.order == "shuffled":
        yield from shuffles(n, setting.repeats, seed)
    else:
        yield from (np.arange(n) for _ in range(setting.repeats))


def _in_frame(
    matches: PairMatches, setting: HomographySetting, sizes: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    dtype = setting.estimator.dtype
    resizes = setting.frame.resizes(sizes, single=dtype == "float32")
    made = [
        points.astype(dtype) * np.asarray(resize.scale, dtype)
        for points, resize in zip((matches.points0, matches.points1), resizes, strict=True)
    ]
    return made[0], made[1]


def _within(
    matches: PairMatches, setting: HomographySetting, sizes: Any, truth: NDArray[np.float64]
) -> list[int]:
    """Numbers of matches whose mean transfer error is below each of `PRECISION_PX` in the setting's frame."""
    resizes = setting.frame.resizes(sizes, single=setting.estimator.dtype == "float32")
    with np.errstate(all="ignore"):
        d = transfer_distances(*_in_frame(matches, setting, sizes), scaled_homography(truth, *resizes))
    return [int((d / setting.frame.unit(sizes) < px).sum()) for px in PRECISION_PX]


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
