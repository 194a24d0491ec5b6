# SPDX-License-Identifier: BSD-3-Clause
"""The document "DescriptorWorkbench Metrics System Documentation", statement by statement."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from black_box import Program, document, run_ids, write
from keypoint_scenes import IDENTITY, MOVED, method, scene, textured

import tiepoint as tp
from tiepoint.compat.workbench import ExperimentMetrics, compute_query_ap, project_point

METADATA = """true_map_micro=0.3724;true_map_macro_by_scene=0.3703;precision_at_1=0.2833;
total_queries_processed=215939;total_queries_excluded=21536;
i_dome_true_map=0.3598;v_wall_true_map=0.4579;"""
TABLE = """CREATE TABLE results (
    -- Primary IR-style mAP
    true_map_micro REAL,
    true_map_macro REAL,

    -- Viewpoint/Illumination split
    viewpoint_map REAL,
    illumination_map REAL,

    -- Bojanic metrics
    keypoint_verification_ap REAL,
    keypoint_retrieval_ap REAL,

    -- Precision@K
    precision_at_1 REAL,
    precision_at_5 REAL,

    -- Legacy
    mean_average_precision REAL,

    -- Timing
    processing_time_ms REAL,
    metadata TEXT
);"""
"""The examples above are those of the document."""

COLUMNS = tuple(re.findall(r"^    (\w+) (?:REAL|TEXT)", TABLE, flags=re.M))
RANKING = ("run", "mine.py:Mine", "--task", "keypoints/ranking", "--data", "scenes")


def test_the_examples_are_those_of_the_document() -> None:
    text = document("003")
    assert METADATA in text
    assert TABLE in text
    assert "[0.8, 0.6, 0.9]" in text
    assert "0.767" in text


# A world in which every rank is known


@pytest.fixture
def ranked(tiepoint: Program) -> Program:
    """Two scenes of two images.

    i_dome, identity: query 0 at (100, 100) has the value 0, query 1 at (120, 100) the value 22; query 2 at
    (140, 100) has its nearest keypoint 4 px off, query 3 at (60, 60) none near. Targets have 0, 10, 20, 30.
    v_wall, moved by (10, 5): three queries, each with a target at its true place, and three other targets.
    """
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    scene("scenes", "v_wall", (30, 40), (MOVED,))
    method(
        {
            10: ([(100, 100), (120, 100), (140, 100), (60, 60)], [0, 22, 5, 7]),
            20: ([(100, 100), (121, 101), (140, 104), (150, 150)], [0, 10, 20, 30]),
            30: ([(100, 100), (120, 120), (150, 150)], [40, 10, 50]),
            40: (
                [(110, 105), (130, 125), (90, 90), (70, 70), (60, 60), (160, 155)],
                [0, 10, 20, 30, 40, 50],
            ),
        }
    )
    return tiepoint


# i_dome: query 0 (0) has 0, 10, 20, 30 from the targets: rank 1. Query 1 (22) has 22, 12, 2, 8 and its target
# is the second: 2 and 8 are nearer, rank 3. Queries 2 and 3 have no ground truth.
# v_wall: query 0 (40) has 40, 30, 20, 10, 0, 10 and its target is the first: rank 6. Queries 1 (10) and 2
# (50) have their targets at distance 0: rank 1.
AP_I, AP_V = (1 / 1, 1 / 3), (1 / 6, 1 / 1, 1 / 1)
MICRO = (sum(AP_I) + sum(AP_V)) / 5
SCENE_I, SCENE_V = sum(AP_I) / 2, sum(AP_V) / 3
MACRO = (SCENE_I + SCENE_V) / 2
MICRO_ZEROS = (sum(AP_I) + sum(AP_V)) / 7
MACRO_ZEROS = (sum(AP_I) / 4 + SCENE_V) / 2
PRECISION_AT = {1: 3 / 5, 5: 4 / 5, 10: 5 / 5}
EXPECTED = {
    "true_map_micro": MICRO,
    "true_map_macro_by_scene": MACRO,
    "mean_average_precision": MACRO,
    "viewpoint_map": SCENE_V,
    "illumination_map": SCENE_I,
    "true_map_micro_including_zeros": MICRO_ZEROS,
    "true_map_macro_by_scene_including_zeros": MACRO_ZEROS,
    **{f"precision_at_{k}": v for k, v in PRECISION_AT.items()},
    **{f"recall_at_{k}": v for k, v in PRECISION_AT.items()},
    "total_queries_processed": 5,
    "total_queries_excluded": 2,
}


@pytest.mark.parametrize("protocol", ["workbench", "exact"])
def test_every_ranking_metric_by_hand(ranked: Program, protocol: str) -> None:
    answer = ranked.json(*RANKING, "--protocol", protocol)
    for metric, value in EXPECTED.items():
        assert answer.value(metric, protocol=protocol) == pytest.approx(value, abs=1e-12), metric
    assert answer.value("true_map_micro", "scene=i_dome", protocol) == pytest.approx(SCENE_I, abs=1e-12)
    assert answer.value("true_map_micro", "scene=v_wall", protocol) == pytest.approx(SCENE_V, abs=1e-12)


def test_queries_without_ground_truth_lower_only_the_punitive_means(ranked: Program) -> None:
    answer = ranked.json(*RANKING, "--protocol", "workbench")
    for name in ("true_map_micro", "true_map_macro_by_scene"):
        plain = answer.value(name, protocol="workbench")
        assert answer.value(f"{name}_including_zeros", protocol="workbench") < plain


def test_recall_at_k_is_precision_at_k(ranked: Program) -> None:
    answer = ranked.json(*RANKING, "--protocol", "workbench")
    for k in (1, 5, 10):
        precision = answer.value(f"precision_at_{k}", protocol="workbench")
        assert answer.value(f"recall_at_{k}", protocol="workbench") == precision


def test_rank_histogram_and_queries_without_ground_truth(ranked: Program) -> None:
    answer = ranked.json(*RANKING, "--protocol", "workbench")
    # Ranks 1, 3, 6, 1, 1 and two queries without an answer, as shares of seven queries.
    shares = {"0": 2 / 7, "1": 3 / 7, "2": 0, "3": 1 / 7, "4": 0, "5": 0, "6": 1 / 7, "7": 0, ">10": 0}
    for rank, share in shares.items():
        value = answer.value("rank_histogram", f"rank={rank}", "workbench")
        assert value == pytest.approx(share, abs=1e-12)


def test_the_tolerance_is_three_pixels_and_inclusive(tiepoint: Program) -> None:
    # Keypoints at 3 px and at 3.5 px from the places of two queries; both would be first.
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    method({10: ([(100, 100), (150, 150)], [0, 10]), 20: ([(103, 100), (150, 153.5)], [0, 10])})
    answer = tiepoint.json(*RANKING, "--protocol", "exact,workbench")
    for protocol in ("exact", "workbench"):
        assert answer.value("total_queries_processed", protocol=protocol) == 1
        assert answer.value("total_queries_excluded", protocol=protocol) == 1
    wider = tiepoint.json(*RANKING, "--protocol", "exact,workbench", "-o", "tau_px=4")
    for protocol in ("exact", "workbench"):
        assert wider.value("total_queries_processed", protocol=protocol) == 2


def test_one_query_has_at_most_one_right_answer(tiepoint: Program) -> None:
    # Two targets within 3 px, the nearer one at rank 2. Under the document's policy only that one is right.
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    method({10: ([(100, 100)], [0]), 20: ([(101, 100), (102, 100)], [5, 1])})
    answer = tiepoint.json(*RANKING, "--protocol", "workbench")
    assert answer.value("true_map_micro", protocol="workbench") == pytest.approx(1 / 2, abs=1e-12)
    # `exact` takes both by default (the ranking is 1, 5: both right) and the nearest alone on request.
    assert tiepoint.json(*RANKING).value("true_map_micro") == pytest.approx(1, abs=1e-12)
    nearest = tiepoint.json(*RANKING, "-o", "policy=nearest")
    assert nearest.value("true_map_micro") == pytest.approx(1 / 2, abs=1e-12)


def test_the_same_question_twice_has_the_same_answer(ranked: Program) -> None:
    arguments = (*RANKING, "--protocol", "exact,workbench")
    first = ranked.json(*arguments, "--store", "a").object["scores"]
    second = ranked.json(*arguments, "--store", "b").object["scores"]
    keys = ("protocol", "metric", "group", "value", "n")

    def kept(scores: list[dict[str, object]]) -> list[list[object]]:
        return [[s[k] for k in keys] for s in scores if s["metric"] != "processing_time_ms"]

    assert kept(first) == kept(second)


# The rank of the true match


@pytest.fixture
def tied(tiepoint: Program) -> Program:
    """One query at 0. Its target has 5; the others have 5, -5 (as far) and 3 (nearer)."""
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    points = [(100, 100), (120, 100), (140, 100), (160, 100)]
    method({10: ([(100, 100)], [0]), 20: (points, [5, 5, -5, 3])})
    return tiepoint


def test_rank_is_one_and_the_number_of_nearer_ones(tied: Program) -> None:
    # rank = 1 + count(d < d_true) = 1 + 1.
    answer = tied.json(*RANKING, "--protocol", "workbench", "-o", "tie=optimistic")
    assert answer.value("true_map_micro", protocol="workbench") == pytest.approx(1 / 2, abs=1e-12)
    assert answer.value("rank_histogram", "rank=2", "workbench") == 1


def test_the_program_adds_half_of_the_ties(tied: Program) -> None:
    # rank = 1 + 1 + (2 + 1) // 2.
    answer = tied.json(*RANKING, "--protocol", "workbench")
    assert answer.value("true_map_micro", protocol="workbench") == pytest.approx(1 / 3, abs=1e-12)
    named = tied.json(*RANKING, "--protocol", "workbench", "-o", "tie=protocol")
    assert named.value("true_map_micro", protocol="workbench") == pytest.approx(1 / 3, abs=1e-12)


def test_exact_takes_the_mean_over_orders_of_the_ties(tied: Program) -> None:
    # The target is second, third or fourth with the same probability.
    value = tied.json(*RANKING).value("true_map_micro")
    assert value == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3, abs=1e-12)


def test_an_unknown_tie_rule_is_refused(tied: Program) -> None:
    answer = tied(*RANKING, "--protocol", "workbench", "-o", "tie=optimist", code=2)
    assert "optimistic" in answer.text
    assert "protocol" in answer.text


def test_one_query_from_python() -> None:
    # The document's sketch: project, find the closest keypoint within tau, count the nearer ones, 1 / rank.
    h = [[1, 0, 10], [0, 1, 5], [0, 0, 1]]
    assert project_point(h, (100, 200)) == (110, 205)
    targets = [(500, 500), (110, 207), (20, 30), (40, 50)]
    result = compute_query_ap((100, 200), h, targets, [1.0, 4.0, 2.0, 9.0])
    assert (result.rank_of_true_match, result.ap) == (3, pytest.approx(1 / 3))
    result = compute_query_ap((100, 200), h, targets, [1.0, 4.0, 4.0, 4.0], tie="optimistic")
    assert (result.rank_of_true_match, result.ap) == (2, pytest.approx(1 / 2))
    nothing = compute_query_ap((100, 200), h, targets[:1], [1.0])
    assert not nothing.has_potential_match
    assert nothing.ap == 0


# Legacy precision

ROWS = """import numpy as np

