# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.geometry.areas import circle_overlap, ellipse_overlap
from tiepoint.geometry.patch_sampling import similarity_frames


def counted(frame_a, frame_b, n=700):
    """Overlap by counting the points of a fine grid in both ellipses."""
    box = [np.abs(f[:, :2]).sum(axis=1) for f in (frame_a, frame_b)]
    low = np.minimum(frame_a[:, 2] - box[0], frame_b[:, 2] - box[1])
    high = np.maximum(frame_a[:, 2] + box[0], frame_b[:, 2] + box[1])
    x, y = np.meshgrid(*(np.linspace(low[i], high[i], n) for i in range(2)))
    inside = []
    for f in (frame_a, frame_b):
        u = np.linalg.solve(f[:, :2], np.stack([x.ravel() - f[0, 2], y.ravel() - f[1, 2]]))
        inside.append((u**2).sum(axis=0) <= 1)
    return (inside[0] & inside[1]).sum() / (inside[0] | inside[1]).sum()


def random_frames(rng, n):
    frames = rng.normal(size=(n, 2, 3))
    frames[:, :, :2] += np.eye(2) * 2
    return frames


def test_ellipses_against_counting():
    rng = np.random.default_rng(1)
    a, b = random_frames(rng, 12), random_frames(rng, 12)
    expected = [counted(p, q) for p, q in zip(a, b, strict=True)]
    assert np.allclose(ellipse_overlap(a, b), expected, atol=4e-3)
    assert max(expected) > 0.4


@given(st.floats(0, 3.5), st.floats(0.2, 3))
@settings(max_examples=200)
def test_ellipse_rule_is_within_1e_4_of_the_exact_lens(distance, radius):
    a, b = similarity_frames([[0, 0]], [1], [0.4]), similarity_frames([[distance, 0]], [radius], [2.0])
    assert ellipse_overlap(a, b)[0] == pytest.approx(circle_overlap(distance, 1, radius), abs=1e-4)


def test_rotation_of_a_circle_and_a_common_affine_map_change_nothing():
    rng = np.random.default_rng(2)
    a, b = random_frames(rng, 20), random_frames(rng, 20)
    c, s = np.cos(1.1), np.sin(1.1)
    turned = b.copy()
    turned[:, :, :2] = b[:, :, :2] @ [[c, -s], [s, c]]
    common = np.array([[3, 1], [0.5, -0.2]])
    plain = ellipse_overlap(a, b)
    assert np.allclose(ellipse_overlap(a, turned), plain, atol=1e-9)
    assert np.allclose(ellipse_overlap(common @ a, common @ b), plain, atol=1e-4)
    assert np.allclose(ellipse_overlap(b, a), plain, atol=1e-4)
    assert np.allclose(ellipse_overlap(a, a), 1, atol=1e-4)


def test_apart_inside_empty_and_missing():
    unit = np.array([[1.0, 0, 0], [0, 1, 0]])
    far, inner = unit + np.array([[0, 0, 5], [0, 0, 0]]), unit * 0.5
    flat, missing = unit * [[1], [0]], unit * np.nan
    found = ellipse_overlap([unit] * 4, [far, inner, flat, missing])
    assert found[:3] == pytest.approx([0, 0.25, 0], abs=1e-4)
    assert np.isnan(found[3])


def test_circles_that_touch_or_share_a_centre():
    assert circle_overlap([0, 2, 1, 0.5], [1, 1, 2, 2], [1, 1, 1, 1]) == pytest.approx([1, 0, 0.25, 0.25])
