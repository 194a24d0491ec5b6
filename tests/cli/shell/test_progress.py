"""Progress where standard error is no terminal: lines, never a carriage return."""

from __future__ import annotations

import io
import sys

import pytest

from tiepoint.cli.commands.data_get import TransferLines, transfers
from tiepoint.cli.shell import common_options
from tiepoint.cli.shell.console import ProgressLines, bars_on_a_terminal, progress_bars


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_lines_come_now_and_then() -> None:
    told: list[str] = []
    clock = Clock()
    lines = ProgressLines(told.append, now=clock)
    for k in range(100):
        clock.at = 0.25 * k
        lines("sift: features", k + 1, 100)
    assert told[0] == "sift: features: 9 of 100 (9 %)"
    assert len(told) == 5
    lines("none", 0, 0)
    clock.at += 60
    lines("none", 0, 0)
    assert told[-1] == "none: 0 of 0"


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
    monkeypatch.setattr("tiepoint.cli.shell.console.FIRST_S", 0.0)
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
    monkeypatch.setattr("tiepoint.cli.shell.console.FIRST_S", 0.0)
    with bars_on_a_terminal(wanted) as progress:
        progress("sift: features", 1, 2)
    assert bool(out.getvalue()) == (terminal and wanted)
