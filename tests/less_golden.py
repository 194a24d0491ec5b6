# SPDX-License-Identifier: BSD-3-Clause
"""Recorded figures of races, plans and subsets, and the sample of per-pair pose errors they come from."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
GOLDEN = DATA.parent / "golden" / "less.json"
ZEB = DATA / "zeb_sample"

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")
needs_zeb = pytest.mark.skipif(not ZEB.is_dir(), reason=f"no sample of pose errors at {ZEB}")


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


@cache
def zeb_values(threshold_deg: float = 5.0) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Values of the exact area by method and unit, and the weights of the units, by plain loops."""
    values: dict[str, dict[str, float]] = {}
    for path in sorted(ZEB.glob("[[]T]*.txt")):
        _, method, name, _ = path.stem.split()
        own = values.setdefault(method, {})
        lines = path.read_text().splitlines()
        columns = lines[0].split()
        for line in lines[1:]:
            row = dict(zip(columns, line.split(), strict=True))
            error = max(float(row["R_errs"]), float(row["t_errs"]))
            share = 1 - error / threshold_deg
            own[f"{name}/{row['identifiers']}"] = share if share > 0 else 0.0
    units = next(iter(values.values()))
    of = [unit.partition("/")[0] for unit in units]
    return values, {unit: 1 / (len(set(of)) * of.count(s)) for unit, s in zip(units, of, strict=True)}
