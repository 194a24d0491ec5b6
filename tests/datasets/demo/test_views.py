# SPDX-License-Identifier: BSD-3-Clause
"""The stereo pair of the demo: its cameras are those of the photographs, turned or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.datasets.demo.views import (
    BASELINE_M,
    FOCAL_PX,
    LEFT,
    RIGHT,
    ROTATIONS,
    VIEW,
    make_stereo,
    photo_path,
)
from tiepoint.datasets.image_pairs.ground_truth import PairSet
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.formats.image.reader import read_image, to_grey
from tiepoint.geometry.correspondence import centre
from tiepoint.geometry.homography import corners, project
from tiepoint.geometry.two_view.epipolar import pixel_distances

pytest.importorskip("skimage", reason="the photographs lie in scikit-image")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> PairSet:
    return read_pairs(make_stereo(tmp_path_factory.mktemp("stereo")))


def test_every_pair_is_whole(pairs: PairSet) -> None:
    assert [p.pair.name for p in pairs.truths] == ["left--right", *(f"left--{t}" for t in ROTATIONS)]
    for truth in pairs.truths:
        assert truth.T_0to1 is not None
        R = truth.T_0to1[:3, :3]
        assert np.allclose(R @ R.T, np.eye(3), atol=1e-12)
        assert np.allclose(R.T @ truth.T_0to1[:3, 3], [-BASELINE_M, 0, 0], atol=1e-12)
        assert truth.pair.payload().image0.shape == (500, 741, 3)


def test_turned_views_show_the_photograph_only(pairs: PairSet) -> None:
    for truth in pairs.truths[1:]:
        assert truth.K1 is not None
        assert truth.T_0to1 is not None
        right = np.array([[FOCAL_PX, 0, RIGHT[0]], [0, FOCAL_PX, RIGHT[1]], [0, 0, 1]])
        to_photo = right @ truth.T_0to1[:3, :3].T @ np.linalg.inv(truth.K1)
        around = project(to_photo, corners((VIEW[0] + 1, VIEW[1] + 1)) - 0.5, reference=centre(VIEW))
        assert (around >= 0).all(), truth.pair.name
        assert (around <= [740, 499]).all(), truth.pair.name


def test_true_points_of_the_disparity_map_lie_on_the_lines_and_look_alike(pairs: PairSet) -> None:
    """Points of known disparity are seen where K, R, t and their depth say, in every turned view."""
    disparity = np.load(Path(photo_path("motorcycle")).with_name("motorcycle_disp.npz"))["arr_0"]
    y, x = np.mgrid[150:350:5, 200:500:5]
    d = disparity[y, x].ravel()
    known = np.isfinite(d) & (d > 0)
    points = np.column_stack([x.ravel(), y.ravel()])[known].astype(float)
    depth = BASELINE_M * FOCAL_PX / (d[known] + RIGHT[0] - LEFT[0])
    left = to_grey(read_image(photo_path("motorcycle"))).astype(float)
    for truth in pairs.truths:
        assert truth.K0 is not None
        assert truth.K1 is not None
        assert truth.T_0to1 is not None
        rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(truth.K0).T
        there = (rays * depth[:, None]) @ truth.T_0to1[:3, :3].T + truth.T_0to1[:3, 3]
        seen = (there @ truth.K1.T)[:, :2] / there[:, 2:]
        assert pixel_distances(points, seen, truth.K0, truth.K1, truth.T_0to1).max() < 1e-6
        image = to_grey(truth.pair.payload().image1).astype(float)
        place = np.rint(seen).astype(int)
        inside = ((place >= 0) & (place < image.shape[::-1])).all(axis=1)
        assert inside.sum() > 500, truth.pair.name
        here = left[points[inside, 1].astype(int), points[inside, 0].astype(int)]
        there_grey = image[place[inside, 1], place[inside, 0]]
        assert np.corrcoef(here, there_grey)[0, 1] > 0.75, truth.pair.name


def test_the_right_photograph_is_as_shipped(pairs: PairSet) -> None:
    shipped = read_image(photo_path("motorcycle-right"))
    assert np.array_equal(pairs.pairs[0].payload().image1, shipped)
