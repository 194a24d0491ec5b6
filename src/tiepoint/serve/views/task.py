# SPDX-License-Identifier: BSD-3-Clause
"""The page of a task: leaderboard, comparison, conventions, figures and filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import InputError
from ...report.compare.sentences import legend
from ...report.compare.text_table import header, row_cells
from ...report.convention_tables import by_protocol, by_step
from ...report.figures.curves import curve_figures
from ...report.figures.figure import Figure
from ...report.figures.heat_map import heat_map
from ...report.figures.intervals import intervals_figure
from ...report.figures.pareto import COSTS, pareto_figure
from ...report.figures.stress import stress_figure
from ...report.leaderboard import leaderboard
from ...report.paper_latex import PaperTexts, paper_texts
from ...report.paper_tables import paper_tables, task_table
from ...report.runs.lazy_records import try_part
from ...report.runs.names import DisplayNames
from ...report.runs.sections import TaskSection, is_canary, sections
from ...run.result import Run
from ...tasks.info import metric_info
from .. import params
from ..cached_results import section_comparison, section_key
from ..rendering import figure_response as figure_answer
from ..rendering import page
from ..run_index import RunIndex

KINDS = ("stress", "intervals", "heat", *COSTS)
"""Figures that need no records. Curves read records and are drawn on request."""


@dataclass(frozen=True)
class RequestedSection:
    """The section that a URL requests, with the available filter values."""

    section: TaskSection
    asked: dict[str, str]
    protocols: tuple[str, ...]
    scores: tuple[tuple[str, str], ...]
    splits: tuple[str, ...]
    datasets: tuple[str, ...]


def task(library: RunIndex, request: Request) -> Response:
    """Return the task page, filtered by ``method``, ``protocol``, ``score``, ``split`` and ``dataset``."""
    view = requested_section(library, request)
    section = view.section
    key = _key(view)
    until = time.monotonic() + library.wait_s
    compared = section_comparison(library, section, until)
    made = compared.comparison
    beside = (made, list(made.notes) if made is not None else [compared.why] if compared.why else [])
    if len(section.methods) < 2:
        beside = (None, [])
    board = leaderboard(section, beside).once()
    steps = params.choice_param(request, "steps", ("", "1"), "") == "1"
    conventions = [
        t for t in [library.cached("protocols", key, lambda: by_protocol(section))] if t is not None
    ]
    if steps:
        conventions += library.cached("steps", key, lambda: by_step(section))
    curves = params.choice_param(request, "curves", ("", "1"), "") == "1"
    paper = None
    asked_paper = params.choice_param(request, "paper", ("", "1"), "") == "1" and bool(section.methods)
    asked_paper = asked_paper and not section.no_ranking
    if asked_paper:
        make_paper = partial(_paper, library, section)
        paper = library.compute_in_background("paper", key, make_paper, max(0.0, until - time.monotonic()))
    skipped: list[str] = []
    drawn = [(k, _soon(library, view, k, until)) for k in KINDS]
    figures = [(k, f[0]) for k, f in drawn if f is not None and f[0] is not None]
    if curves:
        make = partial(library.cached, "curves", key, partial(curve_figures, section))
        every = try_part("figures of curves", make, skipped) or []
        figures += [(f"curve{i}", f) for i, f in enumerate(every)]
    return page(
        request,
        "task.html",
        title=section.title,
        view=view,
        section=section,
        board=board,
        finding=compared.sentence,
        about=section.info.sentence(section.group),
        question=section.definition.info.sentence,
        comparison=made,
        why=compared.why,
        pending=compared.pending or any(f is None for _, f in drawn) or (asked_paper and not paper),
        paper=paper,
        paper_pending=asked_paper and not paper,
        head=[] if made is None else header(made),
        rows=[] if made is None else [(r.run, row_cells(made, r)) for r in made.rows],
        legend=[] if made is None else _unsaid(legend(made), board.notes),
        conventions=conventions,
        steps=steps,
        curves=curves,
        figures=figures,
        skipped=skipped,
        methods=[(r.id, section.names[r.id]) for r in section.runs if not is_canary(r)],
        query={k: v for k, v in view.asked.items() if v},
    )


def _unsaid(lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Return the lines of a legend that do not repeat a note below the leaderboard."""
    known = {f"Note: {n}." for n in notes}
    return [line for line in lines if line not in known]


def _paper(library: RunIndex, section: TaskSection) -> PaperTexts | None:
    with library.turn:
        return paper_texts([task_table(section, DisplayNames())], section.methods)


