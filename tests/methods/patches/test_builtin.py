# SPDX-License-Identifier: BSD-3-Clause
"""Mean and deviation, z-scored pixels, bicubic resize, each restated by loops from the rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.methods.patches.builtin import MeanStd, Pixels, ResizedPixels


def moments(patch):
    flat = [float(v) for row in patch for v in row]
    mean = sum(flat) / len(flat)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in flat) / (len(flat) - 1))


def cubic(x):
    x = abs(x)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x <= 2 else 0.0


def sampled(line, size):
    """Bicubic samples of a line by the rules of MATLAB's imresize (1-based, symmetric border)."""
    n = len(line)
    out = []
    for j in range(1, size + 1):
        u = j * n / size + 0.5 * (1 - n / size)
        left = math.floor(u - 2)
        total = weight = 0.0
        for p in range(6):
            k = left + p
            w = cubic(u - k)
            m = (k - 1) % (2 * n)
            total += w * line[m if m < n else 2 * n - 1 - m]
            weight += w
        out.append(total / weight)
    return out


def resize_slowly(patch, size):
    mean, deviation = moments(patch)
    z = [[(float(v) - mean) / deviation for v in row] for row in patch]
    rows = [sampled(row, size) for row in z]
    columns = [sampled([rows[y][x] for y in range(len(rows))], size) for x in range(size)]
    return [v for column in columns for v in column]  # column-major


def test_meanstd(patches):
    found = MeanStd().describe(patches)
    np.testing.assert_allclose(found, [moments(p) for p in patches], rtol=1e-6)


def test_pixels_are_z_scored(patches):
    found = Pixels().describe(patches)
    assert found.shape == (len(patches), 65 * 65)
    mean, deviation = moments(patches[0])
    np.testing.assert_allclose(found[0], (patches[0].ravel() - mean) / deviation, atol=1e-5)


def test_resize_of_2016_is_6_by_6_without_norm(patches):
    found = ResizedPixels(6).describe(patches)
    np.testing.assert_allclose(found[:4], [resize_slowly(p, 6) for p in patches[:4]], atol=1e-5)


def test_resize_of_2017_is_4_by_4_of_length_1(patches):
    found = ResizedPixels().describe(patches)
    expected = np.array([resize_slowly(p, 4) for p in patches[:4]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found[:4], expected, atol=1e-6)


def test_flat_patches_are_zero_not_nan():
    flat = np.full((2, 65, 65), 9, np.uint8)
    for method in (Pixels(), ResizedPixels(4), ResizedPixels(6)):
        assert not method.describe(flat).any()
    np.testing.assert_array_equal(MeanStd().describe(flat), [[9, 0], [9, 0]])


def test_long_strips_are_described_in_chunks_without_a_seam(patches):
    many = np.concatenate([patches] * 60)
    np.testing.assert_array_equal(
        ResizedPixels().describe(many), np.concatenate([ResizedPixels().describe(patches)] * 60)
    )


def test_other_sizes_are_refused():
    with pytest.raises(InputError, match=r"size=4 .* size=6"):
        ResizedPixels(5)
