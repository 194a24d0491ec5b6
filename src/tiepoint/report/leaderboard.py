# SPDX-License-Identifier: BSD-3-Clause
"""Build the leaderboard of a task: methods, scores with intervals, group letters, rank ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..core.formatting import count_text
from ..core.scores import NOT_DETERMINISTIC, ScoreRow, caution_notes
from ..run.result import Run
from ..stats.multiplicity import join_letters
from ..tasks.base import Column, Task
from ..tasks.capabilities import AdjustsColumns, timed_metrics
from ..tasks.info import metric_info, metric_label, score_title, table_columns
from .cells import ScoreCell, score_cell, value_text
from .compare.comparison import Comparison
from .compare.findings import ComparisonFinding, compare_section, finding_for
from .compare.sentences import assumption, skewed_sentence, these_scenes
from .compare.text_table import rank_range
from .runs.sections import TaskSection, is_canary


@dataclass(frozen=True)
class LeaderboardRow:
    """One run of a leaderboard. A `canary` is a reference method for chance level or upper bound."""

    name: str
    method: str
    run_id: str
    letters: str
    rank: str
    cells: tuple[ScoreCell, ...]
    canary: bool = False


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard, best row first. `chance` has one text per column; `wording` explains the letters.

    `headings` are the column names, with units except percent. `titles` are descriptive column titles.
    `finding` describes the best method, and `notes` has remarks for the reader.
    """

    columns: tuple[Column, ...]
    headings: tuple[str, ...]
    rows: tuple[LeaderboardRow, ...]
    chance: tuple[str, ...]
    wording: str
    notes: tuple[str, ...]
    titles: tuple[str, ...] = ()
    finding: ComparisonFinding | None = None

    @property
    def has_groups(self) -> bool:
        """Whether any row has letters or ranks."""
        return any(r.letters or r.rank for r in self.rows)

    def once(self) -> Leaderboard:
        """Return the table without columns that duplicate another, e.g. a score at its default threshold.

        >>> row = LeaderboardRow("a", "a", "1", "", "", (ScoreCell("1"),) * 2)
        >>> twice = Leaderboard((("auc", "all"),) * 2, ("auc",) * 2, (row,), ("", ""), "", (), ("area",) * 2)
        >>> once = twice.once(); once.titles, len(once.columns), len(once.rows[0].cells), once.chance
        (('area',), 1, 1, ('',))
        """
        kept = [i for i, title in enumerate(self.titles) if title not in self.titles[:i]]
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            headings=tuple(self.headings[i] for i in kept),
            rows=tuple(replace(r, cells=tuple(r.cells[i] for i in kept)) for r in self.rows),
            chance=tuple(self.chance[i] for i in kept),
            titles=tuple(self.titles[i] for i in kept),
        )


def heading(task: Task, metric: str, group: str, *, between: str = " ") -> str:
    """Return the name of a column, with its default threshold.

    >>> from tiepoint.tasks import stored_task
    >>> tss = stored_task("tss")
    >>> heading(tss, "iou", "all"), heading(tss, "aepe", "subset=JODS"), heading(tss, "flow_accuracy", "all")
    ('iou', 'aepe (px) subset=JODS', 'flow_accuracy T5')
    """
    unit = metric_info(task.info, metric).scale[1]
    full = metric_label(task.info, metric, group)
    name = full if unit in ("%", "") else f"{full.removesuffix('_' + unit)} ({unit})"
    return name if group == "all" else f"{name}{between}{group}"


def leaderboard(
    section: TaskSection, compared: tuple[Comparison | None, list[str]] | None = None
) -> Leaderboard:
    """Build the leaderboard of a section, headline score first. `compared` is its comparison, if known."""
    head = (section.metric, section.group)
    task = section.definition
    requested = [head, *(c for c in table_columns(task.info, section.columns) if c != head)]
    own = [s for r in section.runs for s in r.score_rows if s.protocol == section.protocol]
    columns = with_better(task, expand_columns(task, requested, section.runs), own)
    timed = timed_metrics(task, section.protocol) if other_machines(section.runs) else set()
    best = [None if c[0] in timed else best_value(section, *c) for c in columns]
    comparison, reasons = compared or compare_section(section)
    notes = list(reasons)
    found = {}
    if comparison is not None and _grouped(comparison):
        found = {r.method: r for r in comparison.rows}
    rows = []
    for run in section.runs:
        name = section.names[run.id]
        row = found.get(name)
        rows.append(
            LeaderboardRow(
                name,
                run.method,
                run.id,
                "" if row is None else join_letters(row.letters),
                "" if row is None else rank_range(row),
                tuple(
                    score_cell(
                        metric_info(task.info, c[0]), section.score(run, *c), None if is_canary(run) else b
                    )
                    for c, b in zip(columns, best, strict=True)
                ),
                is_canary(run),
            )
        )
    notes += [
        f"* {text}" for text in cautions_of(section.score(r, *c) for r in section.runs for c in columns)
    ]
    if any(c[0] in timed for c in columns):
        notes.append(f"* times of different machines are not ranked: {other_machines(section.runs)}")
    headings = tuple(heading(task, *c) for c in columns)
    chance = tuple(
        "" if (v := chance_of(section, *c)) is None else value_text(metric_info(task.info, c[0]), v)
        for c in columns
    )
    titles = tuple(column_title(task, *c) for c in columns)
    finding = finding_for(section, (comparison, reasons))
    return Leaderboard(
        tuple(columns), headings, tuple(rows), chance, _wording(comparison), tuple(notes), titles, finding
    )