SWAPS = {20: 2, 30: 4, 50: 1}  # code of an image -> pairs of rows that change places


class Rows:
    def describe(self, image, keypoints):
        rows = np.arange(len(keypoints.xy))
        for s in range(SWAPS.get(int(image[0, 0, 0]), 0)):
            rows[2 * s], rows[2 * s + 1] = rows[2 * s + 1], rows[2 * s]
        return np.stack([rows, np.ones(len(rows))], 1).astype(np.float32)
"""


@pytest.fixture
def projected(tiepoint: Program) -> Program:
    """Twenty points, the same rows in all images; three image pairs with 16, 12 and 18 right matches."""
    for name, codes in (("i_dome", (10, 20, 30)), ("v_wall", (40, 50))):
        scene("scenes", name, codes, (IDENTITY, IDENTITY), side=100)
    write("rows.py", ROWS)
    tiepoint(
        *("keypoints", "make", "grid", "--data", "scenes", "--detector", "grid?step_px=20"),
        *("--mode", "projected", "--border-px", "0", "--max-features", "20"),
    )
    (row,) = tiepoint.sql("select total_keypoints from keypoint_sets where name = 'grid'")
    assert row["total_keypoints"] == 5 * 20
    return tiepoint


def test_the_mean_of_the_document_is_0_767(projected: Program) -> None:
    # 16/20 = 0.8, 12/20 = 0.6, 18/20 = 0.9: the document's three precisions, out of an ordinary run.
    arguments = ("run", "rows.py:Rows@set:grid", "--task", "keypoints/ranking", "--data", "scenes")
    answer = projected.json(*arguments, "--protocol", "exact,workbench")
    for protocol in ("exact", "workbench"):
        mean = answer.value("mean_precision", protocol=protocol)
        assert round(mean, 3) == 0.767
        assert mean == pytest.approx((0.8 + 0.6 + 0.9) / 3, abs=1e-12)
        # By scene: i_dome (0.8 + 0.6) / 2, v_wall 0.9.
        macro = answer.value("legacy_macro_precision_by_scene", protocol=protocol)
        assert macro == pytest.approx((0.7 + 0.9) / 2, abs=1e-12)


def test_legacy_precision_is_in_the_results(projected: Program) -> None:
    arguments = ("run", "rows.py:Rows@set:grid", "--task", "keypoints/ranking", "--data", "scenes")
    projected(*arguments, "--protocol", "workbench")
    query = (
        "select mean_precision, legacy_mean_precision, legacy_macro_precision_by_scene, total_matches,"
        " metadata from results where protocol = 'workbench'"
    )
    (row,) = projected.sql(query)
    assert row["mean_precision"] == pytest.approx(0.7666666666666666, abs=1e-12)
    assert row["legacy_mean_precision"] == row["mean_precision"]
    assert row["legacy_macro_precision_by_scene"] == pytest.approx(0.8, abs=1e-12)
    assert row["total_matches"] == 60
    assert "mean_precision=0.766667;" in row["metadata"]


def test_mean_precision_without_corresponding_rows_is_filled(ranked: Program) -> None:
    for protocol in ("exact", "workbench"):
        answer = ranked.json(*RANKING, "--protocol", protocol)
        assert 0 <= answer.value("mean_precision", protocol=protocol) <= 1
        assert answer.value("processing_time_ms", protocol=protocol) > 0
    (row,) = ranked.sql("select note from scores where metric = 'mean_precision' and protocol = 'workbench'")
    assert "rows do not correspond" in row["note"]


def test_mean_precision_of_detected_keypoints_by_hand(tiepoint: Program) -> None:
    # Rows are swapped in image 2. Query 0 (descriptor 0) finds row 1, at its true place; query 1 (10) finds
    # row 0, at its true place; query 2 (20) finds row 2, which is 30 px away: 2 of 3 matches are correct.
    scene("scenes", "i_dome", (10, 20), (IDENTITY,), side=200)
    first, second = [(60, 60), (100, 60), (100, 100)], [(100, 60), (60, 60), (100, 130)]
    method({10: (first, [0, 10, 20]), 20: (second, [10, 0, 20])})
    answer = tiepoint.json(*RANKING, "--protocol", "workbench")
    assert answer.value("mean_precision", protocol="workbench") == pytest.approx(2 / 3, abs=1e-12)
    assert answer.value("total_matches", protocol="workbench") == 3


def test_run_gives_container_of_document(ranked: Program) -> None:
    run = tp.evaluate("mine.py:Mine", task="keypoints/ranking", data="scenes", protocol="workbench")
    metrics = run.to_metrics()
    assert metrics.true_map_micro == pytest.approx(MICRO, abs=1e-12)
    assert metrics.get_scene_names() == ["i_dome", "v_wall"]
    assert sum(metrics.per_scene_matches.values()) == metrics.total_matches > 0
    assert set(metrics.per_scene_keypoints) == set(metrics.per_scene_image_count) == {"i_dome", "v_wall"}
    assert metrics.processing_time_ms > 0
    assert run.value("true_map_micro") == metrics.true_map_micro  # the only protocol of the run
    other = tp.evaluate("mine.py:Mine", task="keypoints/ranking", data="scenes")
    with pytest.raises(tp.core.errors.InputError, match="workbench"):
        other.to_metrics()


def test_failed_experiment_is_row_with_error(tiepoint: Program) -> None:
    textured("scenes", ["i_dome"])
    write(
        "fails.py",
        "class Fails:\n    distance = 'l2'\n\n    def describe(self, image, keypoints):\n"
        "        raise ValueError('Feature detection failed')\n",
    )
    write(
        "e.yaml",
        "experiment: {name: one}\ndataset: {path: scenes}\ndescriptors:\n"
        "  - {name: broken, type: fails.py:Fails}\n",
    )
    tiepoint("run", "--config", "e.yaml", "--store", "failed", code=1)
    rows = tiepoint.sql("select method, true_map_micro, error, metadata from results", "--store", "failed")
    assert rows
    for row in rows:
        assert row["true_map_micro"] is None
        assert "Feature detection failed" in row["error"]
        assert row["metadata"].startswith("success=false;error_message=")


def test_metadata_has_all_metrics_of_row(ranked: Program) -> None:
    tasks = "keypoints/ranking,keypoints/verification,keypoints/retrieval"
    ranked("run", "mine.py:Mine", "--task", tasks, "--data", "scenes", "--protocol", "workbench")
    (row,) = ranked.sql("select * from results where protocol = 'workbench'")
    found = dict(part.split("=") for part in row["metadata"].strip(";").split(";"))
    context = {"id", "experiment_id", "protocol", "method", "dataset", "method_id", "dataset_id"}
    context |= {"keypoint_set_id", "metadata", "timestamp", "newest_of", "error"}
    for name, value in row.items():
        if name not in context and value is not None:
            documented = {"true_map_macro": "true_map_macro_by_scene"}.get(name, name)
            assert float(found.get(documented, found.get(name))) == pytest.approx(value, abs=1e-6), name


def test_the_container_of_the_document() -> None:
    metrics = ExperimentMetrics()
    for name, precision in (("i_dome", 0.8), ("i_dome", 0.6), ("v_wall", 0.9)):
        metrics.add_image_result(name, precision, 120, 200)
    metrics.calculate_mean_precision()
    assert round(metrics.mean_precision, 3) == 0.767
    assert metrics.legacy_macro_precision_by_scene == pytest.approx((0.7 + 0.9) / 2)
    assert metrics.get_scene_average_precision("i_dome") == pytest.approx(0.7)
    assert sorted(metrics.get_scene_names()) == ["i_dome", "v_wall"]
    assert metrics.per_scene_matches["i_dome"] == 240
    assert metrics.per_scene_keypoints["i_dome"] == 400
    assert metrics.per_scene_image_count["i_dome"] == 2


def test_the_usage_example_of_the_document() -> None:
    metrics = ExperimentMetrics()
    metrics.add_image_result("i_dome", 0.75, 120, 200)
    metrics.add_image_result("v_wall", 0.45, 80, 180)
    identity = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    metrics.add_query_ap("i_dome", compute_query_ap((10, 10), identity, [(10, 10), (50, 50)], [2.0, 1.0]))
    metrics.add_query_ap("v_wall", compute_query_ap((10, 10), identity, [(10, 10), (50, 50)], [1.0, 2.0]))
    metrics.add_query_ap("v_wall", compute_query_ap((10, 10), identity, [(90, 90)], [1.0]))
    metrics.calculate_mean_precision()
    assert metrics.mean_precision == pytest.approx((0.75 + 0.45) / 2)
    assert metrics.true_map_micro == pytest.approx((1 / 2 + 1) / 2)
    assert metrics.true_map_macro_by_scene == pytest.approx((1 / 2 + 1) / 2)
    assert metrics.precision_at_1 == pytest.approx(1 / 2)
    assert metrics.precision_at_5 == 1
    assert (metrics.total_queries_processed, metrics.total_queries_excluded) == (2, 1)
    assert metrics.true_map_micro_including_zeros == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert metrics.processing_time_ms >= 0
    # The document's loop over scenes.
    kinds = {
        kind: [metrics.get_scene_average_precision(s) for s in metrics.get_scene_names() if s[:2] == kind]
        for kind in ("i_", "v_")
    }
    assert sum(kinds["i_"]) / len(kinds["i_"]) == pytest.approx(0.75)
    assert sum(kinds["v_"]) / len(kinds["v_"]) == pytest.approx(0.45)


def test_merging_and_failures() -> None:
    folders = []
    for name, value in (("i_dome", 1.0), ("v_wall", 2.0)):
        part = ExperimentMetrics()
        result = compute_query_ap((0, 0), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [(0, 0), (9, 9)], [value, 1.5])
        part.add_query_ap(name, result)
        folders.append(part)
    overall = ExperimentMetrics()
    for part in folders:
        overall.merge(part)
    overall.calculate_mean_precision()
    assert overall.true_map_micro == pytest.approx((1 + 1 / 2) / 2)
    failed = ExperimentMetrics.create_error("Feature detection failed")
    assert not failed.success
    overall.merge(failed)
    assert not overall.success
    assert "Feature detection failed" in overall.error_message
    assert overall.total_queries_processed == 2  # what succeeded is still there


def test_a_metadata_string_states_only_what_was_measured() -> None:
    legacy = ExperimentMetrics()
    legacy.add_image_result("i_dome", 0.75, 120, 200)
    legacy.calculate_mean_precision()
    text = legacy.to_metadata_string()
    assert "mean_precision=0.750000;" in text
    for absent in ("true_map_micro", "precision_at_1=", "viewpoint_map", "keypoint_verification_ap"):
        assert absent not in text
    queries = ExperimentMetrics()
    identity = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    queries.add_query_ap("i_dome", compute_query_ap((10, 10), identity, [(10, 10)], [1.0]))
    queries.calculate_mean_precision()
    text = queries.to_metadata_string()
    assert "true_map_micro=1.000000;" in text
    assert "total_queries_excluded=0;" in text  # measured, and none
    for absent in ("mean_precision", "total_matches", "total_keypoints", "total_images", "viewpoint_map"):
        assert not re.search(rf"(?:^|;){absent}=", text), absent


# Verification and retrieval with distractors


@pytest.fixture
def pooled(tiepoint: Program) -> Program:
    """Two scenes of two images with four keypoints each; the values of v_wall are 1000 larger."""
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    scene("scenes", "v_wall", (30, 40), (MOVED,))
    places = [(100, 100), (120, 100), (140, 100), (160, 100)]
    moved = [(x + 10, y + 5) for x, y in places]
    method(
        {
            10: (places, [0, 10, 20, 30]),
            20: (places, [1, 12, 23, 45]),
            30: (places, [1000, 1010, 1020, 1030]),
            40: (moved, [1001, 1012, 1023, 1034]),
        }
    )
    return tiepoint


# i_dome, right pairs: 1, 2, 3, 15. Wrong pairs: 12, 23, 45, 9, 13, 35, 19, 8, 25, 29, 18, 7. In order: 1, 2
# and 3 right, then 7, 8, 9, 12, 13 wrong, then 15 right at place 9. Distractors are more than 900 away: last.
POOLED_I = (1 / 1 + 2 / 2 + 3 / 3 + 4 / 9) / 4
# v_wall, right pairs: 1, 2, 3, 4, before all wrong ones (7 and more).
POOLED_V = 1.0


def test_verification_with_distractors(pooled: Program) -> None:
    arguments = ("run", "mine.py:Mine", "--task", "keypoints/verification", "--data", "scenes")
    answer = pooled.json(*arguments, "--protocol", "workbench")
    expected = {
        "keypoint_verification_ap": (POOLED_I + POOLED_V) / 2,
        "verification_viewpoint_ap": POOLED_V,
        "verification_illumination_ap": POOLED_I,
    }
    for metric, value in expected.items():
        assert answer.value(metric, protocol="workbench") == pytest.approx(value, abs=1e-12)


def test_retrieval_labels_three_kinds(pooled: Program) -> None:
    arguments = ("run", "mine.py:Mine", "--task", "keypoints/retrieval", "--data", "scenes")
    answer = pooled.json(*arguments, "--protocol", "workbench")
    expected = {
        "keypoint_retrieval_ap": (POOLED_I + POOLED_V) / 2,
        "retrieval_viewpoint_ap": POOLED_V,
        "retrieval_illumination_ap": POOLED_I,
        # 4 right pairs a scene; 16 pairs a scene less those; 4 queries a scene meet the 4 keypoints of one
        # image of the other scene.
        "retrieval_num_true_positives": 2 * 4,
        "retrieval_num_hard_negatives": 2 * (16 - 4),
        "retrieval_num_distractors": 2 * 4 * 4,
    }
    for metric, value in expected.items():
        assert answer.value(metric, protocol="workbench") == pytest.approx(value, abs=1e-12)


VERIFICATION = ("keypoint_verification_ap", "verification_viewpoint_ap", "verification_illumination_ap")
RETRIEVAL = ("keypoint_retrieval_ap", "retrieval_viewpoint_ap", "retrieval_illumination_ap")


@pytest.mark.parametrize("protocol", ["exact", "bojanic", "workbench"])
@pytest.mark.parametrize(("task", "names"), [("verification", VERIFICATION), ("retrieval", RETRIEVAL)])
def test_names_of_the_document_under_every_protocol(
    pooled: Program, task: str, names: tuple[str, ...], protocol: str
) -> None:
    arguments = ("run", "mine.py:Mine", "--task", f"keypoints/{task}", "--data", "scenes")
    answer = pooled.json(*arguments, "--protocol", protocol)
    plain = "map" if task == "retrieval" and protocol != "workbench" else "ap"
    for name, group in zip(names, ("all", "kind=v", "kind=i"), strict=True):
        assert answer.value(name, protocol=protocol) == answer.value(plain, group, protocol), name
    if task == "retrieval":
        for label in ("true_positives", "distractors"):
            assert answer.value(f"retrieval_num_{label}", protocol=protocol) > 0


@pytest.mark.parametrize("protocols", ["workbench,exact", "workbench", "exact"])
def test_no_warning_about_a_protocol_that_was_not_asked_for(pooled: Program, protocols: str) -> None:
    tasks = "keypoints/verification,keypoints/retrieval"
    arguments = ("run", "mine.py:Mine", "--task", tasks, "--data", "scenes", "--protocol", protocols)
    answer = pooled.json(*arguments)
    said = answer.warnings + " " + answer.err
    for protocol in {"workbench", "exact", "bojanic"} - set(protocols.split(",")):
        assert protocol not in said


# The table `results`


def test_a_default_run_fills_the_results(ranked: Program) -> None:
    ranked(*RANKING)
    (row,) = ranked.sql("select protocol, true_map_micro, true_map_macro, precision_at_1 from results")
    assert row["protocol"] == "exact"
    assert row["true_map_micro"] == pytest.approx(MICRO, abs=1e-12)
    assert row["true_map_macro"] == pytest.approx(MACRO, abs=1e-12)
    assert row["precision_at_1"] == pytest.approx(PRECISION_AT[1], abs=1e-12)


def test_each_protocol_has_a_row_of_its_own(ranked: Program) -> None:
    ranked(*RANKING, "--protocol", "exact,workbench")
    rows = ranked.sql("select protocol, method from results order by protocol")
    assert [row["protocol"] for row in rows] == ["exact", "workbench"]
    assert len({row["method"] for row in rows}) == 1
    assert len(ranked.sql("select * from results where protocol = 'workbench'")) == 1


def test_the_three_tasks_of_the_document_share_a_row(pooled: Program) -> None:
    tasks = "keypoints/ranking,keypoints/verification,keypoints/retrieval"
    pooled("run", "mine.py:Mine", "--task", tasks, "--data", "scenes", "--protocol", "workbench")
    (row,) = pooled.sql(f"select {', '.join(COLUMNS)} from results")
    assert tuple(row) == COLUMNS
    # Ranks of i_dome are 1, 1, 1 and 2 (30 has 29, 18, 7, 15 from the targets, and 15 is right); of v_wall 1.
    assert row["true_map_micro"] == pytest.approx((7 + 1 / 2) / 8, abs=1e-12)
    assert row["viewpoint_map"] == 1
    assert row["illumination_map"] == pytest.approx((3 + 1 / 2) / 4, abs=1e-12)
    assert row["keypoint_verification_ap"] == pytest.approx((POOLED_I + POOLED_V) / 2, abs=1e-12)
    assert row["keypoint_retrieval_ap"] == pytest.approx((POOLED_I + POOLED_V) / 2, abs=1e-12)
    assert row["precision_at_1"] == pytest.approx(7 / 8, abs=1e-12)
    assert row["precision_at_5"] == 1
    assert row["processing_time_ms"] > 0


DOCUMENT_NAMES = (
    "mean_precision",
    "legacy_macro_precision_by_scene",
    "true_map_micro",
    "true_map_macro_by_scene",
    "viewpoint_map",
    "illumination_map",
    "true_map_micro_including_zeros",
    "true_map_macro_by_scene_including_zeros",
    "keypoint_verification_ap",
    "verification_viewpoint_ap",
    "verification_illumination_ap",
    "keypoint_retrieval_ap",
    "retrieval_viewpoint_ap",
    "retrieval_illumination_ap",
    "retrieval_num_true_positives",
    "retrieval_num_hard_negatives",
    "retrieval_num_distractors",
    "precision_at_1",
    "precision_at_5",
    "precision_at_10",
    "recall_at_1",
    "recall_at_5",
    "recall_at_10",
    "total_queries_processed",
    "total_queries_excluded",
    "processing_time_ms",
    "true_map_macro",
    "mean_average_precision",
    "metadata",
)
"""Every metric, count and column that the document names."""


def test_results_state_newest_of_how_many_runs(ranked: Program) -> None:
    for tau in (3, 5, 7):
        ranked(*RANKING, "-o", f"tau_px={tau}")
    rows = ranked.sql("select newest_of from results where protocol = 'exact'")
    assert sorted(row["newest_of"] or 0 for row in rows) == [0, 0, 3]


def test_every_name_of_the_document_is_a_column(ranked: Program) -> None:
    ranked(*RANKING, "--protocol", "workbench")
    (row,) = ranked.sql(f"select {', '.join(DOCUMENT_NAMES)} from results")
    assert row["true_map_micro_including_zeros"] == pytest.approx(MICRO_ZEROS, abs=1e-12)
    assert row["true_map_macro_by_scene_including_zeros"] == pytest.approx(MACRO_ZEROS, abs=1e-12)
    assert row["true_map_macro_by_scene"] == row["true_map_macro"] == pytest.approx(MACRO, abs=1e-12)
    assert row["mean_precision"] is not None


def test_recommended_metrics_can_be_compared_by_name(ranked: Program) -> None:
    tasks = [f"keypoints/{t}" for t in ("ranking", "verification", "retrieval")]
    rules = ("--protocol", "workbench")
    ranked("run", "mine.py:Mine", "--task", ",".join(tasks), "--data", "scenes", *rules)
    for metric in DOCUMENT_NAMES:
        if metric != "metadata":
            task = next((t for t in tasks if t.partition("/")[2] in metric), tasks[0])
            answer = ranked("compare", "--task", task, "--metric", metric, *rules)
            assert metric in answer.text or metric.removesuffix("_by_scene") in answer.text, metric


def test_names_of_the_document_from_python(ranked: Program) -> None:
    run = tp.evaluate("mine.py:Mine", task="keypoints/ranking", data="scenes", protocol="workbench")
    scores = run.scores[run.scores["group"] == "all"].set_index("metric")["value"]
    for metric, value in EXPECTED.items():
        assert scores[metric] == pytest.approx(value, abs=1e-12), metric


def test_metadata_has_the_keys_of_the_document(ranked: Program) -> None:
    ranked(*RANKING, "--protocol", "workbench")
    (row,) = ranked.sql("select metadata from results")
    found = dict(part.split("=") for part in row["metadata"].strip(";").split(";"))
    for part in METADATA.replace("\n", "").strip(";").split(";"):
        assert part.split("=")[0] in found
    assert float(found["true_map_micro"]) == pytest.approx(MICRO, abs=5e-7)
    assert float(found["i_dome_true_map"]) == pytest.approx(SCENE_I, abs=5e-7)
    assert float(found["v_wall_true_map"]) == pytest.approx(SCENE_V, abs=5e-7)
    assert int(found["total_queries_processed"]) == 5


def test_metadata_never_states_a_zero_for_what_was_not_measured(ranked: Program) -> None:
    ranked(*RANKING, "--protocol", "exact,workbench")
    for row in ranked.sql("select protocol, metadata from results"):
        found = dict(part.split("=") for part in row["metadata"].strip(";").split(";"))
        absent = ["keypoint_verification_ap", "keypoint_retrieval_ap", "image_retrieval_map"]
        if row["protocol"] == "workbench":
            assert "mean_precision" in found
        for key in absent:
            assert key not in found, (row["protocol"], key)
        for key in ("total_images", "total_keypoints"):
            assert float(found.get(key, 1)) > 0, (row["protocol"], key)
        assert found["v_wall_excluded_count"] == "0"  # measured, and none


# Keypoint generation


def test_keypoints_within_40_px_of_the_border_are_left_out_under_workbench(tiepoint: Program) -> None:
    # Three points keep 40 px from every edge of the 200 x 200 image; (20, 100) and (100, 185) do not.
    scene("scenes", "i_dome", (10, 20), (IDENTITY,), side=200)
    points = [(60, 60), (100, 60), (100, 100), (20, 100), (100, 185)]
    method({10: (points, [0, 10, 20, 30, 40]), 20: (points, [0, 10, 20, 30, 40])})
    answer = tiepoint.json(*RANKING, "--protocol", "exact,workbench")
    assert answer.value("total_queries_processed", protocol="workbench") == 3
    assert answer.value("total_queries_excluded", protocol="workbench") == 0
    assert answer.value("total_queries_processed") == 5
    other = tiepoint.json(*RANKING, "--protocol", "workbench", "-o", "border_px=0")
    assert other.value("total_queries_processed", protocol="workbench") == 5
    exact = tiepoint.json(*RANKING, "-o", "border_px=40")
    assert exact.value("total_queries_processed") == 3


def test_a_locked_set_is_used_as_it_is_under_workbench(projected: Program) -> None:
    # The set was made with a border of 0 px, in images of 100 x 100 px: none of its points may vanish.
    arguments = ("run", "rows.py:Rows@set:grid", "--task", "keypoints/ranking", "--data", "scenes")
    answer = projected.json(*arguments, "--protocol", "workbench")
    processed = answer.value("total_queries_processed", protocol="workbench")
    assert processed == 3 * 20  # three image pairs


def test_made_sets_keep_40_px_by_default(tiepoint: Program) -> None:
    scene("scenes", "i_dome", (10, 20), (IDENTITY,), side=120)
    tiepoint("keypoints", "make", "grid", "--data", "scenes", "--detector", "grid?step_px=10")
    tiepoint("keypoints", "export", "grid", "--out", "csv")
    for path in Path("csv").rglob("*.csv"):
        for line in path.read_text().splitlines():
            x, y = line.split(",")[:2]
            if x.replace(".", "").isdigit():
                assert 39.5 <= float(x) <= 79.5
                assert 39.5 <= float(y) <= 79.5
    (row,) = tiepoint.sql("select boundary_filter_px from keypoint_sets")
    assert row["boundary_filter_px"] == 40


# Names of descriptors and sets

FAMILY = {
    "SIFT": "sift",
    "DSPSIFT_V2": "dspsift?precise_upscale=false",
    "DSPRGBSIFT_V2": "dsprgbsift?precise_upscale=false",
    "RGBSIFT": "rgbsift",
    "SURF": "surf",
    "Sift": "sift",
}
"""The document's names, and ours."""


