# SPDX-License-Identifier: BSD-3-Clause
"""DescriptorWorkbench's metrics in one module, for code written against that tool.

>>> from tiepoint.compat.workbench import ExperimentMetrics, compute_query_ap
>>> metrics = ExperimentMetrics()
>>> result = compute_query_ap((0, 0), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1]], [0.7])
>>> metrics.add_query_ap("i_dome", result)
>>> metrics.calculate_mean_precision()
>>> metrics.true_map_micro
1.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..geometry.correspondence import nearest_answers, project_unchecked
from ..metrics import half_tie_rank as workbench_rank
from ..metrics.experiment import ExperimentMetrics, QueryAPResult
from ..tasks.keypoints.ranking.compare import MAX_BOUND_PX

TAU_PX = 3.0
TIES = ("dw", "expected", "optimistic", "pessimistic")

__all__ = [
    "ExperimentMetrics",
    "QueryAPResult",
    "compute_average_precision",
    "compute_query_ap",
    "find_single_relevant_index",
    "merge_metrics",
    "project_point",
    "workbench_rank",
]


def project_point(h: ArrayLike, point: ArrayLike) -> tuple[float, float]:
    """Project one point: (X/Z, Y/Z), or (inf, inf) if |Z| < 1e-12.

    Quirk: a negative Z (a point behind the camera) is not treated specially.

    >>> project_point([[1, 0, 10], [0, 1, 5], [0, 0, 1]], (100, 200))
    (110.0, 205.0)
    """
    x, y = project_unchecked(h, np.asarray(point, dtype=np.float64).reshape(1, 2))[0]
    return float(x), float(y)


def find_single_relevant_index(
    query: ArrayLike,
    h: ArrayLike,
    targets: ArrayLike,
    tau_px: float = TAU_PX,
    *,
    max_bound: float = MAX_BOUND_PX,
) -> int:
    """Return the index of the correct target of a query, or -1 if no target is correct.

    See `nearest_answers`.

    >>> shift = [[1, 0, 10], [0, 1, 5], [0, 0, 1]]
    >>> find_single_relevant_index((100, 200), shift, [[110, 205], [160, 255]])
    0
    """
    point = np.asarray(getattr(query, "pt", query), dtype=np.float64).reshape(1, 2)
    return int(nearest_answers(h, point, targets, tau_px=tau_px, bound_px=max_bound)[0])


def compute_average_precision(relevance_ranked: Sequence[Any] | ArrayLike) -> float:
    """Return the AP of a ranked list of 0/1: (1/R) sum of precision at each relevant rank, 0 if R = 0.

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
    """Return the AP of a query that has one right answer: 1 / rank of that answer.

    Args:
        query: (x, y), or an object with `pt`.
        homography: (3, 3) from the query's image to the target image.
        targets: (n, 2), or n objects with `pt`.
        distances: Descriptor distance to each target, (n,), any monotone form (the tool passes squares).
        tau_px: Tolerance of the ground truth.
        max_bound: See `find_single_relevant_index`.
        tie: `dw` (see `workbench_rank`); `expected` (AP is the mean of 1/rank over all orders of the tied
            items, the rank is the mean rank rounded up); `optimistic`; `pessimistic`.

    Trap of `dw`: comparisons with NaN are False. A candidate with NaN never ranks above the right answer, and
    a right answer with NaN has rank 1.

    >>> compute_query_ap((0, 0), np.eye(3), [[0, 0], [50, 0], [90, 0]], [2.0, 1.0, 3.0]).ap
    0.5
    """
    if tie not in TIES:
        raise InputError(f"unknown tie rule {tie!r}; choose one of {', '.join(TIES)}")
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


def merge_metrics(parts: Iterable[ExperimentMetrics]) -> ExperimentMetrics:
    """Merge the metrics of several parts of an experiment, in order, and compute their means.

    >>> merge_metrics(map(ExperimentMetrics.create_error, "ab")).error_message
    'a; b'
    """
    merged = ExperimentMetrics()
    for part in parts:
        merged.merge(part)
    merged.calculate_mean_precision()
    return merged
