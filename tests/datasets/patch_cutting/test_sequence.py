# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.datasets.patch_cutting.sequence import NOISE, apply_jitter, thin_overlapping
from tiepoint.geometry.areas import circle_overlap, ellipse_overlap
from tiepoint.geometry.patch_sampling import similarity_frames


@pytest.mark.parametrize(("noise", "median"), [("easy", 0.85), ("hard", 0.72), ("tough", 0.61)])
def test_median_overlap_is_the_published_one(noise, median):
    n = 4000
    rng = np.random.default_rng(1)
    frames = similarity_frames(rng.uniform(0, 500, (n, 2)), rng.uniform(1.6, 30, n), rng.uniform(0, 6, n))
    jittered = apply_jitter(frames, NOISE[noise].draw(n, rng))
    assert np.median(ellipse_overlap(frames, jittered)) == pytest.approx(median, abs=0.01)


def test_parts_of_a_jitter():
    draws = NOISE["tough"].draw(20000, np.random.default_rng(2))
    area = np.linalg.det(draws[:, :, :2])
    assert np.abs(np.log(area)).max() <= 2 * NOISE["tough"].log_scale + 1e-12
    assert np.abs(draws[:, :, 2]).max() <= NOISE["tough"].translation
    stretch = np.divide(*np.linalg.svd(draws[:, :, :2], compute_uv=False).T)
    assert np.log(stretch).max() <= NOISE["tough"].log_stretch + 1e-12
    assert np.log(stretch).max() > 0.95 * NOISE["tough"].log_stretch
    turn = np.arctan2(draws[:, 1, 0] - draws[:, 0, 1], draws[:, 0, 0] + draws[:, 1, 1])
    assert np.rad2deg(np.abs(turn)).max() == pytest.approx(NOISE["tough"].rotation_deg, rel=0.01)
    assert np.abs(draws[:, :, 2].mean(axis=0)).max() < 0.01


def test_jitter_acts_in_the_frame():
    frame = similarity_frames([[100, 50]], [4], [np.pi / 2])
    along_x = np.array([[[1.0, 0, 0.5], [0, 1.0, 0]]])
    moved = apply_jitter(frame, along_x)[0]
    assert np.allclose(moved[:, 2], [100, 52])
    assert np.allclose(moved[:, :2], frame[0, :, :2])


def test_thinning_leaves_no_overlap_and_drops_nothing_else():
    rng = np.random.default_rng(3)
    points, radius = rng.uniform(0, 30, (120, 2)), rng.uniform(1.5, 6, 120)
    kept = thin_overlapping(points, radius, np.random.default_rng(0))

    def overlap(i, j):
        return circle_overlap(np.linalg.norm(points[i] - points[j]), radius[i], radius[j])

    assert max(overlap(i, j) for i in kept for j in kept if i != j) <= 0.5
    for i in set(range(120)) - set(kept.tolist()):
        assert max(overlap(i, j) for j in kept) > 0.5
    other = thin_overlapping(points, radius, np.random.default_rng(1))
    assert not np.array_equal(kept, other)
    assert len(thin_overlapping(np.empty((0, 2)), np.empty(0), rng)) == 0
