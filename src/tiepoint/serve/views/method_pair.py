# SPDX-License-Identifier: BSD-3-Clause
"""The page that compares two methods: difference with interval, scenes, cases that only one solves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import InputError, StoreError
from ...core.scores import ScoreRow, caution_notes
from ...report.case_thumbnails import pictures_note
from ...report.cells import value_text
from ...report.compare.comparison import Comparison
from ...report.compare.rows import is_reversed
from ...report.compare.sentences import number, order_reversal_sentence, p_value
from ...report.leaderboard import cautions_of
from ...report.method_pair import (
    ScenePoint,
    SolvedCase,
    SolvedCases,
    case_card,
    scene_plot,
    shared_scenes,
    solved_cases,
)
from ...report.runs.sections import TaskSection
from ...run.result import Run
from ...tasks.info import kind_title
from .. import params
from ..cached_results import scene_names, section_comparison
from ..pictures import THUMBNAIL
from ..rendering import page
from ..run_index import RunIndex

MAX_CASES = 6
"""Number of cases with pictures, for each of two methods."""


def method_pair_page(library: RunIndex, request: Request) -> Response:
    """Return the page that compares two runs of one task, optionally under ``protocol``."""
    shelf = library.snapshot()
    first, second = (params.run_param(shelf, request.path_params[n]) for n in ("first", "second"))
    if first.id == second.id or first.task != second.task:
        raise HTTPException(400, "pass the ids of two different runs of one task")
    section = params.section_of(shelf, [first, second], params.text_param(request, "protocol"))
    compared = section_comparison(library, section)
    made, why = compared.comparison, compared.why
    pair, answer, reversal = None, None, ""
    if made is not None:
        try:
            pair = made.pair(section.names[first.id], section.names[second.id])
            answer = made.answer(section.names[first.id], section.names[second.id])
            reversal = order_reversal_sentence(made, section.names[first.id], section.names[second.id])
        except InputError as e:
            why = e.one_line
    key = (first.id, second.id, section.protocol, section.metric, section.group)
    scenes = library.cached("two", key, lambda: shared_scenes(section, first, second))
    cases = _solved(library, section, (first, second), scenes)
    solved = None if cases is None else cases[0]
    shown, no_pictures = ("", "") if solved is None else pictures_note((first, second), library.place(first))
    names = [section.names[r.id] for r in (first, second)]
    ids = f"{first.id},{second.id}"
    listed = [] if scenes else scene_names(library, section, first)
    rows = [(section.names[r.id], section.score(r)) for r in (first, second)]
    return page(
        request,
        "method_pair.html",
        title=f"{section.names[first.id]} or {section.names[second.id]}",
        section=section,
        first=first,
        second=second,
        rows=[(n, _shown(section, s), _interval(section, s)) for n, s in rows],
        cautions=cautions_of(s for _, s in rows),
        made=made,
        pair=pair,
        answer=answer,
        why=why,
        pending=compared.pending or cases is None,
        cases=solved,
        cases_pending=cases is None,
        lists=[]
        if solved is None
        else [_cards((first, second), names, c, not no_pictures) for c in (solved.first, solved.second)],
        shown=shown,
        no_pictures=no_pictures,
        number=number,
        p_value=p_value,
        plot=scene_plot(scenes),
        links={s.name: params.url("scene", ids, s.name) for s in scenes},
        kinds=_kinds(made, section, first, second, scenes),
        unit=section.info.scale[1],
        listed=listed,
        lower=section.info.lower,
        others=[(r.id, section.names[r.id]) for r in section.runs if r.id not in (first.id, second.id)],
        reversal=reversal,
        score=section.score_title(section.metric, section.group),
    )


def _solved(
    library: RunIndex, section: TaskSection, runs: Sequence[Run], scenes: Sequence[ScenePoint]
) -> tuple[SolvedCases | None] | None:
    """Return, in a tuple, the cases that one of two methods solves. None while they are being read.

    The tuple contains None if records are missing or corrupt.
    """

    def make() -> tuple[SolvedCases | None]:
        try:
            return (solved_cases(section, runs[0], runs[1], scenes, MAX_CASES),)
        except StoreError:
            return (None,)  # Records are missing or corrupt.

    key = (runs[0].id, runs[1].id, section.protocol, section.metric, section.group)
    return library.compute_in_background("solved", key, make, library.wait_s)


def _cards(
    runs: Sequence[Run], names: Sequence[str], cases: Sequence[SolvedCase], pictures: bool
) -> list[dict[str, Any]]:
    ids = ",".join(r.id for r in runs)
    made = []
    for case in cases:
        parts = [THUMBNAIL, *(f"{THUMBNAIL}-{k}" for k in range(len(runs)))]
        sources = [
            params.url("picture", ids, case.scene, key=case.key, part=part) if pictures else ""
            for part in parts
        ]
        made.append(case_card(case, names, sources, params.url("case", ids, case.scene, key=case.key)))
    return made


def _kinds(
    made: Comparison | None, section: TaskSection, first: Run, second: Run, scenes: Sequence[ScenePoint]
) -> list[dict[str, Any]]:
    """Return the difference by kind of scene, as in `compare`, with the numbers of scenes won and lost."""
    if made is None:
        return []
    differences = made.kind_differences(section.names[first.id], section.names[second.id])
    reversal = is_reversed(differences)
    rows = []
    for kind, difference in differences:
        own = [s for s in scenes if s.kind == kind]
        won = "-".join(str(sum(s.won == k for s in own)) for k in (1, 0, -1)) if own else ""
        shown = number(made, difference, signed=True)
        n = sum(k == kind for k in made.kinds)
        rows.append({"kind": kind_title(kind), "n": n, "shown": shown, "won": won, "reversed": reversal})
    return rows


def _shown(section: TaskSection, score: ScoreRow | None) -> str:
    if score is None:
        return "–"
    star = " *" if caution_notes(score.note) else ""
    return f"{value_text(section.info, score.value)} {section.info.scale[1]}".strip() + star


def _interval(section: TaskSection, score: ScoreRow | None) -> str:
    if score is None or score.low is None or score.high is None:
        return ""
    return " to ".join(value_text(section.info, v) for v in (score.low, score.high))
