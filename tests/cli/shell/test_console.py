"""Consoles: widths, colours, control characters."""

from __future__ import annotations

import io
import sys

import pytest

from tiepoint.cli.shell.console import PIPED, console, width_of


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    out = Terminal()
    for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return out


def test_columns_say_how_wide(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    assert width_of(io.StringIO()) == PIPED
    monkeypatch.setenv("COLUMNS", "33")
    assert width_of(io.StringIO()) == 33
    assert console().width == 33
    monkeypatch.setenv("COLUMNS", "3")
    assert width_of(terminal) == 20
    monkeypatch.setenv("COLUMNS", "many")
    assert width_of(io.StringIO()) == PIPED


@pytest.mark.parametrize(
    ("variable", "value", "coloured"),
    [("TERM", "xterm", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)],
)
def test_colours_only_where_they_are_wanted(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, coloured: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv(variable, value)
    console().print("x", style="bold red")
    assert ("\x1b[" in terminal.getvalue()) == coloured


def test_what_comes_from_outside_moves_no_cursor(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    console().print("a\x1b[2Jb\x07", markup=False, highlight=False)
    assert "\x1b" not in terminal.getvalue()
    assert "\x07" not in terminal.getvalue()
    assert "a\\x1b[2Jb" in terminal.getvalue()
