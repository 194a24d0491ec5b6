# SPDX-License-Identifier: BSD-3-Clause
"""Figures for a paper: every figure of the report, exact widths, nothing cut off, fonts in the file."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_world import HOSTILE

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.figures.figure import Figure
from tiepoint.report.figures.plot import COMPARISON_KINDS, KINDS, figures_of, plot
from tiepoint.report.figures.svg import COLUMN_INCHES, Drawing, save_drawing
from tiepoint.report.runs.sections import sections
from tiepoint.run.result import Run

CALLED = {"methods": {HOSTILE: "Odd", "pixels": "Pixels"}, "metrics": {"ap": "mean AP"}}


@pytest.fixture(scope="module")
def figures(report_runs: list[Run]) -> list[Figure]:
    (section,) = sections(report_runs)
    comparison = compare_runs(report_runs)
    return [*figures_of(section), *(plot(kind, comparison, names=CALLED) for kind in COMPARISON_KINDS)]


def test_the_kinds_are_those_of_the_report(figures: list[Figure]) -> None:
    kinds = [f.kind for f in figures]
    assert set(KINDS) - {"stress"} <= set(kinds)
    assert "pr" in kinds
    assert "" not in kinds
    named = [(f.kind, f.group) for f in figures if f.name.startswith(("scenes", "pr", "cost", "leader"))]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.filterwarnings("ignore:the font of figures lacks")
def test_nothing_is_cut_off_and_the_width_is_exact(
    figures: list[Figure], tmp_path: Path, columns: int
) -> None:
    for figure in figures:
        path = figure.save(tmp_path / f"{figure.kind}.png", columns=columns)
        pixels = np.asarray(Image.open(path).convert("L"))
        assert pixels.shape[1] == round(300 * COLUMN_INCHES[columns])
        border = np.concatenate([pixels[:2].ravel(), pixels[-2:].ravel(), *pixels[:, [0, 1, -2, -1]].T])
        assert (border == 255).all(), f"{figure.kind} reaches the edge"
        assert (pixels < 128).any()


def test_files_have_their_fonts_and_no_date(report_runs: list[Run], tmp_path: Path) -> None:
    made = [plot("scores", report_runs, names=CALLED, out=tmp_path / f"{i}.pdf") for i in range(2)]
    first, second = ((tmp_path / f"{i}.pdf").read_bytes() for i in range(2))
    assert first == second
    assert b"/FontFile2" in first
    assert b"/Type3" not in first
    assert b"CreationDate" not in first
    svg = made[0].save(tmp_path / "a.svg").read_text()
    root = ET.fromstring(svg)
    assert root.attrib["width"] == f"{72 * COLUMN_INCHES[1]:g}pt"
    assert not list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert "currentColor" not in svg


def test_page_and_paper_have_one_source(report_runs: list[Run], tmp_path: Path) -> None:
    (section,) = sections(report_runs)
    for kind in set(KINDS) - {"stress"}:
        (own,) = [f for f in figures_of(section) if f.kind == kind]
        figure = plot(kind, report_runs)
        assert figure.csv == own.csv
        assert figure.svg == own.svg
        assert figure.save(tmp_path / f"{kind}.csv").read_text(encoding="utf-8") == own.csv


def test_display_names_are_in_the_figure_and_no_two_methods_share_one(report_runs: list[Run]) -> None:
    figure = plot("scores", report_runs, names=CALLED)
    text = "".join(ET.fromstring(figure.svg).itertext())
    assert "mean AP (%)" in text
    assert "Pixels" in text
    assert "Odd," in figure.csv
    with pytest.raises(InputError, match="have the same display name 'X'"):
        plot("scores", report_runs, names={"methods": {"pixels": "X", "meanstd": "X"}})
    with pytest.raises(UnknownNameError, match="did you mean 'methods'"):
        plot("scores", report_runs, names={"method": {"pixels": "X"}})
    with pytest.raises(InputError, match="with lines"):
        plot("scores", report_runs, names={"methods": ["pixels"]})


def test_letters_that_the_font_lacks_are_named(report_runs: list[Run], tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="lacks"):
        plot("scores", report_runs, names={"methods": {"pixels": "漢"}}, out=tmp_path / "a.pdf")


def test_runs_and_comparisons_draw_themselves(report_runs: list[Run], tmp_path: Path) -> None:
    (run,) = [r for r in report_runs if r.method == "pixels"]
    assert run.plot(out=tmp_path / "run.pdf").kind == "scores"
    assert run.plot("scenes").csv.splitlines()[1].startswith("pixels,")
    comparison = compare_runs(report_runs)
    figure = comparison.plot(names=CALLED, out=tmp_path / "differences.pdf")
    rows = dict(line.split(",", 1) for line in figure.csv.splitlines()[1:])
    (row,) = [r for r in comparison.rows if r.method == "meanstd"]
    assert row.versus is not None
    assert rows["meanstd"].startswith(str(row.versus.difference))
    assert comparison.baseline not in rows
    assert comparison.family_size > 1
    assert "bars are joint 95 % confidence intervals" in figure.caption
    assert {p.name for p in tmp_path.iterdir()} == {"run.pdf", "differences.pdf"}
    with pytest.raises(UnknownNameError, match="figure of a comparison"):
        comparison.plot("roc")
    alone = compare_runs([run])
    with pytest.raises(InputError, match="no differences"):
        alone.plot()


def test_what_is_not_there_is_said(report_runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match=r"did you mean 'scores'.*scores, scenes, bytes, memory, pr, time"
    ):
        plot("score", report_runs)
    with pytest.raises(InputError, match="three methods with a measured cost"):
        plot("time", report_runs[:1])
    with pytest.raises(InputError, match="no effect on 'scores'"):
        plot("scores", report_runs, group="benchmark=all")
    with pytest.raises(UnknownNameError, match="group of pr"):
        plot("pr", report_runs, group="noise=hard")
    with pytest.raises(UnknownNameError, match="protocol"):
        plot("scores", report_runs, protocol="nothing")
    drawing = Drawing(lambda axes: axes.plot([0, 1], [0, 1]), "a line")
    for path, more, words in (
        ("a.gif", {}, "suffix of a figure"),
        ("a.pdf", {"columns": 3}, "must be 1 or 2"),
        ("a.pdf", {"width": 0.1}, "from 1.5 to 20"),
    ):
        with pytest.raises(InputError, match=words):
            save_drawing(drawing, tmp_path / path, **more)
    assert not list(tmp_path.iterdir())


def test_the_command_lists_and_draws(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(report_store)]
    assert command(["plot", *store, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"scores", "scenes", "time", "bytes", "memory", "pr"} == {row["kind"] for row in listed}
    assert command(["plot", *store]) == 0
    assert re.search(r"hpatches-v1/matching +scores", capsys.readouterr().out)
    names = tmp_path / "names.yaml"
    names.write_text("methods:\n  pixels: Pixels\n")
    for kind in ("scores", "differences"):
        out = tmp_path / f"{kind}.pdf"
        words = ["plot", kind, "pixels", "meanstd", "--task", "hpatches-v1/matching", "--names", str(names)]
        assert command([*words, *store, "--out", str(out), "--columns", "2"]) == 0
        assert out.read_bytes().startswith(b"%PDF")
        assert f"wrote {out}" in capsys.readouterr().out
    assert command(["plot", "scors", *store]) == 2
    assert "did you mean 'scores'" in capsys.readouterr().err
    assert command(["plot", "scores", *store, "--baseline", "pixels"]) == 2
    assert "--baseline has no effect" in capsys.readouterr().err


def test_a_broken_file_of_names_says_where(tmp_path: Path, report_runs: list[Run]) -> None:
    bad = tmp_path / "names.yaml"
    bad.write_text("methods:\n  a: [b\n")
    with pytest.raises(InputError, match=r"names\.yaml, line"):
        plot("scores", report_runs, names=bad)
    bad.write_text("methods:\n  a:\n")
    with pytest.raises(InputError, match="the display name of 'a' is None"):
        plot("scores", report_runs, names=bad)
    with pytest.raises(InputError, match="does not exist"):
        plot("scores", report_runs, names=tmp_path / "none.yaml")
    bad.write_text("")
    assert plot("scores", report_runs, names=bad).kind == "scores"
