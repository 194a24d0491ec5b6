# SPDX-License-Identifier: BSD-3-Clause
"""Screenshots of report and pages at 1280 and 390 px against small references, with tolerance.

Pages are drawn in the font of Matplotlib, without dates, run ids and measured times, and compared at an
eighth of their size. After a change, set TIEPOINT_WRITE_REFERENCES=1 to write them again, and look at them.
"""

from __future__ import annotations

import base64
import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from world import FAMILIES, make_store

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
pytest.importorskip("cv2", reason="keypoints and flows are OpenCV's")
import uvicorn

from tiepoint.report.html_page import render_page
from tiepoint.report.runs.selection import runs_of
from tiepoint.serve.app import application
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store

REFERENCES = Path(__file__).parent / "references"
WRITE = os.environ.get("TIEPOINT_WRITE_REFERENCES") == "1"
HEIGHT, KEPT, COMPARED = 2600, 4, 8
"""Height in pixels up to which a page is compared; factors of reduction of references and comparisons."""
BLOCK = 8
MEAN, WORST = 6.0, 20.0
"""Largest mean difference of grey levels, over the page and over a block of 64 x 64 pixels of the page."""
VOLATILE = """
code, #runs, dl, td[data-label="at what cost"], .answers small { visibility: hidden !important; }
* { font-family: Pinned !important; animation: none !important; caret-color: transparent !important; }
"""
PAGES = ("report", "home", "task", "two", "scene", "case", "paper")
VIEWS = [(page, width, theme) for page in PAGES for width in (1280, 390) for theme in ("light",)]
VIEWS += [("report", 1280, "dark"), ("two", 390, "dark"), ("scene", 1280, "dark")]


def difference(first: Image.Image, second: Image.Image) -> tuple[float, float]:
    """Return the mean difference of two pictures, and that of their most different block, in grey levels.

    Heights may differ by 2 %, as line breaks do. What only one picture has counts as different.
    """
    one, two = (np.asarray(p.convert("RGB"), np.float64) for p in (first, second))
    if one.shape[1] != two.shape[1] or abs(len(one) - len(two)) > 0.02 * max(len(one), len(two)) + 2:
        return 255.0, 255.0
    rows = min(len(one), len(two)) // BLOCK * BLOCK
    columns = one.shape[1] // BLOCK * BLOCK
    gap = np.abs(one[:rows, :columns] - two[:rows, :columns]).mean(axis=2)
    blocks = gap.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK).mean(axis=(1, 3))
    return float(gap.mean()), float(blocks.max())


