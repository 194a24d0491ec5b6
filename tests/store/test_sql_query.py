# SPDX-License-Identifier: BSD-3-Clause
"""A user's own SQL can only read, on both databases, and is stopped when it takes too long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_world import a_run

from tiepoint.cli.main import run
from tiepoint.core.errors import InputError
from tiepoint.store.sql_query import run_query, select_all
from tiepoint.store.store import Store
from tiepoint.store.writers import save_run

WRITES = (
    "pragma journal_mode = wal",
    "pragma journal_mode(wal)",
    "pragma user_version = 7",
    "pragma query_only = off",
    "pragma writable_schema = on",
    "pragma wal_checkpoint(truncate)",
    "attach 'NEW' as other",
    "vacuum into 'NEW'",
    "vacuum",
    "insert into runs select * from runs",
    "with x as (select 1) delete from scores",
    "create temp table t as select 1",
    "select load_extension('x')",
    "select 1; select 2",
    "-- select\ndrop table scores",
    "explain drop table scores; drop table scores",
    "begin immediate",
    "",
)


@pytest.mark.parametrize("query", WRITES)
@pytest.mark.parametrize("mode", ["read", "write"])
def test_sqlite_only_reads(tmp_path: Path, query: str, mode: str) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
    before = (tmp_path / "s/tiepoint.sqlite").read_bytes()
    new = tmp_path / "new.db"
    with (
        Store.open(tmp_path / "s", mode="read" if mode == "read" else "write") as store,
        pytest.raises(InputError),
    ):
        select_all(store.engine, query.replace("NEW", str(new)))
    assert not new.exists()
    assert (tmp_path / "s/tiepoint.sqlite").read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "s").glob("tiepoint*")) == ["tiepoint.sqlite"]


READS = (
    "/* of all */ select count(*) from scores",
    "with x as (select 1 as a) select a from x",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select max(i) from n",
    "values (1)",
    "explain query plan select * from runs",
    "pragma table_info(runs)",
    "pragma journal_mode",
    "select count(*) from results",
)


@pytest.mark.parametrize("query", READS)
def test_sqlite_reads(tmp_path: Path, query: str) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
        assert select_all(store.engine, query)[1]


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


def test_a_query_without_end_is_stopped(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        with pytest.raises(InputError, match=r"longer than 0\.05 s and was stopped"):
            run_query(store.engine, ENDLESS, timeout_s=0.05)
        with pytest.raises(InputError, match="above 0"):
            run_query(store.engine, "select 1", timeout_s=0)
        with pytest.raises(InputError, match="refuses"):
            run_query(store.engine, "select zeroblob(900000000)")


def test_rows_beyond_the_limit_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(scores=5))
    where = ["--store", str(tmp_path / "s")]
    assert run(["sql", "select metric from scores", "--limit", "3", "--json", *where]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 3
    assert "truncated after 3 rows" in said.err
    assert run(["sql", "select metric from scores", "--limit", "5", "--json", *where]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 5
    assert said.err == ""


def test_control_characters_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(method="a\x1b[31mb\x07"))
    asked = "select name, char(27) || '[2J' as \"c\x1b[1m\" from methods"
    assert run(["sql", asked, "--store", str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    assert "a\\x1b[31mb\\x07" in out
    assert "c\\x1b[1m" in out
    assert not set(out) & {"\x1b", "\x07"}


PG_WRITES = (
    "copy (select 1) to program 'touch NEW'",
    "/* /* */ explain */ copy (select 1) to program 'touch NEW'",
    "copy (select 'x') to 'NEW'",
    "delete from scores",
    "with x as (delete from scores returning 1) select * from x",
    "explain analyze delete from scores",
    "select 1; commit; drop table scores",
    "do $$ begin delete from scores; end $$",
    "set transaction read write",
    "select set_config('transaction_read_only', 'off', false)",
    "select lo_export(1, 'NEW')",
    "select pg_read_file('PG_VERSION')",
    "select pg_advisory_lock(7496)",
    "select U&\"set\\005fconfig\"('a', 'b', true)",
    "show all; drop table scores",
    "create table x (a int)",
)


def test_postgresql_only_reads(url: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    with Store.open(url) as store:
        save_run(store, a_run("abc"))
        for query in PG_WRITES:
            with pytest.raises(InputError):
                select_all(store.engine, query.replace("NEW", str(new)))
            assert not new.exists()
        for query in ("select count(*) as n from scores", "(table scores)", "values (1)", "show work_mem"):
            assert len(select_all(store.engine, query)[1]) == 1
        assert select_all(store.engine, "explain analyze select * from scores")[1]
        assert run_query(store.engine, "select generate_series(1, 9)", most_rows=3).truncated
        with pytest.raises(InputError, match="was stopped"):
            run_query(store.engine, "select pg_sleep(9)", timeout_s=0.2)
        save_run(store, a_run("later"))
        assert select_all(store.engine, "select count(*) from runs") == (["count"], [(2,)])


def test_long_answers_are_lines_and_columns_of_one_name_are_kept_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fitting 10,000 rows of scores to a terminal took minutes; in JSON one of two columns was lost."""
    Store.open(tmp_path / "s").close()
    where = ["--store", str(tmp_path / "s")]
    numbers = "with recursive r(i) as (select 1 union all select i + 1 from r where i < 6000) select i from r"
    assert run(["sql", numbers, *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[0], lines[-1]) == (6001, " i", " 6000")
    assert run(["sql", "select 1 as id, 2 as id", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == [{"id": 1, "id_2": 2}]
