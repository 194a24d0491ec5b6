# SPDX-License-Identifier: BSD-3-Clause
"""Records of `pose/relative`: all estimated poses of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.records import Records
from ...datasets.image_pairs.ground_truth import PairTruth
from ...geometry.two_view.epipolar import (
    essential,
    mean_distances,
    normalise_points,
    pixel_distances,
    squared_distances,
)
from ...geometry.two_view.estimator import Estimate, canonical_order
from ...geometry.two_view.pose_errors import STABLE, has_baseline, pose_errors
from ...geometry.two_view.pose_estimation import estimate, shuffles
from ...geometry.two_view.scaling import in_frame
from ...metrics.error_curves import auc_exact, auc_python_sorted, auc_rounded, auc_trapezoid
from ..pairs.data import PairMatches
from .protocols import PoseProtocol, PoseScoring, PoseSetting

Floats = NDArray[np.float64]
SEEDED = ("poselib-e", "poselib-f", "usac-e")
PRECISIONS = {"squared": (1e-4, 5e-4), "mean": (1e-4, 5e-4, 1e-3), "px": (1.0, 3.0, 5.0)}


def compare(
    truth: PairTruth,
    matches: Mapping[int, PairMatches],
    protocol: PoseProtocol,
    options: Any,
    meta: Mapping[str, Any],
) -> Records:
    """Estimate the poses of a pair for every setting and match budget. Each estimator call is one row.

    A budget is the number of matches of highest confidence to use; 0 means all matches.
    """
    rows: dict[str, list[Any]] = {
        name: [] for name in ("setting", "repeat", "budget", "R", "t", "ok", "inliers")
    }
    for budget, chosen in matches.items():
        for number, setting in enumerate(protocol.settings):
            if setting.only and truth.pair.dataset not in setting.only:
                continue
            for repeat, made in enumerate(_poses(truth, chosen, setting, options.permutation_seed)):
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
    return Records("pair", columns, {**_facts(truth, matches[0], protocol), **meta})


def _cameras(truth: PairTruth) -> tuple[Floats, Floats, Floats]:
    """Return K0, K1 and T_0to1 of a pair."""
    if truth.K0 is None or truth.K1 is None or truth.T_0to1 is None:
        raise InputError(f"pair {truth.pair.name} has no K0, K1 or T_0to1; add all three for pose/relative")
    return truth.K0, truth.K1, np.asarray(truth.T_0to1, np.float64)


def _poses(truth: PairTruth, matches: PairMatches, setting: PoseSetting, seed: int) -> Iterator[Estimate]:
    """Yield the pose estimate of each repeat of a setting."""
    frame = setting.frame(truth.pair.dataset)
    shift = truth.centre if setting.centre else 0.0
    resizes = [frame.resize(size) for size in truth.pair.sizes()]
    points = matches.points0 + shift, matches.points1 + shift
    x0, x1, K0, K1 = in_frame(*points, *_cameras(truth)[:2], *resizes)
    for order, own_seed in _orders(matches, setting, seed):
        yield estimate(setting.estimator, x0[order], x1[order], K0, K1, own_seed)


def _orders(
    matches: PairMatches, setting: PoseSetting, seed: int
) -> Iterator[tuple[NDArray[Any], int | None]]:
    """Yield the match order and the estimator seed of each repeat."""
    if setting.order == "sorted":
        order = canonical_order(matches.points0, matches.points1)
        has_seed = setting.estimator.kind in SEEDED
        yield from ((order, k if has_seed else None) for k in range(setting.repeats))
    elif setting.order == "shuffled":
        yield from ((order, None) for order in shuffles(len(matches), setting.repeats, seed))
    else:
        yield from ((np.arange(len(matches)), None) for _ in range(setting.repeats))


def _facts(truth: PairTruth, matches: PairMatches, protocol: PoseProtocol) -> dict[str, Any]:
    """Return the metadata of a pair's records: names, true pose, match counts, precision, properties."""
    pair = truth.pair
    K0, K1, T = _cameras(truth)
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
        "precision": _precision(truth, matches),
        "strata": {
            **numbers,
            "rotation_deg": float(turn),
            "baseline": float(np.linalg.norm(T[:3, 3])),
            "zoom": float(max(zoom, 1 / zoom)),
        },
        "facts": {k: v for k, v in pair.facts.items() if isinstance(v, str)},
    }


