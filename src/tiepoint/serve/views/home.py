# SPDX-License-Identifier: BSD-3-Clause
"""The home page: tasks with their findings, running processes and the newest runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...report.cells import value_text
from ...report.runs.names import distinct_names
from ...report.runs.sections import TaskSection, is_canary
from ...run.result import Run
from ...store.status_files import running
from ...tasks.info import FAMILIES
from .. import params
from ..cached_results import section_comparison
from ..rendering import page
from ..run_index import IndexSnapshot, RunIndex

A_PAGE = 50


def runs(library: RunIndex, request: Request) -> Response:
    """Return a page of finished runs, newest first. ``?method=`` filters by a part of the name."""
    shelf = library.snapshot()
    wanted = params.text_param(request, "method").casefold()
    kept = [r for r in reversed(shelf.runs) if wanted in r.method.casefold()]
    pages = max(1, -(-len(kept) // A_PAGE))
    number = params.int_param(request, "page", 1, low=1, high=pages)
    shown = kept[(number - 1) * A_PAGE : number * A_PAGE]
    return page(
        request,
        "runs.html",
        title="all runs",
        rows=run_rows(shelf, shown),
        total=len(kept),
        wanted=wanted,
        number=number,
        pages=pages,
    )


def run_rows(shelf: IndexSnapshot, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the rows of a table of runs."""
    names = dict(zip((r.id for r in shelf.runs), distinct_names(shelf.runs), strict=True)) if runs else {}
    return [
        {
            "id": r.id,
            "name": names[r.id],
            "task": r.task,
            "made": r.created_at[:16].replace("T", " "),
            "dataset": r.stored.dataset,
            "warnings": len(r.manifest.warnings),
            "caution": r.manifest.caution,
        }
        for r in runs
    ]


EVERY_S = 1.0
MAX_STREAM_S = 3600.0
"""Maximum duration of an event stream in seconds. Browsers reconnect afterwards."""


def state(library: RunIndex) -> dict[str, Any]:
    """Return the running processes and the number of finished runs as plain values."""
    work = [
        {
            "pid": w.pid,
            "what": w.what,
            "stages": [{"name": n, "done": d, "total": t} for n, d, t in w.stages],
        }
        for w in running(library.store.root)
    ]
    return {"working": work, "runs": len(library.snapshot().runs)}


def event_stream(library: RunIndex, request: Request) -> Response:
    """Return the server-sent event stream. With ``?once=1``, return only the current state."""
    once = request.query_params.get("once") == "1"

    async def pieces() -> AsyncIterator[str]:
        said, passed = "", 0.0
        while passed < MAX_STREAM_S:
            now = json.dumps(await asyncio.to_thread(state, library))
            yield f"data: {now}\n\n" if now != said else ": still here\n\n"
            if once or await request.is_disconnected():
                return
            said = now
            await asyncio.sleep(EVERY_S)
            passed += EVERY_S

    # A proxy must not wait until its buffer is full.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(pieces(), media_type="text/event-stream", headers=headers)


NEWEST = 8
FIRST = 3
"""Number of methods per task on the home page."""


def home(library: RunIndex, request: Request) -> Response:
    """Return the home page: an overview of the store."""
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
    """Return the template data of a task: its main finding, and the best methods with bars."""
    compared = section_comparison(library, section, until)
    return {
        "pending": compared.pending,
        "title": section.task_title,
        "name": section.title,
        "score": section.score_title(section.metric, section.group),
        "link": task_link(section),
        "question": section.definition.info.sentence,
        "finding": compared.sentence,
        "rows": _first_rows(section),
        "runs": len(section.runs),
    }


def task_link(section: TaskSection) -> str:
    """Return the URL of a section's page."""
    return params.url(
        "task", section.task, dataset=section.dataset, protocol=section.protocol if section.more else ""
    )


def _first_rows(section: TaskSection) -> list[dict[str, Any]]:
    """Return the best methods of a section with their headline scores and bar lengths in percent."""
    rows = [
        (r, s.value)
        for r in section.runs
        if not is_canary(r) and (s := section.score(r)) is not None and s.value is not None
    ]
    unit = section.info.scale[1]
    return [
        {
            "name": section.names[r.id],
            "id": r.id,
            "value": f"{value_text(section.info, value)} {unit}".strip() + " *" * bool(r.manifest.caution),
            "bar": round(100 * min(1.0, max(0.0, value))) if unit == "%" else None,
        }
        for r, value in rows[:FIRST]
    ]
