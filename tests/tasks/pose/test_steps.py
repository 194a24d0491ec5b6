"""The gap between protocols and `exact`, step by step: both ends are the printed scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from relative_world import areas, motion, pair, records, seen, write_world

import tiepoint as tp
from tiepoint.report.terminal.conventions import conventions_of
from tiepoint.store.store import Store
from tiepoint.tasks.base import comparison_version
from tiepoint.tasks.pose.protocols import exact_protocol
from tiepoint.tasks.pose.steps import pose_step_chain, step_settings, steps_comparison_name
from tiepoint.tasks.pose.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")

LARGE = (1400, 1100)
PROTOCOLS = tuple(p for p in TASK.protocols if p != "imc")


def world():
    """Pairs of three datasets, one of them in both directions, one with too few matches."""
    given = []
    for i, dataset in enumerate(("scannet", "megadepth", "scannet", "", "megadepth")):
        one = pair(
            f"a{i}--b{i}",
            f"s{i}",
            motion(5 + 5 * i),
            dataset=dataset,
            size0=LARGE,
            size1=LARGE,
            centre=0.5 * (i % 2),
        )
        given.append((one, seen(one, 4 if i == 4 else 60, 1.5, wrong=0 if i == 4 else 12, seed=i)))
    first = given[0][0]
    back = pair(
        "b0--a0", "s0", np.linalg.inv(first.T_0to1), dataset="scannet", size0=LARGE, size1=LARGE,
        image0=first.pair.image1, image1=first.pair.image0, K0=first.K1, K1=first.K0,
    )  # fmt: skip
    given.append((back, seen(back, 60, 1.5, wrong=12, seed=9)))
    return given


@pytest.fixture(scope="module")
def made():
    """Records by comparison, walks included."""
    comparisons = {TASK.comparison(p) for p in PROTOCOLS} | {*TASK.intermediate_comparisons(PROTOCOLS)}
    return {c: [records(p, m, c) for p, m in world()] for c in sorted(comparisons)}


def test_a_walk_is_that_of_the_dataset_of_each_pair() -> None:
    exact = exact_protocol()
    assert step_settings("glue-factory", "megadepth", exact).own.estimator.threshold_px == 0.5
    assert step_settings("glue-factory", "scannet", exact).own.estimator.threshold_px == 1.0
    assert (
        len(pose_step_chain("glue-factory", "scannet", exact).settings) == 1
    )  # the threshold is that of exact
    assert len(pose_step_chain("glue-factory", "megadepth", exact).settings) == 2
    assert step_settings("xfeat", "megadepth", exact).own.estimator.threshold_px == 2.5
    assert step_settings("xfeat", "scannet", exact).own.parts["iterations"] == 10000
    assert (
        step_settings("xfeat", "scannet", exact_protocol(threshold_px=3.0)).own.estimator.threshold_px == 3.0
    )
    assert str(step_settings("roma", "scannet", exact).own.frame("scannet")) == "short:480"


def test_protocols_that_share_a_comparison_share_a_walk() -> None:
    assert steps_comparison_name("zeb") == steps_comparison_name("loftr")
    assert len(TASK.intermediate_comparisons(PROTOCOLS)) == len(PROTOCOLS) - 2
    assert TASK.intermediate_comparisons(("superglue", "loftr")) == ()
    for dataset in ("", "scannet", "megadepth"):
        assert (
            pose_step_chain("zeb", dataset, exact_protocol()).settings
            == pose_step_chain("loftr", dataset, exact_protocol()).settings
        )


@pytest.mark.slow
def test_both_ends_are_the_printed_scores(made) -> None:
    tables = TASK.convention_steps_between(made)
    assert len(tables) == 3 * (len(PROTOCOLS) - 1)
    last = areas(TASK.score(made["exact"], "exact"))
    for number, name in enumerate(PROTOCOLS[1:]):
        printed = areas(TASK.score(made[TASK.comparison(name)], name))
        for k in range(3):
            table = tables[3 * number + k]
            assert table.steps[0] == (
                name,
                pytest.approx(printed[k], abs=1e-4 if name == "glue-factory" else 1e-12),
            )
            assert table.steps[-1] == ("pairs in both directions once", pytest.approx(last[k], abs=1e-12))


@pytest.mark.slow
def test_steps_without_effect_are_left_out(made) -> None:
    texts = {t.subject.split()[0]: [s for s, _ in t.steps] for t in TASK.convention_steps_between(made)}
    assert any("not the best of 12" in s for s in texts["xfeat"])
    assert not any("not the best of 12" in s for s in texts["dad"])
    assert "threshold: 1 px" not in texts["superglue"]
    assert "threshold: 1 px" in texts["loftr"]
    assert "repeats: 5 seeds" in texts["loftr"]
    assert "repeats: 5 seeds" not in texts["eloftr"]
    assert "every pair and repeat once" in texts["roma"]
    assert "every pair and repeat once" not in texts["superglue"]


def test_comparison_version_of_steps_is_that_of_the_protocol() -> None:
    names = ("roma", "roma->exact", "exact", "dad->exact")
    versions = {name: comparison_version(TASK, name) for name in names}
    assert versions == {"roma": 2, "roma->exact": 2, "exact": 1, "dad->exact": 1}


def test_walks_have_no_budget() -> None:
    one, found = world()[0]
    made = records(one, found, "superglue->exact", budget="20")
    assert set(made["budget"].tolist()) == {0}
    assert len(made) == 1


def test_a_stored_run_under_its_protocols(tmp_path: Path) -> None:
    given = {
        p.pair.name: (p, m) for p, m in world() if p.pair.dataset == "scannet" and p.pair.name != "b0--a0"
    }
    data, folder = write_world(tmp_path / "w", given)
    with (
        pytest.warns(UserWarning, match="images are missing"),
        pytest.warns(UserWarning, match="is K given for resized images"),  # sizes hold all that is seen
    ):
        tp.evaluate(
            f"files:{folder}", task="pose/relative", data=data, store=tmp_path / "store",
            protocol=["exact", "superglue", "loftr"], seeds=2,
        )  # fmt: skip
    (run,) = tp.load(store=tmp_path / "store")
    told = []
    with Store.open(tmp_path / "store", mode="read") as store:
        found = conventions_of(run, store, lambda *step: told.append(step))
    assert found.protocols == ["exact", "superglue", "loftr", "zeb"]
    assert "roma" in found.missing
    assert {t.subject.split()[0] for t in found.steps} == {"superglue", "loftr", "zeb"}
    assert ("from loftr to exact", 2, 2) in told
    assert not any("zeb" in words for words, _, _ in told)
    by = {s.protocol: s.value for s in found.scores if s.metric == "auc"}
    for table in found.steps:
        if table.subject.endswith("threshold_deg=10"):
            assert table.steps[0][1] == pytest.approx(by[table.subject.split()[0]], abs=1e-12)
            assert table.steps[-1][1] == pytest.approx(by["exact"], abs=1e-12)
