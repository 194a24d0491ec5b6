# SPDX-License-Identifier: BSD-3-Clause
"""Merging stores: nothing is lost, nothing is overwritten, a killed merge goes on."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_world import TASK, a_run, look

from tiepoint.cli.main import run as cli
from tiepoint.core.errors import InputError, StoreError
from tiepoint.core.keypoints import Keypoints
from tiepoint.formats.keypoints.set_folder import KeypointSet, sets_below
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.maintenance.merge import merge_stores
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.run_queries import load_heads, load_runs
from tiepoint.store.store import Store
from tiepoint.store.writers import load_keypoint_set, save_keypoint_set, save_run

MERGED = ("records", "values", "features", "transforms", "uses")


def _content(root: Path) -> dict[str, bytes]:
    """Every file that a merge copies, with its bytes."""
    found = [p for name in MERGED for p in (root / name).rglob("*") if p.is_file()]
    return {str(p.relative_to(root)): p.read_bytes() for p in found}


def _scores(store: Store) -> dict[str, Any]:
    return {
        run.id: [(s.protocol, s.metric, s.group, s.value, s.n, s.low, s.high) for s in run.scores]
        for run in load_runs(store)
    }


def _keypoint_set(name: str, shift: float = 0.0) -> KeypointSet:
    table = np.zeros((3, 7))
    table[:, :2] = np.arange(6).reshape(3, 2) + shift
    return KeypointSet(name, {"i_a/1.ppm": Keypoints.from_array(table)}, {"detector": "test"})


def test_merge_into_empty_store_copies_everything(
    where: Path, tmp_path: Path, again: Callable[..., str]
) -> None:
    with Store.open(where) as other, Store.open(tmp_path / "new") as store:
        report = merge_stores(store, [other])
        assert report.ok
        assert [len(report.sources[0].added), report.sources[0].present] == [3, 0]
        assert _scores(store) == _scores(other)
        assert _content(tmp_path / "new") == _content(where)
        assert check_store(store, rebuild=True).ok
        features = {p: p.stat().st_mtime_ns for p in (tmp_path / "new" / "features").rglob("*")}
        assert again(store, "pixels") in _scores(other)
        assert {p: p.stat().st_mtime_ns for p in (tmp_path / "new" / "features").rglob("*")} == features


def test_merge_twice_changes_nothing(where: Path, tmp_path: Path) -> None:
    for expected in (3, 0):
        with Store.open(tmp_path / "new") as store:
            report = merge_stores(store, [where])
        assert len(report.sources[0].added) == expected
        before, now = (
            locals().get("now"),
            look(tmp_path / "new" / "runs") | look(tmp_path / "new" / "features"),
        )
    assert now == before
    assert report.sources[0].present == 3
    assert report.sources[0].files == {}


def test_merge_dry_run_reports_and_changes_nothing(where: Path, tmp_path: Path) -> None:
    assert cli(["store", "merge", str(where), "--store", str(tmp_path / "new"), "--dry-run"]) == 0
    assert not (tmp_path / "new").exists()
    with Store.open(tmp_path / "new") as store:
        save_run(store, a_run("own"))
    before = look(tmp_path / "new" / "runs")
    with Store.open(tmp_path / "new", mode="read") as store:
        planned = merge_stores(store, [where, where], dry_run=True)
    assert look(tmp_path / "new" / "runs") == before
    assert [len(s.added) for s in planned.sources] == [3, 0]
    with Store.open(tmp_path / "new") as store:
        done = merge_stores(store, [where, where])
    assert done.sources == planned.sources


def test_merge_run_with_other_scores_conflicts_and_keeps_own(
    where: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(where, tmp_path / "other")
    with Store.open(tmp_path / "other") as other:
        run = load_runs(other)[0]
        rows = [replace(run.scores[0], value=0.25), *run.scores[1:]]
        save_run(other, replace(run, scores=rows))
    before = look(where / "runs")
    assert cli(["store", "merge", str(tmp_path / "other"), "--store", str(where)]) == 1
    told = capsys.readouterr().out
    assert f"{run.id} ({run.method} on {TASK}): {rows[0].metric} of {rows[0].group} under exact is " in told
    assert " in this store and 0.25 in the other" in told
    assert look(where / "runs") == before


def test_merge_run_with_other_times_is_present(where: Path, tmp_path: Path) -> None:
    shutil.copytree(where, tmp_path / "other")
    with Store.open(tmp_path / "other") as other:
        for run in load_runs(other):
            save_run(other, replace(run, created_at="2030-01-01T00:00:00Z", time_s=99.0))
    with Store.open(where) as store:
        report = merge_stores(store, [tmp_path / "other"])
    assert report.ok
    assert report.sources[0].present == 3


@pytest.mark.parametrize("status", ["done", "failed"])
def test_merge_failed_run_never_replaces_and_is_never_replaced(tmp_path: Path, status: str) -> None:
    failed = replace(a_run("one"), status="failed", error="it broke", scores=())
    kinds = {"done": a_run("one"), "failed": failed}
    with Store.open(tmp_path / "a") as store, Store.open(tmp_path / "b") as other:
        save_run(store, kinds[status])
        save_run(other, kinds["failed" if status == "done" else "done"])
        report = merge_stores(store, [other])
        assert [r.status for r in load_runs(store)] == [status]
        assert [c.key.split()[0] for c in report.sources[0].conflicts] == (
            [] if status == "done" else ["one"]
        )


def test_merge_adds_protocols_of_other_store(made: Path, tmp_path: Path) -> None:
    protocols = ("exact", "hbench-2016")
    for name, protocol in zip(("a", "b"), protocols, strict=True):
        with Store.open(tmp_path / name) as store:
            evaluate(RunRequest("pixels", TASK, made / "patches", (protocol,), {"tasks": str(made)}), store)
    with Store.open(tmp_path / "both") as store:
        asked = RunRequest("pixels", TASK, made / "patches", protocols, {"tasks": str(made)})
        expected = {(s.protocol, s.metric, s.group): s.value for s in evaluate(asked, store).score_rows}
    with Store.open(tmp_path / "a") as store, Store.open(tmp_path / "b") as other:
        report = merge_stores(store, [other])
        assert len(report.sources[0].extended) == 1
        (run,) = load_runs(store)
        assert {(s.protocol, s.metric, s.group): s.value for s in run.scores} == pytest.approx(expected)
        assert run.manifest.protocols == tuple(sorted(protocols))
        assert check_store(store, rebuild=True).ok
        assert merge_stores(store, [other]).sources[0].present == 1


def test_merge_keypoint_sets_by_name(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a") as store, Store.open(tmp_path / "b") as other:
        save_keypoint_set(store, _keypoint_set("same"))
        save_keypoint_set(store, _keypoint_set("differs"))
        for name, shift in (("same", 0), ("differs", 1), ("new", 2)):
            save_keypoint_set(other, _keypoint_set(name, shift))
        report = merge_stores(store, [other])
        assert report.sources[0].keypoint_sets == ["new"]
        assert [(c.kind, c.key) for c in report.sources[0].conflicts] == [("keypoint set", "differs")]
        assert sorted(sets_below(store.root)) == ["differs", "new", "same"]
        assert load_keypoint_set(store.root, "differs").id == _keypoint_set("differs").id
        assert load_keypoint_set(store.root, "new").id == _keypoint_set("new", 2).id
        assert check_store(store, rebuild=True).ok


def test_merge_differing_record_and_feature_conflict(where: Path, tmp_path: Path) -> None:
    shutil.copytree(where, tmp_path / "new")
    with Store.open(tmp_path / "new") as store, Store.open(where) as other:
        for run in load_runs(store):
            if run.method == "pixels":
                (key, *_) = [k for by in run.manifest.units.values() for k in by.values()]
                gone = run.id
        records = store.records.get(key)
        columns = {n: np.roll(c, 1) if c.dtype.kind == "f" else c for n, c in records.columns.items()}
        store.records.put(key, replace(records, columns=columns))
        feature = next((tmp_path / "new" / "features").glob("??/*")).name
        arrays = {n: np.array(a) for n, a in store.features.get(feature).items()}
        arrays["values"][0] += 1
        store.features.discard(feature)
        store.features.put(feature, arrays)
        from tiepoint.store.maintenance.edit_runs import remove_runs

        (tmp_path / "keep").mkdir()
        shutil.copy(store.records.path(key), tmp_path / "keep")
        remove_runs(store, [gone])
        store.records.path(key).parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "keep" / f"{key}.parquet", store.records.path(key))
        own = store.records.path(key).read_bytes()
        report = merge_stores(store, [other])
        kinds = sorted((c.kind, c.key.split()[0]) for c in report.sources[0].conflicts)
        assert ("records", key) in kinds
        assert ("run", gone) in kinds
        assert store.records.path(key).read_bytes() == own
        assert gone not in {h.id for h in load_heads(store)}


def test_merge_skips_runs_with_corrupt_files_until_repaired(where: Path, tmp_path: Path) -> None:
    with Store.open(where) as other:
        run = next(r for r in load_runs(other) if r.method == "pixels")
        key = next(k for by in run.manifest.units.values() for k in by.values())
        path = other.records.path(key)
    intact = path.read_bytes()
    path.write_bytes(intact[:-100] + bytes(100))
    with Store.open(tmp_path / "new") as store:
        report = merge_stores(store, [where])
        skipped = [(c.kind, c.key.split()[0]) for c in report.sources[0].unreadable]
        assert skipped == [("records", key), ("run", run.id)]
        assert "store check" in report.sources[0].unreadable[1].reason
        assert run.id not in {h.id for h in load_heads(store)}
        assert check_store(store, rebuild=True).ok
        path.write_bytes(intact)
        report = merge_stores(store, [where])
        assert report.ok
        assert [name for name, *_ in report.sources[0].added] == [run.id]


def test_merge_without_features_is_complete_and_recomputes(
    where: Path, tmp_path: Path, again: Callable[..., str]
) -> None:
    assert cli(["store", "merge", str(where), "--no-features", "--store", str(tmp_path / "new")]) == 0
    assert not (tmp_path / "new" / "features").exists()
    with Store.open(tmp_path / "new") as store, Store.open(where) as other:
        assert check_store(store, rebuild=True).ok
        assert _scores(store) == _scores(other)
        again(store, "pixels")
        assert _scores(store) == _scores(other)


def test_merge_refuses_itself_missing_and_nothing(
    where: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(where) as store:
        with pytest.raises(InputError, match="is the store itself"):
            merge_stores(store, [where])
        with pytest.raises(InputError, match="no stores to merge"):
            merge_stores(store, [])
        with pytest.raises(StoreError, match="there is no store at"):
            merge_stores(store, [tmp_path / "nosuch"])
    assert cli(["store", "merge", str(tmp_path / "nosuch"), "--store", str(tmp_path / "new")]) == 2
    assert "there is no store at" in capsys.readouterr().err


def test_merge_stopped_at_any_file_is_completed_by_next(where: Path, tmp_path: Path) -> None:
    class Stopped(BaseException):
        pass

    for count in (1, 7, 10**6):

        def stop(_: str, done: int, total: int, after: int = count) -> None:
            if done >= min(after, total):
                raise Stopped

        target = tmp_path / f"new{count}"
        with Store.open(target) as store, pytest.raises(Stopped):
            merge_stores(store, [where], progress=stop)
        with Store.open(target) as store:
            assert load_heads(store) == []
            assert merge_stores(store, [where]).ok
            assert check_store(store, rebuild=True).ok
        assert _content(target) == _content(where)


def test_merge_json_lists_conflicts(where: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["store", "merge", str(where), "--store", str(tmp_path / "new"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dry_run"] is False
    assert len(found["sources"][0]["added"]) == 3
    assert found["sources"][0]["conflicts"] == []


@pytest.mark.slow
def test_merge_killed_at_random_moments_leaves_whole_stores(where: Path, tmp_path: Path) -> None:
    target, chosen, killed = tmp_path / "new", random.Random(5), 0
    command = [sys.executable, "-m", "tiepoint", "store", "merge", str(where), "--store", str(target)]
    for _ in range(5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (target / "running").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chosen.uniform(0, 0.15))
        process.kill()
        killed += process.wait() < 0
        found = check_store(target) if (target / "runs").exists() else None
        assert found is None or found.ok, str(found)
        if chosen.random() < 0.3:  # start over now and then, so that every stage is met
            shutil.rmtree(target, ignore_errors=True)
    assert killed
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    found = check_store(target)
    assert found.ok, str(found)
    assert not found.leftovers
    assert _content(target) == _content(where)
    with Store.open(target) as store, Store.open(where) as other:
        assert _scores(store) == _scores(other)


@pytest.mark.slow
def test_merge_to_and_from_postgresql_is_lossless(url: str, where: Path, tmp_path: Path) -> None:
    with Store.open(url) as store:
        assert merge_stores(store, [where]).ok
        assert check_store(store, rebuild=True).ok
    assert cli(["store", "merge", url, "--store", str(tmp_path / "back")]) == 0
    assert _content(tmp_path / "back") == _content(where)
    with Store.open(tmp_path / "back") as store, Store.open(where) as other:
        assert _scores(store) == _scores(other)
        assert check_store(store, rebuild=True).ok
