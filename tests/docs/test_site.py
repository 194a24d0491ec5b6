# SPDX-License-Identifier: BSD-3-Clause
"""The documentation site builds strictly, without broken links, and requests nothing from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

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
