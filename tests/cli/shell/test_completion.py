"""Completion: asked as the shells ask, and by a real bash."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tiepoint.cli.main import COMPLETING
from tiepoint.cli.main import run as command
from tiepoint.cli.shell.completion import PROTOCOLS
from tiepoint.tasks import TASKS

HEAVY = ("numba", "pandas", "numpy", "sqlalchemy", "scipy", "rich", "cv2", "matplotlib")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    def asked(*words: str) -> list[str]:
        """What bash is offered for the last word."""
        monkeypatch.setenv(COMPLETING, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["tiepoint", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        command([])
        out, err = capsys.readouterr()
        assert err == ""
        return list(out.split())

    return asked


def test_commands_and_options(ask) -> None:  # type: ignore[no-untyped-def]
    assert ask("comp") == ["compare"]
    assert {"run", "data", "flow"} <= set(ask(""))
    assert "cut" in ask("data", "")
    assert ask("run", "--wri") == ["--write-results"]
    assert {"--jobs", "--quiet", "--verbose"} <= set(ask("run", "--"))
    assert ask("-q", "comp") == ["compare"]


def test_names_of_the_package(ask) -> None:  # type: ignore[no-untyped-def]
    assert {"sift", "orb", "klt"} <= set(ask("run", ""))
    assert "klt" not in ask("run", "--task", "tss", "")
    assert "dis" in ask("run", "--task", "tss", "")
    assert ask("run", "--task", "keypoints/r") == ["keypoints/ranking", "keypoints/retrieval"]
    assert ask("run", "--task", "=", "ts") == ["tss"]
    assert ask("run", "--task", "tss,dense/f") == ["tss,dense/flow"]
    assert ask("run", "--task", "tss", "--protocol", "tss-") == ["tss-cpp", "tss-matlab"]
    assert "exact,exact" not in ask("run", "--task", "tss", "--protocol", "exact,e")
    assert ask("run", "--split", "il") == ["illum"]
    assert ask("list", "r") == ["runs"]
    assert "hpatches-sequences" in ask("data", "get", "")
    assert "kitti" not in ask("score", "")
    assert "tss" in ask("score", "")


def test_names_of_a_store(ask, small_store: Path) -> None:  # type: ignore[no-untyped-def]
    at = ("--store", str(small_store))
    assert ask("compare", *at, "--task", "") == ["hpatches/matching", "hpatches/verification"]
    found = ask("show", *at, "")
    assert {"resize", "meanstd"} <= set(found)
    assert sum(len(name) == 12 and name.isalnum() for name in found) == 5
    assert not any("\x1b" in name or "é" in name for name in found)
    assert ask("store", "ls", *at, "--method", "me") == ["meanstd"]
    assert set(ask("store", "rm", *at, "")) == {name for name in found if len(name) == 12 and name.isalnum()}
    assert ask("store", "ls", *at, "--dataset", "") == ["patches"]
    assert "map" in ask("compare", *at, "--task", "hpatches/matching", "--metric", "")
    assert ask("compare", *at, "--group", "noise", "=", "ha")[:1] == ["hard"]
    assert ask("compare", *at, "--group", "noise", "=", "t")[:1] == ["tough"]


def test_no_store_or_a_damaged_one_offers_nothing(ask, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert ask("show", "--store", str(tmp_path / "none"), "") == []
    assert ask("show", "--store", "postgresql://nobody@nowhere/x?files=y", "") == []
    (tmp_path / "tiepoint.sqlite").write_bytes(b"no database" * 100)
    assert ask("show", "--store", str(tmp_path), "") == []
    assert list(tmp_path.iterdir()) == [tmp_path / "tiepoint.sqlite"]


def test_names_that_a_shell_would_run_are_not_offered(ask, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with sqlite3.connect(tmp_path / "tiepoint.sqlite") as made:
        made.execute("create table methods (id text, name text)")
        made.execute("create table runs (id text, method_id text, task text, created_at text)")
        for k, name in enumerate(["$(touch x)", "`id`", "a b", "\\$(id)", "x;y", "fine?ratio=0.8"]):
            made.execute("insert into methods values (?, ?)", (str(k), name))
            made.execute("insert into runs values (?, ?, 't', '2026')", (f"r{k}", str(k)))
    assert [n for n in ask("show", "--store", str(tmp_path), "") if n[0] != "r"] == ["fine?ratio=0.8"]


def test_the_protocols_are_those_of_the_tasks() -> None:
    assert {e.name: tuple(TASKS.load(e.name).protocols) for e in TASKS} == PROTOCOLS


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from tiepoint.cli.main import run\nrun([])\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    asked = {COMPLETING: "complete_bash", "COMP_WORDS": "tiepoint run ", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, timeout=60
    )
    assert "rootsift" in done.stdout.split()
    assert done.stderr == "[]\n"


def test_the_other_shells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tiepoint run --task hpatches/m")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    for shell, said in (("zsh", '"hpatches/matching"'), ("fish", "hpatches/matching\n")):
        monkeypatch.setenv(COMPLETING, f"complete_{shell}")
        assert command([]) == 0
        assert said in capsys.readouterr().out
    monkeypatch.setenv(COMPLETING, "complete_nothing")
    assert command([]) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_real_bash_completes(tmp_path: Path, small_store: Path) -> None:
    program = tmp_path / "bin" / "tiepoint"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tiepoint "$@"\n')
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    script = f"""
source <(_TIEPOINT_COMPLETE=source_bash tiepoint)
complete -p tiepoint
ask() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tiepoint_completion tiepoint; echo "${{COMPREPLY[*]}}"
}}
ask tiepoint comp
ask tiepoint compare --store {small_store} --task hpatches/v
"""
    done = subprocess.run(
        ["bash", "-c", script], env=os.environ | path, capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[0].endswith("-F _tiepoint_completion tiepoint")
    assert lines[1:] == ["compare", "hpatches/verification"]
    assert done.stderr == ""
