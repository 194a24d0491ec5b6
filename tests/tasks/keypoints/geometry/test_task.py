# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/geometry` on scenes with a known answer, and its parts against plain loops."""

from __future__ import annotations

from functools import partial

import keypoint_restatement as plain
import numpy as np
import pytest
from keypoint_world import make_features, make_scenes, run_task

from tiepoint.core.errors import InputError
from tiepoint.core.records import Features
from tiepoint.geometry.homography import project
from tiepoint.metrics.error_curves import homography_accuracy, homography_auc
from tiepoint.tasks import TASKS
from tiepoint.tasks.keypoints.data import ComparedFeatures
from tiepoint.tasks.keypoints.geometry.compare import estimate_exact_homography
from tiepoint.tasks.keypoints.geometry.task import TASK
from tiepoint.tasks.keypoints.neighbours import first_neighbours_mutual, select_matches

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("geometry"), names=("i_one", "v_two"), images=3)


def projected(opened, noise=0.0, count=60):
    """Keypoints of image 1 carried to the others by the true homography, each with its own descriptor."""
    tables = {}
    for scene in opened.sequences.scenes:
        rng = np.random.default_rng(7)
        width, height = opened.sequences.size(scene, "1")
        xy = rng.uniform([1, 1], [width - 2, height - 2], (count, 2))
        values = rng.normal(size=(count, 8)).astype(np.float32)
        for k in opened.sequences.images(scene):
            p = project(opened.sequences.homography(scene, k), xy, reference=(width / 2, height / 2))
            w, h = opened.sequences.size(scene, k)
            p = p + rng.uniform(-noise, noise, p.shape)
            keep = ((p >= 0) & (p <= [w - 1, h - 1])).all(axis=1)
            tables[f"{scene}/{k}"] = {
                "keypoints": np.column_stack([p[keep], np.zeros((keep.sum(), 5))]),
                "values": values[keep],
            }
    return Features(tables.__getitem__, "l2")


def test_perfect_features_score_perfectly(root):
    scores, _ = run_task(TASK, root, projected)
    for metric in ("repeatability", "matching_score", "homography_accuracy"):
        assert scores[metric, "tau_px=1"].value == pytest.approx(1.0)
    assert scores["localisation_error_px", "tau_px=1"].value < 1e-9
    assert scores["homography_auc", "tau_px=1"].value > 0.999
    # Mutual neighbours alone also join the few points that only one image shows.
    assert scores["mma", "tau_px=1"].value > 0.9


def test_noise_moves_them_as_it_should(root):
    scores, _ = run_task(TASK, root, partial(projected, noise=1.5))
    assert scores["repeatability", "tau_px=1"].value < scores["repeatability", "tau_px=3"].value
    assert 0.3 < scores["localisation_error_px", "tau_px=3"].value < 1.5
    mma = [scores["mma", f"tau_px={t}"].value for t in range(1, 11)]
    assert mma == sorted(mma)
    for score in scores.values():
        assert score.value >= 0 or np.isnan(score.value)


def test_counts_against_plain_loops(root):
    opened = TASK.open(root, {})
    features = make_features(opened, style="real", count=20)
    _, records = run_task(TASK, root, features)
    for record in records:
        scene = record.meta["scene"]
        first = features.arrays(f"{scene}/1")
        size1 = opened.sequences.size(scene, "1")
        here, _ = plain.distinct([tuple(p) for p in first["keypoints"][:, :2]])
        for row, k in enumerate(record.meta["images"]):
            second = features.arrays(f"{scene}/{k}")
            h = opened.sequences.homography(scene, k)
            back = np.linalg.inv(h)
            size2 = opened.sequences.size(scene, k)
            there, _ = plain.distinct([tuple(p) for p in second["keypoints"][:, :2]])
            shown = [plain.in_image(plain.project(h.tolist(), p), size2) for p in here]
            seen = [plain.in_image(plain.project(back.tolist(), p), size1) for p in there]
            assert (record["visible_first"][row], record["visible_second"][row]) == (sum(shown), sum(seen))
            errors = []
            for i, p in enumerate(here):
                if not shown[i]:
                    continue
                q = plain.project(h.tolist(), p)
                j = min(range(len(there)), key=lambda j: plain.math.dist(q, there[j]))
                b = plain.project(back.tolist(), there[j])
                nearest = min(range(len(here)), key=lambda i: plain.math.dist(b, here[i]))
                if nearest == i:
                    errors.append(plain.math.dist(q, there[j]))
            for t in range(1, 11):
                assert record["corresponding"][row, t - 1] == sum(e <= t for e in errors)
                assert record["error_sum_px"][row, t - 1] == pytest.approx(sum(e for e in errors if e <= t))
            a, b = first["values"].tolist(), second["values"].tolist()
            near = [plain.bojanic_nearest(v, b, plain.squared)[0] for v in a]
            far = [plain.bojanic_nearest(w, a, plain.squared)[0] for w in b]
            pairs = [(i, j) for i, j in enumerate(near) if far[j] == i]
            assert record["putative_mutual"][row] == len(pairs)
            assert record["putative_nn"][row] == len(a)
            gaps = [
                plain.math.dist(
                    plain.project(h.tolist(), first["keypoints"][i, :2]), second["keypoints"][j, :2]
                )
                for i, j in pairs
            ]
            for t in (1, 5, 10):
                assert record["accuracy_mutual"][row, t - 1] == pytest.approx(np.mean([g <= t for g in gaps]))


