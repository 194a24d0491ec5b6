# SPDX-License-Identifier: BSD-3-Clause
"""The pages in a real browser: from the first page to a failing case of every family with the keyboard."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from world import FAMILIES, make_store

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
pytest.importorskip("cv2", reason="keypoints and flows are OpenCV's")
import uvicorn

from tiepoint.report.case_order import orders
from tiepoint.report.cells import value_text
from tiepoint.serve.app import application
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store

pytestmark = pytest.mark.slow

SHOWN = {"patches": "img.patch", "keypoints": "svg.matches", "pairs": "svg.matches", "dense": ".flicker"}


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunIndex]:
    root = tmp_path_factory.mktemp("browser")
    with Store.open(make_store(root), mode="read") as store:
        yield RunIndex(store, cache=root / "cache", wait_s=600)


@pytest.fixture(scope="module")
def address(shelves: RunIndex) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(shelves), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def opened(browser: Any, width: int, problems: list[str]) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    return page


def walk(page: Any, words: str, start: str) -> None:
    """Press j until a link with these words is under the focus, then Enter."""
    for _ in range(30):
        page.keyboard.press("j")
        if words in page.evaluate("document.activeElement.href || ''"):
            break
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_load_state()
    assert start in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), page.url


@pytest.mark.parametrize(
    ("family", "width"), [*((f, 1250) for f in FAMILIES), ("pairs", 390)], ids=lambda v: str(v)
)
def test_from_the_first_page_to_a_failing_case(
    family: str, width: int, browser: Any, address: str, shelves: RunIndex
) -> None:
    problems: list[str] = []
    page = opened(browser, width, problems)
    page.goto(address)
    section = next(s for s in shelves.snapshot().sections if s.task == FAMILIES[family])
    first, second = section.methods
    walk(page, f"/task/{section.task}", "/task/")
    for run in (first, second):
        score = section.score(run)
        assert score is not None
        row = page.locator(f'#leaderboard tr[data-run="{run.id}"]')
        assert row.locator("td.num").first.inner_text().split("\n")[0] == value_text(
            section.info, score.value
        )
    walk(page, f"/two/{first.id}/{second.id}", "/two/")
    assert page.locator("circle").count() == page.locator("#scenes tbody tr").count() > 0
    walk(page, "/scene/", "/scene/")
    scene = page.locator("h1").inner_text()
    listed = orders(first, second, scene, "disagreement")
    assert listed is not None
    line = listed.page(0, 1)[0]
    cells = page.locator("#cases tbody tr").first
    assert cells.locator("th").inner_text() == line.label
    shown = [f"{100 * s:.1f}" for s in line.scores if s is not None]
    assert [t.split("\n")[0] for t in cells.locator("td.win, td.loss").all_inner_texts()] == shown
    walk(page, "/case/", "/case/")
    assert page.locator("h1").inner_text() == line.label
    verdict = page.locator("#verdict tbody td.win, #verdict tbody td.loss").all_inner_texts()
    assert verdict == [f"{s} %" for s in shown]
    assert page.locator(SHOWN[family]).first.is_visible()
    pictures = "[...document.querySelectorAll('img')].every(i => i.complete && i.naturalWidth > 0)"
    page.wait_for_function(pictures)
    if family == "keypoints":
        links = page.locator("section.answers").first.locator(".link")
        assert links.count() > 5
        box = "document.querySelector('svg.pane').getAttribute('viewBox')"
        before = page.evaluate(box)
        page.keyboard.press("+")
        assert page.evaluate(box) != before
        boxes = "new Set([...document.querySelectorAll('svg.pane')].map(p => p.getAttribute('viewBox'))).size"
        assert page.evaluate(boxes) == 1
        page.locator("input[data-cut]").first.fill("50")
        assert 0 < page.locator("section.answers").first.locator(".link.cut").count() < links.count()
        page.locator("h1").click()  # keys belong to the slider while it has the focus
    if family == "dense":
        page.keyboard.press("f")
        page.wait_for_selector(".flicker.off", state="attached")
    with page.expect_navigation():
        page.keyboard.press("ArrowRight")
    assert page.locator("h1").inner_text() == listed.page(1, 1)[0].label
    with page.expect_navigation():
        page.keyboard.press("k")
    assert page.locator("h1").inner_text() == line.label
    with page.expect_navigation():
        page.keyboard.press("u")
    assert "/scene/" in page.url
    page.close()
    assert problems == []


def test_a_saved_case_shows_its_pictures_without_the_server(
    browser: Any, address: str, shelves: RunIndex, tmp_path: Path
) -> None:
    section = next(s for s in shelves.snapshot().sections if s.task == FAMILIES["dense"])
    problems: list[str] = []
    page = opened(browser, 1250, problems)
    page.goto(f"{address}/case/{section.methods[0].id},{section.methods[1].id}/S/far?key=1to2")
    with page.expect_download() as download:
        page.click("a.save")
    download.value.save_as(tmp_path / "view.html")
    page.route("**/*", lambda r: r.continue_() if r.request.url.startswith(("file:", "data:")) else r.abort())
    page.goto((tmp_path / "view.html").as_uri())
    assert page.locator("svg image").count() >= 5
    assert all(
        s.startswith("data:image/")
        for s in page.eval_on_selector_all("image", "a => a.map(i => i.href.baseVal)")
    )
    page.keyboard.press("f")
    page.wait_for_selector(".flicker.off", state="attached")
    page.close()
    assert problems == []


def test_progress_arrives_while_the_page_is_open(browser: Any, address: str, shelves: RunIndex) -> None:
    from tiepoint.store.status_files import track_progress

    problems: list[str] = []
    page = opened(browser, 1250, problems)
    page.goto(address)
    assert page.locator("#now").is_hidden()
    with track_progress(shelves.store.root, "<b>orb</b> on tss") as progress:
        progress("compare", 3, 8)
        page.wait_for_selector("#now .work")
        assert page.locator("#now b").first.inner_text().strip() == "<b>orb</b> on tss"
        assert page.locator("#now progress").get_attribute("max") == "8"
    page.wait_for_selector("#now", state="hidden")
    page.close()
    assert problems == []
