# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of scores: agreement with SciPy, rules by number of scenes, strata, determinism."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tiepoint.core.errors import InputError
from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.stats.interval_bounds import acceleration, bca_bounds, standard_error
from tiepoint.stats.intervals import image_interval, pooled_interval, scene_interval
from tiepoint.stats.resampling import exact_product, make_scene_score, resample, strata_of


def table(x: np.ndarray, kinds: str | None = None, weights: np.ndarray | None = None) -> SceneValues:
    x = np.atleast_2d(x)
    n = x.shape[1]
    return SceneValues(tuple(f"s{k:03d}" for k in range(n)), tuple(kinds or "v" * n), x, weights)


def test_t_interval_of_one_kind_is_the_textbook_one() -> None:
    x = np.array([0.41, 0.52, 0.47, 0.6, 0.38, 0.55, 0.49])
    i = scene_interval(table(x))
    expected = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert i.kind == "t"
    assert (i.low, i.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_bca_bounds_are_those_of_scipy_on_the_same_resamples() -> None:
    x = np.random.default_rng(1).beta(2, 5, 50)
    theirs = stats.bootstrap((x,), np.mean, n_resamples=3000, method="BCa", rng=np.random.default_rng(2))
    influence = ((x - x.mean()) / len(x))[:, None]
    low, high = bca_bounds(
        np.array([x.mean()]),
        theirs.bootstrap_distribution[:, None],
        influence,
        np.zeros(50, dtype=np.int64),
    )
    interval = theirs.confidence_interval
    assert (low[0], high[0]) == pytest.approx((interval.low, interval.high), rel=1e-6)


@pytest.mark.parametrize("n", [60, 116])
def test_bca_interval_is_close_to_scipy_with_its_own_resamples(n: int) -> None:
    x = np.random.default_rng(n).beta(2, 5, n)
    i = scene_interval(table(x))
    theirs = stats.bootstrap((x,), np.mean, method="BCa", rng=np.random.default_rng(2)).confidence_interval
    assert i.kind == "bca"
    assert i.low is not None
    assert i.high is not None
    width = theirs.high - theirs.low
    # Ours is wider by the factors for few scenes (n - 1 for n, t for normal), 2.5 % at 60 scenes.
    assert abs(i.low - theirs.low) < 0.04 * width
    assert abs(i.high - theirs.high) < 0.04 * width


def test_stratified_standard_error_is_that_of_a_mean_of_stratum_means() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random(5), rng.random(9) * 3
    cells = np.full((2, 14), np.nan)
    cells[0, :5], cells[1, 5:] = a, b
    score = make_scene_score(table(cells, "i" * 5 + "v" * 9))
    se, df = standard_error(score.influence()[:, None], score.strata)
    va, vb = a.var(ddof=1) / 5 / 4, b.var(ddof=1) / 9 / 4
    assert score.value() == pytest.approx((a.mean() + b.mean()) / 2)
    assert se[0] == pytest.approx(np.sqrt(va + vb))
    assert df[0] == pytest.approx(min((va + vb) ** 2 / (va**2 / 6 + vb**2 / 10) - 2, 12))


def test_kinds_are_strata_so_a_gap_between_them_does_not_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    x = np.where(np.arange(60) < 30, 0.2, 0.7) + rng.normal(0, 0.01, 60)
    near = scene_interval(table(x, "i" * 30 + "v" * 30))
    far = scene_interval(table(x))
    assert near.high - near.low < 0.1 * (far.high - far.low)  # type: ignore[operator]


def test_weights_count_scenes_like_their_repetition_in_the_score() -> None:
    s = make_scene_score(table(np.array([0.2, 0.4, 0.9]), weights=np.array([[2.0, 1.0, 1.0]])))
    assert s.value() == pytest.approx(np.mean([0.2, 0.2, 0.4, 0.9]))
    assert s.influence().sum() == pytest.approx(0, abs=1e-15)
    assert s.contributions().sum() == pytest.approx(s.value())


def test_few_scenes_have_no_interval_and_say_so() -> None:
    i = scene_interval(table(np.array([0.2, 0.4, 0.3])))
    assert (i.low, i.high, i.kind, i.n_scenes) == (None, None, "none", 3)
    assert i.note is not None
    assert "3 scenes" in i.note


def test_scenes_without_a_value_do_not_count() -> None:
    x = np.array([0.2, 0.4, 0.3, np.nan, 0.5, 0.3, 0.35, np.nan])
    assert scene_interval(table(x)) == scene_interval(
        SceneValues(tuple(f"s{k:03d}" for k in (0, 1, 2, 4, 5, 6)), ("v",) * 6, x[np.isfinite(x)][None])
    )


@pytest.mark.parametrize("n", [6, 8, 39, 40, 50])
def test_scene_interval_all_scenes_at_an_end_gives_one_sided_bound(n: int) -> None:
    bound = 0.05 ** (1 / n)
    top, bottom = scene_interval(table(np.ones(n))), scene_interval(table(np.zeros(n)))
    assert (top.low, top.high, top.kind) == (pytest.approx(bound), 1, "one-sided")
    assert (bottom.low, bottom.high, bottom.kind) == (0, pytest.approx(1 - bound), "one-sided")
    assert "one-sided 95 % bound" in str(top.note)


@pytest.mark.parametrize("n", [6, 50])
@pytest.mark.parametrize("value", [0.3, 1 / 3, 7.0])
def test_scene_interval_all_scenes_equal_inside_gives_none(n: int, value: float) -> None:
    i = scene_interval(table(np.full(n, value)))
    assert (i.low, i.high, i.kind) == (None, None, "none")
    assert "same value" in str(i.note)


def test_scene_interval_pixel_errors_all_zero_gives_none() -> None:
    i = scene_interval(table(np.zeros(8)), bounded=False)
    assert (i.low, i.high, i.kind) == (None, None, "none")


@pytest.mark.parametrize("n", [1, 5])
def test_scene_interval_few_perfect_scenes_gives_none(n: int) -> None:
    assert scene_interval(table(np.ones(n))).low is None


@pytest.mark.parametrize("n", [8, 45])
def test_pooled_interval_perfect_list_gives_none(n: int) -> None:
    rows = np.array([[k, k, 1, 4] for k in range(n)])
    positives = np.tile([3.0, 0.0], (n, 1))
    for statistic in ("ap", "auc"):
        bins = PooledBins(tuple(f"s{k:02d}" for k in range(n)), ("v",) * n, positives, rows, statistic)
        i = pooled_interval(bins, value=1.0)
        assert (i.low, i.high, i.kind) == (None, None, "none")
        assert "same value" in str(i.note)


def test_image_interval_equal_pairs_gives_none() -> None:
    pairs = [(a, b) for a in "abcdefg" for b in "abcdefg" if a < b]
    assert image_interval(np.zeros(len(pairs)), pairs, np.ones(len(pairs))) is None


@pytest.mark.parametrize("n", [10, 60])
def test_order_of_scenes_and_company_do_not_matter(n: int) -> None:
    rng = np.random.default_rng(n)
    x, order = rng.random(n), rng.permutation(n)
    given_ = table(x, "iv" * (n // 2))
    mixed = SceneValues(
        tuple(given_.scenes[k] for k in order), tuple(given_.kinds[k] for k in order), x[None, order]
    )
    alone = scene_interval(given_)
    assert scene_interval(mixed) == alone
    assert scene_interval(given_, seed=5) == scene_interval(given_, seed=5)


def test_errors_in_pixels_are_not_squeezed_below_one() -> None:
    x = np.array([0.95, 0.9, 0.99, 0.92, 0.97, 0.94])
    assert scene_interval(table(x)).high < 1  # type: ignore[operator]
    free = scene_interval(table(x), bounded=False)
    expected = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert free.high == pytest.approx(expected.high)


def test_level_widens() -> None:
    x = np.random.default_rng(3).random(50)
    narrow, wide = (scene_interval(table(x), level=level) for level in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high  # type: ignore[operator]
    with pytest.raises(InputError, match="between 0 and 1"):
        scene_interval(table(x), level=95)


@pytest.mark.parametrize(
    ("scenes", "cells", "message"),
    [
        (("a", "b"), np.ones((1, 3)), "2 scenes"),
        (("a", "a", "b"), np.ones((1, 3)), "duplicate scene"),
        (("a", "b", "c"), np.array([[1, np.inf, 0]]), "infinite"),
    ],
)
def test_bad_tables_are_named(scenes: tuple[str, ...], cells: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scene_interval(SceneValues(scenes, ("v",) * len(scenes), cells))


@given(st.lists(st.sampled_from("ivxyz"), min_size=1, max_size=30))
def test_no_stratum_has_a_single_scene_unless_all_do(kinds: list[str]) -> None:
    strata = strata_of(kinds)
    assert set(strata) == set(range(strata.max() + 1))
    if len(kinds) > 1:
        assert np.bincount(strata).min() > 1


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10**6))
def test_exact_product_does_not_depend_on_order_or_blocks(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (20, n)).astype(float)
    counts[:, 0] += n * 5 - counts.sum(axis=1)  # equal row sums, so every block rounds alike
    values = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-6, 6)
    whole = exact_product(counts, values)
    order = rng.permutation(n)
    assert (exact_product(counts[:, order], values[order]) == whole).all()
    assert (np.concatenate([exact_product(row[None], values) for row in counts]) == whole).all()
    assert whole == pytest.approx(counts @ values, rel=1e-9, abs=1e-12 * np.abs(values).max())


def test_resamples_have_the_variance_of_the_mean() -> None:
    x = np.random.default_rng(0).random((8, 1))
    drawn = resample(np.zeros(8, dtype=np.int64), resamples=40000, seed=1).weigh(x / 8)
    assert drawn.mean() == pytest.approx(x.mean(), abs=0.003)
    assert drawn.std() == pytest.approx(x.std(ddof=1) / np.sqrt(8), rel=0.02)


def test_acceleration_is_the_skewness_of_leaving_out() -> None:
    x = np.array([1.0, 1.0, 2.0, 7.0, 3.0])
    left = np.array([np.delete(x, k).mean() for k in range(5)])
    d = left.mean() - left
    expected = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    assert acceleration((x - x.mean())[:, None] / 5, np.zeros(5, dtype=np.int64))[0] == pytest.approx(
        expected
    )


def test_bca_with_many_ties_is_that_of_scipy() -> None:
    x = np.r_[np.zeros(30), np.ones(12)]
    theirs = stats.bootstrap((x,), np.mean, n_resamples=3000, method="BCa", rng=np.random.default_rng(2))
    drawn = theirs.bootstrap_distribution[:, None]
    # Equal means may differ in the last bit of their sums, in the data as in the draws.
    value = np.array([np.round(x.mean() * 42) / 42])
    low, high = bca_bounds(
        value, np.round(drawn * 42) / 42, (x - x.mean())[:, None] / 42, np.zeros(42, dtype=np.int64)
    )
    interval = theirs.confidence_interval
    assert (low[0], high[0]) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_resampled_scores_by_plain_loops_with_weights_and_gaps() -> None:
    rng = np.random.default_rng(6)
    cells, weights = rng.random((2, 9)), rng.integers(1, 6, (2, 9)).astype(float)
    cells[0, :4] = np.nan
    score = make_scene_score(table(cells, "iiiivvvvv", weights))
    draws = resample(score.strata, resamples=40, seed=3)
    got = score.resample_scores(draws)
    for r in range(40):
        times = np.empty(9)
        for member, counts in zip(draws.members, draws.counts, strict=True):
            times[member] = counts[r] * len(member) / (len(member) - 1)
        means = []
        for c in range(2):
            above = sum(
                times[s] * weights[c, s] * cells[c, s] for s in range(9) if cells[c, s] == cells[c, s]
            )
            below = sum(times[s] * weights[c, s] for s in range(9) if cells[c, s] == cells[c, s])
            means.append(above / below)
        assert got[r] == pytest.approx(np.mean(means), abs=1e-12)


def test_a_scene_alone_in_its_cell_leaves_no_interval() -> None:
    kinds = ("i", "v", "v", "v", "v", "v", "v")
    scenes = tuple(f"{k}_{n}" for n, k in enumerate(kinds))
    x = np.linspace(0.3, 0.6, 7)
    plain = SceneValues(scenes, kinds, x[None])
    by_kind = SceneValues(scenes, kinds, np.array([[x[0]] + 6 * [np.nan], [np.nan, *x[1:]]]))
    assert scene_interval(plain).kind == "t"
    found = scene_interval(by_kind)
    assert (found.kind, found.low, found.high) == ("none", None, None)
    assert found.note is not None
    assert "i_0 is the only scene of its cell" in found.note
    cells = np.where(
        np.array([[1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]]), x, np.nan
    )
    assert scene_interval(SceneValues(scenes, kinds, cells)).note == (
        "i_0, v_6 are the only scenes of their cells, so their spread is unknown"
    )
    two = SceneValues(
        scenes, ("i", "i", *kinds[2:]), np.array([[*x[:2]] + 5 * [np.nan], 2 * [np.nan] + [*x[2:]]])
    )
    assert scene_interval(two).kind == "t"


def test_differences_of_such_scores_are_tested_but_have_no_interval() -> None:
    from tiepoint.stats.paired import all_pairs, compare_pairs
    from tiepoint.stats.resampling import make_scene_score
    from tiepoint.stats.samples import sample_of_scenes

    kinds = ("i", "v", "v", "v", "v", "v", "v")
    scenes = tuple(f"{k}_{n}" for n, k in enumerate(kinds))
    x = np.linspace(0.3, 0.6, 7)
    cells = [np.array([[y[0]] + 6 * [np.nan], [np.nan, *y[1:]]]) for y in (x, x + 0.1)]
    sample = sample_of_scenes([make_scene_score(SceneValues(scenes, kinds, c)) for c in cells])
    found = compare_pairs(sample, all_pairs(2))
    assert np.isnan(found.low).all()
    assert np.isnan(found.resolvable).all()
    assert 0 < found.family.p[0] <= 2 / 2**6