def _precision(truth: PairTruth, matches: PairMatches) -> dict[str, dict[str, int]]:
    """Count the matches below each threshold, for each definition of the epipolar distance."""
    K0, K1, T = _cameras(truth)
    E = essential(T)
    x0, x1 = matches.points0, matches.points1
    u0, u1 = normalise_points(x0, K0), normalise_points(x1, K1)
    shift = truth.centre
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


Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Poses:
    """Estimated poses of all pairs, one row per estimator call.

    The columns are setting, repeat, budget, R, t, ok and inliers. `pair` (n,) is the index of each row's pair
    in `records`.
    """

    records: Sequence[Records]

    @cached_property
    def pair(self) -> NDArray[np.int64]:
        """Index in `records` of the pair of each row, (n,)."""
        return np.repeat(np.arange(len(self.records)), [len(r) for r in self.records])

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        return {}

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return a column, concatenated over all pairs. It is cached."""
        if column not in self._columns:
            parts = [r[column] for r in self.records]
            self._columns[column] = np.concatenate(parts) if parts else np.empty(0)
        return self._columns[column]

    @cached_property
    def truth(self) -> Floats:
        """True poses (pairs, 4, 4)."""
        return np.array([r.meta["T_0to1"] for r in self.records], np.float64).reshape(-1, 4, 4)

    @cached_property
    def datasets(self) -> NDArray[np.str_]:
        """Name of each pair's dataset, (pairs,)."""
        return np.array([str(r.meta["dataset"]) for r in self.records])

    @cached_property
    def rotations_and_translations(self) -> tuple[Floats, Floats]:
        """R (n, 3, 3) and t (n, 3) of every row."""
        R = np.asarray(self["R"], np.float64).reshape(-1, 3, 3)
        return R, np.asarray(self["t"], np.float64).reshape(-1, 3)

    def angles(self, scoring: PoseScoring) -> tuple[Floats, Floats]:
        """Return (e_t, e_R) of every row in degrees, by the angle rule of the scoring.

        Under `exact`, a pair whose cameras share their centre is scored by its rotation error only.
        """
        true = self.truth[self.pair]
        e_t, e_R = pose_errors(
            *self.rotations_and_translations, true[:, :3, :3], true[:, :3, 3], scoring.angles
        )
        if scoring.angles == STABLE:
            e_t = np.where(has_baseline(true[:, :3, 3]), e_t, 0.0)
        return e_t, e_R

    @cached_property
    def failed(self) -> Rows:
        """Mask of the rows without a usable pose: no model, non-finite values, or zero translation."""
        R, t = self.rotations_and_translations
        usable = np.isfinite(R).all(axis=(1, 2)) & np.isfinite(t).all(axis=1) & (t != 0).any(axis=1)
        return ~(np.asarray(self["ok"], bool) & usable)


def eloftr_failed(R: Floats, t: Floats) -> Rows:
    """Return a mask of the poses that fail ELoFTR's validity test.

    A pose passes if no component of t is 0, or if no component of its quaternion equals that of the identity
    (1, 0, 0, 0). So a valid pose fails if one component of t is exactly 0 and one component of the quaternion
    equals that of the identity.

    >>> eloftr_failed(np.eye(3)[None], np.array([[0.0, 0.6, 0.8]])).tolist()
    [True]
    """
    from scipy.spatial.transform import Rotation

    moved = (t != 0).all(axis=1)
    finite = np.isfinite(R).all(axis=(1, 2))
    q = np.full((len(R), 4), np.nan)
    q[finite] = Rotation.from_matrix(R[finite]).as_quat(scalar_first=True)
    return ~(moved | (q != np.array([1.0, 0.0, 0.0, 0.0])).all(axis=1))


