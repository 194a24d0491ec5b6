"""The same store on a real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_world import a_run

from tiepoint import evaluate
from tiepoint.core.errors import InputError, StoreError
from tiepoint.serve import run_index
from tiepoint.store import schema
from tiepoint.store.maintenance.edit_runs import rename_method
from tiepoint.store.rebuild import rebuild
from tiepoint.store.run_queries import load_runs
from tiepoint.store.sql_query import select_all
from tiepoint.store.store import Store
from tiepoint.store.writers import save_run

pytestmark = pytest.mark.slow


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
        assert [r.scores[0].value for r in load_runs(store)] == [0.75]
        assert rebuild(store) == []
        assert select_all(store.engine, "select true_map_micro from results")[1] == []


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
                select_all(store.engine, query)
        assert select_all(store.engine, "select count(*) from scores") == (["count"], [(1,)])


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_store_of_another_format_version_is_refused(url: str, version: int) -> None:
    with Store.open(url) as store, store.begin() as connection:
        connection.execute(sa.update(schema.versions).values(version=version))
    with pytest.raises(StoreError, match="pass a new `store` and run again"):
        Store.open(url)


def test_an_unreachable_server_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open the store"):
        Store.open(f"postgresql://nobody@127.0.0.1:1/none?connect_timeout=1&files={tmp_path}")


def test_snapshot_run_extended_or_renamed_is_reloaded(
    url: str, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "FRESH_S", 0.0)

    def run(*protocols: str) -> None:
        evaluate("meanstd", task="hpatches/matching", data=patches, store=url, protocol=protocols, jobs=1)

    run("exact")
    with Store.open(url, mode="read") as store:
        library = run_index.RunIndex(store)
        first = library.snapshot()
        assert library.snapshot() is first
        run("exact", "hpatches-python")
        assert {row["protocol"] for row in library.snapshot().runs[0].rows()} == {"exact", "hpatches-python"}
        with Store.open(url) as writer:
            rename_method(writer, "meanstd", "renamed")
        assert [r.method for r in library.snapshot().runs] == ["renamed"]
