# SPDX-License-Identifier: BSD-3-Clause
"""Build tables for papers: methods by tasks, and methods by groups for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._version import __version__
from ..core.errors import InputError, StoreError
from ..core.formatting import count_text
from ..core.scores import ScoreRow, caution_notes
from ..run.result import Run
from ..stats.paired import BOOTSTRAP_T, SIGN_FLIP
from ..tasks import stored_task
from ..tasks.base import Column, MetricInfo
from ..tasks.info import FAMILIES, metric_info, table_columns
from .cells import NO_VALUE, ScoreCell, score_cell, value_text
from .compare.rows import PairRows
from .compare.runs import compare_runs
from .leaderboard import cautions_of, chance_of, expand_columns, with_better
from .runs.names import DisplayNames, distinct_names
from .runs.sections import TaskSection, is_canary, sections

BY = (
    ("noise",),
    ("negatives", "noise"),
    ("subset",),
    ("benchmark",),
    ("kind",),
    ("threshold_deg",),
)
"""Group keys for the columns of a task's table. The first key with two or more groups is used."""

ALONE = ("threshold_deg",)
"""Group keys that already include the score `all`, so that no column `all` is added."""

MAX_PAPER_COLUMNS = 8
MARKS = "best in bold, second underlined"
TIED = "\N{DAGGER}"
ASSUMES = {
    SIGN_FLIP: "sign-flip test, null hypothesis: scene differences symmetric about 0",
    BOOTSTRAP_T: "bootstrap-t test, null hypothesis: mean difference 0",
}
"""Test and null hypothesis, for captions."""


SOFTWARE = f"""@misc{{tiepoint,
  author = {{{{The tiepoint authors}}}},
  title  = {{{{tiepoint}}}},
  note   = {{Software, version {__version__}}}
}}"""
"""BibTeX entry of tiepoint."""


@dataclass(frozen=True)
class ColumnHeading:
    """Heading of a column: text shared by several columns, name, unit, and whether lower is better."""

    over: str
    name: str
    unit: str = ""
    lower: bool = False

    @property
    def whole(self) -> str:
        """The heading on one line."""
        return " ".join(x for x in (self.over, self.name, self.unit) if x)


@dataclass(frozen=True)
class PaperTable:
    """A table with a caption that explains the marks. `name` is its label.

    `chance` is the last row, with one text per column. A text is empty if the chance level is unknown.
    `about` ends the caption: protocol, number of items and scenes, version of tiepoint.
    """

    name: str
    caption: str
    heads: tuple[ColumnHeading, ...]
    rows: tuple[tuple[str, tuple[ScoreCell, ...]], ...]
    chance: tuple[str, ...]
    notes: tuple[str, ...] = ()
    about: str = ""
    intervals: str = "95 % confidence intervals over scenes"

    def full_caption(self, intervals: bool = False) -> str:
        """Return the complete caption. It mentions intervals if the table shows them."""
        some = intervals and any(c.interval_text for _, cells in self.rows for c in cells)
        below = [f"{self.intervals} are given with each value."] if some else []
        return " ".join([self.caption, *below, self.about])


def bibtex(runs: Sequence[Run]) -> str:
    """Return the BibTeX entries of tiepoint and of the tasks of these runs."""
    tasks = [stored_task(name) for name in sorted({r.task for r in runs})]
    return "\n\n".join(dict.fromkeys([SOFTWARE, *(entry for task in tasks for entry in task.info.cite)]))


