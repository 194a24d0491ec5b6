# SPDX-License-Identifier: BSD-3-Clause
"""Select rows, columns and notes of the score tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.scores import ScoreRow, caution_notes
from ...run.result import Run
from ...run.subset_scores import ESTIMATED
from ...tasks import stored_task
from ...tasks.base import Column, MetricInfo, Task
from ...tasks.info import metric_info, summary_metrics, table_columns
from ..cells import NO_VALUE, ScoreCell, terminal_cell
from ..leaderboard import cautions_of, chance_of, expand_columns, heading, with_better
from ..paper_tables import column_cells
from ..runs.names import distinct_names
from ..runs.sections import TaskSection, is_canary, is_single, sections
from .score_table import CAUTION, TIE, ScoreColumn, ScoreTable

FLOW_MEASURES = (("T5", "flow_accuracy", ""), ("T10", "flow_accuracy", "threshold=10"))
"""Column name, metric, and the group that is appended to the subset's group."""

MAX_DOCUMENT_ROWS = 60
"""Maximum number of rows of a document's table; `tiepoint show` has the scores of larger sets."""

ID_CHARS = 8
"""Number of characters of a run id in a table. Commands accept the start of an id."""

ALL = (("all: mean of the subsets", ""), ("all: mean over the pairs", "weighting=pairs"))

TSS_LEGEND = "percent; T5, T10: flow within 5, 10 % of the target's larger side; Average: with mirrored pairs"

Scores = Mapping[tuple[str, str], ScoreRow]


def score_tables(runs: Sequence[Run], *, by_document: bool = False, more: bool = False) -> list[ScoreTable]:
    """Return one table per task and dataset: one row per method, one column per score, headline score first.

    With several protocols, the headline score of each protocol comes first. With `by_document`, the table of
    a task has the layout of its published document: a row per benchmark or subset. `more` prints all notes.
    """
    tables: list[ScoreTable] = []
    for task in dict.fromkeys(r.task for r in runs):
        own = [r for r in runs if r.task == task]
        protocols = list(dict.fromkeys(s.protocol for r in own for s in r.score_rows))
        by_data: dict[str, list[TaskSection]] = {}
        for protocol in protocols:
            for section in sections(own, protocol):
                if section.protocol == protocol:
                    by_data.setdefault(section.dataset, []).append(section)
        for found in by_data.values():
            table = _document_table(found, more) if by_document else None
            tables.append(_task_table(found, more) if table is None else table)
    return tables


def _task_table(found: Sequence[TaskSection], more: bool) -> ScoreTable:
    """Return the table of a task: one section per protocol."""
    first, several = found[0], len(found) > 1
    runs = list({r.id: r for s in found for r in s.runs}.values())
    names = dict(zip((r.id for r in runs), distinct_names(runs), strict=True))
    listed = [(s, column) for s in found for column in shown_columns(s)]
    heads = [next(((s, c) for t, c in listed if t is s), None) for s in found]
    ordered = [*(h for h in heads if h is not None), *(x for x in listed if x not in heads)]
    columns = [
        score_column(
            s, c, runs, heading(s.definition, *c, between="\n") + (f"\n{s.protocol}" if several else "")
        )
        for s, c in ordered
    ]
    shown = [s.score(r, *c) for s, c in ordered for r in s.runs]
    title = first.title + ("" if several else f", protocol {first.protocol}")
    return ScoreTable(
        title,
        [("method", [names[r.id] for r in runs]), ("run", [r.id[:ID_CHARS] for r in runs])],
        columns,
        legend=_legend([c for _, c in ordered], first.definition, shown),
        notes=[*_remarks(shown), *_leads(runs), first.definition.info.table_note],
        dim=frozenset(i for i, r in enumerate(runs) if is_canary(r)),
        more=more,
    )


