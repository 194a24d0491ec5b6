# SPDX-License-Identifier: BSD-3-Clause
"""The first page: what is in the store, what was found, what is running, the newest runs."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...report.leaderboard import value_text
from ...report.runs.sections import TaskSection, is_canary
from ...tasks.titles import FAMILIES
from .. import params
from ..cached_results import section_comparison
from ..rendering import page
from ..run_index import RunIndex
from .events import state
from .run_list import run_rows

NEWEST = 8
FIRST = 3
"""Methods of a task on the first page."""


def home(library: RunIndex, request: Request) -> Response:
    """What is in the store at a glance."""
    shelf = library.snapshot()
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
        newest=run_rows(shelf, newest),
        now=state(library),
        pending=any(c["pending"] for cards in families.values() for c in cards),
        notices=library.store.notices,
    )


def _card(library: RunIndex, section: TaskSection, until: float) -> dict[str, Any]:
    """One task on the first page: a sentence, and its first methods with bars."""
    told = section_comparison(library, section, until)
    return {
        "pending": told.pending,
        "title": section.definition.title,
        "name": section.title,
        "score": section.definition.score_title(section.metric, section.group),
        "link": task_link(section),
        "question": section.definition.info.sentence,
        "finding": told.sentence,
        "rows": _first_rows(section),
        "runs": len(section.runs),
    }


def task_link(section: TaskSection) -> str:
    """The URL of a section's page."""
    return params.url(
        "task", section.task, dataset=section.dataset, protocol=section.protocol if section.more else ""
    )


def _first_rows(section: TaskSection) -> list[dict[str, Any]]:
    """The first methods of a section with their score, and how much of 100 % it is."""
    rows = [(r, s) for r in section.runs if not is_canary(r) and (s := section.score(r)) is not None]
    rows = [(r, s) for r, s in rows if s["value"] is not None][:FIRST]
    unit = section.info.scale[1]
    return [
        {
            "name": section.names[r.id],
            "id": r.id,
            "value": f"{value_text(section.info, s['value'])} {unit}".strip(),
            "bar": round(100 * min(1.0, max(0.0, float(s["value"])))) if unit == "%" else None,
        }
        for r, s in rows
    ]
