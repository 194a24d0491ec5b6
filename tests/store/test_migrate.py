# SPDX-License-Identifier: BSD-3-Clause
"""A store of an older version is brought up to date: scores stay, nothing is extracted, no run is twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from older_store import PROTOCOLS, Older, make_older
from store_world import TASK, a_run, look

from tiepoint.cli.main import run as command
from tiepoint.run.context import RunContext
from tiepoint.run.engine import evaluate
from tiepoint.run.update import is_current, migrate_store
from tiepoint.store import schema
from tiepoint.store.rebuild import rebuild
from tiepoint.store.run_queries import load_run, load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Older:
    """A store of the older version, which tests copy."""
    return make_older(tmp_path_factory.mktemp("older"), user_code=True)


@pytest.fixture
def older(template: Older, tmp_path: Path) -> Older:
    """A copy that may be changed."""
    shutil.copytree(template.files, tmp_path / "s")
    return Older(str(tmp_path / "s"), tmp_path / "s", template.requests, template.fresh, template.ids)


def _features(store: Path) -> set[str]:
    return {p.parent.name for p in store.glob("features/*/*/meta.json")}


def _plain(run: StoredRun) -> list[dict[str, Any]]:
    return [{k: v for k, v in s.items() if k not in ("run_id", "position")} for s in run.scores]


def _check(older: Older) -> None:
    """All runs are there once, under the ids that running them gives, with the scores they had."""
    with Store.open(older.where, mode="read") as store:
        assert store.notices == ()
        found = {r.id: r for r in load_runs(store)}
        assert sorted(found) == sorted([*(r.id for r in older.fresh), "0123456789ab"])
        for run in older.fresh:
            assert _plain(found[run.id]) == _plain(run.stored)
            assert found[run.id].method == run.method
    files = {p.stem: json.loads(p.read_text()) for p in (older.files / "runs").glob("*.json")}
    assert set(files) == set(found)
    assert all(files[name]["id"] == name for name in files)


def _run_again(older: Older, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same commands again extract nothing and make no other run; without records as well."""

    def extract(*_: object) -> float:
        raise AssertionError("features are made again")

    monkeypatch.setattr(RunContext, "extract", extract)
    monkeypatch.setattr("tiepoint.run.costs._measure", extract)
    records = sorted(older.files.rglob("*.parquet"))
    for _ in range(2):
        with Store.open(older.where) as store:
            again = [evaluate(request, store).id for request in older.requests]
            assert again == [r.id for r in older.fresh]
        assert sorted(older.files.rglob("*.parquet")) == records
        shutil.rmtree(older.files / "records")


def test_a_migrated_store_is_as_if_made_now(older: Older, monkeypatch: pytest.MonkeyPatch) -> None:
    features = len(_features(older.files))
    done = migrate_store(older.where)
    assert (done.version, done.runs, done.renamed, done.updated, done.kept) == (3, 4, 3, 4, ())
    assert [(a.run, a.method) for a in done.again] == [("0123456789ab", "mine")]
    assert "not a built-in" in done.again[0].reason
    _check(older)
    with Store.open(older.where, mode="read") as store:
        for run in older.fresh:
            stored = load_run(store, run.id)
            assert is_current(store, stored)
            assert set(stored.manifest.values) == set(PROTOCOLS)
            for protocol, tables in run.values.items():
                own = store.values.get(stored.manifest.values[protocol])
                assert list(own) == list(tables)
                for name, table in tables.items():
                    np.testing.assert_array_equal(getattr(own[name], "cells", 0), getattr(table, "cells", 0))
    _run_again(older, monkeypatch)
    assert len(_features(older.files)) == features
    before = look(older.files)
    again = migrate_store(older.where)
    assert (again.version, again.copy, again.renamed, again.updated) == (schema.VERSION, None, 0, 0)
    assert [a.run for a in again.again] == ["0123456789ab"]
    assert {k: v[1:] for k, v in look(older.files).items()} == {k: v[1:] for k, v in before.items()}


