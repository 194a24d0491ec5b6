# SPDX-License-Identifier: BSD-3-Clause
"""Store URLs: what they name, what is refused in a sentence, and that no sentence has the password."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_world import a_run

from tiepoint.cli.main import run
from tiepoint.core.errors import StoreError
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store, store_root
from tiepoint.store.urls import is_url, read_url
from tiepoint.store.writers import save_run


@pytest.mark.parametrize("form", ["relative", "absolute"])
def test_sqlite_urls_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///lab/runs.db" if form == "relative" else f"sqlite:///{tmp_path}/lab/runs.db"
    assert ("////" in url) == (form == "absolute")
    with Store.open(url) as store:
        save_run(store, a_run("abc"))
    assert (tmp_path / "lab/runs.db").is_file()
    assert (tmp_path / "lab/runs.files/runs/abc.json").is_file()
    assert store_root(url).name == "runs.files"
    with Store.open(url, mode="read") as store:
        assert [r.id for r in load_runs(store)] == ["abc"]
    assert run(["list", "runs", "--store", url]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lab"]


def test_the_database_of_a_folder_is_the_store_of_the_folder(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("abc"))
    with Store.open(f"sqlite:///{tmp_path}/s/tiepoint.sqlite", mode="read") as store:
        assert store.root == tmp_path / "s"
        assert len(load_runs(store)) == 1


def test_the_folder_for_files_of_a_sqlite_url_can_be_said(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/a.db?files={tmp_path}/big") as store:
        save_run(store, a_run("abc"))
    assert (tmp_path / "big/runs/abc.json").is_file()


SECRET = "s3cret"
WRONG = {
    "unknown scheme": (f"mysql://u:{SECRET}@h/db?files=x", r"use sqlite .* or postgresql"),
    "no database": (f"postgresql://u:{SECRET}@h?files=x", "names no database"),
    "no database, slash": (f"postgresql://u:{SECRET}@h/?files=x", "names no database"),
    "no files": (f"postgresql://u:{SECRET}@h/db", r"\?files=DIR"),
    "bad port": (f"postgresql://u:{SECRET}@h:port/db?files=x", "port"),
    "large port": (f"postgresql://u:{SECRET}@h:65536/db?files=x", "port"),
    "slash in the password": (f"postgresql://u:a/{SECRET}@h/db?files=x", "%2F"),
    "question mark in the password": (f"postgresql://u:{SECRET}?a@h/db?files=x", "%3F"),
    "hash in the password": (f"postgresql://u:{SECRET}#a@h/db?files=x", "%23"),
    "at in the password": (f"postgresql://u:{SECRET}@a@h/db?files=x", "%40"),
    "digits and a question mark": ("postgresql://u:123?a@h/db?files=x", "%3F"),
    "unknown driver": (f"postgresql+nosuch://u:{SECRET}@h/db?files=x", "store URL"),
    "two slashes": ("sqlite://a.db", "three slashes"),
    "no file": ("sqlite://", "three slashes"),
    "in memory": ("sqlite:///:memory:", "three slashes"),
    "sqlite with a setting": ("sqlite:///a.db?mode=rwc", "takes only `files`"),
    "a path of a URL": ("sqlite:/a.db", "pass the URL as a string"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_wrong_url_is_a_sentence_without_its_password(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    mode: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    url, words = WRONG[name]
    with pytest.raises(StoreError, match=words) as found:
        Store.open(url, mode="read" if mode == "read" else "write")
    assert run(["list", "runs", "--store", url]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for text in (said, str(found.value), repr(found.value.__cause__)):
        assert SECRET not in text
        assert "123" not in text
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_a_sentence_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg", reason="no PostgreSQL driver installed")
    url = f"postgresql://u:{SECRET}@127.0.0.1:1/none?connect_timeout=1&password={SECRET}2&files={tmp_path}/f"
    for command in (["list", "runs"], ["sql", "select 1"], ["store", "size", "--json"]):
        assert run([*command, "--store", url]) == 2
        said = capsys.readouterr()
        assert "cannot open the store postgresql://u:***@127.0.0.1:1/none" in said.err
        assert said.err.count("\n") == 1
        assert SECRET not in said.out + said.err


def test_what_is_a_url() -> None:
    assert is_url("mysql://x")
    assert not is_url("C:/lab/store")
    assert not is_url("a:b/c")
    assert read_url("postgres://h/db?files=x").url == "postgresql://h/db"
    assert read_url("postgresql://postgres:@/t1?host=%2Ftmp%2Fpg&files=x").url.endswith(
        "@/t1?host=%2Ftmp%2Fpg"
    )
    assert "?" not in read_url(f"postgresql://h/db?password={SECRET}&files=x").shown


@pytest.mark.parametrize("setting", ["bogus", "sslmode", "connect_timeout"])
def test_of_a_wrong_setting_only_the_name_is_shown(setting: str, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs the driver of PostgreSQL")
    with pytest.raises(StoreError, match=setting) as told:
        Store.open(f"postgresql://u@127.0.0.1:1/none?{setting}=sEcret&files={tmp_path}/f")
    assert "sEcret" not in str(told.value)
