# SPDX-License-Identifier: BSD-3-Clause
"""Tables as wide as the terminal: nothing is cut, whatever the width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from tiepoint.report.terminal.rich_table import FittingTable

NAMES = [f"descriptor-{k}?ratio=0.{k}" for k in range(3)]
METRICS = [f"a_long_metric_{k}" for k in range(7)]


def printed(table: FittingTable, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    return out.getvalue().splitlines()


def scores(**how: object) -> FittingTable:
    table = FittingTable(title="scores " * 20, **how)  # type: ignore[arg-type]
    for name in ("method", "run", *METRICS):
        table.add_column(name, justify="right")
    for k, name in enumerate(NAMES):
        table.add_row(Text(name), f"{k:012x}", *(f"{k}{m}.25 [10.0, 99.9]" for m in range(7)))
    return table


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200, 1000])
def test_nothing_is_cut(width: int) -> None:
    lines = printed(scores(), width)
    text = "\n".join(lines)
    for part in (*NAMES, *METRICS, *(f"{k:012x}" for k in range(3)), "06.25 [10.0, 99.9]"):
        assert part in text, (width, part)
    assert "…" not in text
    assert max(len(line.rstrip()) for line in lines) <= width


def test_several_tables_repeat_what_a_row_is() -> None:
    text = printed(scores(), 120)
    assert sum("descriptor-1" in line for line in text) == 2
    assert sum("000000000001" in line for line in text) == 1


def test_columns_to_spare_go_first() -> None:
    table = FittingTable(box=None, spare=("made",))
    for name in ("run", "made", "task"):
        table.add_column(name)
    table.add_row("a" * 12, "b" * 20, "c" * 20)
    assert "b" in "".join(printed(table, 80))
    assert [line.split() for line in printed(table, 40)] == [["run", "task"], ["a" * 12, "c" * 20]]


def test_prose_takes_what_is_left() -> None:
    table = FittingTable(box=None, wraps=("about",))
    table.add_column("name")
    table.add_column("about")
    table.add_row("x" * 10, "words that go on " * 10)
    lines = printed(table, 60)
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60
