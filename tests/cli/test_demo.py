"""The demo tells others of the store what it does, and how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiepoint.cli.main import run as command
from tiepoint.store.status_files import running


def test_the_demo_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def run_demo(out: Path, *, jobs: int, progress: Any) -> tuple[list[Any], Path]:
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
