# SPDX-License-Identifier: BSD-3-Clause
"""Parse and check URL parameters. Invalid parameters raise HTTP errors 400 or 404."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..report.runs.sections import TaskSection
from ..run.result import Run
from .run_index import IndexSnapshot, RunIndex

MAX_PARAM_CHARS = 500
MAX_URL_METHODS = 8
"""Maximum number of methods on a page of cases."""
_ID = re.compile(r"[0-9A-Za-z_-]{1,80}")


def text_param(request: Request, name: str, default: str = "") -> str:
    """Return a parameter as text. HTTP error 400 if it is too long or has control characters."""
    value = request.query_params.get(name, default)
    if len(value) > MAX_PARAM_CHARS or not value.isprintable():
        raise HTTPException(400, f"the parameter {name} is too long or not valid text")
    return value


def int_param(request: Request, name: str, default: int, *, low: int = 0, high: int = 10**9) -> int:
    """Return a parameter as an integer within bounds. HTTP error 400 otherwise."""
    value = text_param(request, name, str(default))
    if not re.fullmatch(r"-?[0-9]{1,10}", value) or not low <= int(value) <= high:
        raise HTTPException(400, f"the parameter {name} must be an integer from {low} to {high}")
    return int(value)


def choice_param(request: Request, name: str, known: Sequence[str], default: str) -> str:
    """Return a parameter that has one of the allowed values. HTTP error 400 otherwise."""
    value = text_param(request, name, default)
    if value not in known:
        raise HTTPException(400, f"the parameter {name} must be one of {', '.join(known) or 'none'}")
    return value


def run_param(shelf: IndexSnapshot, given: str) -> Run:
    """Return the finished run of an id or id prefix. HTTP error 404 if there is none."""
    if given in shelf.by_id:
        return shelf.by_id[given]
    found = [r for i, r in shelf.by_id.items() if _ID.fullmatch(given) and i.startswith(given)]
    if len(found) != 1:
        raise HTTPException(
            404, "the store has no finished run with this id; choose a run on the page of runs"
        )
    return found[0]


def runs_param(library: RunIndex, request: Request, given: str) -> list[Run]:
    """Parse comma-separated run ids of one task and return the runs."""
    names = [n for n in given.split(",") if n]
    if not 1 <= len(names) <= MAX_URL_METHODS:
        raise HTTPException(404, f"pass 1 to {MAX_URL_METHODS} run ids, separated by commas")
    shelf = library.snapshot()
    found = list({r.id: r for r in (run_param(shelf, n) for n in names)}.values())
    if len({r.task for r in found}) > 1:
        raise HTTPException(400, "these runs have different tasks; choose runs of one task")
    return found


def section_of(shelf: IndexSnapshot, runs: Sequence[Run], protocol: str = "") -> TaskSection:
    """Return the section that contains all given runs, optionally of a protocol. Else HTTP error 404."""
    ids = {r.id for r in runs}
    for section in shelf.sections:
        if ids <= {r.id for r in section.runs} and protocol in ("", section.protocol):
            return section
    raise HTTPException(404, "these runs have no common dataset and protocol; choose other runs")


def url(*parts: str, **query: Any) -> str:
    """Build a URL. Quote the parts of the path and skip empty parameters.

    >>> url("task", "a/b c", protocol="exact", page=None)
    '/task/a/b%20c?protocol=exact'
    """
    path = "/" + "/".join(quote(p, safe="/,:@=+") for p in parts)
    parameters = urlencode({k: v for k, v in query.items() if v not in (None, "", [])}, doseq=True)
    return f"{path}?{parameters}" if parameters else path