def smaller(picture: Image.Image, factor: int) -> Image.Image:
    """Reduce a picture by an integer factor. Columns and rows that would be split at the end are cut off."""
    size = (picture.width // factor, max(1, picture.height // factor))
    box = (0, 0, size[0] * factor, size[1] * factor)
    return picture.convert("RGB").resize(size, Image.Resampling.BOX, box=box)


def whole(picture: Image.Image) -> Image.Image:
    """Cut a screenshot to whole pixels of the comparison."""
    return picture.crop((0, 0, *(n // COMPARED * COMPARED for n in picture.size)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shots")

    make_store(made)
    with Store.open(made / "store", mode="read") as store:
        page = render_page(runs_of(store, None), title="tiepoint report")
    (made / "report.html").write_text(page, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def addresses(root: Path) -> Iterator[dict[str, str]]:
    with Store.open(root / "store", mode="read") as store:
        library = RunIndex(store, cache=root / "cache", wait_s=600)
        by = {s.task: [r.id for r in s.methods] for s in library.snapshot().sections}
        patches, keypoints, dense = (by[FAMILIES[f]] for f in ("patches", "keypoints", "dense"))
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(application(library), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield {
            "report": (root / "report.html").as_uri(),
            "home": f"{base}/",
            "task": f"{base}/task/{FAMILIES['patches']}?paper=1",
            "two": f"{base}/two/{'/'.join(patches)}",
            "scene": f"{base}/scene/{','.join(keypoints)}/v_two",
            "case": f"{base}/case/{','.join(dense)}/S/far?key=1to2",
            "paper": f"{base}/paper",
        }
        server.should_exit = True
        thread.join(10)


def pinned_font() -> str:
    from matplotlib import get_data_path

    path = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    data = base64.b64encode(path.read_bytes()).decode()
    return f"@font-face {{ font-family: Pinned; src: url(data:font/ttf;base64,{data}); }}"


def drawn(browser: Any, address: str, width: int, theme: str) -> tuple[Image.Image, list[str]]:
    """Return a picture of a page with its details open, and its console errors and foreign requests."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
    )
    page, problems = context.new_page(), []
    page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    local = ("file:", "data:", "blob:", address.partition("/task")[0][:21])
    page.on("request", lambda r: None if r.url.startswith(local) else problems.append(r.url))
    page.goto(address)
    page.add_style_tag(content=pinned_font() + VOLATILE)
    page.evaluate("document.querySelectorAll('.more').forEach(d => { d.open = true; })")
    page.evaluate("document.querySelectorAll('img').forEach(i => { i.loading = 'eager'; })")
    page.evaluate(
        "document.querySelectorAll('h1').forEach(h => { if (h.innerText[0] === '/') h.innerText = 'store'; })"
    )
    page.evaluate("document.fonts.load('16px Pinned')")
    for _ in range(100):
        if page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)"):
            break
        time.sleep(0.1)
    tall = page.evaluate("Math.min(document.documentElement.scrollHeight, " + str(HEIGHT) + ")")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": tall})
    context.close()
    return whole(Image.open(io.BytesIO(taken))), problems


@pytest.mark.slow
@pytest.mark.parametrize(("page", "width", "theme"), VIEWS, ids=str)
def test_screenshot_equals_its_reference(
    page: str, width: int, theme: str, browser: Any, addresses: dict[str, str], tmp_path: Path
) -> None:
    taken, problems = drawn(browser, addresses[page], width, theme)
    assert problems == []
    path = REFERENCES / f"{page}-{width}-{theme}.webp"
    kept = smaller(taken, KEPT)
    if WRITE:
        kept.save(path, quality=85, method=6)
    with Image.open(path) as reference:
        mean, worst = difference(smaller(taken, COMPARED), smaller(reference, COMPARED // KEPT))
    taken.save(tmp_path / path.with_suffix(".png").name)
    print(f"{path.name}: mean {mean:.2f}, worst block {worst:.1f}")
    assert mean <= MEAN, f"compare {tmp_path} with {path}"
    assert worst <= WORST, f"compare {tmp_path} with {path}"


@pytest.mark.parametrize(("page", "width", "theme"), VIEWS, ids=str)
def test_moved_or_missing_parts_differ_from_the_reference(page: str, width: int, theme: str) -> None:
    path = REFERENCES / f"{page}-{width}-{theme}.webp"
    with Image.open(path) as reference:
        small = smaller(reference, COMPARED // KEPT)
    assert difference(small, small) == (0.0, 0.0)
    pixels = np.asarray(small)
    moved = np.roll(pixels, 6, axis=0)
    assert difference(small, Image.fromarray(moved))[1] > WORST
    blank = pixels.copy()
    blank[len(blank) // 3 :] = pixels[0, -1]
    mean, worst = difference(small, Image.fromarray(blank))
    assert mean > MEAN or worst > WORST
    longer = np.concatenate([pixels, pixels[-len(pixels) // 10 :]])
    assert difference(small, Image.fromarray(longer)) == (255.0, 255.0)


def test_references_are_small() -> None:
    sizes = [path.stat().st_size for path in REFERENCES.iterdir()]
    assert len(sizes) == len(VIEWS)
    assert sum(sizes) < 300_000
