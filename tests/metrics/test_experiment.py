# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.compat.workbench import (
    ExperimentMetrics,
    QueryAPResult,
    compute_average_precision,
    compute_query_ap,
    find_single_relevant_index,
    project_point,
    workbench_rank,
)
from tiepoint.core.errors import InputError

SHIFT = np.array([[1.0, 0, 10], [0, 1, 5], [0, 0, 1]])
TARGETS = [(110, 205), (160, 255), (500, 500), (210, 305)]


def hit(rank: int) -> QueryAPResult:
    return QueryAPResult(1.0 / rank, rank, 1, True)


def filled(*rows: tuple[str, float | None]) -> ExperimentMetrics:
    """Queries by scene: AP, or None for one without ground truth."""
    m = ExperimentMetrics()
    for scene, ap in rows:
        m.add_query_ap(scene, QueryAPResult() if ap is None else QueryAPResult(ap, round(1 / ap), 1, True))
    return m


# Golden vectors of the tool's own tests.


def test_projection_golden():
    assert project_point(np.eye(3), (100, 200)) == (100, 200)
    assert project_point(SHIFT, (100, 200)) == (110, 205)


def test_projection_near_infinity_and_behind():
    h = np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert project_point(h, (0, 3)) == (np.inf, np.inf)
    assert project_point(h, (9e-13, 3)) == (np.inf, np.inf)
    assert project_point(h, (-2, 4)) == (1.0, -2.0)  # behind, and taken all the same


def test_ground_truth_golden():
    assert find_single_relevant_index((100, 200), SHIFT, TARGETS, 3.0) == 0
    assert find_single_relevant_index((50, 50), SHIFT, TARGETS, 3.0) == -1
    assert find_single_relevant_index((150, 250), SHIFT, TARGETS, 5.0) == 1


def test_ground_truth_edges():
    assert find_single_relevant_index((0, 0), np.eye(3), [(0, 3)]) == 0  # tau is inclusive
    assert find_single_relevant_index((0, 0), np.eye(3), [(0, 3.0001)]) == -1
    assert (
        find_single_relevant_index((0, 0), np.eye(3), [(0, 2), (2, 0), (0, 1), (1, 0)]) == 2
    )  # first of equals
    assert find_single_relevant_index((2000, 0), np.eye(3), [(2000, 0)]) == 0
    assert find_single_relevant_index((2000.5, 0), np.eye(3), [(2000.5, 0)]) == -1  # the hard bound
    assert find_single_relevant_index((2000.5, 0), np.eye(3), [(2000.5, 0)], max_bound=3000) == 0
    assert find_single_relevant_index((0, 0), np.eye(3), np.empty((0, 2))) == -1


@pytest.mark.parametrize(
    ("distances", "query", "rank"), [((0.5, 5, 100, 10), (100, 200), 1), ((100, 0.5, 1, 2), (100, 200), 4)]
)
def test_query_ap_golden(distances, query, rank):
    found = compute_query_ap(query, SHIFT, TARGETS, distances)
    assert found == QueryAPResult(1 / rank, rank, 1, True)


@pytest.mark.parametrize(
    ("ranked", "ap"),
    [
        ([1, 1, 0, 0, 0], 1),
        ([0, 0, 0, 1, 1], 0.325),
        ([0, 0, 1, 0, 0], 1 / 3),
        ([1, 0, 1], 5 / 6),
        ([0, 1, 0, 1], 0.5),
        ([1, 0, 0, 1], 0.75),
        ([], 0),
        ([0, 0], 0),
    ],
)
def test_average_precision_golden(ranked, ap):
    assert compute_average_precision(ranked) == pytest.approx(ap, abs=1e-15)


def test_precision_golden():
    m = ExperimentMetrics()
    m.add_image_result("scene1", 0.8, 10, 20)
    m.add_image_result("scene1", 0.6, 10, 20)
    m.add_image_result("scene2", 0.9, 10, 20)
    m.calculate_mean_precision()
    assert m.mean_precision == pytest.approx(0.7666666667, abs=1e-9)
    assert m.legacy_macro_precision_by_scene == pytest.approx(0.8)
    assert (m.total_matches, m.total_keypoints, m.total_images_processed) == (30, 60, 3)


def test_map_golden():
    m = filled(("scene1", 1.0), ("scene1", 0.5), ("scene2", 0.8))
    m.calculate_mean_precision()
    assert m.true_map_micro == pytest.approx(0.7666666667, abs=1e-9)
    assert m.true_map_macro_by_scene == pytest.approx(0.775)


