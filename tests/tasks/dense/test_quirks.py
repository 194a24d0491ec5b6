# SPDX-License-Identifier: BSD-3-Clause
"""Each quirk of the C++ tool of the TSS kit, and each rule of its Readme, alone moves a score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Features
from tiepoint.datasets.demo.dataset import make_dense
from tiepoint.datasets.tss import PairTruth
from tiepoint.formats.flow.tss import PairResult
from tiepoint.tasks.dense.protocols import RULES
from tiepoint.tasks.tss import compare
from tiepoint.tasks.tss.compare import AccuracyRule, compare_pair
from tiepoint.tasks.tss.task import TASK

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
    monkeypatch.setattr(compare, "RULES", RULES | {"tss-cpp": changed})


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


def accuracies(
    rule: AccuracyRule, protocol: str = "exact", sizes: tuple[int, int] = (10, 20)
) -> tuple[float, float]:
    """T5 both ways between images of 10 and 20 columns, errors and truth as in the comments."""
    # Image 1: foreground in columns 0 to 4, flow known in 1 to 5; errors 0, 0.5, 1, 1.5, 0.5, 0.25, then 0.
    # Image 2: both in columns 0 to 9; errors 0.5 four times, 0.75 twice, then 0.
    columns1, columns2 = np.arange(10), np.arange(20)
    truth1 = np.where((columns1 >= 1) & (columns1 <= 5), 0, 1e10)
    truth2 = np.where(columns2 < 10, 0, 1e10)
    wrong1 = np.array([0, 0.5, 1, 1.5, 0.5, 0.25, 0, 0, 0, 0])
    wrong2 = np.array([0.5] * 4 + [0.75] * 2 + [0] * 14)

    def flow(values: np.ndarray, both: bool) -> np.ndarray:
        out = np.zeros((4, len(values), 2), np.float32)
        out[..., 0] = values
        out[..., 1] = values if both else 0
        return out

    masks = [
        np.tile(np.where(c < n, 255, 0).astype(np.uint8), (4, 1)) for c, n in ((columns1, 5), (columns2, 10))
    ]
    truth = PairTruth(flow(truth1, True), flow(truth2, True), *masks)
    arrays = {"flow1": flow(wrong1, False), "flow2": flow(wrong2, False)}
    if sizes != (10, 20):  # zero flow of another size
        arrays = {f"flow{k}": np.zeros((4, n, 2), np.float32) for k, n in zip((1, 2), sizes, strict=True)}
    result = PairResult({**arrays, "mask1": masks[0], "mask2": masks[1]})
    made = compare_pair(truth, result, rule=protocol, accuracy=rule).columns
    one, two = made["correct"][:, 4] / made["valid"]
    return float(one), float(two)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (AccuracyRule(), (4 / 5, 8 / 10)),
        (AccuracyRule(less_than=True), (3 / 5, 4 / 10)),
        (AccuracyRule(foreground=True), (3 / 5, 8 / 10)),
        (AccuracyRule(larger_side="source"), (3 / 5, 10 / 10)),
        (AccuracyRule(larger_side="both"), (4 / 5, 10 / 10)),
    ],
)
def test_a_rule_of_the_readme_alone_moves_a_score(rule: AccuracyRule, expected: tuple[float, float]) -> None:
    assert accuracies(rule) == expected


def test_the_foreground_of_resized_flows() -> None:
    """Zero flow at half the size stays zero: right wherever the truth is known, so not in column 0."""
    assert accuracies(AccuracyRule(), sizes=(5, 10)) == (1, 1)
    assert accuracies(AccuracyRule(foreground=True), sizes=(5, 10)) == (4 / 5, 1)


def test_rules_of_the_readme_leave_other_protocols_alone(tmp_path: Path) -> None:
    switches = {"compare": "less_than", "complement": True, "pixels": "foreground", "larger_side": "both"}
    make_dense(tmp_path, size=(60, 40))
    opened = {given: TASK.open(tmp_path, switches if given else {}) for given in (False, True)}
    (unit, *_), (changed, *_) = opened[False].units, opened[True].units
    assert unit.definition != changed.definition
    truth = dict(vars(opened[False].dataset[unit.key].truth()))
    truth["flow1"] = truth["flow1"] + np.float32(3)
    for protocol in TASK.protocols:
        plain, other = (
            o.compare(u, Features({u.items[0]: truth}.__getitem__), protocol)
            for o, u in ((opened[False], unit), (opened[True], changed))
        )
        same = [s.value for s in TASK.score([plain], protocol)] == pytest.approx(
            [s.value for s in TASK.score([other], protocol)], nan_ok=True, abs=0
        )
        assert same == (protocol != "exact")
    assert "a perfect flow scores 0" in " ".join(opened[True].warnings)


def test_explicit_defaults_are_the_same_run(tmp_path: Path) -> None:
    make_dense(tmp_path, size=(60, 40))
    defaults = {"compare": "at_most", "complement": "no", "pixels": "known_flow", "larger_side": "target"}
    assert TASK.open(tmp_path, defaults).units == TASK.open(tmp_path, {}).units
    TASK.options.check_protocols("tss", defaults, ["tss-cpp"])
    TASK.options.check_protocols("tss", {"complement": True}, ["tss-cpp", "exact"])
    with pytest.raises(
        InputError, match="option complement of tss has no effect under tss-cpp; also request the"
    ):
        TASK.options.check_protocols("tss", {"complement": True}, ["tss-cpp"])