@pytest.mark.parametrize("name", FAMILY)
def test_descriptors_answer_to_the_names_of_the_document(tiepoint: Program, name: str) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    textured("scenes", ["i_dome"])
    arguments = ("--task", "keypoints/ranking", "--data", "scenes")
    theirs = tiepoint.json("run", f"{name}?max_features=60", *arguments).object["scores"]
    more = "&" if "?" in FAMILY[name] else "?"
    ours = tiepoint.json("run", f"{FAMILY[name]}{more}max_features=60", *arguments).object["scores"]
    assert [(s["metric"], s["group"], s["value"]) for s in theirs if "time" not in s["metric"]] == [
        (s["metric"], s["group"], s["value"]) for s in ours if "time" not in s["metric"]
    ]
    assert len(run_ids(tiepoint)) == 1  # one method under two names is one run


def test_names_of_the_document_in_python_too(tiepoint: Program) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    textured("scenes", ["i_dome"])
    run = tp.evaluate("RGBSIFT?max_features=40", task="keypoints/ranking", data="scenes")
    assert run.scores["method"].iloc[0].startswith("rgbsift")


def test_the_intersection_of_the_document(tiepoint: Program) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    textured("scenes", ["i_dome"], side=240)
    tiepoint("keypoints", "make", "sift_surf_intersection", "--data", "scenes")
    arguments = ("--task", "keypoints/ranking", "--data", "scenes")
    whole = tiepoint.json("run", "RGBSIFT@set:sift_surf_intersection", *arguments)
    side = tiepoint.json("run", "rgbsift@set:sift_surf_intersection_a", *arguments)
    other = tiepoint.json("run", "rgbsift@set:sift_surf_intersection_b", *arguments)
    assert side.value("true_map_micro") != other.value("true_map_micro")
    assert whole.value("true_map_micro") == side.value("true_map_micro")
    assert "sift_surf_intersection_a" in tiepoint("run", "SURF@set:sift_surf_intersection", *arguments).text


