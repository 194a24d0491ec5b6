# SPDX-License-Identifier: BSD-3-Clause
"""The page of datasets: every dataset of the sources is in it, and its outputs are what is printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tiepoint.cli.main import run
from tiepoint.datasets.download.sources import format_size, read_sources

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
REAL = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
OUTPUTS = dict(re.findall(r"^\$ tiepoint data check (\S+)\n(.*?)\n(?=\n\$|```)", PAGE, re.M | re.S))

MATCHED = ("evd", "megadepth_sample", "scannet_sample", "sequences")
"""Their images are matched, which takes seconds."""


def test_every_dataset_has_a_row() -> None:
    rows = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    for name, source in read_sources().items():
        assert name in rows
        if source.files and source.files[0].mirrors[0].size:
            assert format_size(source.archive_bytes) in rows[name]


def test_every_dataset_has_a_command_and_a_way_without_internet() -> None:
    start = PAGE.index("| dataset | command |")
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in PAGE[start:].split("\n\n")[0].splitlines()]
    assert all(len(row) == 6 and all(row) for row in rows)
    for name, source in read_sources().items():
        (row,) = (r for r in rows if f"get {name}`" in r[1] or f"get {name} " in r[1] or f"`{name}`" in r[1])
        for file in source.files:
            assert file.name in row[3] or "the zip" in row[3], file.name


def test_all_outputs_were_found() -> None:
    assert len(OUTPUTS) == PAGE.count("$ tiepoint data check") == 11


@pytest.mark.skipif(not REAL.is_dir(), reason="needs real data (TIEPOINT_TEST_DATA)")
@pytest.mark.parametrize(
    "place", [pytest.param(p, marks=pytest.mark.slow if p in MATCHED else ()) for p in OUTPUTS]
)
def test_outputs_are_what_is_printed(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REAL)
    assert run(["data", "check", place]) == 0
    assert capsys.readouterr().out.rstrip() == OUTPUTS[place]