def other_machines(runs: Sequence[Run]) -> str:
    """Describe the machines of runs if they differ. Empty if all runs are of one machine."""
    machines = dict.fromkeys(
        f"{m['cpu']}, {count_text(m['cores'], 'core')}" for r in runs if (m := r.manifest.machine)
    )
    return "; ".join(machines) if len(machines) > 1 else ""


def column_title(task: Task, metric: str, group: str) -> str:
    """Return a descriptive column title, with the unit unless it is percent, and the direction of an error.

    >>> from tiepoint.tasks import stored_task
    >>> column_title(stored_task("tss"), "aepe", "subset=JODS")
    'end-point error, JODS (px, lower is better)'
    """
    info = metric_info(task.info, metric)
    unit = "" if info.scale[1] == "%" else info.scale[1]
    details = ", ".join(x for x in (unit, "lower is better" if info.lower else "") if x)
    return score_title(task.info, metric, group) + (f" ({details})" if details else "")


def expand_columns(task: Task, columns: Sequence[Column], runs: Sequence[Run]) -> list[Column]:
    """Adapt columns to the options of the runs. A column becomes several columns if the options differ."""
    if not isinstance(task, AdjustsColumns):
        return list(dict.fromkeys(columns)) if runs else []
    return list(dict.fromkeys(task.expand_column(c, run.manifest.options) for c in columns for run in runs))


def with_better(task: Task, columns: Sequence[Column], scores: Iterable[ScoreRow]) -> list[Column]:
    """Insert the recommended alternative before each column with a caution about its score.

    A caution about the entire run does not count.
    """
    marked = {
        (s.metric, s.group)
        for s in scores
        if any(NOT_DETERMINISTIC not in text for text in caution_notes(s.note))
    }
    found: list[Column] = []
    for column in columns:
        better = task.info.replacements.get(column) if column in marked else None
        found += [column] if better is None or better in marked else [better, column]
    return list(dict.fromkeys(found))


def cautions_of(scores: Iterable[ScoreRow | None]) -> list[str]:
    """Return the cautions of the scores of a table, each once."""
    return list(dict.fromkeys(text for s in scores if s is not None for text in caution_notes(s.note)))


def _grouped(comparison: Comparison) -> bool:
    """Return whether at least two methods have scene values, as group letters require."""
    return sum(r.tested for r in comparison.rows) > 1


def _wording(comparison: Comparison | None) -> str:
    if comparison is None or not _grouped(comparison):
        return ""
    if comparison.wide:
        ranks = f"Rank ranges hold jointly at {100 * comparison.level:g} %. {assumption(comparison)}"
        return "" if comparison.pooled else ranks
    text = (
        f"Methods that share a letter are not separated by {these_scenes(comparison)} "
        f"({100 * comparison.level:g} %, family-wise); rank ranges hold jointly."
    )
    if comparison.smallest_p > 0:
        text += f" The smallest possible p is {comparison.smallest_p:.2g}."
    text += f" {assumption(comparison)}"
    return f"{text} {skewed_sentence(comparison)}" if comparison.skewed else text


def best_value(section: TaskSection, metric: str, group: str) -> float | None:
    """Return the best value of a column, without reference methods. None for counts and empty columns."""
    info = metric_info(section.definition.info, metric)
    if info.better is None or not info.scale[1]:
        return None
    scores = (section.score(r, metric, group) for r in section.methods)
    values = [s.value for s in scores if s is not None and s.value is not None]
    if not values:
        return None
    return min(values) if info.lower else max(values)


def chance_of(section: TaskSection, metric: str, group: str) -> float | None:
    """Return the chance level of a score, from the first run that has it."""
    levels = [section.score(r, metric, group) for r in section.runs]
    return next((s.chance for s in levels if s is not None and s.chance is not None), None)