AREAS: Mapping[str, Callable[[Floats, float], float]] = {
    "exact": auc_exact,
    "trapezoid": auc_trapezoid,
    "as-sorted": auc_python_sorted,
    "rounded": auc_rounded,
    "degrees": auc_trapezoid,
}
"""Functions that compute the area under the recall curve up to a threshold, by name of the area rule."""


def counted_pairs(records: Sequence[Records], scoring: PoseScoring) -> Rows:
    """Return a mask of the pairs to score.

    Some scorings use only the last of several pairs of the same images.
    """
    keep = np.ones(len(records), bool)
    if scoring.last_duplicate:
        last = {tuple(r.meta["images"]): i for i, r in enumerate(records)}
        keep = np.isin(np.arange(len(records)), list(last.values()))
    return keep


def both_directions(records: Sequence[Records]) -> list[tuple[int, int]]:
    """Return, for each image pair that occurs in both directions, the indices of its two records."""
    place = {tuple(r.meta["images"]): i for i, r in enumerate(records)}
    found = []
    for (first, second), i in place.items():
        j = place.get((second, first))
        if j is not None and i < j:
            found.append((i, j))
    return found


def group_scoring(poses: Poses, protocol: PoseProtocol, rows: Rows) -> PoseScoring:
    """Return the scoring of a group of rows: that of their settings if all share one, else the protocol's."""
    numbers = np.unique(np.asarray(poses["setting"], np.int64)[rows])
    used = {protocol.settings[k].scoring or protocol.scoring for k in numbers}
    return used.pop() if len(used) == 1 else protocol.scoring


def pose_row_errors(poses: Poses, protocol: PoseProtocol) -> tuple[Floats, Floats, Floats]:
    """Return (e_t, e_R, e) of every row in degrees, where e is the larger of both angles.

    Failed estimates have the failure error of the protocol. If the protocol has no failure error, the angle
    rule is applied to the zero translation of the failed estimate.
    """
    scoring = protocol.scoring
    e_t, e_R = poses.angles(scoring)
    R, t = poses.rotations_and_translations
    ok = np.asarray(poses["ok"], bool)
    setting = np.asarray(poses["setting"], np.int64)
    for other in {s.scoring for s in protocol.settings if s.scoring is not None}:
        own = np.isin(setting, [k for k, s in enumerate(protocol.settings) if s.scoring == other])
        e_t, e_R = (np.where(own, *both) for both in zip(poses.angles(other), (e_t, e_R), strict=True))
    made = [e_t, e_R, np.maximum(e_t, e_R)]  # NaN if either angle is NaN
    for number, one in enumerate(protocol.settings):
        own = setting == number
        failed, value = ~ok, one.failure
        if scoring.failure is not None:
            failed, value = poses.failed, scoring.failure
        elif one.success == "eloftr":
            failed = eloftr_failed(R, t)
        if value is not None:
            made = [np.where(own & failed, value, e) for e in made]
    if scoring.limit is not None:
        made[2] = np.where(np.isfinite(made[2]), made[2], scoring.limit)
    return made[0], made[1], made[2]


def counted_rows(poses: Poses, scoring: PoseScoring, rows: Rows) -> NDArray[np.int64]:
    """Return the indices of those `rows` that enter the score, in ascending order.

    Depending on the scoring, only the last of several pairs with the same two images counts, and the last
    repeat of a pair counts twice (its index is repeated).
    """
    used = rows & counted_pairs(poses.records, scoring)[poses.pair]
    order = np.flatnonzero(used)
    if scoring.again and len(order):
        again = used & np.isin(poses.datasets, scoring.again)[poses.pair]
        last = [np.flatnonzero(again & (poses.pair == p))[-1] for p in np.unique(poses.pair[again])]
        order = np.sort(np.concatenate([order, np.array(last, np.int64)]), kind="stable")
    return order
