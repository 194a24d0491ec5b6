# SPDX-License-Identifier: BSD-3-Clause
"""The pages for all cases of a scene and for one case: a query, a pair with matches, or a flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...report.case_detail import CaseDetail, MethodView
from ...report.case_order import BY, By, case_notes
from ...report.case_thumbnails import pictures_note
from ...report.pictures.error_colours import GRADES, count_grades, grades, spread
from ...report.runs.sections import TaskSection, is_canary
from ...run.result import Run
from ...tasks.cases import WRONG_BELOW, MatchedPair
from .. import params
from ..cached_results import order_of, page_of, row, scene_names
from ..pictures import RIGHT, SHOWN, picture_names, replayed_case
from ..rendering import page
from ..run_index import RunIndex
from .run import rerun_command

A_PAGE = 40
TITLES = {"disagreement": "disagreement", "wrong": "all wrong", "confident": "confident and wrong"}


def scene(library: RunIndex, request: Request) -> Response:
    """Return the page of the cases of a scene. ``by`` is the sort order; ``page`` starts at 1."""
    runs = params.runs_param(library, request, request.path_params["runs"])
    name = request.path_params["scene"]
    section = params.section_of(library.snapshot(), runs)
    known = scene_names(library, section, runs[0])
    if name not in known:
        raise HTTPException(404, "these runs do not have this scene; choose another scene")
    by = order_param(request, len(runs))
    order = order_of(library, runs, name, by)
    pages = 1 if order is None else max(1, -(-len(order) // A_PAGE))
    number = params.int_param(request, "page", 1, low=1, high=pages)
    rows = [] if order is None else page_of(library, runs, name, order, (number - 1) * A_PAGE, A_PAGE)
    at = known.index(name)
    ids = ",".join(r.id for r in runs)
    keys = [r.key for r in rows]
    notes = [case_notes(r, name, keys) for r in runs] if rows else []
    shown, why = pictures_note(runs, library.place(runs[0])) if rows else ("", "")
    return page(
        request,
        "scene.html",
        notes=notes,
        shown=shown,
        no_pictures=why,
        title=name,
        section=section,
        runs=runs,
        ids=ids,
        scene=name,
        by=by,
        orders=[(k, TITLES[k], BY[k]) for k in BY],
        words=BY[by],
        total=0 if order is None else len(order),
        meant=0 if order is None else order.n_relevant,
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


def order_param(request: Request, runs: int) -> By:
    """Return the requested sort order. The default is disagreement for several methods, failures for one."""
    names: dict[str, By] = {str(k): k for k in BY}
    return names[params.choice_param(request, "by", list(names), "disagreement" if runs > 1 else "wrong")]


def others(section: TaskSection, runs: list[Run]) -> list[dict[str, Any]]:
    """Return, for each method of the section, whether it is selected, and the run ids after a click on it."""
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
    """Return a message that explains why a scene has no cases."""
    for run in runs:
        if run.manifest.is_imported:
            return f"{run.method} is imported: its scores are known, but not its answers"
    command = next((c for r in runs if (c := rerun_command(r, library.store.where))), "")
    hint = (
        f"; to compute them: {command} --protocol exact"
        if command and "exact" not in runs[0].manifest.protocols
        else ""
    )
    return f"the records of {runs[0].task} under exact have no single cases or are not in the store{hint}"


MATCHES = 400
"""Maximum number of drawn matches, sampled evenly from the best to the worst."""
WIDE, GAP = 1000.0, 8.0
"""Width of a drawing of two images and the gap between them, in pixels."""


def case(library: RunIndex, request: Request) -> Response:
    """Return the page of the case ``key``. The keyboard keys j and k navigate in the sort order ``by``."""
    runs = params.runs_param(library, request, request.path_params["runs"])
    name, key = request.path_params["scene"], params.text_param(request, "key")
    section = params.section_of(library.snapshot(), runs)
    if name not in scene_names(library, section, runs[0]):
        raise HTTPException(404, "these runs do not have this scene; choose another scene")
    by = order_param(request, len(runs))
    order = order_of(library, runs, name, by)
    at = None if order is None else order.place(key)
    if order is None or at is None:
        raise HTTPException(404, "these runs do not have this case; choose another case")
    found = replayed_case(library, runs, name, key)
    if found is None:
        raise HTTPException(404, "these runs do not have this case; choose another case")
    line = row(library, runs, name, order, at)
    ids = ",".join(r.id for r in runs)
    have = picture_names(found)

    def source(part: str) -> str:
        return params.url("picture", ids, name, key=key, part=part) if part in have else ""

    return page(
        request,
        "case.html",
        title=line.label,
        section=section,
        runs=runs,
        ids=ids,
        scene=name,
        key=key,
        by=by,
        by_title=TITLES[by],
        at=at,
        total=len(order),
        page_of=at // 40 + 1,
        before=str(order.keys[at - 1]) if at else None,
        after=str(order.keys[at + 1]) if at + 1 < len(order) else None,
        label=line.label,
        case=found,
        scores=line.scores,
        sure=line.confidence,
        source=source,
        query=_query(found, source),
        pairs=[_pair(found, v, i, source) for i, v in enumerate(found.views) if v.matched is not None],
        dense=[_dense(v, i, source) for i, v in enumerate(found.views) if v.dense is not None],
        grades=[(g.text, i) for i, g in enumerate(GRADES)],
        others=others(section, runs),
        names={r.id: section.names[r.id] for r in runs},
        missing=_missing(found, runs, library),
    )


def _missing(found: CaseDetail, runs: list[Run], library: RunIndex) -> list[str]:
    """Return messages about missing parts of the case and of each method, without duplicates."""
    messages = [found.missing, *(v.missing for v in found.views)]
    if found.missing and not library.data:
        messages[0] += "; start the server with --data DIR where the dataset was moved"
    return [t for t in dict.fromkeys(messages) if t]


def _query(found: CaseDetail, source: Any) -> dict[str, Any] | None:
    if found.kind != "query" and not any(v.answered for v in found.views):
        return None
    right = [{"what": r, "source": source(f"right-{i}")} for i, r in enumerate(found.right[:RIGHT])]
    return {
        "what": found.query,
        "source": source("query"),
        "right": right,
        "more": max(0, len(found.right) - RIGHT),
        "methods": [_answers(v, i, source) for i, v in enumerate(found.views) if v.answered is not None],
    }


def _answers(view: MethodView, i: int, source: Any) -> dict[str, Any]:
    assert view.answered is not None
    made = view.answered
    chosen = [
        {
            "what": a.picture,
            "source": source(f"chosen-{i}-{k}"),
            "rank": rank_text(a.rank),
            "distance": "" if a.distance is None else f"{a.distance:.4g}",
            "right": a.right,
        }
        for k, a in enumerate(made.chosen[:SHOWN])
    ]
    ranks = [rank_text(a.rank) for a in made.right[:RIGHT]]
    distances = ["" if a.distance is None else f"{a.distance:.4g}" for a in made.right[:RIGHT]]
    return {
        "run": view.run,
        "chosen": chosen,
        "right": list(zip(ranks, distances, strict=True)),
        "more": max(0, len(made.right) - RIGHT),
        "note": made.note,
    }


def rank_text(rank: float | None) -> str:
    """Format a rank. Ties have their mean rank; failed descriptors have no rank.

    >>> rank_text(3.0), rank_text(1.5), rank_text(None)
    ('3', '1.5', 'none')
    """
    return "none" if rank is None or not np.isfinite(rank) else f"{rank:g}"


def _pair(found: CaseDetail, view: MethodView, i: int, source: Any) -> dict[str, Any]:
    """Return the template data of two images side by side, with matches in image and drawing coordinates."""
    matched = view.matched
    assert matched is not None
    (w0, h0), (w1, h1) = matched.sizes
    scale = (WIDE - GAP) / (w0 / h0 + w1 / h1) if h0 and h1 else 1.0
    high = float(scale)
    panels = [
        {"x": 0.0, "w": w0, "h": h0, "width": round(high * w0 / h0, 2), "source": source("image-0")},
        {"x": round(high * w0 / h0 + GAP, 2), "w": w1, "h": h1, "width": round(high * w1 / h1, 2)}
        | {"source": source("image-1")},
    ]
    return {
        "run": view.run,
        "panels": panels,
        "high": round(high, 2),
        "links": _links(matched, panels, high),
        "total": len(matched),
        "measure": matched.measure,
        "counts": [(g.text, n) for g, n in count_grades(matched)] if len(matched) else [],
        "cut": _slider_value(matched),
    }


def _slider_value(matched: MatchedPair) -> str:
    """Return the value by which the page's slider filters matches: confidence if available, else error."""
    if getattr(matched, "confidence", None) is not None:
        return "confidence"
    return "error" if matched.errors_px is not None else ""


