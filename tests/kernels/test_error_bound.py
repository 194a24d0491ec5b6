# SPDX-License-Identifier: BSD-3-Clause
"""The band holds: scores never leave it, in exact rational arithmetic, and it is not absurdly wide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tiepoint.kernels.error_bound import FLOAT32_UNIT, FLOAT64_UNIT, ambiguity_band
from tiepoint.kernels.threads import ThreadTeam
from tiepoint.kernels.tiles import FilterFrame, TileScores


def gaps(scores, reference):
    """|score - (alpha R - beta)| of every tile entry, exactly, beside the band of its query."""
    found = []

    def visit(tile):
        with np.errstate(under="ignore"):
            score = tile.half - tile.similarity
        for i, row in enumerate(score):
            for j, s in enumerate(row):
                r = Fraction(reference[tile.first_query + i, tile.first_row + j])
                wanted = Fraction(tile.alpha) * r - Fraction(float(tile.beta[i]))
                found.append((abs(Fraction(float(s)) - wanted), Fraction(float(tile.error[i]))))
        return 0

    scores.run(visit, free=1e9)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_score_is_inside_its_band(oracle, case, dtype):
    queries, pool = case
    scores = TileScores(queries[:8], pool[:40], "l2", ThreadTeam())
    if dtype == np.float64 and not scores.exact:
        scores._enter(FilterFrame(scores.frame.centre, scores.frame.scale, np.float64, exact=False))
    found = gaps(scores, oracle.matrix(scores.a, scores.b, "l2"))
    assert found
    assert all(gap <= error for gap, error in found)
    assert not scores.exact or all(gap == 0 for gap, _ in found)


def test_the_band_is_the_published_formula_plus_the_cost_of_centring():
    a, b, d, u = np.array([0.7]), 1.3, 128, FLOAT32_UNIT
    g = d * u / (1 - d * u)
    published = (
        g * a * b + 2 * u * (b * b / 2 + (1 + g) * a * b) + d * 2.0**-126 + (d + 4) * 2.0**-53 * (a + b) ** 2
    )
    found = ambiguity_band(d, u, a, b)
    assert published < found < published + 1.01 * u * (a + b) ** 2


def test_float64_is_far_narrower():
    a = np.array([1.0])
    assert ambiguity_band(128, FLOAT64_UNIT, a, 1.0) < 1e-8 * ambiguity_band(128, FLOAT32_UNIT, a, 1.0)


def test_small_whole_numbers_need_no_reference():
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 256, (30, 128)).astype(np.uint8)
    assert TileScores(whole, whole, "l2", ThreadTeam()).exact
    assert not TileScores(whole + 0.5, whole, "l2", ThreadTeam()).exact
    bright, dark = rng.integers(250, 256, (30, 300)).astype(np.uint8), np.zeros((1, 300), np.uint8)
    assert not TileScores(dark, bright, "l2", ThreadTeam()).exact


def test_centring_takes_a_common_mean_out_of_the_band():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 16)).astype(np.float32)
    near, far = [], []
    for shift, out in ((0.0, near), (1000.0, far)):
        scores = TileScores(rows + np.float32(shift), rows + np.float32(shift), "l2", ThreadTeam())
        scores.run(lambda tile, out=out: out.append(tile.error.max()) or 0, free=1e9)
    assert far[0] < 1.1 * near[0]
