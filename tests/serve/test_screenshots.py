# SPDX-License-Identifier: BSD-3-Clause
"""Screenshots of report and pages at 1280 and 390 px against small references, with tolerance.

Dates, run ids and measured times are hidden.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from world import FAMILIES, make_store

from page_pictures import COMPARED, KEPT, MEAN, WORST, compare, difference, drawn, smaller

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
pytest.importorskip("cv2", reason="keypoints and flows are OpenCV's")
import uvicorn

from tiepoint.report.html_page import render_page
from tiepoint.report.runs.selection import runs_of
from tiepoint.serve.app import application
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store

REFERENCES = Path(__file__).parent / "references"
PAGES = ("report", "home", "task", "two", "scene", "case", "paper")
VIEWS = [(page, width, theme) for page in PAGES for width in (1280, 390) for theme in ("light",)]
VIEWS += [("report", 1280, "dark"), ("two", 390, "dark"), ("scene", 1280, "dark")]


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


@pytest.mark.slow
@pytest.mark.parametrize(("page", "width", "theme"), VIEWS, ids=str)
def test_screenshot_equals_its_reference(
    page: str, width: int, theme: str, browser: Any, addresses: dict[str, str], tmp_path: Path
) -> None:
    taken, problems = drawn(browser, addresses[page], width, theme)
    assert problems == []
    compare(taken, REFERENCES / f"{page}-{width}-{theme}.webp", tmp_path)


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