def test_scale_filtering_keeps_the_largest(tiepoint: Program) -> None:
    scene("scenes", "i_dome", (10, 20), (IDENTITY,))
    rows = "x,y,size,angle,response,octave,class_id\n" + "".join(
        f"{100 + 10 * k},100,{k + 1},-1,{1 / (k + 1)},0,-1\n" for k in range(6)
    )
    for k in (1, 2):
        write(f"csv/i_dome/{k}.csv", rows)
    tiepoint("keypoints", "import", "csv", "--data", "scenes", "--name", "all")
    tiepoint("keypoints", "subset", "all", "--out", "large", "--count", "2", "--by", "size")
    tiepoint("keypoints", "export", "large", "--out", "out")
    for path in Path("out").rglob("*.csv"):
        sizes = [float(line.split(",")[2]) for line in path.read_text().splitlines() if line[0].isdigit()]
        assert sorted(sizes) == [5, 6]


# Databases of the older program


def database(path: str, metadata: list[str], macro: float = 0.3703) -> None:
    """A database with the document's table alone, one row for each metadata string."""
    with sqlite3.connect(path) as connection:
        connection.execute(TABLE)
        for k, text in enumerate(metadata):
            values = (0.3724 + k / 100, macro, 0.4579, 0.3598, -1, -1, 0.2833, 0.458, macro, 0, text)
            connection.execute(f"insert into results values ({','.join('?' * 11)})", values)
    connection.close()


