# SPDX-License-Identifier: BSD-3-Clause
"""`compare --margin`: the statement, its figures, Holm, refusals and a second margin."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tiepoint as tp
from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.report.compare.methods import compare_methods
from tiepoint.stats.non_inferiority import non_inferiority

TASK = "hpatches-v1/matching"


def table(*values: float) -> SceneValues:
    n = len(values)
    return SceneValues(tuple(f"s{k}" for k in range(n)), ("v",) * n, np.array([values]))


BASE = (0.50, 0.61, 0.42, 0.73, 0.54, 0.65, 0.36, 0.47)
NEAR = (0.50, 0.60, 0.42, 0.73, 0.53, 0.65, 0.36, 0.48)
FAR = tuple(x - 0.02 * (1 + k % 2) for k, x in enumerate(BASE))


def test_margin_near_holds_and_far_does_not() -> None:
    c = compare_methods(
        {"base": table(*BASE), "near": table(*NEAR), "far": table(*FAR)}, baseline="base", margin=1.0
    )
    near, far = c.margins
    assert (near.method, near.holds, far.method, far.holds) == ("near", True, "far", False)
    alone = non_inferiority(np.array(NEAR) - np.array(BASE), 0.01)
    assert near.gain == pytest.approx(alone.mean)
    assert near.lower == pytest.approx(alone.lower)
    assert near.p == pytest.approx(alone.p)
    assert near.p_adjusted == pytest.approx(2 * alone.p)
    text = str(c)
    assert "near loses at most 1 points against base (one-sided 95 %): gain -0.13 points, lower bound" in text
    assert "It is not shown that far loses at most 1 points against base" in text
    assert "Holm over 2 methods" in text
    assert "not a test of equality" in text
    assert "near loses at most 1 points" in c.to_latex()
    assert "near loses at most 1 points" in c.to_markdown()
    assert c.to_dict()["margins"][0]["holds"] is True
    frame = c.to_frame().set_index("method")
    assert frame.loc["near", "margin_holds"]
    assert frame.loc["near", "margin"] == 0.01
    assert pd.isna(frame.loc["base", "margin_lower"])


def test_margin_holm_turns_one_statement() -> None:
    """A method that holds alone does not hold beside nine others that fail."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.012, 8)
    tables = {"base": table(*BASE), "near": table(*(np.array(BASE) + noise - noise.mean()))}
    assert compare_methods(tables, baseline="base", margin=1.0).margins[0].holds
    more = tables | {f"m{k}": table(*(np.array(FAR) - 0.001 * k)) for k in range(9)}
    near = next(m for m in compare_methods(more, baseline="base", margin=1.0).margins if m.method == "near")
    assert near.p is not None
    assert near.p < 0.05
    assert not near.holds


def test_margin_lower_is_better_turns_sign() -> None:
    errors = {"base": table(*(10 * x for x in BASE)), "worse": table(*(10 * x + 0.2 for x in BASE))}
    c = compare_methods(errors, baseline="base", higher_is_better=False, margin=0.3)
    assert c.margins[0].gain == pytest.approx(-0.2)
    assert c.margins[0].holds
    assert not compare_methods(errors, baseline="base", higher_is_better=False, margin=0.1).margins[0].holds
    assert "loses at most 0.3 against base" in str(c)


def test_margin_equal_methods_hold() -> None:
    c = compare_methods({"base": table(*BASE), "same": table(*BASE)}, baseline="base", margin=0.1)
    assert (c.margins[0].holds, c.margins[0].p) == (True, 0.0)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_margin_few_scenes_make_no_statement(n: int) -> None:
    c = compare_methods({"base": table(*BASE[:n]), "near": table(*NEAR[:n])}, baseline="base", margin=1)
    assert c.margins[0].holds is None
    assert (c.margins[0].lower is None) == (n == 1)
    scenes = "1 scene" if n == 1 else f"{n} scenes"
    assert f"Too few for a statement: {scenes} cannot show whether near loses at most 1" in str(c)


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_margin_not_positive_raises(margin: float) -> None:
    with pytest.raises(InputError, match="expected a positive number"):
        compare_methods({"base": table(*BASE), "near": table(*NEAR)}, margin=margin)


def test_margin_pooled_score_raises() -> None:
    bins = PooledBins(
        tuple(f"s{k}" for k in range(8)),
        ("v",) * 8,
        np.ones((8, 4)),
        np.array([[k, k, b, 1] for k in range(8) for b in range(4)]),
        "ap",
    )
    with pytest.raises(InputError, match="is pooled over all pairs and has no values by scene"):
        compare_methods({"a": bins, "b": bins}, metric="ap", margin=1.0)


def test_compare_margin_second_margin_is_reported(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(report_store, store)
    names = [r.method for r in tp.compare(task=TASK, store=store).rows if r.tested][:2]
    asked = ["compare", *reversed(names), "--task", TASK, "--store", str(store)]
    assert command([*asked, "--margin", "2", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["margin"] == 0.02
    assert first["baseline"] == names[0]
    assert not any("also tested" in n for n in first["notes"])
    assert command([*asked, "--margin", "2", "--json"]) == 0
    assert not any("also tested" in n for n in json.loads(capsys.readouterr().out)["notes"])
    assert command([*asked, "--margin", "3"]) == 0
    assert "with the margin 2.00 points" in " ".join(capsys.readouterr().out.split())
    assert command([*asked, "--margin", "4", "--out", str(tmp_path / "t.csv")]) == 0
    assert set(pd.read_csv(tmp_path / "t.csv")["margin"]) == {0.04}


def test_compare_margin_without_reference_raises(report_store: Path) -> None:
    with pytest.raises(InputError, match=r"`margin` without `baseline` needs two methods, found \d"):
        tp.compare(task=TASK, store=report_store, margin=1.0)
