# SPDX-License-Identifier: BSD-3-Clause
"""VLFeat's SIFT against a restatement that follows one pixel at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.methods.patches.builtin import VLFeatSift, clamp_and_normalise, histograms


def table_exp(x):
    if x > 25:
        return 0.0
    i = math.floor(x * 256 / 25)
    r = x * 256 / 25 - i
    a, b = math.exp(-i * 25 / 256), math.exp(-(i + 1) * 25 / 256)
    return a + r * (b - a)


def derivative(line, i):
    if i == 0:
        return line[1] - line[0]
    if i == len(line) - 1:
        return line[i] - line[i - 1]
    return (line[i + 1] - line[i - 1]) / 2


def sift_slowly(patch):
    side = len(patch)
    values = [[float(v) for v in row] for row in patch]
    centre, bin_px = side / 2 - 0.5, side / 2 * 0.5
    histogram = [[[0.0] * 8 for _ in range(4)] for _ in range(4)]
    for y in range(side):
        for x in range(side):
            dx = derivative(values[y], x)
            dy = derivative([row[x] for row in values], y)
            length, angle = math.sqrt(dx * dx + dy * dy), math.atan2(dy, dx) % (2 * math.pi)
            nx, ny, nt = (x - centre) / bin_px, (y - centre) / bin_px, 8 * angle / (2 * math.pi)
            window = table_exp((nx * nx + ny * ny) / (2 * 2.0 * 2.0))
            bx, by, bt = math.floor(nx - 0.5), math.floor(ny - 0.5), math.floor(nt)
            rx, ry, rt = nx - (bx + 0.5), ny - (by + 0.5), nt - bt
            for ix, iy, it in np.ndindex(2, 2, 2):
                if -2 <= bx + ix < 2 and -2 <= by + iy < 2:
                    share = abs(1 - ix - rx) * abs(1 - iy - ry) * abs(1 - it - rt)
                    histogram[by + iy + 2][bx + ix + 2][(bt + it) % 8] += window * length * share
    flat = [v for row in histogram for cell in row for v in cell]
    for _ in range(2):
        norm = math.sqrt(sum(v * v for v in flat)) + 1.19e-7
        flat = [v / norm for v in flat]
        if _ == 0:
            flat = [min(v, 0.2) for v in flat]
    return flat


@pytest.mark.parametrize("side", [65, 32])
def test_against_the_restatement(photograph, side):
    patch = photograph[200 : 200 + side, 150 : 150 + side]
    slow = np.array(sift_slowly(patch.tolist()))
    np.testing.assert_allclose(clamp_and_normalise(histograms(patch[None]))[0], slow, atol=1e-7)
    found = VLFeatSift().describe(patch[None])[0].astype(int)
    scaled = np.minimum(512 * slow, 255)
    sure = np.abs(scaled - np.round(scaled)) > 1e-3  # truncation is decided away from whole numbers
    np.testing.assert_array_equal(found[sure], np.floor(scaled[sure]).astype(int))
    assert sure.mean() > 0.5


def test_directions_and_places():
    # an upward ramp to the right: all gradient in direction 0; brighter below: direction 2 (clockwise)
    ramp = np.tile(np.arange(65, dtype=np.uint8), (65, 1))
    right = VLFeatSift().describe(ramp[None])[0].reshape(4, 4, 8)
    assert right[:, :, 0].all()
    assert not right[:, :, 1:].any()
    down = VLFeatSift().describe(ramp.T[None].copy())[0].reshape(4, 4, 8)
    assert down[:, :, 2].all()
    assert not np.delete(down, 2, axis=2).any()
    corner = np.zeros((65, 65), np.uint8)
    corner[2:6, 58:62] = 200
    cells = VLFeatSift().describe(corner[None])[0].reshape(4, 4, 8).sum(axis=2)
    assert np.unravel_index(cells.argmax(), (4, 4)) == (0, 3)  # row first, then column


def test_chunks_have_no_seam(patches):
    many = np.concatenate([patches] * 4)
    found = VLFeatSift().describe(many)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[: len(patches)], found[-len(patches) :])


def test_flat_is_zero():
    assert not VLFeatSift().describe(np.full((1, 65, 65), 3, np.uint8)).any()
