# SPDX-License-Identifier: BSD-3-Clause
"""What docs/lab.md promises, on a real PostgreSQL server: roles, lost connections, backup and restore."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store_world import TASK, a_run, make_patches

from tiepoint.cli.main import run
from tiepoint.core.errors import StoreError
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.run_queries import load_runs
from tiepoint.store.sql_query import select_all
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun
from tiepoint.store.writers import save_run

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "lab.md"


def _sql_blocks() -> list[str]:
    """The two blocks of SQL of the page: for the server and for the new database."""
    marked = r"<!-- run by tests/store/test_lab.py -->\n```sql\n(.*?)```"
    blocks = re.findall(marked, PAGE.read_text("utf-8"), re.S)
    assert len(blocks) == 2
    return blocks


def _execute(server: Any, sql: str, database: str | None = None) -> None:
    where = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(where if database is None else where.set(database=database))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in filter(None, map(str.strip, sql.split(";"))):
            connection.execute(sa.text(statement))
    engine.dispose()


@pytest.fixture
def lab(server: Any, tmp_path: Path) -> dict[str, str]:
    """The database of the page under another name; URLs by user, and one of the administrator."""
    mark = f"t{time.time_ns()}"
    names = {name: f"{name}_{mark}" for name in ("tiepoint_writer", "tiepoint_reader", "ada", "guest")}

    def renamed(sql: str) -> str:
        for old, new in names.items():
            sql = re.sub(rf"\b{old}\b", new, sql)
        return re.sub(r"\bdatabase tiepoint\b", f"database {mark}", sql)

    (tmp_path / "files").mkdir()
    first, second = _sql_blocks()
    _execute(server, renamed(first))
    _execute(server, renamed(second), mark)
    bob = f"create role bob_{mark} login in role {names['tiepoint_writer']};"
    _execute(server, f"{bob} alter role bob_{mark} in database {mark} set role {names['tiepoint_writer']}")

    def url(user: str | None) -> str:
        made = sa.make_url(server.get_uri()).set(database=mark)
        made = made if user is None else made.set(username=user)
        text = made.render_as_string(hide_password=False)
        return f"{text}{'&' if '?' in text else '?'}files={tmp_path / 'files'}"

    return {
        "ada": url(names["ada"]),
        "bob": url(f"bob_{mark}"),
        "guest": url(names["guest"]),
        "all": url(None),
    }


def _terminate_others(url: str) -> int:
    """End all connections to the database of a store, as a restart of the server does."""
    with Store.open(url, mode="read") as store, store.engine.connect() as connection:
        ended = connection.execute(
            sa.text(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        ).all()
    return len(ended)


def test_roles_writers_write_and_readers_only_read(
    lab: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_patches(tmp_path)
    asked = ["--task", TASK, "--data", str(data), "--tasks", str(tmp_path)]
    assert run(["run", "pixels", *asked, "--store", lab["ada"]]) == 0
    assert run(["run", "meanstd", *asked, "--store", lab["bob"]]) == 0  # into tables that ada created
    assert run(["store", "check", "--store", lab["bob"]]) == 0
    capsys.readouterr()
    for words in (["list", "runs"], ["compare", "--task", TASK], ["store", "ls"], ["store", "size"]):
        assert run([*words, "--store", lab["guest"]]) == 0, words
    assert run(["sql", "select count(*) from scores", "--store", lab["guest"]]) == 0
    assert run(["store", "merge", lab["guest"], "--store", str(tmp_path / "copy")]) == 0
    capsys.readouterr()
    assert run(["run", "brief", *asked, "--store", lab["guest"]]) == 2
    assert "permission denied for table" in capsys.readouterr().err
    with Store.open(lab["guest"]) as store, pytest.raises(StoreError, match="permission denied for table"):
        save_run(store, a_run("one"))
    with Store.open(lab["ada"]) as store:
        assert sorted(r.method for r in load_runs(store)) == ["meanstd", "pixels"]


def test_idle_connection_lost_is_replaced(lab: dict[str, str]) -> None:
    with Store.open(lab["ada"]) as store, Store.open(lab["guest"], mode="read") as reader:
        save_run(store, a_run("one"))
        assert len(load_runs(reader)) == 1
        assert _terminate_others(lab["all"]) >= 2
        save_run(store, a_run("two"))
        assert len(load_runs(reader)) == 2
        assert _terminate_others(lab["all"]) >= 2
        assert select_all(reader.engine, "select count(*) from runs")[1] == [(2,)]


def test_connection_lost_in_transaction_undoes_it_and_repeats(lab: dict[str, str]) -> None:
    with Store.open(lab["ada"]) as store:
        save_run(store, a_run("one", 0.25))

        def interrupted(_: StoredRun | None) -> StoredRun:
            _terminate_others(lab["all"])
            return a_run("one", 0.75)

        message = "connection to the database was lost. Finished work is saved; rerun the command"
        with pytest.raises(StoreError, match=message):
            save_run(store, a_run("one", 0.75), merge=interrupted)
        assert [r.scores[0].value for r in load_runs(store)] == [0.25]
        save_run(store, a_run("one", 0.75))
        assert [r.scores[0].value for r in load_runs(store)] == [0.75]
        assert check_store(store, rebuild=True).ok


def test_connection_lost_at_commit_leaves_file_that_check_adds(
    lab: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiepoint.store import store as store_module

    with Store.open(lab["ada"]) as store:
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "commit", lambda _: _terminate_others(lab["all"]))
            with pytest.raises(StoreError, match="was lost"):
                save_run(store, a_run("one"))
        assert load_runs(store) == []
        assert (store.root / "runs" / "one.json").is_file()
    found = check_store(lab["ada"])
    assert [p.what for p in found.problems] == ["run one has a file and is not in the database"]
    assert check_store(lab["ada"]).ok


def test_backup_and_restore_of_both_databases(lab: dict[str, str], tmp_path: Path) -> None:
    data = make_patches(tmp_path)
    asked = ["--task", TASK, "--data", str(data), "--tasks", str(tmp_path)]
    assert run(["run", "pixels", "meanstd", *asked, "--store", lab["ada"]]) == 0
    backup, restored = str(tmp_path / "backup"), str(tmp_path / "restored")
    assert run(["store", "merge", lab["ada"], "--store", backup]) == 0
    with Store.open(lab["ada"]) as store:
        expected = {r.id: r.scores for r in load_runs(store)}
        for table in ("scores", "runs", "methods", "datasets", "keypoint_sets", "tiepoint_schema"):
            with store.engine.begin() as connection:
                connection.execute(sa.text(f"drop table {table} cascade"))
    for path in sorted((tmp_path / "files").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for where in (lab["ada"], restored):
        assert run(["store", "merge", backup, "--store", where]) == 0
        assert check_store(where).ok
        with Store.open(where) as store:
            assert {r.id: r.scores for r in load_runs(store)} == expected
    assert run(["run", "pixels", *asked, "--store", lab["ada"]]) == 0
