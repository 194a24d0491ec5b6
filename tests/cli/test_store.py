# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store``: lists, sizes, deleting with a question, renaming, pruning, checking."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
from store_world import TASK, make_patches

from tiepoint.cli.main import run
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store


@pytest.fixture
def where(tmp_path: Path) -> str:
    data = make_patches(tmp_path, scenes=2)
    with Store.open(tmp_path / "store") as store:
        for method in ("pixels", "meanstd"):
            evaluate(RunRequest(method, TASK, data, ("exact",), {"tasks": str(tmp_path)}), store)
    return str(tmp_path / "store")


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_life_of_a_store(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    on = ("--store", where)
    runs = _json(capsys, "store", "ls", *on)
    assert [(r["method"], r["task"], r["dataset"]) for r in runs] == [
        ("pixels", TASK, "patches"), ("meanstd", TASK, "patches"),
    ]  # fmt: skip
    assert _json(capsys, "store", "ls", "--method", "pixels", *on) == runs[:1]
    assert _json(capsys, "store", "ls", "--dataset", "other", *on) == []
    assert run(["store", "ls", *on]) == 0
    assert runs[0]["run"] in capsys.readouterr().out

    size = _json(capsys, "store", "size", *on)
    assert size["total_bytes"] == sum(k["size_bytes"] for k in size["kinds"].values())
    assert size["kinds"]["features"]["files"] == 12
    assert set(size["methods"]) == {"pixels", "meanstd"}
    assert run(["store", "size", *on]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^features +12 +\d", printed, re.M)
    assert "kept" not in printed

    assert run(["store", "rm", runs[0]["run"], "--dry-run", *on]) == 0
    assert "6 features" in capsys.readouterr().out
    assert run(["store", "rm", runs[0]["run"], *on]) == 2  # nobody can answer here
    assert "--yes" in capsys.readouterr().err
    assert len(_json(capsys, "store", "ls", *on)) == 2
    gone = _json(capsys, "store", "rm", runs[0]["run"][:8], "--yes", *on)
    assert gone["runs"] == [[runs[0]["run"], "pixels", TASK]]
    assert [r["method"] for r in _json(capsys, "store", "ls", *on)] == ["meanstd"]

    assert run(["store", "rename", "meanstd", "Mean and deviation", *on]) == 0
    told = capsys.readouterr()
    assert f"{runs[1]['run']} -> " in told.out
    assert "--name 'Mean and deviation'" in told.err
    assert run(["store", "rename", "meanstd", "x", *on]) == 2

    planned = _json(capsys, "store", "prune", "--older-than", "0s", "--dry-run", *on)
    assert planned["files"]["features"]["files"] == 6
    assert run(["store", "prune", "--older-than", "0s", "--yes", *on]) == 0
    told = capsys.readouterr()
    assert "Mean and deviation: 6 features of 1 run" in told.out
    assert "features" not in _json(capsys, "store", "size", *on)["kinds"]
    assert run(["store", "prune", "--older-than", "30d", "--larger-than-total", "1GB", *on]) == 0
    assert "nothing to remove" in capsys.readouterr().out

    for command in (["store", "check"], ["data", "check"]):
        assert run([*command, *on]) == 0
        assert "no problems" in capsys.readouterr().out
    assert _json(capsys, "store", "check", *on)["problems"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prune"], "--older-than, --larger-than-total, or both"),
        (["prune", "--older-than", "30"], "'30' is not an age"),
        (["prune", "--older-than", "-1d"], "is not an age"),
        (["prune", "--larger-than-total", "20 things"], "is not a size"),
        (["prune", "--larger-than-total", "a\x1b[1m"], r"a\x1b[1m"),
        (["rm", "nosuch", "--yes"], "`tiepoint store ls`"),
        (["rename", "meanstd", "pixels"], "already"),
    ],
)
def test_wrong_words_are_sentences(
    where: str, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["store", *words, "--store", where]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    "command", ["ls", "size", "check", "rm x --yes", "rename a b", "prune --older-than 1d"]
)
def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(["store", *command.split(), "--store", str(tmp_path / "none")]) == 2
    assert "there is no store at" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    (tmp_path / "notes.txt").touch()
    assert run(["store", *command.split(), "--store", str(tmp_path)]) == 2
    assert "there is no store at" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_damage_is_told_with_what_to_run_again(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = next(Path(where, "records").rglob("*.parquet"))
    record.write_bytes(record.read_bytes()[:-40])
    for command in (["store", "check"], ["data", "check"]):
        assert run([*command, "--store", where]) == 2
        assert re.search(rf"run (pixels|meanstd) on {TASK} again", capsys.readouterr().out)


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_report_tells_damage_once_with_what_to_run_again(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    damaged = sorted(Path(where, "values").rglob("*.npz"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    out = tmp_path / f"report.{form}"
    assert run(["report", "--store", where, "--format", form, "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert told.count("cannot read the scene values") == 1
    assert re.search(
        rf"tiepoint: warning: run \w+: .*; remove the file, then run (pixels|meanstd) on {TASK} again", told
    )
    assert damaged.name in out.read_text()
    assert run(["-q", "report", "--store", where, "--format", form, "--out", str(out)]) == 0
    assert capsys.readouterr().err == ""


def test_a_store_that_cannot_be_written_is_checked_as_it_is(
    where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    gone = next(Path(where, "runs").iterdir())
    gone.unlink()
    before = Path(where, "tiepoint.sqlite").read_bytes()
    assert run(["store", "check", "--store", where]) == 2
    said = capsys.readouterr()
    assert "is read-only, so the database was not rebuilt" in said.err
    assert f"run {gone.stem} is in the database and has no file" in said.out
    assert Path(where, "tiepoint.sqlite").read_bytes() == before
