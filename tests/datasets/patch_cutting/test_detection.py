# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.datasets.patch_cutting.detection import detect, orientations


def blob_image(x, y, deviation, shape=(120, 160), sign=1):
    yy, xx = np.mgrid[: shape[0], : shape[1]]
    bump = np.exp(-((xx - x) ** 2 + (yy - y) ** 2) / (2 * deviation**2))
    return np.rint(128 + sign * 100 * bump).astype(np.uint8)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("deviation", [2.5, 4.0, 9.0])
@pytest.mark.parametrize("name", ["dog", "hessian"])
def test_a_blob_is_found_where_it_is_and_as_large_as_it_is(name, deviation, sign):
    found = detect(blob_image(70.3, 55.8, deviation, sign=sign))
    mine = found.detector == name
    best = np.flatnonzero(mine)[found.response[mine].argmax()]
    assert np.linalg.norm(found.points[best] - [70.3, 55.8]) < 0.25 * max(1, deviation / 4)
    assert found.sigma[best] == pytest.approx(deviation, rel=0.2)


def test_harris_finds_the_corner():
    yy, xx = np.mgrid[:100, :100]
    image = np.where((xx >= 40) & (yy >= 60), 220, 30).astype(np.uint8)
    found = detect(image)
    mine = found.detector == "harris"
    assert mine.any()
    # A corner keeps its look at every scale and drifts inwards with it, here along the diagonal.
    inwards = found.points[mine] - [39.5, 59.5]
    assert np.allclose(inwards[:, 0], inwards[:, 1], atol=0.05)
    assert (np.linalg.norm(inwards, axis=1) < 1.5 * found.sigma[mine]).all()


def test_an_edge_and_a_flat_image_give_nothing_in_the_middle():
    xx = np.mgrid[:100, :100][1]
    edge = np.where(xx >= 50, 200, 50).astype(np.uint8)
    found = detect(edge)
    near = (np.abs(found.points - 50) < 25).all(axis=1)
    assert not near.any()
    assert len(detect(np.full((90, 90), 77, dtype=np.uint8)).points) == 0


def test_small_images_are_fine():
    assert len(detect(np.zeros((17, 40), dtype=np.uint8)).points) == 0


@pytest.mark.parametrize("degrees", [0, 37, 90, 200, 333])
@pytest.mark.parametrize("sigma", [1.6, 3.0, 8.0])
def test_orientation_is_the_direction_of_the_gradient(degrees, sigma):
    angle = np.deg2rad(degrees)
    yy, xx = np.mgrid[:140, :140]
    ramp = 128 + 110 * np.tanh(((xx - 70) * np.cos(angle) + (yy - 70) * np.sin(angle)) / (3 * sigma))
    found = orientations(np.rint(ramp).astype(np.uint8), np.array([[70.0, 70.0]]), np.array([sigma]))[0]
    assert abs((found - angle + np.pi) % (2 * np.pi) - np.pi) < np.deg2rad(3)
    assert 0 <= found < 2 * np.pi


def test_orientation_turns_with_the_image():
    rng = np.random.default_rng(5)
    from scipy.ndimage import gaussian_filter

    texture = gaussian_filter(rng.normal(size=(121, 121)), 2.5)
    image = np.clip(128 + 60 * texture / texture.std(), 0, 255).astype(np.uint8)
    centre, sigma = np.array([[60.0, 60.0]]), np.array([4.0])
    plain = orientations(image, centre, sigma)[0]
    turned = orientations(np.rot90(image, -1), centre, sigma)[0]  # clockwise on screen
    assert abs((turned - plain - np.pi / 2 + np.pi) % (2 * np.pi) - np.pi) < 1e-3
