# SPDX-License-Identifier: BSD-3-Clause
"""Errors of matches by every kind of truth, for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pair_truths import pair_truth
from tiepoint.core.records import Features
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.geometry.two_view.epipolar import pixel_distances
from tiepoint.tasks import TASKS
from tiepoint.tasks.pairs.data import match_errors, transfer_errors

SIZES = {"size0": (640, 480), "size1": (320, 240)}
K0 = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
K1 = np.array([[260.0, 0, 150], [0, 250, 130], [0, 0, 1]])
DRAW = np.random.default_rng(5)
POINTS0, POINTS1 = DRAW.random((30, 2)) * [639, 479], DRAW.random((30, 2)) * [319, 239]


def turned(deg: float) -> np.ndarray:
    c, s = np.cos(np.deg2rad(deg)), np.sin(np.deg2rad(deg))
    T = np.eye(4)
    T[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
    return T


@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_cameras_give_distances_to_epipolar_lines_in_the_convention_of_k(centre: float) -> None:
    T = turned(12)
    T[:3, 3] = [0.4, -0.1, 0.2]
    pair = pair_truth("p", "s", K0=K0, K1=K1, T_0to1=T, centre=centre, **SIZES)
    found = match_errors(pair, POINTS0, POINTS1)
    assert found.errors_px is not None
    assert found.F is not None
    true = pixel_distances(POINTS0 + centre, POINTS1 + centre, K0, K1, T)
    assert np.allclose(found.errors_px, true, rtol=1e-9)
    assert found.images == (None, None)
    assert found.measure == "mean distance to the true epipolar lines of both images"


def test_cameras_that_share_their_centre_give_places() -> None:
    T = turned(5)
    pair = pair_truth("p", "s", K0=K0, K1=K1, T_0to1=T, centre=0.5, **SIZES)
    rays = np.column_stack([POINTS0 + 0.5, np.ones(30)]) @ np.linalg.inv(K0).T @ T[:3, :3].T @ K1.T
    places = rays[:, :2] / rays[:, 2:] - 0.5
    found = match_errors(pair, POINTS0, places + np.array([3.0, 4.0]))
    assert found.F is None
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, 5.0)


def test_a_homography_gives_reprojection_errors() -> None:
    H = np.array([[0.5, 0.02, 3], [-0.01, 0.5, 2], [1e-5, 0, 1]])
    pair = pair_truth("p", "s", annotations={"H": H}, **SIZES)
    places = np.column_stack([POINTS0, np.ones(30)]) @ H.T
    found = match_errors(pair, POINTS0, places[:, :2] / places[:, 2:] + np.array([0.0, 2.0]))
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, 2.0)


def test_clicked_correspondences_give_the_lines_that_fit_them() -> None:
    world = DRAW.uniform([-2, -2, 4], [2, 2, 9], (20, 3))
    T = turned(15)
    T[0, 3] = 1.0
    there = world @ T[:3, :3].T + T[:3, 3]
    first, second = (world @ K0.T)[:, :2] / world[:, 2:], (there @ K1.T)[:, :2] / there[:, 2:]
    pair = pair_truth("p", "s", annotations={"corrs": np.hstack([first, second])}, **SIZES)
    found = match_errors(pair, POINTS0, POINTS1)
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, pixel_distances(POINTS0, POINTS1, K0, K1, T), rtol=1e-4)
    assert found.measure.endswith("of an F fitted to 20 clicked correspondences")
    few = pair_truth("p", "s", annotations={"corrs": np.hstack([first, second])[:7]}, **SIZES)
    assert match_errors(few, POINTS0, POINTS1).errors_px is None


def test_carried_points_are_as_far_off_as_they_are_and_silence_is_told() -> None:
    answers = POINTS1 + np.array([0.0, 7.0])
    answers[:4] = np.nan
    found = transfer_errors(ImagePair("p", "s", **SIZES), POINTS0, answers, POINTS1)
    assert len(found) == 26
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, 7.0)
    assert found.measure.endswith("4 of 30 points have no answer")


def test_sequences_are_pairs_of_their_reference(tmp_path: Path) -> None:
    folder = tmp_path / "v_x"
    folder.mkdir()
    for k in (1, 2, 3):
        Image.fromarray(np.zeros((40, 50, 3), np.uint8)).save(folder / f"{k}.png")
        if k > 1:
            np.savetxt(folder / f"H_1_{k}", [[1, 0, k], [0, 1, 0], [0, 0, 1]])
    opened = TASKS.load("keypoints/geometry").open(tmp_path, {})
    assert list(opened.drawable_pairs()) == ["v_x/1-2", "v_x/1-3"]
    keypoints = np.column_stack([[5.0, 20, 30], [5.0, 20, 30], np.full((3, 1), 8.0)])
    table = {
        f"v_x/{k}": {
            "keypoints": np.hstack([keypoints[:, :2] + [k, 0], keypoints[:, 2:]]),
            "values": np.eye(3, dtype=np.float32),
        }
        for k in (1, 2, 3)
    }
    found = opened.draw_matches("v_x/1-3", Features(table.__getitem__))
    # The keypoints moved by 2 px from image 1 to image 3, and the homography says 3.
    assert found.errors_px is not None
    assert found.errors_px.tolist() == [1.0, 1.0, 1.0]
    assert found.images[0] is not None
