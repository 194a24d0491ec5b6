# SPDX-License-Identifier: BSD-3-Clause
"""The page of a scene: its cases by disagreement, by failure, by confident failure, a page at a time."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...report.case_order import BY, By
from ...report.runs.sections import TaskSection, is_canary
from ...run.result import Run
from ...tasks.cases import WRONG_BELOW
from .. import params
from ..orders import order_of, page_of, scene_names
from ..rendering import page
from ..run_index import RunIndex
from .run import rerun_command

A_PAGE = 40
TITLES = {"disagreement": "disagreement", "wrong": "all wrong", "confident": "confident and wrong"}


def scene(library: RunIndex, request: Request) -> Response:
    """The cases of a scene; ``by`` is the order, ``page`` starts at 1."""
    runs = params.runs_param(library, request, request.path_params["runs"])
    name = request.path_params["scene"]
    section = params.section_of(library.snapshot(), runs)
    known = scene_names(library, section, runs[0])
    if name not in known:
        raise HTTPException(404, "these runs have no such scene")
    by = order_asked(request, len(runs))
    order = order_of(library, runs, name, by)
    pages = 1 if order is None else max(1, -(-len(order) // A_PAGE))
    number = params.int_param(request, "page", 1, low=1, high=pages)
    rows = [] if order is None else page_of(library, runs, name, order, (number - 1) * A_PAGE, A_PAGE)
    at = known.index(name)
    ids = ",".join(r.id for r in runs)
    return page(
        request,
        "scene.html",
        title=name,
        section=section,
        runs=runs,
        ids=ids,
        scene=name,
        by=by,
        orders=[(k, TITLES[k], BY[k]) for k in BY],
        words=BY[by],
        total=0 if order is None else len(order),
        meant=0 if order is None else order.meant,
        rows=rows,
        start=(number - 1) * A_PAGE,
        number=number,
        pages=pages,
        wrong=WRONG_BELOW,
        sure=order is not None and order.sure is not None,
        missing="" if order is not None else why_none(runs, library),
        before=known[at - 1] if at else None,
        after=known[at + 1] if at + 1 < len(known) else None,
        others=others(section, runs),
    )


def order_asked(request: Request, runs: int) -> By:
    """The order that a URL asks for: by default disagreement of several methods, failure of one."""
    names: dict[str, By] = {str(k): k for k in BY}
    return names[params.choice_param(request, "by", list(names), "disagreement" if runs > 1 else "wrong")]


def others(section: TaskSection, runs: list[Run]) -> list[dict[str, Any]]:
    """Every method of the section, whether it is on the page, and the runs of the page with or without it."""
    ids = [r.id for r in runs]
    found = []
    for run in section.runs:
        if is_canary(run) and run.id not in ids:
            continue
        kept = [i for i in ids if i != run.id] if run.id in ids else [*ids, run.id]
        if 1 <= len(kept) <= params.MAX_URL_METHODS:
            found.append({"name": section.names[run.id], "on": run.id in ids, "ids": ",".join(kept)})
    return found[:40]


def why_none(runs: list[Run], library: RunIndex) -> str:
    """What to say, and to run, where there are no cases to list."""
    for run in runs:
        if run.manifest.imported:
            return f"{run.method} is imported: its numbers are known, its answers are not"
    command = next((c for r in runs if (c := rerun_command(r, library.store.where))), "")
    told = (
        f"; this makes them: {command} --protocol exact"
        if command and "exact" not in runs[0].manifest.protocols
        else ""
    )
    return (
        f"the records of {runs[0].task} under exact name no single cases, or they are not in the store{told}"
    )
