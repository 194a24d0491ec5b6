# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/ranking`: ranks of the correct keypoints of another image for each query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import SceneCurves, Score
from ....metrics import average_precision_from_counts, half_tie_rank
from ...base import MetricInfo, TaskInfo
from ...cases import Cases
from ...info import METHOD_QUERIES, count
from ...options import Sizes
from ...steps import StepTable
from ..data import CITE, LICENCE, KeypointTask, step_means
from ..options import TruthOptions
from .compare import compare_exact, compare_workbench, rows_correspond
from .score import KS, RANKS, cases, query_values, score_exact, score_workbench

_AP = "average precision of a query's correct keypoints among all keypoints of the other image"
_BY_SCENE = "true_map_macro_by_scene"
_METRICS = {
    "true_map_micro": MetricInfo(f"{_AP}, mean over queries"),
    _BY_SCENE: MetricInfo(f"{_AP}, mean of each scene, then over scenes"),
    "mean_average_precision": MetricInfo(f"{_BY_SCENE} under the older tool's name"),
    "viewpoint_map": MetricInfo(f"{_BY_SCENE} of the viewpoint scenes"),
    "illumination_map": MetricInfo(f"{_BY_SCENE} of the illumination scenes"),
    "mrr": MetricInfo("mean over queries of 1/rank of the first correct answer"),
    "query_auc": MetricInfo(
        "probability that a correct answer is closer than an incorrect one, mean over queries"
    ),
    "mean_precision": MetricInfo("share of nearest neighbours that are correct, mean over image pairs"),
    "legacy_macro_precision_by_scene": MetricInfo(
        "share of nearest neighbours that are correct, mean over scenes"
    ),
    "ap": MetricInfo(f"{_AP}, mean of one scene"),
    "gallery_size": count("mean number of candidates a query is ranked among"),
    "covisibility": MetricInfo("share of queries that are visible in the other image", better=None),
    "redetection": MetricInfo("share of visible queries that are re-detected in the other image"),
    "descriptor_failure": MetricInfo(
        "share of the re-detected queries compared with no correct answer, for lack of descriptors",
        better="lower",
    ),
    "rank_histogram": MetricInfo(
        "share of queries whose first correct answer has the rank of the group", better=None
    ),
    "total_queries_processed": count("number of queries in the averages"),
    "total_queries_excluded": count("number of queries left out of the averages"),
    "total_keypoints": count("number of keypoints"),
    "total_matches": count("number of mutual nearest neighbours"),
    "queries_out_of_view": count("number of queries that are not visible in the other image"),
    "queries_not_redetected": count("number of visible queries that are not re-detected"),
    "queries_descriptor_failed": count(
        "number of re-detected queries compared with no correct answer, for lack of descriptors"
    ),
    "processing_time_ms": MetricInfo(
        "time of describing and comparing on the machine of the run", unit="ms", better="lower"
    ),
    "metadata": MetricInfo(better=None),
    **{
        f"{name}{zeros}": MetricInfo(f"as {name}, but a query that is not re-detected counts 0")
        for name in ("true_map_micro", _BY_SCENE, "viewpoint_map", "illumination_map")
        for zeros in ("_including_zeros", "_with_zeros")
    },
    **{
        f"{name}_at_{k}": MetricInfo(f"{words} among the first {k}")
        for name, words in (
            ("precision", "share of queries with a correct answer"),
            ("success", "share of queries with a correct answer"),
            ("recall", "mean over queries of the share of the correct answers that are"),
        )
        for k in KS
    },
}


class RankingOptions(TruthOptions):
    """Options of `keypoints/ranking`."""

    policy: Literal["all_within_tau", "nearest", "mutual"] = "all_within_tau"
    """Definition of the correct target locations under `exact`."""

    gallery: Sizes = (250, 500, 1000, 2000)
    """Numbers of target locations (gallery sizes) for which `exact` computes additional scores."""

    seed: int = 0
    """Seed of the random galleries."""

    keypoint_source: Literal["independent_detection", "homography_projection", "database"] = (
        "independent_detection"
    )
    """Whether row i is the same point in all images under `workbench`: yes (`homography_projection`) or no
    (`database`). Sets created with ``mode=projected`` correspond and do not need this option."""

    tie: Literal["protocol", "optimistic"] = "protocol"
    """Ranking of equal distances under `workbench`. `protocol`: each tie adds half a rank, rounded up, as in
    the program. `optimistic`: rank = 1 + number of smaller distances, as in its documentation."""


def _owners(r: Records) -> tuple[NDArray[np.int64], int]:
    image, query = r["image"], r["query"]
    new = np.append(True, (image[1:] != image[:-1]) | (query[1:] != query[:-1]))[: len(image)]
    return np.cumsum(new) - 1, int(new.sum())


