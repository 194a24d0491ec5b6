# SPDX-License-Identifier: BSD-3-Clause
"""Pose errors of the records of `pose/relative` under a scoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...geometry.two_view.pose_errors import STABLE, has_baseline, pose_errors
from ...metrics.error_curves import auc_exact, auc_python_sorted, auc_rounded, auc_trapezoid
from .protocols import PoseProtocol, PoseScoring

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Poses:
    """The estimated poses of all pairs, one row a call: setting, repeat, budget, R, t, ok, inliers.

    `pair` (n,) is the place of a row's record.
    """

    records: Sequence[Records]

    @cached_property
    def pair(self) -> NDArray[np.int64]:
        """Place of the record of each row."""
        return np.repeat(np.arange(len(self.records)), [len(r) for r in self.records])

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        return {}

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column of all rows; joined once."""
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
        """Dataset of each pair."""
        return np.array([str(r.meta["dataset"]) for r in self.records])

    @cached_property
    def rotations_and_translations(self) -> tuple[Floats, Floats]:
        """R (n, 3, 3) and t (n, 3) of every row."""
        R = np.asarray(self["R"], np.float64).reshape(-1, 3, 3)
        return R, np.asarray(self["t"], np.float64).reshape(-1, 3)

    def angles(self, scoring: PoseScoring) -> tuple[Floats, Floats]:
        """(e_t, e_R) in degrees of every row by the angle rule.

        Under `exact` a pair whose cameras share their centre is judged by its rotation alone.
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
        """Rows without a usable pose: no model, a number that is not finite, or no translation."""
        R, t = self.rotations_and_translations
        usable = np.isfinite(R).all(axis=(1, 2)) & np.isfinite(t).all(axis=1) & (t != 0).any(axis=1)
        return ~(np.asarray(self["ok"], bool) & usable)


def eloftr_failed(R: Floats, t: Floats) -> Rows:
    """ELoFTR's test of a PoseLib pose: it failed unless all of t differ from 0 or all of q from (1, 0, 0, 0).

    A pose with one component of t exactly 0 and one of q equal to that of the identity is called a failure.

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
"""Area under the recall curve of errors up to a threshold, by name of the rule."""


def counted_pairs(records: Sequence[Records], scoring: PoseScoring) -> Rows:
    """Which pairs count: where the scoring says so, of those with the same two images the last alone."""
    keep = np.ones(len(records), bool)
    if scoring.last_duplicate:
        last = {tuple(r.meta["images"]): i for i, r in enumerate(records)}
        keep = np.isin(np.arange(len(records)), list(last.values()))
    return keep


def both_directions(records: Sequence[Records]) -> list[tuple[int, int]]:
    """Places of pairs that stand there in both directions."""
    place = {tuple(r.meta["images"]): i for i, r in enumerate(records)}
    found = []
    for (first, second), i in place.items():
        j = place.get((second, first))
        if j is not None and i < j:
            found.append((i, j))
    return found


def pose_row_errors(poses: Poses, protocol: PoseProtocol) -> tuple[Floats, Floats, Floats]:
    """(e_t, e_R, e) in degrees of every row, failures as the protocol counts them; e is the larger angle.

    Where a setting leaves a failure to the angle rule, a zero translation gives what the rule makes of it.
    """
    scoring = protocol.scoring
    e_t, e_R = poses.angles(scoring)
    made = [e_t, e_R, np.maximum(e_t, e_R)]  # not a number where one of them is none
    R, t = poses.rotations_and_translations
    ok = np.asarray(poses["ok"], bool)
    setting = np.asarray(poses["setting"], np.int64)
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
    """Places of the rows that a group is made of, in order.

    Of pairs with the same two images the last counts alone where the scoring says so, and the last repeat of
    a pair comes twice where it does.
    """
    used = rows & counted_pairs(poses.records, scoring)[poses.pair]
    order = np.flatnonzero(used)
    if scoring.again and len(order):
        again = used & np.isin(poses.datasets, scoring.again)[poses.pair]
        last = [np.flatnonzero(again & (poses.pair == p))[-1] for p in np.unique(poses.pair[again])]
        order = np.sort(np.concatenate([order, np.array(last, np.int64)]), kind="stable")
    return order
