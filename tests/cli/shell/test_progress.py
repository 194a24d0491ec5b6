"""Progress where standard error is no terminal: lines, never a carriage return."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from tiepoint.cli.commands.data_get import TransferLines, transfers
from tiepoint.cli.shell import common_options
from tiepoint.cli.shell.console import ProgressLines, bars_on_a_terminal, progress_bars


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_lines_every_30_s_have_rate_and_time_left() -> None:
    told: list[str] = []
    clock = Clock()
    lines = ProgressLines(told.append, now=clock)
    for k in range(100):
        clock.at = float(k)
        lines("sift: features", k, 100)
    assert told == [
        "sift: features: 30 of 100 (30 %), 1/s, 1.2 min left",
        "sift: features: 60 of 100 (60 %), 1/s, 40.0 s left",
        "sift: features: 90 of 100 (90 %), 1/s, 10.0 s left",
    ]
    clock.at += 60
    lines("none", 0, 0)
    assert told[-1] == "none: 0 of 0"


def test_rate_of_resumed_stage_counts_new_work_only() -> None:
    told: list[str] = []
    clock = Clock()
    lines = ProgressLines(told.append, now=clock)
    lines("orb: features", 50, 100)
    clock.at = 40.0
    lines("orb: features", 60, 100)
    assert told == ["orb: features: 60 of 100 (60 %), 0.25/s, 2.7 min left"]


def test_bars_on_terminal_have_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bars() as progress:
        for k in range(9):
            progress("sift: features", k, 10)
            time.sleep(0.02)
    assert re.search(r"sift: features.*8/10.*[0-9.e+]+/s.*0:00:", out.getvalue())


def test_a_short_command_says_nothing_and_more_is_said_when_asked() -> None:
    for more, wanted in ((False, 0), (True, 2)):
        told: list[str] = []
        lines = ProgressLines(told.append, more=more, now=lambda: 0.0)
        for stage in ("a", "b"):
            for k in range(4):
                lines(stage, k, 3)
        assert len(told) == wanted


@pytest.mark.parametrize("quiet", [False, True])
def test_no_carriage_return_and_nothing_with_q(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr("tiepoint.cli.shell.console.EVERY_S", 0.0)
    common_options.start_command()
    if quiet:
        common_options.set_verbosity(-1)
    with progress_bars() as progress:
        for k in range(3):
            progress("work", k, 2)
    common_options.start_command()
    lines = out.getvalue().splitlines()
    assert len(lines) == (0 if quiet else 3)
    assert "\r" not in out.getvalue()


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", out)
    for term in ("dumb", "unknown"):
        monkeypatch.setenv("TERM", term)
        with progress_bars() as progress, transfers() as transfer:
            assert isinstance(progress, ProgressLines)
            assert isinstance(transfer, TransferLines)


@pytest.mark.parametrize(("terminal", "wanted"), [(True, True), (True, False), (False, True)])
def test_from_python_there_are_bars_on_a_terminal_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, wanted: bool
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with bars_on_a_terminal(wanted) as progress:
        progress("sift: features", 1, 2)
    assert bool(out.getvalue()) == (terminal and wanted)
