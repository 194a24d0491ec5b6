# SPDX-License-Identifier: BSD-3-Clause
"""The documentation site builds strictly, without broken links, and requests nothing from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from page_pictures import compare, drawn
from tiepoint.cli.main import app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    found = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return folder


def test_site_has_every_page_and_command(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        assert (site / ("index.html" if name.name == "README" else f"{name}/index.html")).is_file()
    commands = (site / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    for name in get_command(app).commands:  # type: ignore[attr-defined]
        assert f"tiepoint {name}" in commands
    python = (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    for name in ("tiepoint.api.evaluate", "tiepoint.report.run_list.Runs.to_latex", "tiepoint.score.pose"):
        assert f'id="{name}"' in python


def test_site_requests_nothing_from_outside(site: Path) -> None:
    requested = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^\">]*")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [found for page in pages for found in requested.findall(page.read_text(encoding="utf-8"))] == []


ARTICLE = """
<h1>Heading</h1><p>A paragraph with <code>code</code>, <strong>bold words</strong>
and <a href="#">a link</a>.</p>
<div class="highlight"><pre><code>tiepoint run sift --task hpatches/matching --data tiepoint-demo/patches
</code></pre></div>
<h2>Table</h2><table><thead><tr><th>method</th><th>map</th></tr></thead>
<tbody><tr><td>sift</td><td>56.13</td></tr><tr><td>orb</td><td>47.12</td></tr></tbody></table>
"""
SCREEN = 800
"""Height of the screenshots in pixels."""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: QuietHandler(*args, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_screenshot_of_site_equals_its_reference(
    width: int, theme: str, browser: Any, address: str, tmp_path: Path
) -> None:
    fixed = "document.querySelectorAll('.md-sidebar').forEach(s => s.remove())"
    script = f"document.querySelector('article').innerHTML = {json.dumps(ARTICLE)}; {fixed}"
    taken, problems = drawn(browser, f"{address}/gallery/", width, theme, tall=SCREEN, script=script)
    assert problems == []
    compare(taken, Path(__file__).parent / "references" / f"site-{width}-{theme}.webp", tmp_path)


def test_pages_of_site_fit_on_a_telephone(browser: Any, address: str, site: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    wide = []
    for file in sorted(site.rglob("index.html")):
        page.goto(f"{address}/{file.parent.relative_to(site).as_posix()}/", wait_until="domcontentloaded")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            wide.append(file.parent.name)
    page.close()
    assert wide == []
