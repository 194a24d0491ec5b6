# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of `pose/relative`: estimator calls on the matches of one pair, every pose kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.records import Records
from ...datasets.image_pairs.pair import ImagePair
from ...geometry.two_view.canonical import canonical_order
from ...geometry.two_view.epipolar import essential, normalise_points
from ...geometry.two_view.epipolar_part import mean_distances, pixel_distances, squared_distances
from ...geometry.two_view.pose_errors import STABLE, has_baseline, pose_errors
from ...geometry.two_view.pose_estimation import Estimate, estimate, shuffles
from ...geometry.two_view.scaling import in_frame
from ..pairs.data import PairMatches
from .protocols import PoseProtocol, PoseSetting

Floats = NDArray[np.float64]
SEEDED = ("poselib-e", "poselib-f", "usac-e")
PRECISIONS = {"squared": (1e-4, 5e-4), "mean": (1e-4, 5e-4, 1e-3), "px": (1.0, 3.0, 5.0)}


def pose_records(
    pair: ImagePair,
    matches: Mapping[int, PairMatches],
    protocol: PoseProtocol,
    options: Any,
    meta: Mapping[str, Any],
) -> Records:
    """Poses of a pair, one row an estimator call, under every setting and budget (0: all matches)."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("setting", "repeat", "budget", "R", "t", "ok", "inliers")
    }
    for budget, chosen in matches.items():
        for number, setting in enumerate(protocol.settings):
            if setting.only and pair.dataset not in setting.only:
                continue
            for repeat, made in enumerate(_poses(pair, chosen, setting, options.permutation_seed)):
                values = (number, repeat, budget, made.R.reshape(9), made.t, made.ok, made.inliers)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
    kinds: dict[str, Any] = {
        "setting": np.int16,
        "repeat": np.int16,
        "budget": np.int32,
        "R": np.float64,
        "t": np.float64,
        "ok": bool,
        "inliers": np.int32,
    }
    columns = {name: np.asarray(values, kinds[name]) for name, values in rows.items()}
    return Records("pair", columns, {**_facts(pair, matches[0], protocol), **meta})


def _truth(pair: ImagePair) -> tuple[Floats, Floats, Floats]:
    """K0, K1 and T_0to1 of a pair."""
    if pair.K0 is None or pair.K1 is None or pair.T_0to1 is None:
        raise InputError(f"pair {pair.name} has no K0, K1 or T_0to1; pose/relative needs all three")
    return pair.K0, pair.K1, np.asarray(pair.T_0to1, np.float64)


def _poses(pair: ImagePair, matches: PairMatches, setting: PoseSetting, seed: int) -> Iterator[Estimate]:
    """The estimates of all repeats of a setting."""
    frame = setting.frame(pair.dataset)
    shift = pair.centre if setting.centre else 0.0
    resizes = [frame.resize(size) for size in pair.sizes()]
    points = matches.points0 + shift, matches.points1 + shift
    x0, x1, K0, K1 = in_frame(*points, *_truth(pair)[:2], *resizes)
    for order, own_seed in _orders(matches, setting, seed):
        yield estimate(setting.estimator, x0[order], x1[order], K0, K1, own_seed)


def _orders(
    matches: PairMatches, setting: PoseSetting, seed: int
) -> Iterator[tuple[NDArray[Any], int | None]]:
    """The order of the matches and the seed of every repeat."""
    if setting.order == "sorted":
        order = canonical_order(matches.points0, matches.points1)
        has_seed = setting.estimator.kind in SEEDED
        yield from ((order, k if has_seed else None) for k in range(setting.repeats))
    elif setting.order == "shuffled":
        yield from ((order, None) for order in shuffles(len(matches), setting.repeats, seed))
    else:
        yield from ((np.arange(len(matches)), None) for _ in range(setting.repeats))


def _facts(pair: ImagePair, matches: PairMatches, protocol: PoseProtocol) -> dict[str, Any]:
    """What scoring must know about a pair."""
    K0, K1, T = _truth(pair)
    turn = pose_errors(np.eye(3), T[:3, 3], T[:3, :3], T[:3, 3], STABLE)[1]
    zoom = (K1[0, 0] + K1[1, 1]) / (K0[0, 0] + K0[1, 1])
    numbers = {k: float(v) for k, v in pair.facts.items() if isinstance(v, int | float)}
    return {
        "pair": pair.name,
        "scene": pair.scene,
        "dataset": pair.dataset,
        "images": [str(pair.image0 or pair.name), str(pair.image1 or "")],
        "T_0to1": T.ravel().tolist(),
        "still": not bool(has_baseline(T[:3, 3])),
        "unknown": not protocol.knows(pair.dataset),
        "matches": len(matches),
        "keypoints": None if matches.keypoints is None else list(matches.keypoints),
        "precision": _precision(pair, matches),
        "strata": {
            **numbers,
            "rotation_deg": float(turn),
            "baseline": float(np.linalg.norm(T[:3, 3])),
            "zoom": float(max(zoom, 1 / zoom)),
        },
        "facts": {k: v for k, v in pair.facts.items() if isinstance(v, str)},
    }


def _precision(pair: ImagePair, matches: PairMatches) -> dict[str, dict[str, int]]:
    """Numbers of matches below each threshold by each rule of distance to the true epipolar lines."""
    K0, K1, T = _truth(pair)
    E = essential(T)
    x0, x1 = matches.points0, matches.points1
    u0, u1 = normalise_points(x0, K0), normalise_points(x1, K1)
    shift = pair.centre
    v0, v1 = normalise_points(x0 + shift, K0), normalise_points(x1 + shift, K1)
    distances = {
        "squared": squared_distances(u0, u1, E),
        "squared-centred": squared_distances(v0, v1, E),
        "mean": mean_distances(u0, u1, E),
        "px": pixel_distances(x0 + shift, x1 + shift, K0, K1, T),
    }
    return {
        rule: {f"{t:g}": int((d < t).sum()) for t in PRECISIONS[rule.partition("-")[0]]}
        for rule, d in distances.items()
    }