def family_table(found: Sequence[TaskSection], *, indent: str = "") -> ScoreTable:
    """Return the headline score of each task of a family, with a row per method."""
    runs: dict[str, Run] = {}
    for section in found:
        for run in section.runs:
            runs.setdefault(run.method, run)
    columns = []
    for section in found:
        column = (section.metric, section.group)
        own = {r.method: r for r in section.runs}
        rows = [own.get(name, run) for name, run in runs.items()]
        head = f"{section.task.rpartition('/')[2]} {heading(section.definition, *column)}"
        columns.append(score_column(section, column, rows, head))
    canaries = frozenset(i for i, r in enumerate(runs.values()) if is_canary(r))
    return ScoreTable("", [("method", list(runs))], columns, dim=canaries, indent=indent, notes_shown=False)


def score_column(section: TaskSection, column: Column, runs: Sequence[Run], head: str) -> ScoreColumn:
    """Return a column with the scores of these runs. Runs that the section does not have get empty cells."""
    known = {r.id for r in section.runs}
    info = metric_info(section.definition.info, column[0])
    cells = [terminal_cell(info, section.score(r, *column)) if r.id in known else ScoreCell() for r in runs]

    def marked() -> tuple[list[ScoreCell], list[str]]:
        found, notes = column_cells(section, column, terminal_cell, TIE)
        return [found.get(r.id, cell) for r, cell in zip(runs, cells, strict=True)], notes

    chance = chance_of(section, *column)
    return ScoreColumn(
        head,
        cells,
        marked if len(section.methods) > 1 else None,
        "" if chance is None else f"{info.scale[0] * chance:.2f}",
    )


def shown_columns(section: TaskSection) -> list[Column]:
    """Return the (metric, group) columns of a section, the headline or the requested main metric first."""
    task = section.definition
    scores = [s for run in section.runs for s in run.score_rows if s.protocol == section.protocol]
    seen = [c for c in dict.fromkeys((s.metric, s.group) for s in scores) if not is_single(c[1])]
    listed = table_columns(task.info, seen)
    lead = next((r.lead[0] for r in section.runs if r.lead is not None), None)
    head = (section.metric, section.group) if lead is None else (lead, "all")
    listed = [*([head] if head in listed else []), *(c for c in listed if c != head)]
    return with_better(task, expand_columns(task, listed, section.runs), scores)


def _legend(columns: Sequence[Column], task: Task, scores: Sequence[ScoreRow | None]) -> list[str]:
    """Return the unit of the scores and a remark about intervals."""
    percent = all(metric_info(task.info, metric).scale[1] == "%" for metric, _ in columns)
    return ["percent" if percent else "percent unless a unit is given", intervals_text(scores)]


def _remarks(scores: Sequence[ScoreRow | None]) -> list[str]:
    """Return the cautions, and the reasons why scores are undefined."""
    return [
        *(f"{CAUTION} {text}" for text in cautions_of(scores)),
        *(f"{NO_VALUE} {text}" for text in _reasons(scores)),
    ]


def _leads(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(r.lead[1] for r in runs if r.lead is not None))


