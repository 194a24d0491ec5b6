# SPDX-License-Identifier: BSD-3-Clause
"""The report in a real browser: sections, sorting, filter, theme, pictures, downloads, no errors."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from report_world import HOSTILE

from tiepoint.report.html_page import render_page
from tiepoint.run.result import Run

pytestmark = pytest.mark.slow

TABLE = "#hpatches-v1-matching table.leaderboard"
OPEN = "document.querySelectorAll('details').forEach(d => d.open = true)"
HEIGHT = "document.documentElement.scrollHeight"
FITS = "document.documentElement.scrollWidth <= innerWidth + 1"


@pytest.fixture(scope="module")
def report_file(report_runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(report_runs, title="tiepoint report"), encoding="utf-8")
    return path


@pytest.fixture(params=[1250, 390], ids=["desktop", "phone"])
def page(request: pytest.FixtureRequest, browser: Any, report_file: Path) -> Any:
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    problems: list[str] = []
    opened.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda e: problems.append(str(e)))
    opened.goto(report_file.as_uri())
    yield opened
    opened.close()
    assert problems == []


def test_every_section_shows_and_nothing_overflows(page: Any) -> None:
    assert page.title() == "tiepoint report"
    for section in ("#answers", "#family-patches", "#hpatches-v1-matching", "#runs", "#cite"):
        assert page.locator(section).is_visible(), section
    assert not page.locator(TABLE).is_visible()
    assert page.evaluate(FITS)
    closed = page.evaluate(HEIGHT)
    page.evaluate(OPEN)
    for part in (TABLE, ".conventions table", ".failures"):
        assert page.locator(part).first.is_visible(), part
    assert page.evaluate(FITS)
    assert closed <= page.evaluate(HEIGHT) / 3


def test_the_first_screen_has_the_answer(page: Any) -> None:
    row = page.locator("#answers tbody tr").first
    box = row.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900
    said = row.inner_text()
    assert "points" in said
    assert row.locator(".sure").inner_text() in ("yes", "no", "not tested")
    assert page.locator("#hpatches-v1-matching .finding").is_visible()
    assert page.locator("#best-hpatches-v1-matching svg").is_visible()


def test_figures_and_tables_stay_inside_their_cards(page: Any) -> None:
    page.evaluate(OPEN)
    outside = """() => [...document.querySelectorAll('.card figure, .card table')].filter(e => {
      if (e.closest('.scroll, .picture')) return false;
      const card = e.closest('.card').getBoundingClientRect(), own = e.getBoundingClientRect();
      return own.width > 0 && (own.right > card.right + 1 || own.left < card.left - 1);
    }).map(e => e.id || e.className)"""
    assert page.evaluate(outside) == []
    drawn = """() => [...document.querySelectorAll('figure:not(.wide) .picture')]
      .filter(e => e.scrollWidth > e.clientWidth + 1).length"""
    assert page.evaluate(drawn) == 0


def test_sorting_follows_numbers_and_filters_hide_methods(page: Any) -> None:
    page.evaluate(OPEN)
    rows = page.locator(f"{TABLE} tbody tr")

    def methods() -> list[str]:
        return [r.get_attribute("data-method") for r in rows.all() if r.is_visible()]

    before = methods()
    assert HOSTILE in before
    heads = page.locator(f"{TABLE} thead th")
    names = [h.inner_text() for h in heads.all()]
    column = names.index("first answer correct")
    cells = f"r => Number(r.cells[{column}].dataset.value)"
    values = f"[...document.querySelectorAll('{TABLE} tbody tr')].map({cells})"
    heads.nth(column).click()
    assert page.evaluate(values) == sorted(page.evaluate(values), reverse=True)
    heads.nth(column).click()
    assert page.evaluate(values) == sorted(page.evaluate(values))
    assert heads.nth(column).get_attribute("aria-sort") == "ascending"
    assert sorted(methods()) == sorted(before)
    page.fill("#filter", "pixels")
    assert methods() == ["pixels"]
    page.fill("#filter", "PIXELS meanstd")
    assert sorted(methods()) == ["meanstd", "pixels"]
    page.fill("#filter", "")
    page.uncheck("#checks")
    assert "oracle" not in methods()


def test_dark_and_light_are_both_readable(page: Any) -> None:
    contrast = """() => {
      const part = (name) => getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).map(Number);
      const light = (c) => c.map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const [a, b] = [light(part('color')), light(part('backgroundColor'))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }"""
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    assert page.evaluate(contrast) > 7
    page.click("#theme")
    assert page.evaluate(colour) != before
    assert page.evaluate(contrast) > 7


def test_pictures_are_not_empty(page: Any) -> None:
    page.evaluate(OPEN)
    figures = page.locator("figure.figure svg").all()
    assert len(figures) >= 5
    for picture in figures:
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 60
        assert picture.evaluate("s => s.querySelectorAll('path, use, image').length") > 5
    patches = page.locator(".failures img").all()
    assert len(patches) >= 3
    for picture in patches:
        assert picture.evaluate("i => i.complete && i.naturalWidth > 0")
    assert len(page.screenshot(full_page=True)) > 20_000


def test_figures_and_their_data_can_be_saved(page: Any) -> None:
    for kind, inside in (("csv", "method,"), ("svg", "<svg")):
        with page.expect_download() as download:
            page.locator(f"button[data-get={kind}]").first.click()
        assert download.value.suggested_filename.endswith(f".{kind}")
        assert inside in Path(download.value.path()).read_text(encoding="utf-8")


def test_the_scene_map_says_what_is_under_the_pointer(page: Any) -> None:
    page.evaluate(OPEN)
    figure = page.locator("figure[data-heat]").first
    box = figure.locator("svg").bounding_box()
    x0, y0, x1, y1 = map(float, figure.get_attribute("data-heat").split())
    at = {"x": box["width"] * (x0 + 0.02 * (x1 - x0)), "y": box["height"] * (y0 + 0.05 * (y1 - y0))}
    figure.locator("svg").hover(position=at)
    table = list(csv.reader(io.StringIO(figure.locator("button[data-csv]").get_attribute("data-csv"))))
    value = 100 * float(table[1][1])
    assert figure.locator("output").inner_text() == f"{table[1][0]} · {table[0][1]} · {value:.2f}"


def test_a_run_named_in_the_address_is_open(page: Any, report_file: Path, report_runs: list[Run]) -> None:
    page.goto(f"{report_file.as_uri()}#run-{report_runs[0].id}")
    assert page.locator(f"#run-{report_runs[0].id}").evaluate("d => d.open")
    assert page.locator(f"#run-{report_runs[0].id} dl").is_visible()
