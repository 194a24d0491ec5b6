# SPDX-License-Identifier: BSD-3-Clause
"""Reading a store creates nothing, needs no right to write, waits for no writer, and takes older stores."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_world import TASK, a_run, look, make_patches

from tiepoint.cli.commands import list_names
from tiepoint.cli.main import run
from tiepoint.core.errors import StoreError
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.run_queries import load_heads, load_run, load_runs, load_singles
from tiepoint.store.store import Store
from tiepoint.store.writers import save_run

COMMANDS = {
    "list runs": ["list", "runs"],
    "list datasets": ["list", "datasets"],
    "compare": ["compare", "--task", TASK],
    "report": ["report", "--format", "md", "--out", "OUT"],
    "show": ["show", "RUN"],
    "sql": ["sql", "select * from runs"],
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with real runs."""
    root = tmp_path_factory.mktemp("filled")
    data = make_patches(root, scenes=3)
    with Store.open(root / "store") as store:
        for method in ("pixels", "meanstd"):
            evaluate(RunRequest(method, TASK, data, ("exact", "hbench-2016"), {"tasks": str(root)}), store)
    return root / "store"


def _first_run(store: Path) -> str:
    return min(p.stem for p in (store / "runs").glob("*.json"))


def _call(name: str, store: Path, out: Path) -> int:
    words = {"OUT": str(out), "RUN": _first_run(store) if store.is_dir() else "abc"}
    return run([words.get(w, w) for w in COMMANDS[name]] + ["--store", str(store)])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_reads_changes_nothing(filled: Path, tmp_path: Path, name: str) -> None:
    before = look(filled)
    assert _call(name, filled, tmp_path / "report.md") == 0
    assert look(filled) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_store_is_named_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert _call(name, tmp_path / "nowhere", tmp_path / "report.md") == 2
    assert f"there is no store at {tmp_path / 'nowhere'}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_its_database_is_told_from_none(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
    (tmp_path / "s" / "tiepoint.sqlite").unlink()
    with pytest.raises(StoreError, match="but its run files"):
        Store.open(tmp_path / "s", mode="read")


@pytest.fixture
def nobody() -> Iterator[None]:
    """Rights of a user who owns nothing, where the tests run as root."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield
        os.seteuid(0)
    else:
        yield


def test_a_folder_that_cannot_be_written_is_read(
    filled: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    base = tmp_path_factory.getbasetemp()
    reached = [p for p in filled.parents if p.is_relative_to(base) or "pytest-of-" in str(p)]
    rights = {p: p.stat().st_mode for p in (*reached, filled, *filled.rglob("*"))}
    for path, mode in rights.items():
        path.chmod(mode | 0o555 if path in reached else (mode | 0o555) & ~0o222)
    run_id = _first_run(filled)
    try:
        request.getfixturevalue("nobody")
        assert not os.access(filled, os.W_OK, effective_ids=True)
        with Store.open(filled, mode="read") as store:
            assert len(load_runs(store)) == 2
        assert run(["show", run_id, "--store", str(filled), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["run"]
        with pytest.raises(StoreError, match="cannot write"):
            Store.open(filled)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for path, mode in rights.items():
            path.chmod(mode)


_DIE_WHILE_WRITING = """
import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("pragma cache_size = 1")
c.execute("begin immediate")
c.execute("update scores set value = 9, note = hex(randomblob(20000))")
os._exit(0)
"""


def test_what_a_killed_writer_left_half_done_is_not_read(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(scores=50))
    database = tmp_path / "s" / "tiepoint.sqlite"
    subprocess.run([sys.executable, "-c", _DIE_WHILE_WRITING, str(database)], check=True)
    assert Path(f"{database}-journal").stat().st_size > 0
    before = look(tmp_path)
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True).execute("select value from scores")
    with Store.open(tmp_path / "s", mode="read") as store:
        assert {s.value for s in load_run(store, "abc").scores} == {0.5}
    assert look(tmp_path) == before
    with Store.open(tmp_path / "s") as store:
        assert {s.value for s in load_run(store, "abc").scores} == {0.5}


def _write_for(where: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    with Store.open(where) as store:
        while time.monotonic() < end:
            save_run(store, a_run(scores=200, value=0.5))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_readers_and_a_writer_do_not_disturb_each_other(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    where = str(tmp_path / "s") if kind == "sqlite" else request.getfixturevalue("url")
    with Store.open(where) as store:
        save_run(store, a_run(scores=200))
    writer = multiprocessing.get_context("spawn").Process(target=_write_for, args=(where, 1.5))
    writer.start()
    read = 0
    while writer.is_alive():
        with Store.open(where, mode="read") as store:
            assert [len(r.scores) for r in load_runs(store)] == [200]
        read += 1
    writer.join()
    assert writer.exitcode == 0
    assert read > 3


def test_a_reader_of_postgresql_cannot_write(url: str) -> None:
    with pytest.raises(StoreError, match="empty"):
        Store.open(url, mode="read")
    with Store.open(url) as store:
        save_run(store, a_run())
    with Store.open(url, mode="read") as store:
        assert len(load_runs(store)) == 1
        with pytest.raises(StoreError, match="read-only"), store.begin() as c:
            c.execute(sa.text("delete from scores"))


def test_reading_some_runs_reads_the_same_as_reading_all(filled: Path) -> None:
    with Store.open(filled, mode="read") as store:
        every = load_runs(store)
        assert len(every) == 2
        for r in every:
            assert load_runs(store, ids={r.id}) == [r]
            (short,) = load_runs(store, ids={r.id}, singles=False)
            kept = [s for s in r.scores if "scene=" not in s.group and "pair=" not in s.group]
            assert list(short.scores) == kept
            assert 0 < len(kept) < len(r.scores)
            assert load_singles(store, r.id) == r.scores
        for head, r in zip(load_heads(store), every, strict=True):
            assert (head.id, head.task, head.method, head.dataset) == (r.id, r.task, r.method, r.dataset)
            assert set(head.protocols) == {s.protocol for s in r.scores}
            assert head.manifest == r.manifest
            assert json.dumps(head.manifest.plain()) == head.text


def test_a_dataset_is_named_by_its_run_whatever_the_order_of_its_manifest(filled: Path) -> None:
    with Store.open(filled, mode="read") as store:
        head = load_heads(store)[0]
    turned = json.dumps(dict(reversed(json.loads(head.text).items())))
    assert replace(head, text=turned).dataset == head.dataset == "patches"


def test_a_long_list_is_printed_as_rich_prints_a_short_one(
    filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []
    for long in (500, 1):
        monkeypatch.setattr(list_names, "_LONG", long)
        assert run(["list", "runs", "--store", str(filled)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert list_names._plain_lines(["a"], [["x" * 90]], 80) is None
    assert list_names._plain_lines(["a"], [["漢"]], 80) is None