def _document_table(found: Sequence[TaskSection], more: bool) -> ScoreTable | None:
    """Return the table of a published document: rows by subset or benchmark, then their means.

    None if the task has no document, the scores have no such groups, or there would be more than
    `MAX_DOCUMENT_ROWS` rows.
    """
    runs = list({r.id: r for s in found for r in s.runs}.values())
    task = found[0].definition
    is_tss = task.name == "tss"
    key = "subset" if is_tss else "benchmark"
    groups = dict.fromkeys(g for s in found for _, g in s.columns)
    parts = [g for g in groups if g.startswith(f"{key}=") and "," not in g]
    rows = [(s, r) for r in runs for s in found if r in s.runs]
    if not parts or len(parts) * len(rows) > MAX_DOCUMENT_ROWS:
        return None
    means = [] if len(parts) == 1 else list(ALL) if is_tss else [("all", "")]
    labels = [(g.removeprefix(f"{key}="), g) for g in (sorted(parts) if is_tss else parts)] + means
    lines = [(s, r, label, part) for s, r in rows for label, part in labels]
    names = dict(zip((r.id for r in runs), distinct_names(runs), strict=True))
    keys = [("method", [names[r.id] for _, r, _, _ in lines])] if len(runs) > 1 else []
    keys += [("protocol", [s.protocol for s, _, _, _ in lines])] if len(found) > 1 else []
    keys = [(key, [label for _, _, label, _ in lines]), *keys]
    measures = _subset_measures(found) if is_tss else _benchmark_measures(found)
    counts = [ScoreCell(f"{_pairs(_scores(r, s.protocol), part):,}") for s, r, _, part in lines]
    columns = [ScoreColumn("pairs", counts)] if is_tss else []
    columns += [
        _document_column(head, metric, group, lines, len(runs) > 1) for head, metric, group in measures
    ]
    scores = [
        s.score(r, m, _group(part, "" if g == "all" else g))
        for s, r, _, part in lines
        for _, m, g in measures
    ]
    return ScoreTable(
        found[0].title
        + (f", protocol {found[0].protocol}" if len(found) == 1 else "")
        + (f", {names[runs[0].id]}, run {runs[0].id[:ID_CHARS]}" if len(runs) == 1 else ""),
        keys,
        [c for c in columns if any(cell.text for cell in c.cells)],
        legend=[TSS_LEGEND] if is_tss else _legend([(m, g) for _, m, g in measures], task, scores),
        notes=[*_remarks(scores), *_leads(runs)],
        more=more,
    )


def _subset_measures(found: Sequence[TaskSection]) -> list[tuple[str, str, str]]:
    """Return heading, metric and group of the columns of TSS: all pairs, then those that are not mirrored."""
    mask = _mask_measure([_scores(r, s.protocol) for s in found for r in s.runs])
    measures = (*FLOW_MEASURES, (*mask, ""))
    kinds = (("Average", ""), ("w/o flip", "flip=0"))
    return [
        (f"{kind}\n{name}", m, _group(flip, extra)) for kind, flip in kinds for name, m, extra in measures
    ]


def _benchmark_measures(found: Sequence[TaskSection]) -> list[tuple[str, str, str]]:
    columns = dict.fromkeys(c for s in found for c in shown_columns(s))
    return [(heading(found[0].definition, *c, between="\n"), *c) for c in columns]


def _document_column(
    head: str, metric: str, group: str, lines: Sequence[tuple[TaskSection, Run, str, str]], several: bool
) -> ScoreColumn:
    """Return a column of a document's table. The cells of TSS have no intervals, as in its kit."""
    info = metric_info(lines[0][0].definition.info, metric)
    plain = lines[0][0].task == "tss"

    def form(about: MetricInfo, score: ScoreRow | None) -> ScoreCell:
        cell = terminal_cell(about, score)
        return replace(cell, interval_text="") if plain else cell

    def full(part: str) -> str:
        return _group(part, "" if group == "all" else group)

    cells = [form(info, s.score(r, metric, full(part))) for s, r, _, part in lines]

    def marked() -> tuple[list[ScoreCell], list[str]]:
        known = {(s.protocol, part): s for s, _, _, part in lines}
        by = {key: column_cells(s, (metric, full(key[1])), form, TIE) for key, s in known.items()}
        own = [by[s.protocol, part][0].get(r.id, c) for c, (s, r, _, part) in zip(cells, lines, strict=True)]
        return own, list(dict.fromkeys(n for _, notes in by.values() for n in notes))

    return ScoreColumn(head, cells, marked if several else None)


def _reasons(scores: Sequence[ScoreRow | None]) -> list[str]:
    """Return the reasons why scores of a table are undefined, each once."""
    return list(dict.fromkeys(f"{s.metric}: {s.note}" for s in scores if s and s.value is None and s.note))


