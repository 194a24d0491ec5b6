# SPDX-License-Identifier: BSD-3-Clause
"""Figures of docs/less-work.md: the simulated level of races, recomputed."""

from __future__ import annotations

import importlib.util
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
