# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.geometry.homography import project
from tiepoint.geometry.patch_sampling import render_view

H = np.array([[0.9, 0.2, 20], [-0.1, 1.1, 15], [4e-4, 2e-4, 1.0]])


def test_identity_away_from_the_edge_of_a_plane():
    y, x = np.mgrid[:12, :16].astype(float)
    image = np.dstack([x, y, 2 * x - y])
    assert np.allclose(render_view(image, np.eye(3), (16, 12))[1:-1, 1:-1], image[1:-1, 1:-1], atol=1e-5)


def test_a_pixel_shows_the_point_the_homography_names():
    y, x = np.mgrid[:200, :220].astype(float)
    out = render_view(np.dstack([x, y]), H, (100, 90))
    v, u = np.mgrid[:90, :100]
    expected = project(H, np.stack([u.ravel(), v.ravel()], axis=1))
    assert np.abs(out.reshape(-1, 2) - expected).max() < 0.01


def test_minified_texture_is_averaged():
    checker = np.indices((300, 300)).sum(axis=0)[:, :, None] % 2 * 255.0
    small = render_view(checker, np.diag([7.3, 7.3, 1]), (40, 40))
    assert small.std() < 5
    assert small.mean() == pytest.approx(127.5, abs=2)


def test_output_behind_the_camera_is_refused():
    with pytest.raises(InputError, match="behind infinity"):
        render_view(np.zeros((9, 9, 1)), [[1, 0, 0], [0, 1, 0], [-0.1, 0, 1]], (50, 50))
    with pytest.raises(InputError, match="channels"):
        render_view(np.zeros((9, 9)), np.eye(3), (5, 5))