def test_the_table_of_the_document_alone_is_imported(tiepoint: Program) -> None:
    database("sift.db", [METADATA])
    tiepoint("import", "sift.db")
    rows = tiepoint.sql('select protocol, metric, "group", value from scores')
    scores = {(row["metric"], row["group"]): row["value"] for row in rows if row["protocol"] == "workbench"}
    assert scores["true_map_micro", "all"] == pytest.approx(0.3724, abs=1e-12)
    assert scores["true_map_macro_by_scene", "all"] == pytest.approx(0.3703, abs=1e-12)
    assert scores["precision_at_1", "all"] == pytest.approx(0.2833, abs=1e-12)
    # One key a scene is enough for the scenes.
    assert scores["true_map_micro", "scene=i_dome"] == pytest.approx(0.3598, abs=1e-12)
    assert scores["true_map_micro", "scene=v_wall"] == pytest.approx(0.4579, abs=1e-12)
    assert scores["total_queries_processed", "all"] == 215939
    assert scores["total_queries_excluded", "all"] == 21536
    # -1 and a time of 0 mean "not measured".
    for metric in ("keypoint_verification_ap", "keypoint_retrieval_ap", "processing_time_ms"):
        assert scores.get((metric, "all")) is None


def test_one_key_a_scene_is_enough_in_a_whole_database(tiepoint: Program) -> None:
    with sqlite3.connect("experiments.db") as connection:
        connection.execute("create table experiments (id integer primary key, descriptor_type text)")
        connection.execute("insert into experiments values (1, 'SIFT')")
        connection.execute(TABLE.replace("(", "(\n    id INTEGER, experiment_id INTEGER,", 1))
        values = (1, 1, 0.3724, 0.3703, 0.4579, 0.3598, -1, -1, 0.2833, 0.458, 0.3703, 0, METADATA)
        connection.execute(f"insert into results values ({','.join('?' * 13)})", values)
    connection.close()
    tiepoint("import", "experiments.db")
    rows = tiepoint.sql("select \"group\", value from scores where metric = 'true_map_micro'")
    found = {row["group"]: row["value"] for row in rows}
    assert found["all"] == pytest.approx(0.3724, abs=1e-12)
    assert found["scene=i_dome"] == pytest.approx(0.3598, abs=1e-12)
    assert found["scene=v_wall"] == pytest.approx(0.4579, abs=1e-12)


