# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np

from tiepoint.geometry.correspondence import covisible, in_view


def test_the_target_has_its_own_size():
    points = [[90.0, 5.0]]
    assert not covisible(np.eye(3), points, (100, 10), (50, 10)).visible[0]
    assert covisible(np.eye(3), points, (100, 10), (100, 10)).visible[0]


def test_width_and_height_are_not_exchanged():
    assert in_view([[90, 5]], (100, 10)).all()
    assert not in_view([[5, 90]], (100, 10)).any()


def test_border_counts_from_the_edge_of_the_image():
    points = [[-0.5, 0], [1.4, 1.5], [1.5, 1.5], [7.5, 1.5], [7.6, 1.5]]
    assert in_view(points, (10, 10)).all()
    assert in_view(points, (10, 10), border_px=2).tolist() == [False, False, True, True, False]


def test_points_behind_are_not_in_view_even_if_the_division_lands_inside():
    h = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1.0]])
    point = [[120.0, -10.0]]  # w = -0.2: dividing gives (-600, 50); shift it back inside
    shift = np.array([[1, 0, 610], [0, 1, 0], [0, 0, 1.0]])
    x, y, w = shift @ h @ [120.0, -10.0, 1.0]
    assert in_view([[x / w, y / w]], (100, 100)).all()
    assert not covisible(shift @ h, point, (100, 100), (100, 100)).visible.any()
    assert not covisible(-shift @ h, point, (100, 100), (100, 100)).visible.any()