def _nearest_answer(
    r: Records, owner: NDArray[np.int64], lt: NDArray[np.int64], eq: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return row, `lt` and `eq` of the answer closest to the true position. Other answers count as wrong.

    `owner` is the query of each row.
    """
    order = np.lexsort((np.arange(len(owner)), r["error_px"], owner))
    first = order[np.append(True, owner[order][1:] != owner[order][:-1])[: len(order)]]
    mine = first[owner]
    other = np.arange(len(owner)) != mine
    nearer = other & (r["distance"] < r["distance"][mine])
    equal = other & (r["distance"] == r["distance"][mine]) & r["retrieved"]
    lists = len(first)
    better = lt[first] + np.bincount(owner[nearer], minlength=lists)
    return first, better, eq[first] + np.bincount(owner[equal], minlength=lists)


def _pooled(tables: Sequence[Any], name: str) -> float:
    return float(np.concatenate([t.values[name] for t in tables]).mean())


class KeypointRanking(KeypointTask):
    """Task `keypoints/ranking`: for each query, rank the other image's keypoints by descriptor distance."""

    name = "keypoints/ranking"
    info = TaskInfo(
        "How highly are the correct keypoints of the other image ranked for a query?",
        ("true_map_macro_by_scene", "all"),
        _METRICS,
        columns=(
            "true_map_micro",
            "true_map_macro_by_scene",
            "true_map_micro_including_zeros",
            "viewpoint_map",
            "illumination_map",
            "precision_at_1",
            "precision_at_5",
            "gallery_size",
        ),
        summary_metrics=("true_map_micro", "true_map_macro_by_scene", "precision_at_1"),
        other_names={
            "true_map_macro": _BY_SCENE,
            "true_map_micro_with_zeros": "true_map_micro_including_zeros",
            "true_map_macro_with_zeros": f"{_BY_SCENE}_including_zeros",
            "true_map_macro_by_scene_with_zeros": f"{_BY_SCENE}_including_zeros",
            "legacy_mean_precision": "mean_precision",
        },
        cite=CITE,
        licence=LICENCE,
        title="Keypoint ranking",
        protocol_versions={"workbench": 3},
        not_raceable=METHOD_QUERIES,
    )
    protocols = ("exact", "workbench")
    options = RankingOptions
    comparisons: ClassVar = {"exact": compare_exact, "workbench": compare_workbench}
    scorings: ClassVar = {"exact": score_exact, "workbench": score_workbench}

    def method_facts(self, options: Any, meta: Mapping[str, Any], comparison: str) -> dict[str, Any]:
        """Return whether row i is the same point in all images, as the precision of `workbench` requires."""
        known = comparison == "workbench" and options.keypoint_source != "homography_projection"
        return {"rows": "corresponding"} if known and rows_correspond(options, meta) else {}

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return `true_map_micro` after each step from `exact` to `workbench`."""
        steps: dict[str, list[NDArray[np.float64]]] = {}
        for r in records:
            lt, eq = r["lt"][:, 0].astype(np.int64), r["eq"][:, 0].astype(np.int64)
            owner, lists = _owners(r)
            kept = r["retrieved"]
            every = average_precision_from_counts(lt, eq, owner=owner, lists=lists, retrieved=kept)
            works = np.bincount(owner[kept], minlength=lists) > 0
            row, better, ties = _nearest_answer(r, owner, lt, eq)
            usable = kept[row]
            better, ties, left = better[usable], ties[usable], int(usable.sum())
            single = average_precision_from_counts(better, ties, owner=np.arange(left), lists=left)
            for name, values in (
                ("exact: every location within tau is right, a failure is a miss", every),
                ("failed descriptors leave the denominator", every[works]),
                ("only the location nearest to the true place is right", single),
                ("a tie is worth half a place, rounded up", 1.0 / half_tie_rank(better, ties)),
            ):
                steps.setdefault(name, []).append(np.asarray(values, np.float64))
        return [StepTable("true_map_micro", step_means(steps))]

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Compute curves of success at k and of mean AP against gallery size."""
        tables = [query_values(r, 0) for r in records]
        ranks = np.arange(1, RANKS + 1)
        if any(len(t) for t in tables):
            yield "all", "success_at_k", ranks, [_pooled(tables, f"success{k}") for k in ranks]
        sizes = records[0].meta["galleries"] if records else []
        points = []
        for column, size in enumerate(sizes, start=1):
            chosen = [query_values(r, column) for r in records]
            if any(len(t) for t in chosen):
                points.append((size, _pooled(chosen, "ap")))
        if points:
            yield "all", "true_map_micro_by_gallery", [p[0] for p in points], [p[1] for p in points]

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Compute the share of queries with a correct answer among the first k, for each k.

        All queries weigh equally.
        """
        tables = [(r, t) for r in records if len(t := query_values(r, 0))]
        if not tables:
            return
        ranks = np.arange(1, RANKS + 1)
        yield SceneCurves(
            "all",
            "success_at_k",
            ranks.astype(np.float64),
            tuple(str(r.meta["scene"]) for r, _ in tables),
            tuple(str(r.meta["kind"]) for r, _ in tables),
            np.array([[t.values[f"success{k}"].mean() for k in ranks] for _, t in tables]),
            np.array([float(len(t)) for _, t in tables]),
        )

    def time_scores(self, protocol: str, features_s: float, compare_s: float) -> list[Score]:
        """Return the measured ``processing_time_ms`` of DescriptorWorkbench's schema.

        The time is the extraction time on all images (stored with the features) plus the comparison time.
        """
        parts = f"features {1000 * features_s:.0f} ms, comparison {1000 * compare_s:.0f} ms"
        total_ms = 1000 * (features_s + compare_s)
        note = f"{parts}; a time, not a score"
        return [Score("processing_time_ms", "all", total_ms, 1, protocol, note=note)]

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return all images of a scene except image 1, scored by mean average precision."""
        return cases(records, scene)


TASK = KeypointRanking()
