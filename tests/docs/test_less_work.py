# SPDX-License-Identifier: BSD-3-Clause
"""Figures of docs/less-work.md: the simulated level of races, recomputed."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from typing import Any

import pytest

from less_golden import golden, needs_golden

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| ([^|]+) \| (\d+) \| (\d+) \| ([\d.]+) % \| ([\d.]+)–([\d.]+) % \|$",
    (ROOT / "docs" / "less-work.md").read_text(),
    re.M,
)


def simulation() -> Any:
    spec = importlib.util.spec_from_file_location("races", ROOT / "bench" / "simulate_races.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["races"] = found
    spec.loader.exec_module(found)
    return found


def test_level_of_every_simulation_is_below_five_percent() -> None:
    wilson = simulation().wilson
    assert len(ROWS) == 13
    for name, races, wrong, share, low, high in ROWS:
        n, k = int(races), int(wrong)
        assert n >= 2000, name
        assert 100 * k / n == pytest.approx(float(share), abs=0.0051), name
        assert [100 * x for x in wilson(k, n)] == pytest.approx([float(low), float(high)], abs=0.0051), name
        assert float(high) <= 5, name


@pytest.mark.slow
def test_simulation_of_the_page_is_reproduced() -> None:
    """Of all rows the one that takes the least time."""
    made = simulation().null_benchmark("order", 2, "0 or 1", 2000, 0)
    (row,) = [r for r in ROWS if r[0] == made.name]
    assert (made.races, made.wrong) == (int(row[1]), int(row[2]))


@needs_golden
def test_errors_of_subsets_of_the_page_are_those_recorded() -> None:
    page = (ROOT / "docs" / "less-work.md").read_text()
    recorded = golden()["simulations"]["subset"]

    def rms(kind: str, n: int, design: str) -> float:
        rows = [v for k, v in recorded.items() if k.startswith(kind) and k.endswith(f" n={n}")]
        assert len(rows) == {"score": 4, "difference": 6}[kind]
        return math.sqrt(sum(row[design]["rmse"] ** 2 for row in rows) / len(rows))

    designs = ("random", "ordered", "pps05 difference")
    table = re.findall(r"^\| (\d+) \| (\d\.\d+) \| (\d\.\d+) \| (\d\.\d+) \|$", page, re.M)
    assert [int(row[0]) for row in table] == [25, 50, 100, 200]
    for n, *shown in table:
        made = [rms("score", int(n), design) for design in designs]
        assert [float(x) for x in shown] == pytest.approx(made, abs=0.0051)
    random, ordered, pps = (f"{rms('difference', 100, design):.2f}" for design in designs)
    assert f"{random} points at random, {ordered} ordered and {pps} pps" in page
    scores = [v for k, v in recorded.items() if k.startswith("score") and "reference" not in k]
    cover = [v[design]["cover95"] for v in scores for design in designs[1:]]
    assert f"in {100 * min(cover):.0f} to {100 * max(cover):.0f} % of these samples" in page


@needs_golden
def test_figures_of_zeb_of_the_page_are_those_recorded() -> None:
    page = (ROOT / "docs" / "less-work.md").read_text()
    recorded = golden()
    one = recorded["zeb_inference_points"]["gim_loftr - gim_lightglue"]
    low, high = one["t_interval_12_sets"]
    assert f"{low} to {high} (p = {one['p_sign_flips_12_sets']:.3f}, sign flips)" in page
    assert "{} to {} |".format(*one["pair_interval"]) in page
    assert f"+{one['points']:.2f} points" in page
    pairs = recorded["zeb_inference_points"].values()
    effects = [s["design_effect"] for p in pairs for s in p["sets"].values() if "design_effect" in s]
    assert f"up to {max(effects):.0f} times" in page
    failures = recorded["zeb_failures"]["gim_dkm"].values()
    right = "no_pose_with_100_right_matches_at_90_percent"
    lost, good = (sum(s[key] for s in failures) for key in ("no_pose", right))
    assert f"Of the {lost} pairs for which GIM_DKM has no pose, {good} have" in page
    assert f"at most {sum(s['points_at_most'] for s in failures) / 12:.1f} points" in page
    equal = {m: row["equal_to_one_decimal"] for m, row in recorded["zeb_full"]["table"].items()}
    assert equal == {"root_sift": 9, "gim_lightglue": 1, "gim_loftr": 0, "gim_dkm": 1}
    assert f"to the printed decimal on {equal['root_sift']} of 12 sets" in page
    runs = {k: v for k, v in recorded["simulations"]["race"].items() if "pairs_q10_q50_q90" in v}
    small = min(runs.values(), key=lambda v: abs(v["D"]))
    assert f"after {100 * small['pairs_q10_q50_q90'][1] / 45916:.0f} % of the pairs" in page


@needs_golden
def test_measured_savings_of_the_page_are_those_recorded() -> None:
    page = (ROOT / "docs" / "less-work.md").read_text()
    recorded = golden()["simulations"]
    by_pair = {k: v for k, v in recorded["race"].items() if "pairs_q10_q50_q90" in v}
    large = next(v for v in by_pair.values() if round(abs(v["D"]), 1) == 12.9)
    small = min(by_pair.values(), key=lambda v: abs(v["D"]))
    _, median, most = large["pairs_q10_q50_q90"]
    assert f"needs {median:.0f} pairs for 12.9 points ({most:.0f} in nine of ten orders)" in page
    assert f"{small['pairs_q10_q50_q90'][1]:,.0f} for 1.0 point" in page
    shares = {k: v["share"] for k, v in recorded["heldout"].items() if isinstance(v, dict) and "share" in v}
    middle = next(v for k, v in shares.items() if "3 to 10" in k)
    above = next(v for k, v in shares.items() if "20 to" in k)
    assert f"{100 * above:.0f} % of the scenes for" in page
    assert f"{100 * middle:.0f} % for 3 to 10" in page
    naive = "naive_t_at_every_step_from_30"
    rates = [v[naive] for v in recorded["race"].values() if naive in v]
    assert f"it was wrong in {100 * min(rates):.0f} to {100 * max(rates):.0f} % of the races" in page