def test_what_an_import_drops_is_said(tiepoint: Program) -> None:
    database("sift.db", [METADATA + "neighbourhood=7;"])
    text = tiepoint("import", "sift.db").text
    for dropped in (
        "neighbourhood",
        "time",
        "keypoint_verification_ap",
        "keypoint_retrieval_ap",
    ):
        assert dropped in text
    assert "sift" in text  # the database names no descriptor: the file does


def test_rows_without_a_name_are_told_apart(tiepoint: Program) -> None:
    database("mine.db", [METADATA, METADATA])
    tiepoint("import", "mine.db")
    rows = tiepoint.sql("select method, true_map_micro from results order by true_map_micro")
    assert [row["true_map_micro"] for row in rows] == [pytest.approx(0.3724), pytest.approx(0.3824)]
    assert len({row["method"] for row in rows}) == 2


def test_scenes_of_a_database_carry_intervals(tiepoint: Program) -> None:
    # 0.3, 0.35, 0.4, 0.45 twice: the mean is 0.375.
    values = {f"{kind}_{k}": 0.3 + 0.05 * k for kind in "iv" for k in range(4)}
    text = "".join(f"{name}_true_map={value:.4f};" for name, value in values.items())
    database("sift.db", [text], macro=0.375)
    tiepoint("import", "sift.db")
    query = (
        "select value, low, high from scores where metric = 'true_map_macro_by_scene' and \"group\" = 'all'"
    )
    (row,) = tiepoint.sql(query)
    assert row["value"] == pytest.approx(0.375, abs=1e-12)
    assert row["low"] < 0.375 < row["high"]
    named = {
        row["group"]: row["value"]
        for row in tiepoint.sql('select "group", value from scores where "group" like \'scene=%\'')
    }
    for name, value in values.items():
        assert named[f"scene={name}"] == pytest.approx(value, abs=1e-12)


