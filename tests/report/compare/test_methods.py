# SPDX-License-Identifier: BSD-3-Clause
"""Comparing methods: what is refused, what is found, what is said."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.report.compare.methods import compare_methods
from tiepoint.stats.intervals import scene_interval


def table(x: np.ndarray, names: list[str] | None = None) -> SceneValues:
    x = np.atleast_2d(x)
    n = x.shape[1]
    scenes = names or [f"s{k:03d}" for k in range(n)]
    return SceneValues(tuple(scenes), tuple("iv"[k % 2] for k in range(n)), x)


def three(n: int = 20, seed: int = 0) -> dict[str, SceneValues]:
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.3, 0.6, n)
    return {
        "low": table(level + rng.normal(0, 0.01, n) - 0.1),
        "high": table(level + rng.normal(0, 0.01, n) + 0.1),
        "middle": table(level + rng.normal(0, 0.01, n)),
    }


def test_best_first_with_letters_ranks_and_differences() -> None:
    c = compare_methods(three())
    assert [r.method for r in c.rows] == ["high", "middle", "low"]
    assert [r.letters for r in c.rows] == [("a",), ("b",), ("c",)]
    assert [(r.rank_best, r.rank_worst) for r in c.rows] == [(1, 1), (2, 2), (3, 3)]
    assert c.baseline == "high"
    assert c.rows[0].versus is None
    low = c.rows[2].versus
    assert low is not None
    assert low.difference == pytest.approx(-0.2, abs=0.01)
    assert low.low < low.difference < low.high < 0  # type: ignore[operator]
    assert low.wins == (0, 0, 20)
    assert c.pair("low", "high").difference == low.difference
    assert c.pair("high", "low") == c.pair("low", "high").swapped()


def test_a_baseline_has_its_own_smaller_family() -> None:
    c = compare_methods(three(seed=3), baseline="middle")
    assert (c.baseline, c.family_size, c.pairs_size) == ("middle", 2, 3)
    by = {r.method: r for r in c.rows}
    assert by["middle"].versus is None
    assert by["high"].versus.difference > 0 > by["low"].versus.difference  # type: ignore[union-attr]
    with pytest.raises(UnknownNameError, match="middle"):
        compare_methods(three(), baseline="midle")


def test_lower_is_better_turns_order_and_words() -> None:
    c = compare_methods(three(), higher_is_better=False)
    assert [r.method for r in c.rows] == ["low", "middle", "high"]
    assert c.answer("high", "low").startswith("low is better than high by 20")
    assert c.pair("low", "high").wins == (20, 0, 0)
    assert [(r.rank_best, r.rank_worst) for r in c.rows] == [(1, 1), (2, 2), (3, 3)]


def test_noise_is_not_separated_and_never_called_equal() -> None:
    rng = np.random.default_rng(1)
    level = rng.uniform(0.3, 0.6, 30)
    c = compare_methods({name: table(level + rng.normal(0, 0.02, 30)) for name in "abc"})
    assert {r.letters for r in c.rows} == {("a",)}
    said = c.answer("a", "b")
    assert "not separated by these 30 scenes (95 %, family-wise)" in said
    assert "80 % probability" in said
    assert "equal" not in said
    assert "equal" not in str(c)
    assert "not separated by these 30 scenes (95 %, family-wise" in str(c)


def test_values_and_intervals_are_those_of_the_score() -> None:
    tables = three(50)
    c = compare_methods(tables)
    for row in c.rows:
        i = scene_interval(tables[row.method])
        assert row.value == pytest.approx(tables[row.method].cells.mean())
        assert (row.low, row.high) == pytest.approx((i.low, i.high), abs=1e-9)
    assert c.interval_kind == "bca"


def test_identical_methods_are_one_and_said() -> None:
    tables = three()
    tables["twin"] = table(tables["low"].cells + 1e-11)
    c = compare_methods(tables)
    assert (c.n_methods, len(c.rows), c.pairs_size) == (3, 4, 3)
    twin = next(r for r in c.rows if r.method == "twin")
    assert twin.identical_to == "low"
    assert any("twin equals low" in n for n in c.notes)
    with pytest.raises(InputError, match="one method"):
        c.pair("low", "twin")
    assert c.pair("twin", "high").first == "twin"
    led = compare_methods(tables, baseline="twin")
    assert next(r for r in led.rows if r.method == "low").identical_to == "twin"


def test_duplicate_scenes_count_once_and_are_named() -> None:
    tables = {n: table(np.hstack([t.cells, t.cells[:, :1]])) for n, t in three(40).items()}
    names = [f"s{k:03d}" for k in range(41)]
    tables = {n: SceneValues(tuple(names), (*t.kinds[:40], t.kinds[0]), t.cells) for n, t in tables.items()}
    c = compare_methods(tables)
    assert c.n_scenes == 40
    assert any("s000 = s040" in n for n in c.notes)
    assert c.rows[0].value == pytest.approx(tables["high"].cells[:, :40].mean())


def test_few_scenes_show_what_they_can_and_cannot_do() -> None:
    c = compare_methods(three(5))
    assert c.interval_kind == "none"
    assert c.rows[0].low is None
    assert c.smallest_p == 0.0625
    assert {r.letters for r in c.rows} == {("a",)}
    assert "smallest p these scenes allow is 0.062" in c.answer("high", "low")
    assert "the smallest possible p is 0.062" in str(c)


def test_one_method_alone_has_a_table_without_tests() -> None:
    c = compare_methods({"only": three()["low"]})
    assert c.pairs == ()
    assert "only" in str(c)
    assert "p:" not in str(c)


def test_runs_that_differ_are_refused_with_what_and_who() -> None:
    meta = {
        "low": {"dataset": "aaa", "protocol": "exact", "lists": 1},
        "high": {"dataset": "bbb", "protocol": "exact", "lists": 1},
        "middle": {"dataset": "aaa", "protocol": "workbench", "lists": 1},
    }
    with pytest.raises(ProblemsError) as e:
        compare_methods(three(), meta=meta)
    message = str(e.value)
    assert "dataset differs: aaa (low, middle), bbb (high)" in message
    assert "protocol differs: exact (low, high), workbench (middle)" in message
    assert "lists" not in message
    assert '`allow="dataset,protocol"`' in message
    with pytest.raises(ProblemsError, match="protocol"):
        compare_methods(three(), meta=meta, allow=["dataset"])
    c = compare_methods(three(), meta=meta, allow=["dataset", "protocol"])
    assert "Note: compared although dataset differs" in str(c)
    assert len(compare_methods(three(), meta=meta, allow=["all"]).notes) == 2


def test_missing_scenes_and_values_are_refused_or_noted() -> None:
    tables = three()
    short = table(tables["low"].cells[:, :19])
    with pytest.raises(ProblemsError, match="s019"):
        compare_methods(tables | {"low": short})
    c = compare_methods(tables | {"low": short}, allow=["scenes"])
    assert c.n_scenes == 19
    assert any("s019" in n for n in c.notes)
    holes = tables["low"].cells.copy()
    holes[0, 3] = np.nan
    with pytest.raises(ProblemsError, match="1 of 20 scene values are missing in low"):
        compare_methods(tables | {"low": table(holes)})
    assert compare_methods(tables | {"low": table(holes)}, allow=["values"]).n_scenes == 19
    with pytest.raises(InputError, match="no scene in common"):
        compare_methods({"a": table(np.ones(3), ["x", "y", "z"]), "b": tables["low"]}, allow=["all"])
    with pytest.raises(InputError, match="different numbers of settings"):
        compare_methods({"a": table(np.ones((2, 20))), "b": tables["low"]})
    with pytest.raises(InputError, match="nothing to compare"):
        compare_methods({})


def test_scene_weights_that_differ_are_refused() -> None:
    tables = three()
    odd = tables["low"]
    heavy = SceneValues(odd.scenes, odd.kinds, odd.cells, np.arange(1.0, 21)[None])
    with pytest.raises(ProblemsError, match=r"every scene counts the same(.|\n)*weigh differently in low"):
        compare_methods({"high": tables["high"], "low": heavy})


def test_order_of_methods_and_scenes_does_not_change_a_bit() -> None:
    tables = three(45)
    order = np.random.default_rng(0).permutation(45)
    mixed = {
        n: SceneValues(tuple(t.scenes[k] for k in order), tuple(t.kinds[k] for k in order), t.cells[:, order])
        for n, t in reversed(tables.items())
    }
    assert compare_methods(tables).to_dict() == compare_methods(mixed).to_dict()


def test_threads_do_not_change_a_bit() -> None:
    code = (
        "import numpy as np\n"
        "from tiepoint.core.scores import SceneValues\n"
        "from tiepoint.report.compare.methods import compare_methods\n"
        "x = np.random.default_rng(0).random((8, 6, 60))\n"
        "w = np.random.default_rng(1).integers(1, 9, (6, 60)).astype(float)\n"
        "s = tuple(f's{k}' for k in range(60))\n"
        "t = {f'm{k}': SceneValues(s, ('i',) * 30 + ('v',) * 30, x[k], w) for k in range(8)}\n"
        "print(compare_methods(t, flips=3000).to_dict())\n"
    )
    seen = set()
    for threads in ("1", "2"):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        out = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        seen.add(out.stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("n", [4, 12, 45])
def test_pooled_scores_compare_without_scene_values(n: int) -> None:
    rng = np.random.default_rng(0)

    def bins(scale: float) -> PooledBins:
        pos = rng.poisson(30 * np.exp(-np.arange(15) / scale), (n, 15)).astype(float)
        pair = rng.integers(0, n, (n * 30, 2))
        rows = np.column_stack([pair, rng.integers(2, 15, len(pair)), np.ones(len(pair), dtype=int)])
        return PooledBins(tuple(f"s{k}" for k in range(n)), ("v",) * n, pos, rows, "ap")

    tables = {"good": bins(2), "bad": bins(6)}
    c = compare_methods(tables, metric="ap", resamples=800, values={"good": 0.9, "bad": 0.7})
    assert [r.value for r in c.rows] == [0.9, 0.7]
    assert c.pooled
    assert c.pairs[0].wins is None
    assert "won" not in str(c)
    assert c.interval_kind == ("none" if n < 6 else "t" if n < 40 else "bca")
    if n >= 6:
        assert c.pairs[0].separated
        assert "sign-flip test of the contributions of scenes to the pooled score" in str(c)
    assert c.smallest_p == {4: 1 / 8, 12: 1 / 2048, 45: 1 / 100_001}[n]
    with pytest.raises(ProblemsError, match="cannot be compared"):
        compare_methods(
            {"good": bins(2), "bad": PooledBins(tuple("ab"), ("v",) * 2, np.ones((2, 3)), rows2(), "ap")}
        )


def rows2() -> np.ndarray:
    return np.array([[0, 1, 2, 1]])


def test_few_scenes_near_one_have_the_interval_of_their_score() -> None:
    rng = np.random.default_rng(0)
    tables = {n: table(1 - rng.exponential(scale, 8).clip(0, 1)) for n, scale in (("a", 0.03), ("b", 0.05))}
    for row in compare_methods(tables).rows:
        i = scene_interval(tables[row.method])
        assert (row.low, row.high) == pytest.approx((i.low, i.high), abs=1e-12)
        assert row.high < 1  # type: ignore[operator]


def test_compare_methods_flat_scores_have_no_zero_width_interval() -> None:
    x = np.random.default_rng(0).uniform(0.3, 0.6, 10)
    tables = {
        "perfect": table(np.ones(10)),
        "same": table(np.full(10, 0.5)),
        "a": table(x),
        "b": table(x + 0.1),
    }
    c = compare_methods(tables)
    by = {r.method: r for r in c.rows}
    assert (by["perfect"].low, by["perfect"].high) == (pytest.approx(0.05**0.1), 1)
    assert (by["same"].low, by["same"].high) == (None, None)
    assert any("perfect" in n and "one-sided" in n for n in c.notes)
    assert any("same" in n and "no interval" in n for n in c.notes)
    pair = c.pair("b", "a")
    assert (pair.low, pair.high, pair.single_low, pair.separated) == (None, None, None, True)


def skewed_pair(n: int = 20) -> dict[str, SceneValues]:
    x = np.random.default_rng(0).uniform(0.3, 0.5, n)
    lead = np.full(n, 0.01) + 0.001 * np.arange(n)
    lead[0] = 0.4
    return {"a": table(x + lead), "b": table(x)}


def test_compare_methods_skewed_differences_are_marked() -> None:
    c = compare_methods(skewed_pair())
    pair = c.pair("a", "b")
    assert (pair.skewed, c.skewed) == (True, 1)
    text = str(c)
    assert "skewed: the error probability may be two to three times 5 %" in c.answer("a", "b")
    assert "‡ skewed" in text
    (row,) = [r for r in c.to_dict()["methods"] if r["name"] == "b"]
    assert row["skewed"] is True
    assert c.to_dict()["pairs"][0]["skewed"] is True
    plain = compare_methods(three())
    assert (plain.skewed, "‡" in str(plain)) == (0, False)


def test_compare_methods_states_null_hypothesis() -> None:
    c = compare_methods(three())
    assert "Null hypothesis: scene differences are symmetric about 0" in str(c)
    assert c.to_dict()["assumption"] in c.to_dict()["legend"]


def test_compare_methods_bootstrap_t_is_named_and_tests() -> None:
    c = compare_methods(three(), test="bootstrap-t")
    assert "symmetric bootstrap-t test (10,000 resamples" in str(c)
    assert "the mean difference is 0" in str(c)
    assert (c.test, c.smallest_p) == ("bootstrap-t", pytest.approx(1 / 10_001))
    assert c.pair("high", "low").separated
    with pytest.raises(UnknownNameError, match="bootstrap-t"):
        compare_methods(three(), test="bootstrap")
