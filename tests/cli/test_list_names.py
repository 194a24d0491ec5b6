"""``tiepoint list``: an overview alone, tables that fit the terminal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tiepoint.cli.commands.list_names import _long_list
from tiepoint.cli.main import run as command


def test_alone_it_is_an_overview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert command(["list"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert {"Tasks:", "Methods:", "No store here yet.", "Next:"} <= set(out.splitlines())
    assert "hpatches-v1/matching" in out
    assert "rootsift" in out
    assert "Protocols: exact, " in out
    assert not list(tmp_path.iterdir())


def test_the_overview_counts_the_runs_of_a_store(
    small_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["list", "--store", str(small_store)]) == 0
    assert f"Store {small_store}: 5 runs, 3 methods, 2 tasks, " in capsys.readouterr().out
    assert command(["list", "--store", str(small_store), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["store"]["runs"] == 5
    assert "sift" in found["methods"]["patches"]
    assert set(found) == {"tasks", "methods", "protocols", "datasets", "store"}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_id_or_name_is_cut(
    small_store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    assert command(["list", "runs", "--store", str(small_store), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("COLUMNS", str(width))
    assert command(["list", "runs", "--store", str(small_store)]) == 0
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    for run in runs:
        assert run["run"] in out
        assert run["task"] in out
        assert run["name"].replace("\x1b", "\\x1b") in out
    assert "\x1b" not in out


@pytest.mark.parametrize("width", [40, 80, 200])
def test_scores_are_not_cut(
    small_store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in (
        ["show", "resize", "--task", "hpatches/verification"],
        ["compare", "--task", "hpatches/matching"],
        ["list", "tasks"],
        ["plot"],
    ):
        at = [] if arguments[0] == "list" else ["--store", str(small_store)]
        assert command([*arguments, *at]) == 0
        out = capsys.readouterr().out
        broken = [x for x in out.splitlines() if len(x.rstrip()) > width and " " in x.strip()]
        assert not broken, (arguments, broken)
        assert "…" not in out.replace("é…", ""), arguments


def test_a_long_list_does_without_what_is_least_needed() -> None:
    columns = ["run", "name", "task", "dataset", "status", "protocols", "made"]
    rows = [["0" * 12, "sift", "tss", "d" * 30, "done", "exact", "2026-11-16T09:58:23Z"]] * 3
    assert _long_list(columns, rows, 200)[0].split() == columns  # type: ignore[index]
    short = _long_list(columns, rows, 60)
    assert short is not None
    assert short[0].split() == ["run", "name", "task", "status", "made"]
    assert len(short) == 4
    assert _long_list(columns, rows, 20) is None


def _sequences(folder: Path) -> Path:
    """An image sequence without content: names are enough to recognise its layout."""
    (folder / "v_a").mkdir(parents=True)
    (folder / "v_a" / "H_1_2").write_text("1 0 0\n0 1 0\n0 0 1\n")
    return folder


def test_datasets_on_this_machine_are_listed(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    monkeypatch.delenv("TIEPOINT_DATA", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert command(["list", "datasets"]) == 0
    assert "no datasets yet; `tiepoint data get` lists published ones" in capsys.readouterr().out

    given = _sequences(tmp_path / "given" / "deep" / "mine")
    of_variable = [_sequences(tmp_path / "one" / "a"), _sequences(tmp_path / "two" / "b")]
    monkeypatch.setenv("TIEPOINT_DATA", os.pathsep.join(str(p.parent) for p in of_variable))
    got = _sequences(tmp_path / "here" / "datasets" / "hp")
    (got.parent / "hp.source.json").write_text(json.dumps({"dataset": "hpatches-sequences"}))
    _sequences(tmp_path / "here" / "datasets" / "not-from-get")

    def rows(*words: str) -> list[dict[str, str | None]]:
        assert command(["list", "datasets", *words, "--json"]) == 0
        found: list[dict[str, str | None]] = json.loads(capsys.readouterr().out)
        return found

    asked = ("--data", str(tmp_path / "given"))
    found = rows(*asked)
    assert {(r["name"], r["family"], r["present"], r["published"]) for r in found} == {
        ("mine", "sequences", "yes", ""), ("hp", "sequences", "yes", "hpatches-sequences"),
        ("a", "sequences", "yes", ""), ("b", "sequences", "yes", ""),
    }  # fmt: skip
    assert rows("--data", str(given), *asked) == found
    stored = rows("--store", str(small_store), *asked)
    assert [r["hash"] is not None for r in stored] == sorted(r["hash"] is not None for r in stored)[::-1]
    assert len(stored) == 4 + sum(r["hash"] is not None for r in stored)
    assert {r["present"] for r in stored if r["hash"]} <= {"yes", "no"}


def test_datasets_of_moved_or_wrong_folder(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["list", "datasets", "--data", str(tmp_path / "nothing")]) == 2
    assert "pass existing folders as --data" in capsys.readouterr().err
    assert command(["list", "methods", "--data", str(tmp_path)]) == 2
    assert "--data affects only `tiepoint list datasets`" in capsys.readouterr().err
    assert command(["list", "datasets", "--store", str(tmp_path / "nothing")]) == 2
    assert "there is no store" in capsys.readouterr().err
