# SPDX-License-Identifier: BSD-3-Clause
"""The page that compares two methods: scatter plot of scenes, difference with interval, kinds of scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import InputError
from ...core.scores import SceneValues, ScoreRow, caution_notes, scene_kind
from ...report.cells import value_text
from ...report.compare.comparison import Comparison
from ...report.compare.rows import is_reversed
from ...report.compare.sentences import number, order_reversal_sentence, p_value
from ...report.leaderboard import cautions_of
from ...report.runs.sections import TaskSection
from ...run.result import Run
from ...stats.resampling import make_scene_score
from ...tasks.info import kind_title
from .. import params
from ..cached_results import scene_names, section_comparison
from ..rendering import page
from ..run_index import RunIndex

SIDE, MARGIN = 460, 46


@dataclass(frozen=True)
class ScenePoint:
    """One scene: the scores of both methods (in display units) and the position in the plot."""

    name: str
    kind: str
    first: float
    second: float
    won: int
    x: float = 0.0
    y: float = 0.0

    @property
    def difference(self) -> float:
        """Score of the first method minus score of the second."""
        return self.first - self.second


def method_pair_page(library: RunIndex, request: Request) -> Response:
    """Return the page that compares two runs of one task, optionally under ``protocol``."""
    shelf = library.snapshot()
    names = [request.path_params["first"], request.path_params["second"]]
    first, second = (params.run_param(shelf, n) for n in names)
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
    placed, ticks = _placed(scenes)
    lower = section.info.lower
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
        pending=compared.pending,
        number=number,
        p_value=p_value,
        scenes=sorted(placed, key=lambda s: (-abs(s.difference), s.name)),
        points=placed,
        ticks=ticks,
        side=SIDE,
        margin=MARGIN,
        won=[sum(s.won == k for s in scenes) for k in (1, 0, -1)],
        kinds=_kinds(made, section, first, second, scenes),
        unit=section.info.scale[1],
        listed=listed,
        lower=lower,
        others=[(r.id, section.names[r.id]) for r in section.runs if r.id not in (first.id, second.id)],
        reversal=reversal,
        score=section.score_title(section.metric, section.group),
    )


def shared_scenes(section: TaskSection, first: Run, second: Run) -> list[ScenePoint]:
    """Return the scenes in which both runs have a headline score, by name."""
    a, b = (paired_scene_values(section, r) for r in (first, second))
    factor, sign = section.info.scale[0], -1 if section.info.lower else 1
    made = []
    for name in sorted(a.keys() & b.keys()):
        (kind, x), (_, y) = a[name], b[name]
        made.append(ScenePoint(name, kind, factor * x, factor * y, sign * ((x > y) - (x < y))))
    return made


def paired_scene_values(section: TaskSection, run: Run) -> dict[str, tuple[str, float]]:
    """Return kind and value of each scene of a run. For pooled scores, use stored scene scores."""
    table = section.tables(run).get((section.metric, section.group))
    if isinstance(table, SceneValues):
        s = make_scene_score(table)
        total = s.weights.sum(axis=0)
        values = (s.weights * s.values).sum(axis=0) / np.where(total > 0, total, 1)
        return {n: (k, float(v)) for n, k, v in zip(s.scenes, s.kinds, values, strict=True)}
    rows = section.scene_rows(run)
    return {n: (scene_kind(n), s.value) for n, s in rows.items() if s.value is not None}


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


def _placed(scenes: Sequence[ScenePoint]) -> tuple[list[ScenePoint], list[tuple[float, str]]]:
    """Return the scenes with their plot positions, and the ticks that both axes share."""
    if not scenes:
        return [], []
    values = [v for s in scenes for v in (s.first, s.second)]
    low, high = min(values), max(values)
    step = _step(high - low)
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    high = high if high > low else low + step
    inner = SIDE - 2 * MARGIN

    def at(value: float) -> float:
        return round(MARGIN + inner * (value - low) / (high - low), 2)

    marks = np.arange(low, high + step / 2, step)
    places = [
        ScenePoint(s.name, s.kind, s.first, s.second, s.won, at(s.second), SIDE - at(s.first)) for s in scenes
    ]
    return places, [(at(float(m)), f"{m:.4g}") for m in marks]


def _step(span: float) -> float:
    """Return a round tick distance that gives four to eight ticks."""
    if span <= 0:
        return 1.0
    ten = 10.0 ** np.floor(np.log10(span))
    return float(next(ten * k for k in (0.1, 0.2, 0.5, 1, 2) if span / (ten * k) <= 8))


def _shown(section: TaskSection, score: ScoreRow | None) -> str:
    if score is None:
        return "–"
    star = " *" if caution_notes(score.note) else ""
    return f"{value_text(section.info, score.value)} {section.info.scale[1]}".strip() + star


def _interval(section: TaskSection, score: ScoreRow | None) -> str:
    if score is None or score.low is None or score.high is None:
        return ""
    return " to ".join(value_text(section.info, v) for v in (score.low, score.high))
