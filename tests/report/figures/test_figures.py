# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the report: same bytes, labels that do not cover each other, frontiers, maps, bands."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_world import HOSTILE, SCENE

from tiepoint.report.figures.curves import MAX_SERIES, Line, curve_figures, lines_figure
from tiepoint.report.figures.figure import short
from tiepoint.report.figures.heat_map import heat_map
from tiepoint.report.figures.intervals import intervals_figure
from tiepoint.report.figures.pareto import frontier, pareto_figure, place_labels
from tiepoint.report.figures.svg import Drawing, look
from tiepoint.report.runs.sections import TaskSection, sections
from tiepoint.run.result import Run


@pytest.fixture(scope="module")
def section(report_runs: list[Run]) -> TaskSection:
    (found,) = sections(report_runs)
    return found


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_pictures_have_the_same_bytes_and_follow_the_page() -> None:
    def draw(axes: object) -> None:
        axes.plot([1, 2], [2, 1], "o")  # type: ignore[attr-defined]

    first = Drawing(draw, label='<"x">').svg("a b")
    assert first == Drawing(draw, label='<"x">').svg("a b")
    assert "currentColor" in first
    assert "<dc:date>" not in first
    assert ET.fromstring(first).attrib["aria-label"] == '<"x">'
    other = Drawing(draw, label="x").svg("c")
    ids = [{e.attrib["id"] for e in ET.fromstring(s).iter() if "id" in e.attrib} for s in (first, other)]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_series_differ_in_colour_or_dash() -> None:
    looks = [(look(i)["color"], str(look(i)["linestyle"])) for i in range(32)]
    assert len(set(looks)) == 32


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_the_frontier_is_what_nobody_beats(costs: list[float], seed: int) -> None:
    values = np.random.default_rng(seed).uniform(size=len(costs))
    kept = frontier(costs, list(values))
    for i in range(len(costs)):
        beaten = any(costs[j] <= costs[i] and values[j] > values[i] for j in range(len(costs)) if j != i)
        assert (i in kept) == (not beaten)


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), max_size=30))
def test_labels_never_cover_each_other(points: list[tuple[float, float]]) -> None:
    widths = [20.0 + 3 * (i % 7) for i in range(len(points))]
    placed = place_labels(points, widths, 9.0, (0, 0, 300, 200))
    boxes = [(c[0], c[1], c[0] + w, c[1] + 9) for c, w in zip(placed, widths, strict=True) if c]
    for i, a in enumerate(boxes):
        assert a[0] >= 0
        assert a[2] <= 300
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]
    if len(points) == 1 and 60 < points[0][0] < 240 and 20 < points[0][1] < 180:
        assert placed[0] is not None


def test_every_figure_is_well_formed_with_hostile_names(section: TaskSection) -> None:
    figures = [intervals_figure(section), heat_map(section), pareto_figure(section, "time_s")]
    for figure in [*figures, *curve_figures(section)]:
        assert figure is not None
        text = "".join(ET.fromstring(figure.svg).itertext())
        assert short(HOSTILE, 12).partition("…")[0] in text
        assert HOSTILE in {row[0] for row in rows(figure.csv)}


def test_the_map_has_every_scene_and_method_but_canaries(section: TaskSection) -> None:
    figure = heat_map(section)
    assert figure is not None
    head, *body = rows(figure.csv)
    assert sorted(head[1:]) == sorted([*(f"{'iv'[s % 2]}_s{s}" for s in range(6)), f"v_{SCENE}"])
    assert [row[0] for row in body] == [section.names[r.id] for r in section.methods]
    run = section.methods[0]
    for scene, value in zip(head[1:], body[0][1:], strict=True):
        stored = section.score(run, section.metric, f"scene={scene}")
        assert stored is not None
        assert float(value) == pytest.approx(stored.value)


def test_mean_curves_have_bands_around_them_and_the_score_below(section: TaskSection) -> None:
    (figure,) = curve_figures(section)
    assert "95 %" in figure.caption
    table = [row for row in rows(figure.csv)[1:] if row[0] == "meanstd"]
    y, low, high = (np.array([float(r[k]) for r in table]) for k in (2, 3, 4))
    assert (low <= y).all()
    assert (y <= high).all()
    assert (high > low).any()
    (run,) = [r for r in section.runs if r.method == "meanstd"]
    assert y.mean() == pytest.approx(run.value("ap"), abs=0.01)


def test_many_methods_are_drawn_in_part_and_written_in_full(section: TaskSection) -> None:
    x = np.linspace(0, 1, 5)
    lines = [Line(f"m{i}", x, x, x - 0.1, x + 0.1) for i in range(25)]
    looks = replace(section, looks={f"m{i}": i for i in range(25)})
    figure = lines_figure(looks, lines, name="n", title="t", caption="", x_label="x", y_label="y")
    assert f"best {MAX_SERIES} methods" in figure.caption
    assert len({row[0] for row in rows(figure.csv)[1:]}) == 25


def test_bands_without_width_inside_the_range_are_left_out(section: TaskSection) -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    y, low, high = (
        np.array([0.0, 0.5, 0.6, 1.0]),
        np.array([0.0, 0.5, 0.5, 1.0]),
        np.array([0.0, 0.5, 0.7, 1.0]),
    )
    looks = replace(section, looks={"a": 0, "b": 1})
    lines = [Line("a", x, y, low, high), Line("b", x, y * 0 + 0.5, y * 0 + 0.5, y * 0 + 0.5)]
    figure = lines_figure(looks, lines, name="n", title="t", caption="", x_label="x", y_label="y")
    assert "There is no band where all scenes have the same value." in figure.caption
    found = {(r[0], r[1]): r[3:5] for r in rows(figure.csv)[1:]}
    assert found["a", "1.0"] == ["", ""]
    assert [float(v) for v in found["a", "2.0"]] == [0.5, 0.7]
    assert [float(v) for v in found["a", "3.0"]] == [1.0, 1.0]
    assert all(found["b", f"{v:.1f}"] == ["", ""] for v in x)
    whole = lines_figure(looks, [Line("a", x, y, y - 0.1, y + 0.1)], name="n", title="t", caption="",
                         x_label="x", y_label="y")  # fmt: skip
    assert "no band" not in whole.caption
