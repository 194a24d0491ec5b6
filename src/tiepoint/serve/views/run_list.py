# SPDX-License-Identifier: BSD-3-Clause
"""All finished runs, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...report.runs.names import distinct_names
from ...run.result import Run
from .. import params
from ..rendering import page
from ..run_index import IndexSnapshot, RunIndex

A_PAGE = 50


def runs(library: RunIndex, request: Request) -> Response:
    """All finished runs, newest first, a page at a time; ``?method=`` keeps names that have the text."""
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
    """Lines of a table of runs."""
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
