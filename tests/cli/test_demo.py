"""The demo tells others of the store what it does, and how far it is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tiepoint.cli.main import run as command
from tiepoint.run import demo
from tiepoint.store.status_files import running

FEW = {
    "PATCH_METHODS": ("rootsift", "sift"),
    "KEYPOINT_METHODS": ("orb",),
    "PAIR_METHODS": ("klt",),
    "DENSE_METHODS": ("zero",),
    "ROOM_SIZE": (200, 160),
    "MAX_PATCHES": 20,
}


def test_the_demo_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def run_demo(out: Path, *, jobs: int, progress: Any, report: Any) -> tuple[list[Any], Path]:
        (out / "store").mkdir(parents=True)
        progress("demo", 3, 90)
        seen.extend(running(out / "store"))
        return [], out / "store"

    monkeypatch.setattr("tiepoint.run.demo.run_demo", run_demo)
    monkeypatch.setattr("tiepoint.report.export.write", lambda *_given, **_how: None)
    assert command(["demo", "--out", str(tmp_path / "d"), "-j", "1"]) == 0
    (one,) = seen
    assert one.what == "the demo"
    assert running(tmp_path / "d" / "store") == []


@pytest.mark.slow
def test_demo_prints_steps_tables_and_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = [name for name in FEW if name.endswith("_METHODS")]
    skipped = sum(len(getattr(demo, name)) - len(FEW[name]) for name in tables)
    for name, value in FEW.items():
        monkeypatch.setattr(demo, name, value)
    assert command(["demo", "-j", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) + skipped <= 30
    steps = [line.split()[0] for line in lines if " s  " in line]
    assert steps == ["data", *demo.demo_steps(), "report"]
    assert "tiepoint-demo/report.html" in next(line for line in lines if line.startswith("report"))
    assert Path("tiepoint-demo/report.html").stat().st_size > 10_000
    for method in ("rootsift", "orb", "klt", "zero"):
        assert any(line.startswith(f"  {method}") for line in lines)
    commands = [shlex.split(line) for line in lines if line.startswith("  tiepoint ")]
    assert len(commands) == 3
    for words in commands:
        assert command(words[1:]) == 0
