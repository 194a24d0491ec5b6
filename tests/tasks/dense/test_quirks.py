# SPDX-License-Identifier: BSD-3-Clause
"""Each quirk of the C++ tool of the TSS kit alone moves a score, on data made for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiepoint.datasets.tss import PairTruth
from tiepoint.formats.flow.tss_results import PairResult
from tiepoint.tasks.dense import tss_compare
from tiepoint.tasks.dense.tss_compare import RULES, compare_pair

SIDE = 100


def still(side: int = SIDE, u: float = 0.0) -> np.ndarray:
    """A flow that moves everything by u to the right."""
    flow = np.zeros((side, side, 2), np.float32)
    flow[..., 0] = u
    return flow


def scores(
    truth_u: float, flow1: np.ndarray, flow2: np.ndarray, rule: str = "tss-cpp"
) -> tuple[float, float]:
    """T5 of flow 1 and IoU of the mask of image 1 that is estimated from both flows; all of it is object."""
    whole = np.full((SIDE, SIDE), 255, np.uint8)
    truth = PairTruth(still(u=truth_u), still(), whole, whole)
    columns = compare_pair(truth, PairResult({"flow1": flow1, "flow2": flow2}), rule=rule).columns
    t5 = columns["correct"][0, 4] / columns["valid"][0]
    return float(t5), float(columns["intersection"][0] / columns["union"][0])


def without(monkeypatch: pytest.MonkeyPatch, quirk: str) -> None:
    """Switch one quirk of the tool off."""
    changed = replace(RULES["tss-cpp"], **{quirk: False})
    monkeypatch.setattr(tss_compare, "RULES", RULES | {"tss-cpp": changed})


def test_products_with_factors_of_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 px at 45 px are 20 px at 100 px: 5 px, the threshold itself, beside a truth of 15.

    Rounded products are 20 exactly in every column; in float32 six columns of a hundred lie above.
    """
    flows = still(45, 9), still(45)
    assert scores(15.0, *flows)[0] == 1.0
    without(monkeypatch, "double_factors")
    assert scores(15.0, *flows)[0] == 0.94


def test_unknown_both_ways_is_judged_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten columns of (-1e10, -1e10) meet the 1e10 outside the other image: their sum is 0, so foreground."""
    flow1 = still()
    flow1[:, :10] = -1e10
    assert scores(0.0, flow1, still())[1] == 1.0
    without(monkeypatch, "both_unknown")
    assert scores(0.0, flow1, still())[1] == 0.9


@pytest.mark.parametrize("code", [(1e10, 1e10), (-1e10, 1e10), (-1e10, 0), (np.nan, np.nan), (-2e10, -2e10)])
def test_every_other_code_for_unknown_is_background(code: tuple[float, float]) -> None:
    flow1 = still()
    flow1[:, :10] = code
    with np.errstate(all="ignore"):
        assert scores(0.0, flow1, still())[1] == 0.9
    flow1[:, :10] = -1e10
    for rule in ("exact", "tss-matlab"):
        assert scores(0.0, flow1, still(), rule)[1] == 0.9
