# SPDX-License-Identifier: BSD-3-Clause
"""Readers wait for nobody and keep nobody waiting, and need no right to write."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_world import a_run, look

from tiepoint.cli.main import run
from tiepoint.core.errors import StoreError
from tiepoint.store import locking
from tiepoint.store.run_queries import load_heads
from tiepoint.store.store import Store
from tiepoint.store.writers import insert_run, save_run


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "s") as store, store.begin() as connection:
        for i in range(50):
            insert_run(connection, a_run(f"r{i:03}"))
    return tmp_path / "s"


@contextmanager
def many_rows_being_written(where: Path) -> Iterator[None]:
    """A transaction that has changed far more than the usual cache of SQLite holds, and goes on."""
    with Store.open(where) as store, store.begin() as connection:
        for i in range(4):
            insert_run(connection, a_run(f"new{i}", warnings=["x" * 2_000_000]))
        yield


def test_many_read_while_one_writes_a_lot(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "BUSY_S", 0.1)
    found: list[int | BaseException] = []

    def read() -> None:
        try:
            with Store.open(filled, mode="read") as store:
                found.append(len(load_heads(store)))
                if store._copy is not None:
                    found.append(StoreError("not read in place"))
        except BaseException as e:
            found.append(e)

    with many_rows_being_written(filled):
        readers = [threading.Thread(target=read) for _ in range(20)]
        for one in readers:
            one.start()
        for one in readers:
            one.join()
    assert found == [50] * 20
    with Store.open(filled, mode="read") as store:
        assert len(load_heads(store)) == 54


def test_a_writer_is_patient_with_readers(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that finds readers at work is tried again, as is beginning to write."""
    monkeypatch.setattr(locking, "BUSY_S", 0.02)
    reader = sqlite3.connect(filled / "tiepoint.sqlite", isolation_level=None, check_same_thread=False)
    reader.execute("begin")
    reader.execute("select count(*) from runs").fetchall()
    end = threading.Timer(0.1, lambda: reader.execute("rollback"))
    end.start()
    with Store.open(filled) as store:
        save_run(store, a_run("late"))
        assert len(load_heads(store)) == 51
    end.join()
    reader.close()


def test_a_writer_that_waits_says_so_and_hears_signals(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite itself waits a short time only: Ctrl-C was not heard for a minute, and nothing was said."""
    monkeypatch.setattr(locking, "WRITE_S", 0)
    waits, tries = list[object](), 0
    writer = sqlite3.connect(filled / "tiepoint.sqlite", isolation_level=None)
    writer.execute("begin immediate")

    def interrupted(error: sa.exc.DBAPIError) -> bool:
        nonlocal tries
        tries += 1
        if tries == 5:  # what the handler of a signal does between two tries
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(locking, "is_busy", interrupted)
    with Store.open(filled) as store, store.engine.connect() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda *a: waits.append(a[2]))
        with pytest.raises(KeyboardInterrupt):
            locking.begin_write(connection, None)
    writer.execute("rollback")
    writer.close()
    assert waits == ["PRAGMA busy_timeout = 0", *["BEGIN IMMEDIATE"] * 5]
    assert capsys.readouterr().err == "tiepoint: waiting for another process that uses the store\n"


def test_a_locked_database_is_a_sentence_and_is_not_copied(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of a database that is just being written would be neither the old nor the new one."""
    monkeypatch.setattr(locking, "BUSY_S", 0.02)
    writer = sqlite3.connect(filled / "tiepoint.sqlite", isolation_level=None)
    writer.execute("begin exclusive")
    with pytest.raises(StoreError, match="another process has been writing"):
        Store.open(filled, mode="read")
    assert run(["list", "runs", "--store", str(filled)]) == 2
    assert "another process has been writing" in capsys.readouterr().err
    writer.execute("rollback")
    writer.close()


def test_reading_takes_no_lock_that_writes_and_leaves_everything_as_it_is(filled: Path) -> None:
    """One that is about to write, and so has the lock that only one may have, does not stop a reader."""
    writer = sqlite3.connect(filled / "tiepoint.sqlite", isolation_level=None)
    writer.execute("begin immediate")
    before = look(filled)
    for command in (["list", "runs"], ["list", "datasets"], ["sql", "select count(*) from runs"]):
        assert run([*command, "--store", str(filled)]) == 0
    assert look(filled) == before
    with Store.open(filled, mode="read") as store, store.reading() as connection:
        assert connection.exec_driver_sql("pragma query_only").scalar() == 1
    writer.execute("rollback")
    writer.close()