# Analysis


def test_significance_between_two_methods(tiepoint: Program) -> None:
    # Eight scenes of one query. Mine finds its target first everywhere; Worse second in the four v scenes (1
    # is nearer than 5) and third in the four i scenes (1 and 2 are).
    places = [(100, 100), (150, 150), (200, 200)]
    mine, worse = {}, {}
    for k in range(8):
        one, two = 20 * k + 10, 20 * k + 20
        scene("scenes", f"{'iv'[k % 2]}_scene{k}", (one, two), (IDENTITY,))
        mine[one] = worse[one] = (places[:1], [0])
        mine[two] = (places, [1, 5, 6])
        worse[two] = (places, [5, 1, 6 if k % 2 else 2])
    method(mine)
    method(worse, "Worse")
    tiepoint("run", "mine.py:Mine", "worse.py:Worse", "--task", "keypoints/ranking", "--data", "scenes")
    found = tiepoint.json("compare", "--task", "keypoints/ranking").object
    best, other = found["methods"]
    assert (best["value"], other["value"]) == (1, pytest.approx((4 / 2 + 4 / 3) / 8, abs=1e-12))
    assert other["difference"] == pytest.approx((4 / 2 + 4 / 3) / 8 - 1, abs=1e-12)
    # All eight signs agree: two of 2^8 patterns are as far out.
    assert other["p"] == pytest.approx(2 / 2**8, abs=1e-12)
    assert found["n_scenes"] == 8


