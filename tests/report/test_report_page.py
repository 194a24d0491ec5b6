"""The report page: same bytes twice, hostile names as text, and a look at it in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.report.export import text
from tiepoint.report.html import render
from tiepoint.report.pareto import frontier
from tiepoint.report.svg import svg
from tiepoint.run.engine import Request, evaluate
from tiepoint.run.result import Run
from tiepoint.store.store import Store

HOSTILE = '<script>document.title="owned"</script>"\'&amp; \\textbf{x} $x$ ' + "ä" * 40


class Odd:
    """A descriptor with a name that would break a careless page."""

    name = HOSTILE

    def describe(self, patches: np.ndarray) -> np.ndarray:
        return patches[:, ::5, ::5].reshape(len(patches), -1).astype(np.float32)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    root = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    (root / "matching").mkdir()
    lines = []
    for s in range(6):
        folder = root / "patches" / f"{'iv'[s % 2]}_<s{s}>"
        folder.mkdir(parents=True)
        base = rng.uniform(0, 255, (12, 20, 20))
        for name, noise in (("ref", 0), ("e1", 30), ("e2", 60)):
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 20)).save(folder / f"{name}.png")
        lines += [f"{folder.name}.ref,{folder.name}.e{k}" for k in (1, 2)]
    (root / "matching" / "all.benchmark").write_text("\n".join(lines) + "\n")
    methods = ["pixels", "meanstd", "resize", "constant", "oracle", Odd]
    with Store.open(root / "store") as store:
        return [
            evaluate(
                Request(
                    m, "hpatches-v1/matching", root / "patches", ("exact", "hbench-2016"), {"tasks": root}
                ),
                store,
            )
            for m in methods
        ]


def test_the_page_is_the_same_twice_and_small(runs: list[Run]) -> None:
    page = render(runs)
    assert page == render(runs)
    assert len(page) < 10_000_000
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_hostile_names_are_only_text(runs: list[Run]) -> None:
    page = render(runs)
    assert "<script>document.title" not in page
    assert "&lt;script&gt;document.title" in page
    latex = text(runs, "latex")
    assert r"\textbackslash{}textbf" in latex
    markdown = text(runs, "md")
    assert "<script>" not in markdown


def test_figures_have_the_same_bytes_and_follow_the_page() -> None:
    first = svg(lambda axes: axes.plot([1, 2], [2, 1]))
    assert first == svg(lambda axes: axes.plot([1, 2], [2, 1]))
    assert "currentColor" in first
    assert "<dc:date>" not in first


def test_the_frontier_is_what_nobody_beats() -> None:
    rng = np.random.default_rng(1)
    costs, values = rng.uniform(size=50), rng.uniform(size=50)
    kept = frontier(list(costs), list(values))
    for i in range(50):
        beaten = any(costs[j] <= costs[i] and values[j] > values[i] for j in range(50) if j != i)
        assert (i in kept) == (not beaten)


@pytest.mark.parametrize("width", [1250, 390])
def test_the_page_works_in_a_browser(runs: list[Run], tmp_path: Path, width: int) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    path = tmp_path / "report.html"
    path.write_text(render(runs), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"],
        )
        page = browser.new_page(viewport={"width": width, "height": 900})
        problems: list[str] = []
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.goto(path.as_uri())
        assert page.title() == "tiepoint report"
        for section in ("hpatches-v1-matching", "conventions", "failures", "runs", "cite"):
            assert page.locator(f"#{section}").is_visible(), section
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        column = page.locator("#hpatches-v1-matching table.leaderboard tbody tr")
        methods = [r.get_attribute("data-method") for r in column.all()]
        page.locator("#hpatches-v1-matching table.leaderboard thead th").first.click()
        after = [r.get_attribute("data-method") for r in column.all()]
        assert sorted(after) == sorted(methods)
        assert after != methods
        page.fill("#filter", "pixels")
        assert [r.get_attribute("data-method") for r in column.all() if r.is_visible()] == ["pixels"]
        page.fill("#filter", "")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        for picture in page.locator("figure svg").all():
            box = picture.bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 100
        for picture in page.locator("#failures img").all():
            assert picture.evaluate("i => i.complete && i.naturalWidth > 0")
        shot = page.screenshot(full_page=True)
        assert len(shot) > 20_000
        with page.expect_download() as download:
            page.locator("button[data-get=csv]").first.click()
        assert "method" in Path(download.value.path()).read_text()
        browser.close()
    assert problems == []
