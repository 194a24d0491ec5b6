# SPDX-License-Identifier: BSD-3-Clause
"""Every page is in the index, every link leads somewhere, every command and piece of code named exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import typer
from typer.main import get_command

from tiepoint.cli import app as commands

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = DOCS.parent / "src" / "tiepoint"
PAGES = sorted([*DOCS.rglob("*.md"), DOCS.parent / "README.md"])


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return [t for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t and not t.startswith("#")]


def test_the_index_names_every_page() -> None:
    named = {(DOCS / link.split("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {p.resolve() for p in [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]} - {
        (DOCS / "README.md").resolve()
    }
    assert sorted(p.name for p in pages - named) == []


def test_links_lead_somewhere() -> None:
    missing = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in links(page)
        if not (page.parent / link.split("#")[0]).exists()
    ]
    assert missing == []


NOT_CODE = {"tiepoint.sqlite", "tiepoint.sqlite.damaged", "tiepoint.tasks.twins.task", "tasks/twins/task.py"}
"""Files of a store, and the task that `adding-a-task.md` adds."""


def test_code_named_in_the_docs_exists() -> None:
    """Dotted names of the package, and paths of its files."""
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r"\btiepoint(?:\.[A-Za-z_]\w*)+(?!\.\w)", text)) - NOT_CODE):
            wrong += [] if _exists(name) else [f"{page.name}: {name}"]
        for path in sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)) - NOT_CODE):
            there = any((root / path).exists() for root in (SOURCE, DOCS.parent))
            wrong += [] if there else [f"{page.name}: {path}"]
    assert wrong == []


def _exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    for cut in range(len(name.split(".")), 0, -1):
        parts = name.split(".")
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return all((found := getattr(found, part, None)) is not None for part in parts[cut:])
    return False


def test_commands_in_the_docs_exist() -> None:
    app = typer.Typer()
    commands.mount(app)
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    used: dict[str, str] = {}
    for page in PAGES:
        for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            for name in re.findall(r"(?:^|\|\s*xargs [^\n]*?)\s*tiepoint ([a-z]+)", block, flags=re.M):
                used.setdefault(name, page.name)
    assert len(used) > 5
    assert {name: page for name, page in used.items() if name not in known} == {}
