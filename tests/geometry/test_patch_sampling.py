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
    render_view,
    sample_patches,
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


HOMOGRAPHY = np.array([[0.9, 0.2, 20], [-0.1, 1.1, 15], [4e-4, 2e-4, 1.0]])


def test_render_view_identity_returns_input_bits():
    image = np.random.default_rng(1).normal(size=(40, 50, 3)).astype(np.float32)
    assert render_view(image, np.eye(3), (50, 40)).tobytes() == image.tobytes()
    assert render_view(image, 3 * np.eye(3), (50, 40)).tobytes() == image.tobytes()
    moved = [[1, 0, 7], [0, 1, 5], [0, 0, 1]]
    assert np.array_equal(render_view(image, moved, (20, 30)), image[5:35, 7:27])


def test_render_view_turned_by_quarter_equals_rot90():
    image = np.random.default_rng(2).integers(0, 256, (40, 50, 1)).astype(np.float32)
    turn = np.array([[0, 1, 0], [-1, 0, 39], [0, 0, 1.0]]) @ np.diag([1 / 3, 1 / 3, 1 / 3])
    assert np.array_equal(np.rint(render_view(image, turn, (40, 50))), np.rot90(image, -1))


def test_a_pixel_shows_the_point_the_homography_names():
    y, x = np.mgrid[:200, :220].astype(float)
    out = render_view(np.dstack([x, y]), HOMOGRAPHY, (100, 90))
    v, u = np.mgrid[:90, :100]
    expected = project(HOMOGRAPHY, np.stack([u.ravel(), v.ravel()], axis=1))
    assert np.abs(out.reshape(-1, 2) - expected).max() < 0.01


def test_minified_texture_is_averaged():
    checker = np.indices((300, 300)).sum(axis=0)[:, :, None] % 2 * 255.0
    small = render_view(checker, np.diag([7.3, 7.3, 1]), (40, 40))
    assert small.std() < 5
    assert small.mean() == pytest.approx(127.5, abs=2)


def test_output_behind_the_camera_is_refused():
    with pytest.raises(InputError, match="to infinity"):
        render_view(np.zeros((9, 9, 1)), [[1, 0, 0], [0, 1, 0], [-0.1, 0, 1]], (50, 50))
    with pytest.raises(InputError, match="channels"):
        render_view(np.zeros((9, 9)), np.eye(3), (5, 5))


def cell_means(function, frame, size, fine=40):
    """Mean of a function of the plane over each patch cell, by a fine grid."""
    u = (np.arange(size * fine) + 0.5) / (size * fine) * 2 - 1
    uu, vv = np.meshgrid(u, u)
    x = frame[0, 0] * uu + frame[0, 1] * vv + frame[0, 2]
    y = frame[1, 0] * uu + frame[1, 1] * vv + frame[1, 2]
    return function(x, y).reshape(size, fine, size, fine).mean(axis=(1, 3))


def test_one_to_one_is_a_crop():
    image = np.random.default_rng(0).integers(0, 256, (20, 30)).astype(np.uint8)
    patch = sample_patches(image, similarity_frames([[11, 9]], [3.5]), 7)[0]
    assert np.array_equal(patch, image[6:13, 8:15])


def test_bilinear_between_centres():
    image = np.array([[0.0, 10.0], [20.0, 30.0]])
    assert sample_patches(image, similarity_frames([[0.25, 0.5]], [0.1]), 1)[0, 0, 0] == pytest.approx(12.5)


@pytest.mark.parametrize("radius", [1.3, 8, 20, 45, 90])
def test_a_plane_is_reproduced_at_any_scale(radius):
    y, x = np.mgrid[:300, :340]
    frame = np.array([[radius, 0.3 * radius, 160.3], [-0.2 * radius, 0.9 * radius, 148.6]])
    patch = sample_patches(0.5 * x - 0.25 * y, frame[None], 9)[0]
    expected = cell_means(lambda x, y: 0.5 * x - 0.25 * y, frame, 9)
    assert np.allclose(patch, expected, atol=2e-3)


@pytest.mark.parametrize("radius", [24, 40, 70])
def test_fine_texture_is_averaged_not_aliased(radius):
    checker = np.indices((200, 200)).sum(axis=0) % 2 * 255.0
    patch = sample_patches(checker, similarity_frames([[99.3, 99.9]], [radius], [0.2]), 9)[0]
    assert patch.std() < 6
    assert patch.mean() == pytest.approx(127.5, abs=3)


def test_a_stretched_frame_keeps_detail_along_its_short_side():
    stripes = np.tile((np.arange(200) // 3 % 2) * 255.0, (200, 1))
    frame = np.array([[10.0, 0, 100], [0, 80.0, 100]])
    patch = sample_patches(stripes, frame[None], 21)[0]
    assert patch.std(axis=1).min() > 80
    assert patch.std(axis=0).max() < 1e-3


def test_smooth_image_against_cell_means():
    def wave(x, y):
        return 100 + 50 * np.sin(x / 9) * np.cos(y / 11)

    y, x = np.mgrid[:200, :200]
    for radius in (5, 30, 60):
        frame = similarity_frames([[98, 101]], [radius], [0.7])
        patch = sample_patches(wave(x, y), frame, 15)[0]
        assert np.abs(patch - cell_means(wave, frame[0], 15)).max() < 2.0


def test_outside_repeats_the_edge():
    image = np.arange(9.0).reshape(3, 3)
    patch = sample_patches(image, similarity_frames([[-10, 1]], [1.5]), 3)[0]
    assert np.array_equal(patch, np.repeat(image[:, :1], 3, axis=1))


def test_order_and_company_do_not_matter():
    rng = np.random.default_rng(3)
    image = rng.random((90, 120))
    frames = similarity_frames(rng.uniform(20, 70, (30, 2)), rng.uniform(2, 40, 30), rng.uniform(0, 6, 30))
    together = sample_patches(image, frames, 11)
    assert np.array_equal(together[::-1], sample_patches(image, frames[::-1], 11))
    assert np.array_equal(together[4], sample_patches(image, frames[4:5], 11)[0])


def test_bad_input():
    with pytest.raises(InputError, match="NaN"):
        sample_patches(np.zeros((5, 5)), np.full((1, 2, 3), np.nan))
    with pytest.raises(InputError, match="grey"):
        sample_patches(np.zeros((5, 5, 3)), similarity_frames([[2, 2]], [1]))
    assert sample_patches(np.zeros((5, 5)), []).shape == (0, 65, 65)
