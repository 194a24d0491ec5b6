# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.geometry.homography import project
from tiepoint.geometry.patch_sampling import (
    as_frames,
    magnify,
    project_frames,
    similarity_frames,
    square_in_view,
)

H = np.array([[0.9, 0.2, 10], [-0.1, 1.1, 5], [2e-4, 1e-4, 1.0]])


def test_angle_turns_x_towards_y():
    frame = similarity_frames([[5, 6]], [2], [np.pi / 2])[0]
    assert np.allclose(frame @ [1, 0, 1], [5, 8])


def test_projected_frame_follows_nearby_points():
    frame = similarity_frames([[200, 100]], [1e-3], [0.3])
    seen = project_frames(H, frame, (400, 300))[0]
    circle = np.array([[np.cos(a), np.sin(a), 1] for a in np.linspace(0, 6, 7)])
    assert np.allclose(circle @ seen.T, project(H, circle @ frame[0].T), atol=1e-8)


def test_frames_behind_are_nan():
    h = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1.0]])
    out = project_frames(h, similarity_frames([[10, 10], [150, 10]], [1, 1]), (90, 90))
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1]).all()
    assert not square_in_view(out[1:], (90, 90)).any()


def test_square_in_view_looks_at_the_corners_not_the_circle():
    turned = similarity_frames([[10, 10]], [10], [np.pi / 4])
    assert square_in_view(similarity_frames([[10, 10]], [10]), (21, 21)).all()
    assert not square_in_view(turned, (21, 21)).any()
    assert square_in_view(magnify(turned, 0.7), (21, 21)).all()


def test_shapes_are_checked():
    with pytest.raises(InputError, match=r"\(n, 2, 3\)"):
        as_frames(np.eye(3))
    assert as_frames([]).shape == (0, 2, 3)