def test_a_writer_brings_the_database_up_to_date_by_itself(
    older: Older, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = len(_features(older.files))
    with Store.open(older.where) as store:
        (notice,) = store.notices
        assert "tiepoint.sqlite.v3-backup" in notice
    _check(older)
    copy = sqlite3.connect(older.files / "tiepoint.sqlite.v3-backup")
    assert {row[0] for row in copy.execute("select id from runs")} == set(older.ids)
    assert copy.execute("select version from tiepoint_schema").fetchall() == [(3,)]
    _run_again(older, monkeypatch)
    assert len(_features(older.files)) == features


def test_what_would_be_done_is_told_and_not_done(older: Older, capsys: pytest.CaptureFixture[str]) -> None:
    before = look(older.files)
    assert command(["store", "migrate", "--store", older.where, "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["now"], found["renamed"], found["updated"]) == (3, schema.VERSION, 3, 4)
    assert command(["store", "migrate", "--store", older.where, "--dry-run"]) == 0
    assert "schema 3 would become" in capsys.readouterr().out
    assert look(older.files) == before
    assert command(["store", "migrate", "--store", older.where]) == 0
    out = capsys.readouterr().out
    assert "runs: 4, 3 renamed, 4 scored again" in out
    assert "mine on hpatches-v1/matching" in out
    assert command(["store", "migrate", "--store", older.where + "-not-there"]) == 2
    assert "there is no store" in capsys.readouterr().err


_KILL = """
import os, signal, sys
from tiepoint.store import atomic
calls, replace = 0, os.replace
def counted(*paths):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)
atomic.os.replace = counted
from tiepoint.run.update import migrate_store
migrate_store(sys.argv[1])
"""


def test_a_migration_that_is_killed_again_and_again_loses_nothing(older: Older) -> None:
    seen = []
    for at in (1, 2, 4, 6):
        done = subprocess.run([sys.executable, "-c", _KILL, older.where, str(at)], check=False)
        assert done.returncode == -signal.SIGKILL
        with Store.open(older.where, mode="read") as store:
            found = load_runs(store)
            assert len(found) == 4
            assert all(_plain(r) for r in found)
            seen.append(store.version)
    assert seen[0] == 3
    assert seen[-1] == schema.VERSION
    migrate_store(older.where)
    _check(older)


def test_migrations_and_a_run_at_once(older: Older) -> None:
    data = str(older.requests[0].data)
    words = ["run", "pixels", "--task", TASK, "--data", data, "--tasks", str(Path(data).parent)]
    started = [
        subprocess.Popen([sys.executable, "-m", "tiepoint", *arguments, "--store", older.where])
        for arguments in (["store", "migrate"], ["store", "migrate"], [*words, "--protocol", "exact"])
    ]
    assert [p.wait(120) for p in started] == [0, 0, 0]
    _check(older)


def test_a_run_without_its_file_and_a_damaged_file_are_kept(older: Older) -> None:
    (older.files / "runs" / f"{older.ids[0]}.json").unlink()
    (older.files / "runs" / f"{older.ids[1]}.json").write_text("{")
    migrate_store(older.where)
    _check(older)


def test_files_of_an_older_version_are_renamed_when_the_database_is_rebuilt(older: Older) -> None:
    (older.files / "tiepoint.sqlite").unlink()
    with Store.open(older.where) as store:
        assert rebuild(store) == []
    _check(older)


def test_two_runs_that_are_one_now_become_one(older: Older) -> None:
    """OpenCV had two versions in keys, so one run may have been stored twice."""
    path = older.files / "runs" / f"{older.ids[0]}.json"
    one = json.loads(path.read_text())
    other = one | {"id": "f" * 12, "created_at": "2000-01-01T00:00:00Z"}
    one["scores"] = [s for s in one["scores"] if s["protocol"] == "exact"]
    path.write_text(json.dumps(one))
    (older.files / "runs" / "ffffffffffff.json").write_text(json.dumps(other))
    migrate_store(older.where)
    with Store.open(older.where, mode="read") as store:
        found = load_run(store, older.fresh[0].id)
        assert len(load_runs(store)) == 4
    by = {p: [s for s in _plain(found) if s["protocol"] == p] for p in PROTOCOLS}
    expected = {p: [s for s in _plain(older.fresh[0].stored) if s["protocol"] == p] for p in PROTOCOLS}
    assert by == expected
    assert found.created_at == older.fresh[0].stored.created_at


def test_changed_libraries_are_told(older: Older) -> None:
    path = older.files / "runs" / f"{older.ids[0]}.json"
    run = json.loads(path.read_text())
    run["manifest"]["method"]["config"]["libraries"]["numpy"] = "0.9"
    path.write_text(json.dumps(run))
    with Store.open(older.where) as store:
        rebuild(store)
    told = {a.method: a.reason for a in migrate_store(older.where).again}
    assert told["pixels"].startswith("numpy was 0.9, and now is ")


def test_a_store_on_postgresql_is_migrated(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    older = make_older(tmp_path, url, user_code=True)
    done = migrate_store(url)
    assert done.copy == "the tables *_v3_backup"
    _check(older)
    _run_again(older, monkeypatch)
    with Store.open(url, mode="read") as store, store.reading() as c:
        assert set(c.execute(sa.text("select id from runs_v3_backup")).scalars()) == set(older.ids)


def test_a_failed_run_of_an_older_version_is_failed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store, store.begin() as c:
        c.execute(sa.update(schema.versions).values(version=3))
    manifest = a_run().manifest.plain()
    row = {"id": "aaa", "task": "t/a", "status": "error", "manifest": manifest, "error": "no keypoints"}
    (tmp_path / "s" / "runs").mkdir()
    (tmp_path / "s" / "runs" / "aaa.json").write_text(json.dumps(row))
    with Store.open(tmp_path / "s") as store:
        assert [(r.status, r.error) for r in load_runs(store)] == [("failed", "no keypoints")]
    assert os.path.exists(tmp_path / "s" / "tiepoint.sqlite.v3-backup")
