# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view.epipolar import fundamental, line_distances
from tiepoint.geometry.two_view.linear_estimation import eight_point

K = np.array([[700.0, 0, 320], [0, 710, 240], [0, 0, 1]])


def seen(n: int, noise_px: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    world = draw.uniform([-2, -2, 4], [2, 2, 9], (n, 3))
    c, s = np.cos(0.3), np.sin(0.3)
    T = np.array([[c, 0, s, -0.7], [0, 1, 0, 0.1], [-s, 0, c, 0.4], [0, 0, 0, 1]])
    moved = world @ T[:3, :3].T + T[:3, 3]
    first, second = ((p @ K.T)[:, :2] / p[:, 2:] for p in (world, moved))
    return first, second + noise_px * draw.standard_normal((n, 2)), T


@pytest.mark.parametrize("n", [8, 40])
def test_exact_points_give_the_matrix_of_the_cameras(n: int) -> None:
    first, second, T = seen(n, 0.0)
    true = fundamental(K, K, T)
    true /= np.linalg.norm(true)
    found = eight_point(first, second)
    assert min(np.abs(found - true).max(), np.abs(found + true).max()) < 1e-9
    assert line_distances(first, second, found).max() < 1e-7


def test_noise_is_averaged_and_the_rank_is_two() -> None:
    first, second, _ = seen(60, 0.5)
    found = eight_point(first, second)
    assert np.linalg.svd(found, compute_uv=False)[2] < 1e-12
    assert 0.05 < line_distances(first, second, found).mean() < 0.6


def test_seven_are_too_few() -> None:
    first, second, _ = seen(7, 0.0)
    with pytest.raises(InputError, match="at least 8 correspondences, found 7 and 7"):
        eight_point(first, second)
