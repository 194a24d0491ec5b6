# SPDX-License-Identifier: BSD-3-Clause
"""Sort the cases of a scene by disagreement of methods, failure or confident failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, UnknownNameError
from ..core.formatting import count_text
from ..core.records import Records
from ..core.scores import SceneValues
from ..run.result import Run
from ..tasks import stored_task
from ..tasks.base import Task
from ..tasks.capabilities import CountsMatches, HasCases
from ..tasks.cases import WRONG_BELOW, Cases, Floats, Keys, row_of
from ..tasks.info import headline_column
from .pictures.matches import pair_caption
from .runs.lazy_records import scene_tables

By = Literal["disagreement", "wrong", "confident"]
BY: dict[By, str] = {
    "disagreement": "largest difference of the two methods first",
    "wrong": "lowest score of the better method first",
    "confident": "wrong answers with the smallest distance ratio first",
}
"""Names and descriptions of the available sort orders."""
Ints = NDArray[np.int64]


class SceneRow(NamedTuple):
    """A scene of a run: its name, its kind and its mean headline score, if available."""

    scene: str
    kind: str
    value: float | None


class CaseRow(NamedTuple):
    """A row of the case list. Scores and confidences are listed by method, None if unknown."""

    key: str
    label: str
    scores: tuple[float | None, ...]
    confidence: tuple[float | None, ...]


@dataclass(frozen=True)
class OrderedCases:
    """Sorted cases that all methods share. `order` (n,) indexes `keys`, `scores` and `confidence`.

    `scores` and `confidence` have shape (methods, n), with NaN for unknown values. The first `n_relevant`
    cases meet the criterion of the order (different scores, all wrong, confident and wrong). All other cases
    are sorted by key.
    """

    by: By
    cases: Cases
    keys: Keys
    scores: Floats
    confidence: Floats | None
    order: Ints
    n_relevant: int

    def __len__(self) -> int:
        return len(self.order)

    def page(self, start: int = 0, count: int = 50) -> list[CaseRow]:
        """Return the rows of a page. The last page may have fewer rows."""
        return [self.row(i) for i in self.order[max(start, 0) : max(start, 0) + max(count, 0)].tolist()]

    def row(self, i: int) -> CaseRow:
        """Return the case of row i of `keys`."""
        sure = (None,) * len(self.scores) if self.confidence is None else _numbers(self.confidence[:, i])
        key = str(self.keys[i])
        return CaseRow(key, self.cases.description(key), _numbers(self.scores[:, i]), sure)

    def place(self, key: str) -> int | None:
        """Return the position of a key in the sorted cases. None if it is missing."""
        row = row_of(self.keys, key)
        return None if row is None else int(np.flatnonzero(self.order == row)[0])

    def beside(self, key: str) -> tuple[str | None, str | None]:
        """Return the previous and the next key in the sorted cases. None at the ends."""
        i = self.place(key)
        if i is None:
            return None, None
        before = str(self.keys[self.order[i - 1]]) if i else None
        after = str(self.keys[self.order[i + 1]]) if i + 1 < len(self.order) else None
        return before, after


def _numbers(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(v) else float(v) for v in values)


def scored_scenes(run: Run, protocol: str = "exact") -> list[SceneRow]:
    """Return the scenes of a run with the mean of its headline score in each.

    If the headline score is pooled, the scenes have no value. The result is empty without stored scene
    values.
    """
    tables, task = scene_tables(run, protocol), stored_task(run.task)
    if not tables:
        return []
    column = headline_column(task.info, list(tables))
    table = tables[column] if column is not None and column in tables else next(iter(tables.values()))
    if not isinstance(table, SceneValues):
        return [SceneRow(s, k, None) for s, k in zip(table.scenes, table.kinds, strict=True)]
    cells = np.asarray(table.cells, np.float64)
    known = np.isfinite(cells)
    total, times = np.where(known, cells, 0.0).sum(axis=0), known.sum(axis=0)
    return [
        SceneRow(s, k, float(v / n) if n else None)
        for s, k, v, n in zip(table.scenes, table.kinds, total, times, strict=True)
    ]


def cases_of(run: Run, scene: str) -> Cases | None:
    """Return the cases of a scene from records under `exact`. None if the run or its task has no cases."""
    task, records = stored_task(run.task), _case_records(run, scene)
    return task.cases(records, scene) if records and isinstance(task, HasCases) else None


def _case_records(run: Run, scene: str) -> list[Records]:
    """Return the records under `exact` with the cases of a scene.

    These are the records of the unit with the name of the scene, or of all units if there is none.
    """
    task = stored_task(run.task)
    if "exact" not in task.protocols:
        return []
    comparison = task.comparison("exact")
    units = run.unit_records
    names = [scene] if scene in units else list(units)
    return [units[name][comparison] for name in names if comparison in units[name]]


def case_notes(run: Run, scene: str, keys: Sequence[str]) -> dict[str, str]:
    """Return a note by case: pose error in degrees and number of matches. Empty if the task has neither."""
    task, records = stored_task(run.task), _case_records(run, scene)
    return {key: _case_note(task, records, scene, key) for key in keys}


def _case_note(task: Task, records: Sequence[Records], scene: str, key: str) -> str:
    count = task.match_count(records, scene, key) if isinstance(task, CountsMatches) else None
    matches = "" if count is None else count_text(count, "match", "matches")
    return "; ".join(text for text in (pair_caption(task, records, key), matches) if text)


def orders(run_a: Run, run_b: Run | None, scene: str, by: By = "disagreement") -> OrderedCases | None:
    """Sort the cases of a scene that all runs share. None if a run has no cases.

    `disagreement` sorts by |A - B| of the scores, or by 1 - score for a single run, largest first. `wrong`
    sorts by the better of the two scores, lowest first, then by the other score. `confident` sorts wrong
    answers (score below 0.5) of either method by the smaller ratio of first to second distance. Ties are
    sorted by key. Cases without a score are last.

    Raises:
        InputError: `by` is unknown, or the runs are of different tasks.
    """
    if by not in BY:
        raise UnknownNameError("order of cases", by, tuple(BY))
    runs = [run_a] if run_b is None else [run_a, run_b]
    if len({r.task for r in runs}) > 1:
        raise InputError(
            f"runs {run_a.id} and {runs[-1].id} are of different tasks; compare runs of one task"
        )
    found = [cases_of(run, scene) for run in runs]
    known = [c for c in found if c is not None]
    return order_cases(known, by) if len(known) == len(runs) else None


def order_cases(found: list[Cases], by: By) -> OrderedCases:
    """Sort the cases that all methods share by one of the criteria in `BY`.

    >>> name = "patch {}".format
    >>> a = Cases(np.array([1, 2, 3]), np.array([1.0, 0.0, 1.0]), np.array([0.5, 0.9, 0.2]), name)
    >>> b = Cases(np.array([3, 2, 1]), np.array([0.0, 0.0, 1.0]), np.array([0.3, 0.4, 0.1]), name)
    >>> [(r.key, r.scores) for r in order_cases([a, b], "disagreement").page(0, 1)]
    [('3', (1.0, 0.0))]
    >>> [r.key for r in order_cases([a, b], "confident").page()]
    ['3', '2', '1']
    """
    keys, rows = shared_keys(found)
    scores = np.array([c.score[r] for c, r in zip(found, rows, strict=True)], np.float64)
    sure: Floats | None = None
    if all(c.confidence is not None for c in found):
        sure = np.array(
            [c.confidence[r] for c, r in zip(found, rows, strict=True) if c.confidence is not None]
        )
    known = np.isfinite(scores).all(axis=0)
    scored = np.where(known, scores, 1.0)
    ranks: tuple[Floats, ...]
    if by == "disagreement":
        gap = scored.max(axis=0) - scored.min(axis=0) if len(found) > 1 else 1.0 - scored[0]
        relevant, ranks = known & (gap > 0), (-gap,)
    elif by == "wrong":
        relevant, ranks = (
            known & (scored.max(axis=0) < WRONG_BELOW),
            (scored.max(axis=0), scored.mean(axis=0)),
        )
    else:
        ratio = np.full(scores.shape, np.inf) if sure is None else np.where(np.isfinite(sure), sure, np.inf)
        least = np.where(scored < WRONG_BELOW, ratio, np.inf).min(axis=0, initial=np.inf)
        relevant, ranks = known & np.isfinite(least), (least,)
    order = np.lexsort((np.arange(len(keys)), *ranks[::-1], ~relevant, ~known))
    return OrderedCases(by, found[0], keys, scores, sure, order, int(relevant.sum()))


def shared_keys(found: list[Cases]) -> tuple[Keys, list[Ints]]:
    """Return the keys that all inputs share, ascending, and their row indices in each input.

    An integer key never equals a text key.

    >>> a, b = (Cases(np.array(k), np.zeros(2), None, str) for k in ([2, 1], [3, 2]))
    >>> keys, rows = shared_keys([a, b]); keys.tolist(), [r.tolist() for r in rows]
    ([2], [[0], [1]])
    """
    first = found[0].keys
    if (first[1:] > first[:-1]).all() and all(np.array_equal(c.keys, first) for c in found[1:]):
        return first, [np.arange(len(first))] * len(found)
    keys: Keys = np.unique(first)
    for c in found[1:]:
        same = (c.keys.dtype.kind == "U") == (keys.dtype.kind == "U")
        keys = np.intersect1d(keys, c.keys) if same else keys[:0]
    rows = []
    for c in found:
        order = np.argsort(c.keys, kind="stable")
        rows.append(order[np.searchsorted(c.keys[order], keys)] if len(keys) else np.empty(0, np.int64))
    return keys, rows