def paper_tables(
    runs: Sequence[Run],
    display: DisplayNames,
    table: str | None = None,
    *,
    one: bool = False,
    test: str = SIGN_FLIP,
) -> list[PaperTable]:
    """Return the tables of a paper: ``combined``, ``tasks``, or both if `table` is None.

    If `table` is None, combined tables of a single task are omitted, because they repeat the table of the
    task. `one` combines the tasks of all families in a single table.

    Raises:
        InputError: There are no runs, or all runs are of reference methods.
    """
    if not runs:
        raise InputError("there are no finished runs to report; run a method on a task first")
    tables: list[PaperTable] = []
    found = sections(runs, test=test)
    if table in (None, "combined"):
        tables += combine_sections(found, display, one=one, least=2 if table is None else 1)
    if table != "combined":
        tables += [task_table(s, display) for s in found if s.methods and not s.no_ranking]
    if not tables and not all(map(is_canary, runs)):
        raise InputError("these runs have no score, only counts; run the methods on data with ground truth")
    if not tables:
        raise InputError(
            "all runs are canaries (constant, random, oracle), which tables skip; run another method"
        )
    return tables


def combined_tables(runs: Sequence[Run], display: DisplayNames) -> list[PaperTable]:
    """Return `combine_sections` of the sections of these runs."""
    return combine_sections(sections(runs), display)


def combine_sections(
    found: Sequence[TaskSection], display: DisplayNames, *, one: bool = False, least: int = 1
) -> list[PaperTable]:
    """Return tables of headline scores by method and task: one per task family, or a single table if `one`.

    Methods of one family have no scores on tasks of another family, so a single table is mostly empty.
    Reference methods and families with fewer than `least` tasks are excluded.
    """
    order = {family: i for i, family in enumerate(FAMILIES)}
    families = sorted({s.definition.family for s in found}, key=lambda f: (order.get(f, len(order)), f))
    parts = [[s for s in found if s.definition.family == f] for f in families]
    parts = [list(found)] if one else [p for p in parts if len(p) >= least]
    return [t for p in parts if (t := _combined(p, display, alone=len(parts) == 1)) is not None]


def task_tables(runs: Sequence[Run], display: DisplayNames) -> list[PaperTable]:
    """Return one table per section: the headline score by group (noise, subset …), or the task's columns."""
    return [task_table(s, display) for s in sections(runs) if s.methods]


def _combined(found: Sequence[TaskSection], display: DisplayNames, *, alone: bool) -> PaperTable | None:
    found = [s for s in found if s.methods and not s.no_ranking]
    if not found:
        return None
    heads = [_head(s)[0] for s in found]
    columns = [column_cells(s, head) for s, head in zip(found, heads, strict=True)]
    cautions = cautions_of(s.score(r, *head) for s, head in zip(found, heads, strict=True) for r in s.methods)
    names = _names(found)
    order = dict.fromkeys(names[r.id] for s in found for r in s.methods)
    shown = {names[r.id]: display.method(names[r.id], r.method) for s in found for r in s.methods}
    by = [{names[r.id]: cells[r.id] for r in s.methods} for s, (cells, _) in zip(found, columns, strict=True)]
    rows = tuple((shown[name], tuple(cells.get(name, ScoreCell()) for cells in by)) for name in order)
    families = {FAMILIES.get(s.definition.family, s.definition.family) for s in found}
    label = "combined" if alone else f"combined-{found[0].definition.family}"
    what = f"{families.pop()}: headline score of each task" if len(families) == 1 else "Headline scores"
    return PaperTable(
        label,
        _caption(what, rows, found[0].test),
        tuple(_task_heads(found, heads, display)),
        rows,
        tuple(_chance(s, head) for s, head in zip(found, heads, strict=True)),
        (*dict.fromkeys(n for _, notes in columns for n in notes), *(f"* {text}" for text in cautions)),
        _about(found),
    )


def _names(found: Sequence[TaskSection]) -> dict[str, str]:
    """Return row names for runs of several tasks and datasets, unique for each task and dataset.

    A method with runs on several datasets has one row. The column headings name the datasets.
    """
    by_data: dict[tuple[str, str], dict[str, Run]] = {}
    for s in found:
        by_data.setdefault((s.task, s.dataset), {}).update({r.id: r for r in s.methods})
    return {
        i: name
        for own in by_data.values()
        for i, name in zip(own, distinct_names(list(own.values())), strict=True)
    }


