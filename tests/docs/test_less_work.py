# SPDX-License-Identifier: BSD-3-Clause
"""Figures of docs/less-work.md: the simulated level of races, recomputed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

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
    assert len(ROWS) >= 4
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