def test_scores_are_a_data_frame_and_can_be_exported(ranked: Program) -> None:
    ranked(*RANKING)
    (run,) = tp.load(task="keypoints/ranking")
    frame = run.scores
    value = frame[(frame["metric"] == "true_map_micro") & (frame["group"] == "all")]["value"].iloc[0]
    assert value == pytest.approx(MICRO, abs=1e-12)
    for form in ("csv", "json"):
        ranked("report", "--format", form, "--out", f"out.{form}")
        assert "true_map_micro" in Path(f"out.{form}").read_text()


def test_the_terminal_shows_metrics_of_a_run(ranked: Program) -> None:
    out = ranked(*RANKING, "--protocol", "workbench").out
    assert "true_map_micro" in out
    assert f"{100 * MICRO:.2f}" in out
    (run,) = run_ids(ranked)
    shown = ranked("show", run).out
    for scene_name in ("i_dome", "v_wall"):
        assert scene_name in shown


def test_terminal_shows_scores_of_each_finished_run(ranked: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiepoint.cli.commands.run.redraws", lambda stream: True)
    answer = ranked(*RANKING, "--protocol", "exact,workbench")
    for protocol in ("exact", "workbench"):
        (line,) = [line for line in answer.err.splitlines() if f"keypoints/ranking, {protocol}: " in line]
        assert f"true_map_micro {100 * MICRO:.2f}" in line or protocol == "exact"


def test_time_is_measured(ranked: Program) -> None:
    ranked(*RANKING, "--protocol", "workbench")
    (row,) = ranked.sql("select processing_time_ms from results")
    assert row["processing_time_ms"] > 0


POOL = """import numpy as np


class Median:
    def pool(self, stack, scales):
        return np.median(stack, axis=0)
"""


def test_new_descriptors_and_pooling(tiepoint: Program) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    textured("scenes", ["i_dome"])
    write("my.py", POOL)
    name = "dsp:sift?scales=1,1.5,2&aggregation=my.py:Median&max_features=40"
    answer = tiepoint.json("run", name, "--task", "keypoints/ranking", "--data", "scenes")
    assert 0 < answer.value("true_map_micro") <= 1