def pair_tables(runs: Sequence[Run]) -> list[Any]:
    """Return one table per run and protocol: T5 and the mask score of both directions of each pair."""
    from rich.text import Text

    from .rich_table import FittingTable

    tables = []
    for run, name in zip(runs, distinct_names(runs), strict=True):
        flips = {k: r.meta.get("flip") for k, by in run.unit_records.items() for r in by.values()}
        for protocol in dict.fromkeys(s.protocol for s in run.score_rows):
            scores = _scores(run, protocol)
            groups = [g for m, g in scores if m == "iou" and g.startswith("direction=")]
            title = Text(f"tss, protocol {protocol}, {name}: the pairs, percent")
            table = FittingTable(title=title, keys=2)
            for column in ("pair", "direction", "flip"):
                table.add_column(column)
            name_of_mask, of_mask = _mask_measure([scores])
            for column in ("T5", name_of_mask):
                table.add_column(column, justify="right")
            for group in groups:
                direction, _, pair = group.removeprefix("direction=").partition(",pair=")
                cells = [_percent(scores.get((metric, group))) for metric in ("flow_accuracy", of_mask)]
                table.add_row(Text(pair), direction, str(flips.get(pair, "")), *cells)
            tables.append(table)
    return tables


def _mask_measure(runs: Sequence[Scores]) -> tuple[str, str]:
    """Return column name and metric of the mask score: SegPrec if all runs have it for pairs, else IoU."""
    if all(any(m == "pixel_accuracy" and g.startswith("direction=") for m, g in scores) for scores in runs):
        return "SegPrec", "pixel_accuracy"
    return "IoU", "iou"


def _pairs(scores: Scores, part: str) -> int:
    """Count the pairs of a subset, or all pairs, that have a flow or mask score."""
    subset = part.removeprefix("subset=") + "/" if _is_subset(part) else ""
    rows = (g.partition(",pair=")[2] for (_, g), s in scores.items() if s.value is not None)
    scored = len({pair for pair in rows if pair and pair.startswith(subset)})
    # These numbers include pairs with undefined scores, which the kit counts.
    counted = [s.n for m in ("flow_accuracy", "iou") if (s := scores.get((m, _group(part))))]
    return max([scored, *counted])


def _scores(run: Run, protocol: str) -> Scores:
    return {(s.metric, s.group): s for s in run.score_rows if s.protocol == protocol}


def _is_subset(group: str) -> bool:
    return group.startswith("subset=") and "," not in group


def _group(*parts: str) -> str:
    return ",".join(sorted(p for part in parts for p in part.split(",") if p)) or "all"


def _percent(score: ScoreRow | None) -> str:
    if score is None:
        return ""
    star = " *" if caution_notes(score.note) else ""
    return "–" if score.value is None else f"{100 * score.value:.2f}{star}"


def summary_text(run: Run, protocol: str) -> str:
    """Return the main scores of a run under a protocol on one line."""
    overall = [s for s in run.score_rows if s.protocol == protocol and s.group == "all"]
    info = stored_task(run.task).info
    main = summary_metrics(info, [s.metric for s in overall])
    found = [s for s in overall if s.metric in main]
    return ", ".join(
        f"{s.metric} {terminal_cell(metric_info(info, s.metric), s).with_interval}" for s in found
    )


def intervals_text(scores: Sequence[ScoreRow | None]) -> str:
    """Describe the intervals of a score table. If there are none, give the reason that all scores share.

    >>> intervals_text([ScoreRow("", "", "", 0.5, 1, note="alpha 0.1; 4 scenes: no interval below 6")])
    'no confidence interval: 4 scenes: no interval below 6'
    """
    if any(s is not None and (s.note or "").startswith(ESTIMATED) for s in scores):
        return "estimates; 95 % interval about the complete benchmark"
    if any(s is not None and s.low is not None for s in scores):
        return "95 % confidence interval"
    notes = {s.note for s in scores if s is not None and s.note}
    parts = [tuple(p for p in note.split("; ") if "interval" in p or "spread" in p) for note in notes]
    reasons = {"; ".join(p) for p in parts if p}
    return f"no confidence interval: {reasons.pop()}" if len(reasons) == 1 else "no confidence interval"