def test_zeros_golden():
    m = filled(("scene1", 1.0), ("scene1", 1 / 3), ("scene2", 0.2), ("scene2", None))
    m.calculate_mean_precision()
    assert m.true_map_micro == pytest.approx(0.51111, abs=1e-5)
    assert m.true_map_micro_including_zeros == pytest.approx(0.38333, abs=1e-5)
    assert m.true_map_macro_by_scene == pytest.approx(0.43333, abs=1e-5)
    assert m.true_map_macro_by_scene_including_zeros == pytest.approx(0.38333, abs=1e-5)
    assert (m.precision_at_1, m.precision_at_5, m.precision_at_10) == (pytest.approx(1 / 3), 1, 1)


def test_ranks_golden():
    m = ExperimentMetrics()
    for rank in (1, 3, 1, 5, -1, 2, 10, 1):
        m.add_query_ap("s", hit(rank) if rank > 0 else QueryAPResult())
    m.calculate_mean_precision()
    assert m.precision_at_1 == m.recall_at_1 == pytest.approx(3 / 7)
    assert m.precision_at_5 == m.recall_at_5 == pytest.approx(6 / 7)
    assert m.precision_at_10 == m.recall_at_10 == 1
    assert m.rank_histogram() == {
        "0": 1, "1": 3, "2": 1, "3": 1, "4": 0, "5": 1, "6": 0, "7": 0, "8": 0, "9": 0, "10": 1, ">10": 0,
    }  # fmt: skip


def test_errors_golden():
    m = ExperimentMetrics.create_error("First error")
    m.merge(ExperimentMetrics.create_error("Second error"))
    assert (m.success, m.error_message) == (False, "First error; Second error")
    m.calculate_mean_precision()
    m.merge(ExperimentMetrics.create_success())
    assert not m.success


def test_image_retrieval_golden():
    m = ExperimentMetrics()
    m.calculate_mean_precision()
    assert m.image_retrieval_map == -1
    for scene, ap in (("a", 1), ("b", 0.5), ("c", 0.25)):
        m.add_image_retrieval_ap(scene, ap)
    m.calculate_mean_precision()
    assert m.image_retrieval_map == pytest.approx(0.58333, abs=1e-5)
    assert m.image_retrieval_queries == 3


# The usage examples of the metrics documentation.


def test_documentation_basic_collection_and_scene_analysis():
    metrics = ExperimentMetrics()
    metrics.add_image_result("i_dome", 0.75, 120, 200)
    metrics.add_image_result("v_wall", 0.45, 80, 180)
    result = compute_query_ap((100, 200), SHIFT, TARGETS, [0.5, 5, 100, 10])
    metrics.add_query_ap("i_dome", result)
    metrics.calculate_mean_precision()
    assert metrics.mean_precision == pytest.approx(0.6)
    assert metrics.true_map_micro == metrics.true_map_macro_by_scene == metrics.precision_at_1 == 1
    assert (metrics.total_queries_processed, metrics.total_queries_excluded) == (1, 0)
    assert metrics.get_scene_names() == ["i_dome", "v_wall"]
    assert metrics.get_scene_average_precision("i_dome") == 0.75
    assert metrics.get_scene_average_precision("unknown") == 0.0
    assert (metrics.per_scene_matches["i_dome"], metrics.per_scene_keypoints["i_dome"]) == (120, 200)
    assert metrics.per_scene_image_count["i_dome"] == 1


def test_documentation_batch_merge():
    overall = ExperimentMetrics()
    for part in (filled(("i_dome", 1.0)), filled(("v_wall", 0.5), ("v_wall", None))):
        overall.merge(part)
    overall.calculate_mean_precision()
    assert overall.true_map_micro == 0.75
    assert (overall.viewpoint_map, overall.illumination_map) == (0.5, 1.0)
    assert overall.viewpoint_map_with_zeros == 0.25


def test_documentation_metadata_keys():
    m = filled(("i_dome", 0.5), ("i_dome", None), ("v_wall", 0.25), ("v_lost", None))
    m.calculate_mean_precision()
    text = m.to_metadata_string({"experiment_name": "demo"})
    pairs = dict(p.split("=") for p in text.rstrip(";").split(";"))
    assert list(pairs) == sorted(pairs)
    assert pairs["true_map_micro"] == "0.375000"
    assert pairs["i_dome_true_map"] == "0.500000"
    assert (pairs["i_dome_query_count"], pairs["i_dome_excluded_count"]) == ("1", "1")
    assert pairs["i_dome_true_map_with_zeros"] == "0.250000"
    assert pairs["r0_rate"] == "0.500000"
    assert pairs["total_queries_processed"] == pairs["total_queries_excluded"] == "2"
    assert {"precision_at_1", "recall_at_10", "success", "experiment_name", "true_map_macro_by_scene"} <= set(
        pairs
    )
    assert not any(key.startswith("v_lost") for key in pairs)


