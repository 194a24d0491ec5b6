# SPDX-License-Identifier: BSD-3-Clause
"""The first page: what is in the store, what was found, what is running, the newest runs; and all runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..report.runs.names import distinct_names
from ..report.runs.sections import Section
from ..run.result import Run
from ..tasks.titles import FAMILIES
from . import asked
from .comparisons import first_rows, found
from .events import state
from .library import Library, Shelf
from .pages import page

NEWEST = 8
A_PAGE = 50


def home(library: Library, request: Request) -> Response:
    """What is in the store at a glance."""
    shelf = library.shelf()
    families: dict[str, list[dict[str, Any]]] = {}
    until = time.monotonic() + library.wait_s
    for section in shelf.sections:
        families.setdefault(section.definition.family, []).append(_card(library, section, until))
    order = [*FAMILIES, *families]
    titled = {FAMILIES.get(f, f): families[f] for f in sorted(families, key=order.index)}
    newest = list(reversed(shelf.runs[-NEWEST:]))
    return page(
        request,
        "home.html",
        title=library.store.where,
        shelf=shelf,
        families=titled,
        methods=len({r.method for r in shelf.runs}),
        tasks=len({r.task for r in shelf.runs}),
        newest=_rows(shelf, newest),
        now=state(library),
        pending=any(c["pending"] for cards in families.values() for c in cards),
        notices=library.store.notices,
    )


def runs(library: Library, request: Request) -> Response:
    """All finished runs, newest first, a page at a time; ``?method=`` keeps names that have the text."""
    shelf = library.shelf()
    wanted = asked.text(request, "method").casefold()
    kept = [r for r in reversed(shelf.runs) if wanted in r.method.casefold()]
    pages = max(1, -(-len(kept) // A_PAGE))
    number = asked.whole(request, "page", 1, low=1, high=pages)
    shown = kept[(number - 1) * A_PAGE : number * A_PAGE]
    return page(
        request,
        "runs.html",
        title="all runs",
        rows=_rows(shelf, shown),
        total=len(kept),
        wanted=wanted,
        number=number,
        pages=pages,
    )


def _rows(shelf: Shelf, runs: Sequence[Run]) -> list[dict[str, Any]]:
    names = dict(zip((r.id for r in shelf.runs), distinct_names(shelf.runs), strict=True)) if runs else {}
    return [
        {
            "id": r.id,
            "name": names[r.id],
            "task": r.task,
            "made": r.created_at[:16].replace("T", " "),
            "dataset": r.stored.dataset,
            "warnings": len(r.manifest.warnings),
        }
        for r in runs
    ]


def _card(library: Library, section: Section, until: float) -> dict[str, Any]:
    """One task on the first page: a sentence, and its first methods with bars."""
    told = found(library, section, until)
    return {
        "pending": told.pending,
        "title": section.definition.title,
        "name": section.title,
        "score": section.definition.score_title(section.metric, section.group),
        "link": task_link(section),
        "question": section.definition.info.sentence,
        "finding": told.sentence,
        "rows": first_rows(section),
        "runs": len(section.runs),
    }


def task_link(section: Section) -> str:
    """The URL of a section's page."""
    return asked.url(
        "task", section.task, dataset=section.dataset, protocol=section.protocol if section.more else ""
    )