def _head(section: TaskSection) -> list[Column]:
    """Return the columns of the headline score: one, or several if the options of the runs differ."""
    return expand_columns(section.definition, [(section.metric, section.group)], section.runs)


def _task_heads(
    found: Sequence[TaskSection], columns: Sequence[Column], display: DisplayNames
) -> Iterator[ColumnHeading]:
    """Yield column headings of tasks. Adjacent columns share a common title prefix.

    Columns of one task on several datasets share the task name and have ``on DATASET`` below.
    """
    titles = [_title(s, display) for s in found]
    if len({s.protocol for s in found}) > 1:
        titles = [t if s.more else f"{t} ({s.protocol})" for s, t in zip(found, titles, strict=True)]
    starts = [_start(s, t, display) for s, t in zip(found, titles, strict=True)]
    for i, (section, column, title) in enumerate(zip(found, columns, titles, strict=True)):
        near = [starts[k] for k in (i - 1, i + 1) if 0 <= k < len(starts)]
        shared = starts[i] if starts[i] and starts[i] in near else ""
        unit = _score(section, column, display)
        own = title.removeprefix(shared).strip()
        yield ColumnHeading(shared, _bare(own) if shared else own, unit, section.info.lower)


def _start(section: TaskSection, title: str, display: DisplayNames) -> str:
    """Return the start of a section's title, which the headings of adjacent columns may share."""
    if section.dataset and section.title not in display.tasks:
        return display.tasks.get(section.task, section.task_title)
    return title.rpartition(" ")[0]


def _bare(words: str) -> str:
    """Remove brackets that enclose the entire text.

    >>> _bare("(on scannet)"), _bare("matching (exact)"), _bare("(on a) (exact)")
    ('on scannet', 'matching (exact)', '(on a) (exact)')
    """
    inside = words[1:-1]
    return inside if words == f"({inside})" and not set("()") & set(inside) else words


def _title(section: TaskSection, display: DisplayNames) -> str:
    """Return the display name of a section, or the title of its task with dataset and protocol."""
    rest = section.title.removeprefix(section.task)
    if section.title in display.tasks:
        return display.tasks[section.title]
    return display.tasks.get(section.task, section.task_title) + rest


def _metric(section: TaskSection, column: Column, display: DisplayNames) -> str:
    """Return display name and unit of a metric."""
    metric, group = column
    info = metric_info(section.definition.info, metric)
    short = info.short if group == "all" and info.short else ""
    name = display.metrics.get(metric) or " ".join(x for x in (display.metric(metric), short) if x)
    unit = info.scale[1]
    return f"{name} ({unit})" if unit else name


def _score(section: TaskSection, column: Column, display: DisplayNames) -> str:
    """Return display name and unit of a metric, and its group unless that is `all`."""
    name = _metric(section, column, display)
    return name if column[1] == "all" else f"{name} {display.group(column[1])}"


def task_table(section: TaskSection, display: DisplayNames) -> PaperTable:
    """Return the table of a section: the headline score by group, or the columns of its task."""
    columns = task_columns(section)
    made = [column_cells(section, c) for c in columns]
    names = {
        r.id: display.method(n, r.method)
        for r, n in zip(section.runs, distinct_names(section.runs), strict=True)
    }
    rows = tuple((names[r.id], tuple(cells[r.id] for cells, _ in made)) for r in section.methods)
    same = len({m for m, _ in columns}) == 1
    title = _title(section, display)
    words = "" if not same else section.info.sentence(_head(section)[0][1]).partition(";")[0]
    cautions = cautions_of(section.score(r, *c) for r in section.methods for c in columns)
    return PaperTable(
        section.title,
        _caption(f"{title}: {words}" if words else title, rows, section.test),
        tuple(_group_heads(section, columns, display)),
        rows,
        tuple(_chance(section, c) for c in columns),
        (*dict.fromkeys(n for _, notes in made for n in notes), *(f"* {text}" for text in cautions)),
        _about([section]),
        section.intervals,
    )


