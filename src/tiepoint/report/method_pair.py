# SPDX-License-Identifier: BSD-3-Clause
"""Two methods side by side: the score of each scene, and the cases that only one of them solves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import StoreError
from ..core.formatting import count_text
from ..core.scores import SceneValues, scene_kind
from ..run.result import Run
from ..stats.resampling import make_scene_score
from ..tasks.cases import WRONG_BELOW
from .case_detail import detail
from .case_order import case_notes, cases_of, scored_scenes, shared_keys
from .case_thumbnails import case_picture, pictures_note, result_picture
from .figures.figure import short
from .pictures.thumbnails import thumbnail_uri
from .runs.sections import TaskSection

SIDE, MARGIN = 460, 46
MAX_SCENES = 16
"""Number of scenes whose cases are read: those in which the methods differ most."""
PER_SCENE = 2
"""Number of cases of one scene that are listed before cases of other scenes."""


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


@dataclass(frozen=True)
class ScenePlot:
    """Scatter plot of scenes, largest difference first. `ticks` (position, text) are shared by both axes."""

    scenes: tuple[ScenePoint, ...]
    ticks: tuple[tuple[float, str], ...]
    side: int = SIDE
    margin: int = MARGIN

    @property
    def tally(self) -> tuple[int, int, int]:
        """Numbers of scenes in which the first method is better, equal and worse."""
        won = Counter(s.won for s in self.scenes)
        return won[1], won[0], won[-1]


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


def scene_plot(scenes: Sequence[ScenePoint]) -> ScenePlot:
    """Place scenes in a square plot whose axes have the same round ticks."""
    if not scenes:
        return ScenePlot((), ())
    values = [v for s in scenes for v in (s.first, s.second)]
    low, high = min(values), max(values)
    step = _step(high - low)
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    high = high if high > low else low + step
    inner = SIDE - 2 * MARGIN

    def at(value: float) -> float:
        return round(MARGIN + inner * (value - low) / (high - low), 2)

    marks = np.arange(low, high + step / 2, step)
    placed = [replace(s, x=at(s.second), y=SIDE - at(s.first)) for s in scenes]
    placed.sort(key=lambda s: (-abs(s.difference), s.name))
    return ScenePlot(tuple(placed), tuple((at(float(m)), f"{m:.4g}") for m in marks))


def _step(span: float) -> float:
    """Return a round tick distance that gives four to eight ticks."""
    if span <= 0:
        return 1.0
    ten = 10.0 ** np.floor(np.log10(span))
    return float(next(ten * k for k in (0.1, 0.2, 0.5, 1, 2) if span / (ten * k) <= 8))


@dataclass(frozen=True)
class SolvedCase:
    """A case that one method solves. `scores` and `notes` are of the first and the second method."""

    scene: str
    key: str
    label: str
    scores: tuple[float, float]
    notes: tuple[str, str]


@dataclass(frozen=True)
class SolvedCases:
    """Cases that only the first or only the second method solves, largest difference first.

    `count` has the numbers of cases that only the first, only the second, both and neither solve, in the
    `examined` of `known` scenes.
    """

    first: tuple[SolvedCase, ...]
    second: tuple[SolvedCase, ...]
    count: tuple[int, int, int, int]
    examined: int
    known: int

    @property
    def note(self) -> str:
        """Explanation of the lists: what counts as solved, in which scenes."""
        both, neither = self.count[2:]
        where = f"the {count_text(self.examined, 'scene')}"
        if self.examined < self.known:
            where = f"the {self.examined} of {count_text(self.known, 'scene')} whose difference is largest"
        return (
            f"A method solves a case if its score there is at least {100 * WRONG_BELOW:.0f} %. In {where}, "
            f"both solve {both:,} and neither solves {neither:,}."
        )


def solved_cases(
    section: TaskSection, first: Run, second: Run, scenes: Sequence[ScenePoint], most: int
) -> SolvedCases | None:
    """Return at most `most` cases that only one of two methods solves, for each. None without cases.

    Only the scenes with the largest differences are examined. The lists begin with at most two cases per
    scene.

    Raises:
        StoreError: Records are missing or corrupt.
    """
    ordered = sorted(scenes, key=lambda s: (-abs(s.difference), s.name))
    names = [s.name for s in ordered] or sorted({s.scene for s in scored_scenes(first)})
    counts: Counter[tuple[bool, bool]] = Counter()
    found: dict[int, list[tuple[float, str, str, tuple[float, float]]]] = {0: [], 1: []}
    examined = 0
    for name in names[:MAX_SCENES]:
        cases = [cases_of(run, name) for run in (first, second)]
        own = [c for c in cases if c is not None]
        if len(own) < 2:
            continue
        examined += 1
        keys, rows = shared_keys(own)
        scores = np.array([c.score[r] for c, r in zip(own, rows, strict=True)], np.float64)
        known = np.isfinite(scores).all(axis=0)
        solved = (scores >= WRONG_BELOW) & known
        for one in (False, True):
            for two in (False, True):
                counts[one, two] += int(((solved[0] == one) & (solved[1] == two) & known).sum())
        gap = np.where(known, scores[0] - scores[1], 0.0)
        for k, sign in ((0, 1.0), (1, -1.0)):
            only = np.flatnonzero(solved[k] & ~solved[1 - k] & known)
            best = only[np.argsort(-sign * gap[only], kind="stable")][:most]
            found[k] += [
                (-abs(float(gap[i])), name, str(keys[i]), (float(scores[0, i]), float(scores[1, i])))
                for i in best.tolist()
            ]
    if not examined:
        return None
    lists = [_with_notes(first, second, _spread(sorted(found[k]), most)) for k in (0, 1)]
    numbers = (counts[True, False], counts[False, True], counts[True, True], counts[False, False])
    return SolvedCases(lists[0], lists[1], numbers, examined, len(names))


def _spread(
    ordered: Sequence[tuple[float, str, str, tuple[float, float]]], most: int
) -> list[tuple[str, str, tuple[float, float]]]:
    taken: Counter[str] = Counter()
    near: list[tuple[str, str, tuple[float, float]]] = []
    later: list[tuple[str, str, tuple[float, float]]] = []
    for _, scene, key, scores in ordered:
        taken[scene] += 1
        (near if taken[scene] <= PER_SCENE else later).append((scene, key, scores))
    return (near + later)[:most]


def _with_notes(
    first: Run, second: Run, chosen: Sequence[tuple[str, str, tuple[float, float]]]
) -> tuple[SolvedCase, ...]:
    made = []
    for scene, key, scores in chosen:
        cases = cases_of(first, scene)
        one, two = (case_notes(run, scene, [key])[key] for run in (first, second))
        made.append(
            SolvedCase(scene, key, key if cases is None else cases.description(key), scores, (one, two))
        )
    return tuple(made)


MAX_REPORT_CASES = 2
"""Number of cases with pictures in a report, for each of two methods."""


def best_two(section: TaskSection) -> dict[str, Any] | None:
    """Compare the best two methods of a section for a report: scenes, and cases with their pictures.

    None if there are fewer than two methods, nothing ranks them, or neither scene values nor cases.
    """
    if len(section.methods) < 2 or section.no_ranking:
        return None
    first, second = section.methods[:2]
    scenes = shared_scenes(section, first, second)
    try:
        cases = solved_cases(section, first, second, scenes, MAX_REPORT_CASES)
    except StoreError:
        cases = None  # Records are missing or corrupt: the scenes are compared without cases.
    if not scenes and cases is None:
        return None
    names = (section.names[first.id], section.names[second.id])
    return {
        "names": names,
        "plot": scene_plot(scenes),
        "unit": section.info.scale[1],
        "lower": section.info.lower,
        "cases": cases,
        "shown": pictures_note((first, second))[0],
        "lists": ()
        if cases is None
        else tuple(_embedded((first, second), names, c) for c in (cases.first, cases.second)),
    }


def _embedded(
    runs: tuple[Run, Run], names: tuple[str, str], cases: Sequence[SolvedCase]
) -> list[dict[str, Any]]:
    """Return template data of cases, with pictures as data URIs."""
    made = []
    for case in cases:
        found = detail(runs, case.scene, case.key)
        pictures = (
            [] if found is None else [case_picture(found), *map(partial(result_picture, found), found.views)]
        )
        sources = ["" if p is None else thumbnail_uri(p) for p in pictures] or [""] * (1 + len(runs))
        made.append(case_card(case, names, sources))
    return made


def case_card(
    case: SolvedCase, names: Sequence[str], sources: Sequence[str], link: str = ""
) -> dict[str, Any]:
    """Return the template data of a case: its title, its picture and the result of each method."""
    results = [
        {
            "name": short(name, 40),
            "score": f"{100 * score:.1f}",
            "solved": score >= WRONG_BELOW,
            "note": note,
            "source": source,
        }
        for name, score, note, source in zip(names, case.scores, case.notes, sources[1:], strict=True)
    ]
    label = case.label if case.label.startswith(case.scene) else f"{case.scene}, {case.label}"
    return {"title": label, "link": link, "source": sources[0], "results": results}
