# SPDX-License-Identifier: BSD-3-Clause
"""Bands of curves: width against theory and against plain resampling, binned curves against their lists."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tiepoint.core.scores import PooledBins, SceneCurves, SceneValues
from tiepoint.metrics.ranking.curves import roc_curve
from tiepoint.stats.curve_bands import binned_precision, binned_roc, pooled_band, scene_band
from tiepoint.stats.intervals import scene_interval


def curves(n: int, seed: int = 0) -> SceneCurves:
    rng = np.random.default_rng(seed)
    y = np.clip(np.linspace(0.9, 0.3, 9) + rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.02, (n, 9)), 0, 1)
    names = tuple(f"s{i}" for i in range(n))
    return SceneCurves("all", "pr", np.linspace(0, 1, 9), names, ("v",) * n, y, np.ones(n))


def test_few_scenes_have_no_band() -> None:
    assert scene_band(curves(5)) is None


def test_a_mean_that_is_one_digit_above_one_has_a_band_that_is_cut() -> None:
    c = curves(8)
    y = np.where(c.x < 0.3, np.nextafter(1.0, 2.0), c.y)
    y[0] = 0.5
    band = scene_band(SceneCurves(c.group, c.curve, c.x, c.scenes, c.kinds, y, c.weights))
    assert band is not None
    assert band[1].max() == 1.0


@pytest.mark.parametrize("n", [8, 30, 116])
def test_a_band_is_as_wide_as_the_interval_of_a_point(n: int) -> None:
    c = curves(n)
    low, high = scene_band(c, draws=4000)  # type: ignore[misc]
    reach = stats.t.ppf(0.975, n - 1) * c.y.std(axis=0, ddof=1) / np.sqrt(n)
    assert (high - low) / 2 == pytest.approx(reach, rel=0.06)
    point = scene_interval(SceneValues(c.scenes, c.kinds, c.y[None, :, 4]))
    assert high[4] - low[4] == pytest.approx(point.high - point.low, rel=0.12)  # type: ignore[operator]


def test_weights_move_the_curve_and_its_band() -> None:
    c = curves(10)
    heavy = SceneCurves(c.group, c.curve, c.x, c.scenes, c.kinds, c.y, np.array([1e6] + [1.0] * 9))
    assert heavy.mean == pytest.approx(c.y[0], abs=1e-4)
    low, high = scene_band(heavy)  # type: ignore[misc]
    assert (low <= heavy.mean).all()
    assert (heavy.mean <= high).all()


def made(scenes: int, seed: int) -> tuple[PooledBins, np.ndarray, np.ndarray]:
    """Pairs within scenes only, 20 bins, and the same pairs one by one."""
    rng = np.random.default_rng(seed)
    positives = rng.integers(0, 30, (scenes, 20)) * (np.arange(20) < 12)
    negatives = rng.integers(0, 30, (scenes, 20)) * (np.arange(20) > 4)
    rows = [(s, s, b, negatives[s, b]) for s in range(scenes) for b in range(20) if negatives[s, b]]
    names = tuple(f"s{i}" for i in range(scenes))
    bins = PooledBins(names, ("v",) * scenes, positives.astype(float), np.array(rows), "auc")
    d = np.concatenate(
        [np.repeat(np.arange(20), positives.sum(0)), np.repeat(np.arange(20), negatives.sum(0))]
    )
    y = np.arange(len(d)) < positives.sum()
    return bins, d.astype(float), y


def test_binned_curves_are_those_of_the_list() -> None:
    bins, d, y = made(7, 0)
    positives = bins.positives.sum(0)[None]
    negatives = np.bincount(bins.negatives[:, 2], weights=bins.negatives[:, 3], minlength=20)[None]
    roc = roc_curve(d, y)
    grid = np.linspace(0, 1, 50)
    assert binned_roc(positives, negatives, grid)[0] == pytest.approx(np.interp(grid, roc.x, roc.y))
    ends = np.cumsum(positives[0]) / positives.sum()
    seen = np.cumsum(positives[0] + negatives[0])
    found = binned_precision(positives, negatives, ends[:12])[0]
    assert found == pytest.approx(np.cumsum(positives[0])[:12] / seen[:12])


def test_a_pooled_band_is_what_resampling_scenes_gives() -> None:
    bins, _, _ = made(12, 1)
    grid = np.linspace(0.05, 0.95, 10)
    rng = np.random.default_rng(5)
    by_scene = np.zeros((12, 20))
    np.add.at(by_scene, (bins.negatives[:, 0], bins.negatives[:, 2]), bins.negatives[:, 3])
    values = []
    for _ in range(3000):
        chosen = rng.integers(0, 12, 11)
        p, n = bins.positives[chosen].sum(0), by_scene[chosen].sum(0)
        values.append(
            np.interp(grid, np.append(0, np.cumsum(n) / n.sum()), np.append(0, np.cumsum(p) / p.sum()))
        )
    wanted = stats.t.ppf(0.975, 11) * np.std(values, axis=0)
    middle = np.full(10, 0.5)
    low, high = pooled_band(bins, "roc", grid, middle, draws=3000)  # type: ignore[misc]
    assert (high - low) / 2 == pytest.approx(np.minimum(wanted, 0.5), rel=0.08, abs=0.002)
