# SPDX-License-Identifier: BSD-3-Clause
"""The metadata string of a DescriptorWorkbench result: sorted ``key=value;`` pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .scene_means import mean_of

if TYPE_CHECKING:
    from .experiment_metrics import ExperimentMetrics

_VALUES = (
    "true_map_micro",
    "true_map_macro_by_scene",
    "true_map_micro_including_zeros",
    "true_map_macro_by_scene_including_zeros",
    "viewpoint_map",
    "illumination_map",
    "mean_precision",
    "legacy_macro_precision_by_scene",
    *(f"{kind}_at_{k}" for kind in ("precision", "recall") for k in (1, 5, 10)),
)
_COUNTS = ("total_queries_processed", "total_queries_excluded", "total_keypoints", "total_matches")


def metadata_pairs(metrics: ExperimentMetrics) -> dict[str, object]:
    """Everything a result's metadata holds: the tool's keys and those its documentation promises.

    Per scene with at least one AP: ``{s}_true_map``, ``{s}_query_count``, ``{s}_true_map_with_zeros``,
    ``{s}_excluded_count``. `r0_rate` is excluded / (processed + excluded), left out without queries.
    """
    pairs: dict[str, object] = {"success": "true" if metrics.success else "false"}
    if metrics.error_message:
        pairs["error_message"] = metrics.error_message.replace(";", ",")
    pairs |= {name: float(getattr(metrics, name)) for name in _VALUES}
    pairs |= {name: int(getattr(metrics, name)) for name in _COUNTS}
    pairs["total_images"] = metrics.total_images_processed
    queries = metrics.total_queries_processed + metrics.total_queries_excluded
    if queries:
        pairs["r0_rate"] = metrics.total_queries_excluded / queries
    for scene, values in metrics.per_scene_ap.items():
        if not values:
            continue
        excluded = metrics.per_scene_excluded.get(scene, 0)
        pairs[f"{scene}_true_map"] = mean_of(values)
        pairs[f"{scene}_query_count"] = len(values)
        pairs[f"{scene}_true_map_with_zeros"] = math.fsum(values) / (len(values) + excluded)
        pairs[f"{scene}_excluded_count"] = excluded
    return pairs


def metadata_string(pairs: Mapping[str, object]) -> str:
    """Pairs as text: keys sorted, ``;`` after each, six decimals for floats.

    >>> metadata_string({"b": 0.5, "a": 3})
    'a=3;b=0.500000;'
    """
    return "".join(
        f"{key}={value:.6f};" if isinstance(value, float) else f"{key}={value};"
        for key, value in sorted(pairs.items())
    )