# Quirks, each where it alone changes the value.


def test_tie_rule_rounds_the_mean_rank_up():
    points = [(0, 0), (900, 0), (901, 0), (902, 0)]
    for ties, rank in ((0, 1), (1, 2), (2, 2), (3, 3)):
        d = [1.0] + [1.0] * ties + [2.0] * (3 - ties)
        assert compute_query_ap((0, 0), np.eye(3), points, d).rank_of_true_match == rank
    d = [1.0, 1.0, 2.0, 2.0]
    assert compute_query_ap((0, 0), np.eye(3), points, d, tie="expected").ap == pytest.approx(0.75)
    assert compute_query_ap((0, 0), np.eye(3), points, d, tie="optimistic").ap == 1
    assert compute_query_ap((0, 0), np.eye(3), points, d, tie="pessimistic").ap == 0.5
    with pytest.raises(InputError, match="tie rule"):
        compute_query_ap((0, 0), np.eye(3), points, d, tie="mean")
    with pytest.raises(InputError, match="distances"):
        compute_query_ap((0, 0), np.eye(3), points, d[:2])


def test_nan_distance_scores_perfectly():
    points = [(0, 0), (900, 0)]
    assert compute_query_ap((0, 0), np.eye(3), points, [np.nan, 0.1]).ap == 1
    assert compute_query_ap((0, 0), np.eye(3), points, [0.5, np.nan]).ap == 1


def test_scene_with_exclusions_alone_counts_in_categories_but_not_in_macro():
    m = filled(("v_a", 1.0), ("v_b", None))
    m.calculate_mean_precision()
    assert m.true_map_macro_by_scene_including_zeros == 1.0
    assert m.viewpoint_map_including_zeros == 0.5
    assert m.true_map_micro_including_zeros == 0.5


def test_categories_go_by_the_first_character_alone():
    m = filled(("vault", 0.5), ("iron", 0.25), ("ox_ubc", 1.0))
    m.calculate_mean_precision()
    assert (m.viewpoint_map, m.illumination_map) == (0.5, 0.25)


def test_aggregates_without_anything():
    m = ExperimentMetrics()
    m.keypoint_verification_ap = 0.5
    m.keypoint_retrieval_ap = 0.5
    m.calculate_mean_precision()
    assert m.true_map_micro == m.true_map_macro_by_scene == m.precision_at_1 == m.mean_average_precision == 0
    assert m.keypoint_verification_ap == -1  # reset
    assert m.keypoint_retrieval_ap == 0.5  # not reset


def test_merge_leaves_scalars_alone():
    a, b = ExperimentMetrics(), ExperimentMetrics(processing_time_ms=5.0, keypoint_verification_ap=0.3)
    a.merge(b)
    assert (a.processing_time_ms, a.keypoint_verification_ap) == (0.0, -1.0)


rows = st.lists(
    st.tuples(st.sampled_from(["v_a", "v_b", "i_c", "x"]), st.one_of(st.none(), st.integers(1, 40))),
    max_size=8,
)


@given(rows, rows, rows)
def test_merge_is_associative(a, b, c):
    parts = [filled(*((s, None if r is None else 1 / r) for s, r in part)) for part in (a, b, c)]
    parts[1].add_image_result("v_a", 0.3, 3, 9)
    parts[2].add_image_retrieval_ap("i_c", 0.7)
    if len(a) % 2:
        parts[0].success, parts[0].error_message = False, "bad"
    left = copy.deepcopy(parts[0]).merge(parts[1]).merge(parts[2])
    right = copy.deepcopy(parts[0]).merge(copy.deepcopy(parts[1]).merge(parts[2]))
    left.calculate_mean_precision()
    right.calculate_mean_precision()
    assert left == right


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, np.nan]), min_size=1, max_size=9), st.integers(0, 8))
def test_rank_against_a_plain_loop(distances, right):
    right %= len(distances)
    points = [(50.0 * i, 0.0) for i in range(len(distances))]
    better = ties = 0
    for j, d in enumerate(distances):
        if j != right:
            better += d < distances[right]
            ties += d == distances[right]
    found = compute_query_ap(points[right], np.eye(3), points, distances)
    assert found.rank_of_true_match == 1 + better + (ties + 1) // 2
    assert workbench_rank(better, ties) == found.rank_of_true_match