def test_ratio_matcher_is_strict_and_needs_two():
    def image(values):
        v = np.array(values, float)
        return ComparedFeatures("x/1", np.zeros((len(v), 2)), v, np.ones(len(v), bool))

    query = image([[0.0]])
    assert (
        len(
            select_matches(
                first_neighbours_mutual(query, image([[0.8], [1.0]]), distance="l2"), "ratio"
            ).first
        )
        == 0
    )
    assert (
        len(
            select_matches(
                first_neighbours_mutual(query, image([[0.79], [1.0]]), distance="l2"), "ratio"
            ).first
        )
        == 1
    )
    assert (
        len(select_matches(first_neighbours_mutual(query, image([[0.1]]), distance="l2"), "ratio").first) == 0
    )
    assert (
        len(
            select_matches(
                first_neighbours_mutual(query, image([[0.0], [0.0]]), distance="l2"), "ratio"
            ).first
        )
        == 0
    )


def test_ties_are_broken_at_random_not_by_row():
    same = ComparedFeatures("x/1", np.zeros((50, 2)), np.ones((50, 2)), np.ones(50, bool))
    other = ComparedFeatures("x/2", np.zeros((50, 2)), np.ones((50, 2)), np.ones(50, bool))
    chosen = {
        int(select_matches(first_neighbours_mutual(same, other, distance="l2", seed=s), "mutual").second[0])
        for s in range(6)
    }
    assert len(chosen) > 1


def test_estimates_repeat_bit_for_bit():
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 500, (200, 2))
    b = a + np.array([5, -3]) + rng.normal(0, 0.5, a.shape)
    b[:120] = rng.uniform(0, 500, (120, 2))
    for estimator in ("magsac", "ransac"):
        ask = partial(
            estimate_exact_homography, a, b, estimator=estimator, threshold_px=3.0, max_iterations=5000
        )
        first, inliers = ask()
        assert 60 <= inliers <= 110
        for _ in range(3):
            again, _ = ask()
            assert np.array_equal(first, again)
    assert estimate_exact_homography(a[:3], b[:3], estimator="ransac", threshold_px=3, max_iterations=10) == (
        None,
        0,
    )


def test_auc_is_the_area_under_the_accuracy():
    errors = np.array([0.2, 1.1, 2.9, 4.0, np.inf])
    grid = np.linspace(0, 3, 30001)
    area = np.mean([homography_accuracy(errors, t) for t in grid[1:]])
    assert homography_auc(errors, 3) == pytest.approx(area, abs=1e-3)
    assert np.isnan(homography_auc([], 3))
    with pytest.raises(InputError, match="NaN"):
        homography_auc([np.nan], 3)
    with pytest.raises(InputError, match="threshold must be positive"):
        homography_accuracy([1.0], 0)


def test_nothing_detected_is_a_gap_not_a_success(root):
    opened = TASK.open(root, {})
    empty = make_features(opened, empty=tuple(i.key for i in opened.items))
    scores, _ = run_task(TASK, root, empty)
    assert np.isnan(scores["repeatability", "all"].value)
    assert scores["mma", "all"].value == 0
    assert scores["homography_auc", "all"].value == 0


def test_every_option_has_an_effect(root):
    noisy = partial(projected, noise=2.5)
    base, _ = run_task(TASK, root, noisy)
    ratio, _ = run_task(TASK, root, noisy, ratio=0.4)
    assert ratio["putative_matches", "matcher=ratio"].value != base["putative_matches", "matcher=ratio"].value
    tight, _ = run_task(TASK, root, noisy, ransac_px=1.0)
    assert tight["inliers", "all"].value != base["inliers", "all"].value
    lazy, _ = run_task(TASK, root, partial(make_features, style="real", count=40), max_iterations=1)
    keen, _ = run_task(TASK, root, partial(make_features, style="real", count=40))
    assert (
        lazy["inliers", "estimator=ransac,matcher=nn"].value
        != keen["inliers", "estimator=ransac,matcher=nn"].value
    )
    tied = partial(make_features, style="ties", dim=3)
    assert len({run_task(TASK, root, tied, seed=s)[0]["mma", "tau_px=10"].value for s in range(4)}) > 1


def test_registered():
    assert TASKS.load("keypoints/geometry") is TASK