def _group_heads(
    section: TaskSection, columns: Sequence[Column], display: DisplayNames
) -> Iterator[ColumnHeading]:
    """Yield the column headings of a task's table: groups, with their metric or second group key above."""
    same = len({m for m, _ in columns}) == 1 and len(columns) > 1
    said = any(key in group for _, group in columns for key in ("threshold", "alpha"))
    over = "" if said else "all"
    nested = same and any("," in group for _, group in columns) and not said
    for metric, group in columns:
        lower = metric_info(section.definition.info, metric).lower
        own = _metric(section, (metric, over), display)
        first, _, second = group.partition(",")
        if nested:
            yield ColumnHeading(display.group(second) if second else "", display.group(first), own, lower)
        elif same:
            yield ColumnHeading(own, display.group(group), lower=lower)
        else:
            yield ColumnHeading("", _score(section, (metric, group), display), lower=lower)


def task_columns(section: TaskSection) -> list[Column]:
    """Return the columns of a task's table: the headline metric by the first keys of `BY`, then `all`."""
    head = (section.metric, section.group)
    over_all = _head(section)
    own = [g for m, g in section.columns if m == section.metric]
    for keys in BY:
        named = [g for g in own if tuple(p.partition("=")[0] for p in g.split(",")) == keys]
        found = [g for g in named if g != section.group or keys[0] in ALONE]
        if 2 <= len(found) <= MAX_PAPER_COLUMNS:
            return [(section.metric, g) for g in found] + ([] if keys[0] in ALONE else over_all)
    task, runs = section.definition, section.runs
    asked = [head, *(c for c in table_columns(task.info, section.columns) if c != head)]
    scores = [s for r in runs for s in r.score_rows if s.protocol == section.protocol]
    return with_better(task, expand_columns(task, asked, runs), scores)[:MAX_PAPER_COLUMNS]


def column_cells(
    section: TaskSection,
    column: Column,
    cell_of: Callable[[MetricInfo, ScoreRow | None], ScoreCell] | None = None,
    mark: str = TIED,
) -> tuple[dict[str, ScoreCell], list[str]]:
    """Return the cells of a column by run id, and the reason if no differences were tested.

    Values that are printed identically share their rank. `cell_of` formats a score, and `mark` is the mark of
    tied scores that the reason mentions.
    """
    info = metric_info(section.definition.info, column[0])
    form = cell_of or _cell
    scores = {r.id: section.score(r, *column) for r in section.methods}
    values = {i: s.value for i, s in scores.items() if s is not None and s.value is not None}
    cells = {i: form(info, s) for i, s in scores.items()}
    texts = {i: cells[i].text for i in values}
    notes: list[str] = []
    if info.better is not None and info.scale[1] and len(values) > 1:
        order = sorted(values, key=lambda i: values[i] if info.lower else -values[i])
        places = list(dict.fromkeys(texts[i] for i in order))
        if (column, mark) not in section.tied:
            section.tied[column, mark] = _not_separated(section, column, order[0], mark)
        tied, notes = section.tied[column, mark]
        for i in order:
            best, second = texts[i] == places[0], texts[i] in places[1:2]
            cells[i] = replace(cells[i], best=best, second=second, tied=i in tied and not best)
    return cells, notes


def _cell(info: MetricInfo, score: ScoreRow | None) -> ScoreCell:
    if score is None:
        return ScoreCell(NO_VALUE)
    return replace(score_cell(info, score), caution=bool(caution_notes(score.note)))


