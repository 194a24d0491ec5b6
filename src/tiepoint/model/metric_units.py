# SPDX-License-Identifier: BSD-3-Clause
"""What the value of a metric is: a fraction, pixels, milliseconds or a count."""

from __future__ import annotations

COUNTS = frozenset({"gallery_size", "putative_matches", "inliers", "keypoints"})


def unit_of(metric: str) -> str:
    """Unit of a metric: ``fraction``, ``px``, ``ms`` or ``count``.

    >>> unit_of("map"), unit_of("aepe"), unit_of("localisation_error_px"), unit_of("total_queries_processed")
    ('fraction', 'px', 'px', 'count')
    """
    if metric.endswith("_px") or metric == "aepe":
        return "px"
    if metric.endswith("_ms"):
        return "ms"
    if metric in COUNTS or metric.startswith(("total_", "queries", "retrieval_num_")):
        return "count"
    return "fraction"


def within_range(metric: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """An interval cut to what the metric can be: nothing is below 0, no fraction above 1.

    >>> within_range("ap", 0.9, 1.02), within_range("aepe", -3.0, 5.0)
    ((0.9, 1.0), (0.0, 5.0))
    """
    if low is not None:
        low = max(0.0, low)
    if high is not None and unit_of(metric) == "fraction":
        high = min(1.0, high)
    return low, high
