"""Runs in the store: one identity, one way to finish, brought up to date in one place."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tiepoint.cli.main import run as command
from tiepoint.core.errors import UnitError
from tiepoint.core.scores import SceneValues, Score
from tiepoint.run import finish, update
from tiepoint.run.engine import evaluate, store_failure
from tiepoint.run.preparation import prepare_run
from tiepoint.run.request import RunRequest
from tiepoint.run.scoring import score_rows_with_intervals
from tiepoint.run.update import is_current, update_run
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun, run_id
from tiepoint.store.writers import save_run
from tiepoint.tasks import load_task

MATCHING = "hpatches/matching"
PROTOCOLS = ("exact", "hpatches-python", "hpatches-matlab")


def only(store: Store) -> StoredRun:
    (run,) = load_runs(store)
    return run


@pytest.fixture
def results(patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Task files of 2016 and the result files of a method, as another program would write them."""
    tasks = ["data", "tasks", "--suite", "hpatches-v1", "--data", str(patches), "--out", str(tmp_path / "b")]
    assert command(tasks) == 0
    made = ["run", "pixels", "--task", "hpatches-v1/matching", "--data", str(patches)]
    made += ["--tasks", str(tmp_path / "b"), "--store", str(tmp_path / "other")]
    assert command([*made, "--write-results", str(tmp_path / "results")]) == 0
    capsys.readouterr()
    return tmp_path


def test_results_scored_under_two_protocols_are_one_run(
    results: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["score", "hpatches-v1/matching", "--results", str(results / "results"), "--data", str(patches)]
    asked += ["--tasks", str(results / "b"), "--store", str(results / "s"), "--json"]
    for protocol in ("exact", "hbench-2016"):
        assert command([*asked, "--protocol", protocol]) == 0
        shown = json.loads(capsys.readouterr().out)["scores"]
        assert {s["protocol"] for s in shown} == {protocol}
    with Store.open(results / "s") as store:
        run = only(store)
        assert {s.protocol for s in run.scores} == {"exact", "hbench-2016"}
        assert run.manifest.protocols == ("exact", "hbench-2016")
        assert run.id == run_id(run.manifest)
        assert all(key in store.values for key in run.manifest.values.values())
    assert command([*asked, "--protocol", "exact", "--name", "mine"]) == 0
    with Store.open(results / "s") as store:
        assert sorted((r.method, r.manifest.method.name_given) for r in load_runs(store)) == [
            ("mine", True),
            ("pixels", False),
        ]


def test_scene_values_of_a_run_are_stored_and_come_along(patches: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        first = evaluate(RunRequest("pixels", MATCHING, patches, PROTOCOLS[:2]), store)
        again = evaluate(RunRequest("pixels", MATCHING, patches, PROTOCOLS[:2]), store)
        for run in (first, again):
            assert set(run.values) == set(PROTOCOLS[:2])
            table = run.values["exact"]["map", "all"]
            assert isinstance(table, SceneValues)
            assert run.value("map") == pytest.approx(float(np.nanmean(table.cells, axis=1).mean()))
        assert run_id(first.manifest) == first.id


def older(store: Store, run: StoredRun, **changes: Any) -> StoredRun:
    """The run as an older version would have stored it."""
    manifest = run.manifest.model_copy(update={"scoring": 1, "values": {}, **changes})
    rows = [replace(s, low=None, high=None) for s in run.scores]
    return save_run(store, replace(run, manifest=manifest, scores=rows))


def test_an_older_run_is_brought_up_to_date_from_its_records(patches: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        made = evaluate(RunRequest("pixels", MATCHING, patches, PROTOCOLS), store).stored
        assert update_run(store, only(store)) is None
        old = older(store, made)
        assert not is_current(store, old)
        new = update_run(store, old)
        assert new is not None
        assert list(new.scores) == list(made.scores)
        assert only(store).manifest.values == made.manifest.values
        assert is_current(store, only(store))
        assert (new.created_at, new.id) == (made.created_at, made.id)


def test_missing_scene_values_are_written(patches: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        made = evaluate(RunRequest("pixels", MATCHING, patches), store).stored
        (key,) = made.manifest.values.values()
        store.values.path(key).unlink()
        assert update_run(store, only(store)) is not None
        assert key in store.values


def test_an_older_run_without_its_records_stays_as_it_is(patches: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        made = evaluate(RunRequest("pixels", MATCHING, patches, PROTOCOLS[:2]), store).stored
        older(store, made)
        by = next(iter(made.manifest.units.values()))
        store.records.path(by[next(iter(by))]).unlink()
        before = only(store)
        assert update_run(store, before) is None
        assert only(store) == before


def test_measured_times_survive_new_rules(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cv2")
    with Store.open(tmp_path / "s") as store:
        request = RunRequest("sift", "keypoints/ranking", sequences, ("workbench",))
        with monkeypatch.context() as past:
            past.setattr(finish, "SCORING", -1)
            before = evaluate(request, store)
        after = evaluate(request, store)
        time_ms = before.value("processing_time_ms", "all", "workbench")
        assert time_ms > 0
        assert after.value("processing_time_ms", "all", "workbench") == time_ms
        assert only(store).manifest.scoring == update.SCORING


def test_a_failure_never_replaces_scores_and_is_replaced_by_them(patches: Path, tmp_path: Path) -> None:
    request = RunRequest("pixels", MATCHING, patches, name="cell")
    with Store.open(tmp_path / "s") as store:
        prepared = prepare_run(request, store.root)
        store_failure(prepared, UnitError("no memory"), store)
        failed = only(store)
        assert (failed.status, failed.error, failed.scores) == ("failed", "no memory", [])
        done = evaluate(request, store)
        assert (only(store).status, done.id) == ("done", failed.id)
        store_failure(prepared, UnitError("no memory"), store)
        assert only(store).status == "done"
        assert only(store).scores


def _evaluate(root: str, data: str, protocol: str, barrier: Any) -> None:
    for i in range(3):
        with Store.open(Path(root) / str(i)) as store:
            barrier.wait(60)
            evaluate(RunRequest("pixels", MATCHING, Path(data), (protocol,)), store)


@pytest.mark.slow
def test_protocols_of_processes_at_the_same_time_are_all_kept(patches: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(PROTOCOLS))
    started = [
        spawn.Process(target=_evaluate, args=(str(tmp_path), str(patches), p, barrier)) for p in PROTOCOLS
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert [p.exitcode for p in started] == [0, 0, 0]
    for i in range(3):
        with Store.open(tmp_path / str(i)) as store:
            run = only(store)
            assert {s.protocol for s in run.scores} == set(PROTOCOLS)
            assert set(run.manifest.values) == set(PROTOCOLS)


def test_score_rows_subpixel_errors_get_plain_t_interval() -> None:
    x = np.array([0.7, 0.9, 0.95, 0.99, 0.92, 0.97])
    scenes = SceneValues(tuple("abcdef"), ("v",) * 6, x[None])
    (row,) = score_rows_with_intervals(load_task("tss"), [Score("aepe", "all", x.mean(), 6, scenes=scenes)])
    expected = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high))
    assert row.high > 1