def paper(library: RunIndex, request: Request) -> Response:
    """Return the page with the tables of all tasks as LaTeX."""

    def make() -> tuple[PaperTexts | None, str]:
        runs = library.snapshot().runs
        try:
            with library.turn:
                return paper_texts(paper_tables(runs, DisplayNames()), runs), ""
        except InputError as e:
            return None, e.one_line

    found = library.compute_in_background("paper", "all", make, library.wait_s)
    texts, why = found or (None, "")
    return page(
        request, "paper.html", title="tables for the paper", paper=texts, why=why, pending=found is None
    )


def figure_page(library: RunIndex, request: Request) -> Response:
    """Return one figure of the task page as SVG."""
    kind = request.path_params["kind"]
    view = requested_section(library, request)
    made = _figure(library, view, kind)
    if made is None:
        raise HTTPException(404, "this figure does not exist")
    return figure_answer(request, made.svg)


def _figure(library: RunIndex, view: RequestedSection, kind: str) -> Figure | None:
    section = view.section
    if kind.startswith("curve"):
        every = library.cached("curves", _key(view), lambda: curve_figures(section))
        number = kind.removeprefix("curve")
        return every[int(number)] if number.isdecimal() and int(number[:3]) < len(every) else None
    make: dict[str, Callable[[], Figure | None]] = {
        "stress": lambda: stress_figure(section),
        "intervals": lambda: intervals_figure(section),
        "heat": lambda: heat_map(section),
        **{cost: lambda cost=cost: pareto_figure(section, cost) for cost in COSTS},  # type: ignore[misc]
    }
    return library.cached(f"figure {kind}", _key(view), make[kind]) if kind in make else None


def _soon(library: RunIndex, view: RequestedSection, kind: str, until: float) -> tuple[Figure | None] | None:
    """Compute a figure in the background. Return it in a tuple, or None if it is not ready in time."""

    def make() -> tuple[Figure | None]:
        return (_figure(library, view, kind),)

    return library.compute_in_background(f"soon {kind}", _key(view), make, max(0.0, until - time.monotonic()))


def _key(view: RequestedSection) -> Hashable:
    return section_key(view.section)


def requested_section(library: RunIndex, request: Request) -> RequestedSection:
    """Return the requested section. HTTP error 404 if the task has no runs, 400 if no run is selected."""
    name = request.path_params["name"]
    given = {k: params.text_param(request, k) for k in ("method", "protocol", "score", "split", "dataset")}
    shelf = library.snapshot()
    of_task = [s for s in shelf.sections if s.task == name]
    if not of_task:
        raise HTTPException(404, "the store has no finished runs of this task")
    datasets = tuple(dict.fromkeys(s.dataset for s in of_task))
    dataset = given["dataset"] or datasets[0]
    if dataset not in datasets:
        raise HTTPException(400, "the store has no runs of this task on this dataset")
    members = {r.id: r for s in of_task if s.dataset == dataset for r in s.runs}
    protocols = tuple(sorted({s.protocol for r in members.values() for s in r.score_rows}))
    splits = tuple(sorted({s for r in members.values() if (s := r.manifest.split) is not None}))
    if given["protocol"] and given["protocol"] not in protocols:
        raise HTTPException(400, "no run of this task was scored under this protocol")
    if given["split"] and given["split"] not in splits:
        raise HTTPException(400, "no run of this task has this split")
    kept = [r for r in members.values() if _wanted(r, given)]
    made = sections(kept, given["protocol"] or "exact")
    if not made:
        raise HTTPException(400, "no run matches these filters; remove a filter")
    looks = of_task[0].looks
    section = replace(made[0], looks=looks, dataset=dataset)
    scores = tuple(
        c for c in section.columns if metric_info(section.definition.info, c[0]).better is not None
    )
    section = _by(section, given["score"], scores)
    return RequestedSection(section, given, protocols, scores, splits, datasets)


def _wanted(run: Run, given: dict[str, str]) -> bool:
    words = given["method"].casefold().split()
    if words and not any(w in run.method.casefold() for w in words):
        return False
    if given["split"] and run.manifest.split != given["split"]:
        return False
    protocol = given["protocol"]
    return not protocol or any(s.protocol == protocol for s in run.score_rows)


def _by(section: TaskSection, wanted: str, scores: tuple[tuple[str, str], ...]) -> TaskSection:
    """Sort the section by a score, given as ``METRIC GROUP``."""
    if not wanted:
        return section
    metric, _, group = wanted.partition(" ")
    if (metric, group or "all") not in scores:
        raise HTTPException(400, "no run of this task has this score")
    changed = replace(section, metric=metric, group=group or "all")
    sign = 1.0 if changed.info.lower else -1.0

    def order(run: Run) -> tuple[bool, float, str, str]:
        score = changed.score(run)
        value = None if score is None else score.value
        return (value is None, sign * (value or 0.0), run.method, run.id)

    return replace(changed, runs=tuple(sorted(changed.runs, key=order)))