def _not_separated(section: TaskSection, column: Column, best: str, mark: str) -> tuple[set[str], list[str]]:
    """Return the ids of the runs that do not differ significantly from the best, and notes."""
    metric, group = column
    runs = [
        r for r in section.methods if (s := section.score(r, *column)) is not None and s.value is not None
    ]
    words: dict[str, Any] = {
        "metric": metric,
        "group": group,
        "protocol": section.protocol,
        "ranks_only": True,
        "test": section.test,
    }
    try:
        found = compare_runs(runs, **words)
    except InputError as e:
        return set(), [f"Nothing is tested, because {e.one_line}."]
    if found.caution:
        return set(), [f"Nothing is tested, because {found.caution}."]
    rows = {r.run: r for r in found.rows if r.tested}
    if best not in rows or len(rows) < 2:
        return set(), []
    if found.smallest_p > 1 - found.level:
        scenes = count_text(found.n_scenes, "scene")
        return set(), [f"Columns of {scenes} have no {mark}: so few cannot separate any two methods."]
    if not found.wide:
        letters = set(rows[best].letters)
        return {i for i, r in rows.items() if i is not None and letters & set(r.letters)} - {best}, []
    assert isinstance(found.pairs, PairRows)
    of = {r.method: r.run for r in found.rows}
    apart = {of[name] for name, flag in found.pairs.separated(found.baseline).items() if flag}
    apart |= {of[found.baseline]} if apart else set()
    return {i for i in rows if i is not None and i not in apart} - {best}, []


def _chance(section: TaskSection, column: Column) -> str:
    level = chance_of(section, *column)
    return "" if level is None else value_text(metric_info(section.definition.info, column[0]), level)


def _caption(what: str, rows: Sequence[tuple[str, Sequence[ScoreCell]]], test: str) -> str:
    cells = [c for _, own in rows for c in own]
    text = f"{what}."
    if any(c.best for c in cells):
        text += f" {MARKS[0].upper()}{MARKS[1:]}"
        text += (
            f"; {TIED} not separated from the best (95 %, family-wise in a column; {ASSUMES[test]})."
            if any(c.tied for c in cells)
            else "."
        )
    return text


def _about(found: Sequence[TaskSection]) -> str:
    """Return the end of a caption: protocols with their versions, n of each section, version of tiepoint."""
    counts = [_count(s) for s in found]
    n = f"n = {counts[0]}" if len(set(counts)) == 1 else f"n by column: {', '.join(counts)}"
    versions = {r.manifest.versions.get("tiepoint", __version__) for s in found for r in s.methods}
    return f"Protocol {_protocols(found)}; {n}; tiepoint {', '.join(sorted(versions))}."


def _protocols(found: Sequence[TaskSection]) -> str:
    """Return the protocols of sections, with their versions unless all are 1: ``exact (version 1, 2)``."""
    versions: dict[str, set[int]] = {}
    for s in found:
        versions.setdefault(s.protocol, set()).update(r.manifest.rules.get(s.protocol, 1) for r in s.methods)
    return ", ".join(
        name if own == {1} else f"{name} (version {', '.join(map(str, sorted(own)))})"
        for name, own in versions.items()
    )


def _count(section: TaskSection) -> str:
    """Return the numbers of items and scenes behind the headline score: ``8 items in 4 scenes``."""
    scores = [s for r in section.methods if (s := section.score(r)) is not None]
    items, scenes = [s.n for s in scores], []
    for run in section.methods:
        try:
            table = section.tables(run).get((section.metric, section.group))
        except StoreError:
            continue  # A corrupt file; the command that writes the table warns about it.
        scenes += [] if table is None else [len(set(table.scenes))]
    if scenes and items == scenes:
        return _range(scenes, "scene")
    return _range(items, "item") + (f" in {_range(scenes, 'scene')}" if scenes else "")


def _range(counts: Sequence[int], noun: str) -> str:
    """Return a count with its noun, or the range of counts that differ.

    >>> _range([4, 4], "scene"), _range([1], "scene"), _range([3, 4], "scene"), _range([], "item")
    ('4 scenes', '1 scene', '3 to 4 scenes', 'unknown')
    """
    if not counts:
        return "unknown"
    low, high = min(counts), max(counts)
    return count_text(high, noun) if low == high else f"{low:,} to {count_text(high, noun)}"