def _links(matched: MatchedPair, panels: list[dict[str, Any]], high: float) -> list[dict[str, Any]]:
    grade, made = grades(matched), []
    sure = getattr(matched, "confidence", None)
    for r in spread(matched, MATCHES).tolist():
        ends = []
        for points, panel in zip((matched.points0, matched.points1), panels, strict=True):
            x, y = (float(v) + 0.5 for v in points[r])
            if not np.isfinite([x, y]).all():
                break
            place = (panel["x"] + x * panel["width"] / panel["w"], y * high / panel["h"])
            ends.append((round(x, 2), round(y, 2), round(place[0], 2), round(place[1], 2)))
        if len(ends) < 2:
            continue
        error = None if matched.errors_px is None else float(matched.errors_px[r])
        by = error if sure is None else float(sure[r])
        made.append(
            {
                "a": ends[0],
                "b": ends[1],
                "grade": "x" if grade[r] < 0 else int(grade[r]),
                "error": "" if error is None or not np.isfinite(error) else f"{error:.3g} px",
                "by": "" if by is None or not np.isfinite(by) else f"{by:.6g}",
            }
        )
    return made


def _dense(view: MethodView, i: int, source: Any) -> dict[str, Any]:
    dense = view.dense
    assert dense is not None
    errors = dense.errors_px
    known = np.array([]) if errors is None else errors[np.isfinite(errors)]
    return {
        "run": view.run,
        "w": dense.flow.shape[1],
        "h": dense.flow.shape[0],
        "flow": source(f"flow-{i}"),
        "warped": source(f"warped-{i}"),
        "error": source(f"error-{i}"),
        "true": source(f"true_flow-{i}"),
        "longest": f"{dense.longest_px:g}",
        "mean": f"{float(known.mean()):.2f}" if known.size else "",
        "median": f"{float(np.median(known)):.2f}" if known.size else "",
    }
