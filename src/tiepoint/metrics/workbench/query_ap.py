# SPDX-License-Identifier: BSD-3-Clause
"""Rank and average precision of one query, as DescriptorWorkbench computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...geometry.workbench_truth import MAX_BOUND_PX, TAU_PX, find_single_relevant_index
from ...model.errors import InputError

TIES = ("dw", "expected", "optimistic", "pessimistic")


@dataclass(frozen=True)
class QueryAPResult:
    """Outcome of one query; without ground truth: ap 0, rank -1, nothing relevant, no potential match."""

    ap: float = 0.0
    rank_of_true_match: int = -1
    total_relevant: int = 0
    has_potential_match: bool = False


def workbench_rank(better: ArrayLike, ties: ArrayLike) -> NDArray[np.int64]:
    """Rank of the one right answer: 1 + better + ceil(ties / 2).

    Quirk: meant as the average rank among ties, 1 + better + ties / 2, but rounded up by integer division.

    >>> workbench_rank([0, 0, 0, 3], [0, 1, 2, 3]).tolist()
    [1, 2, 2, 6]
    """
    return 1 + np.asarray(better, np.int64) + (np.asarray(ties, np.int64) + 1) // 2


def compute_average_precision(relevance_ranked: Sequence[Any] | ArrayLike) -> float:
    """AP of a ranked list of 0/1 (or booleans): (1/R) sum of precision at each relevant rank; 0 if R = 0.

    >>> compute_average_precision([0, 0, 0, 1, 1])
    0.325
    """
    relevant = np.asarray(relevance_ranked, dtype=np.float64).reshape(-1) > 0
    if not relevant.any():
        return 0.0
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean())


def compute_query_ap(
    query: Any,
    homography: ArrayLike,
    targets: Any,
    distances: ArrayLike,
    tau_px: float = TAU_PX,
    *,
    max_bound: float = MAX_BOUND_PX,
    tie: str = "dw",
) -> QueryAPResult:
    """AP = 1 / rank of the one right answer of a query.

    Args:
        query: (x, y), or an object with `pt`.
        homography: (3, 3) from the query's image to the target image.
        targets: (n, 2), or n objects with `pt`.
        distances: descriptor distance to each target, (n,), any monotone form (the tool passes squares).
        tau_px: tolerance of the ground truth.
        max_bound: see `find_single_relevant_index`.
        tie: `dw` (see `workbench_rank`); `expected` (AP = mean of 1/rank over all orders of the tied; the
            rank reported is the mean rank rounded up); `optimistic`; `pessimistic`.

    Trap, kept under `dw`: a NaN distance compares as False, so NaN candidates are never better and a NaN at
    the right answer gives rank 1.

    >>> compute_query_ap((0, 0), np.eye(3), [[0, 0], [50, 0], [90, 0]], [2.0, 1.0, 3.0]).ap
    0.5
    """
    if tie not in TIES:
        raise InputError(f"unknown tie rule {tie!r}; one of {', '.join(TIES)}")
    points = np.array([getattr(t, "pt", t) for t in targets], dtype=np.float64).reshape(-1, 2)
    d = np.asarray(distances, dtype=np.float64)
    if len(d) != len(points):
        raise InputError(f"{len(points)} target keypoints need as many distances, found {len(d)}")
    right = find_single_relevant_index(query, homography, points, tau_px, max_bound=max_bound)
    if right < 0:
        return QueryAPResult()
    better = int((d < d[right]).sum())
    ties = int((np.delete(d, right) == d[right]).sum())
    rank = int(workbench_rank(better, ties))
    ap = 1.0 / rank
    if tie == "expected":
        ap = float((1.0 / np.arange(1 + better, 2 + better + ties)).mean())
    elif tie == "optimistic":
        rank, ap = 1 + better, 1.0 / (1 + better)
    elif tie == "pessimistic":
        rank, ap = 1 + better + ties, 1.0 / (1 + better + ties)
    return QueryAPResult(ap, rank, 1, True)
