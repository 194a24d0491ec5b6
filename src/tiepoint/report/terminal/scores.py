# SPDX-License-Identifier: BSD-3-Clause
"""Create score tables of several runs for the terminal: a row per method, a column per score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.scores import ScoreRow, caution_notes
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import MetricInfo, Task
from ...tasks.info import metric_info, summary_metrics, table_columns
from ..cells import NO_VALUE, terminal_cell
from ..leaderboard import cautions_of, expand_columns, heading, with_better
from ..runs.names import distinct_names
from ..runs.sections import is_single

FLOW_MEASURES = (("T5", "flow_accuracy", ""), ("T10", "flow_accuracy", "threshold=10"))
"""Column name, metric, and the group that is appended to the subset's group."""

MAX_BENCHMARK_ROWS = 20
"""Maximum number of rows of a table by benchmark; `tiepoint show` has the scores of larger sets."""

ALL = (("all: mean of the subsets", ""), ("all: mean over the pairs", "weighting=pairs"))

Scores = Mapping[tuple[str, str], ScoreRow]


def subset_table(runs: Sequence[Run], names: Mapping[str, str], protocol: str) -> Any:
    """Return the table of the task `tss`, with one row per method and subset, then the means over subsets.

    Columns `Average` use all pairs, columns `w/o flip` only the pairs that are not mirrored.

    `names` has the name of each run by id.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    title = (
        f"tss, protocol {protocol}, percent: T5 and T10 are flow accuracy within 5 and 10 % of the target's "
        "larger side; Average takes all pairs, w/o flip those that are not mirrored"
    )
    measures = (*FLOW_MEASURES, (*_mask_measure([_scores(run, protocol) for run in runs]), ""))
    table = FittingTable(title=title, keys=2 if len(runs) > 1 else 1)
    if len(runs) > 1:
        table.add_column("method")
    table.add_column("subset")
    table.add_column("pairs", justify="right")
    for kind in ("Average", "w/o flip"):
        for name, _, _ in measures:
            table.add_column(f"{kind}\n{name}", justify="right")
    for run in runs:
        scores = _scores(run, protocol)
        subsets = sorted(g.removeprefix("subset=") for m, g in scores if m == "iou" and _is_subset(g))
        # With one subset all means are equal.
        rows = [(s, f"subset={s}") for s in subsets] + (list(ALL) if len(subsets) != 1 else [])
        for k, (label, part) in enumerate(rows):
            cells = [
                _percent(scores.get((metric, _group(flip, part, extra))))
                for flip in ("", "flip=0")
                for _, metric, extra in measures
            ]
            own = [Text(names[run.id] if k == 0 else "")] if len(runs) > 1 else []
            n = _pairs(scores, part)
            table.add_row(
                *own, Text(label), str(n), *cells, end_section=k in (len(subsets) - 1, len(rows) - 1)
            )
    return table


def benchmark_table(
    runs: Sequence[Run], names: Mapping[str, str], protocol: str, columns: Sequence[tuple[str, str]]
) -> Any | None:
    """Return a table with one row per method and benchmark.

    None if there are fewer than two benchmarks or more than `MAX_BENCHMARK_ROWS` rows. `columns` are the
    metrics and groups of the table over all benchmarks.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    task = stored_task(runs[0].task)
    scores = {r.id: _scores(r, protocol) for r in runs}
    groups = dict.fromkeys(g for found in scores.values() for _, g in found)
    benchmarks = [g for g in groups if g.startswith("benchmark=") and "," not in g]
    if len(benchmarks) < 2 or len(benchmarks) * len(runs) > MAX_BENCHMARK_ROWS:
        return None
    found = {
        (run, benchmark, k): score
        for run, by in scores.items()
        for benchmark in benchmarks
        for k, (metric, group) in enumerate(columns)
        if (score := by.get((metric, _group(benchmark, "" if group == "all" else group)))) is not None
    }
    kept = [k for k in range(len(columns)) if any(k == at for _, _, at in found)]
    table = FittingTable(title=f"{task.name}, protocol {protocol}, by benchmark", keys=min(2, len(runs)))
    if len(runs) > 1:
        table.add_column("method")
    table.add_column("benchmark")
    for k in kept:
        table.add_column(heading(task, *columns[k], between="\n"), justify="right", overflow="fold")
    for run in runs:
        for benchmark in benchmarks:
            cells = [
                Text(
                    terminal_cell(
                        metric_info(task.info, columns[k][0]), found.get((run.id, benchmark, k))
                    ).with_interval
                )
                for k in kept
            ]
            own = [Text(names[run.id] if benchmark == benchmarks[0] else "")] if len(runs) > 1 else []
            last = benchmark == benchmarks[-1]
            table.add_row(*own, Text(benchmark.removeprefix("benchmark=")), *cells, end_section=last)
    return table


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
    return ",".join(sorted(p for p in parts if p)) or "all"


def _percent(score: ScoreRow | None) -> str:
    if score is None:
        return ""
    star = " *" if caution_notes(score.note) else ""
    return "–" if score.value is None else f"{100 * score.value:.2f}{star}"


def shown_columns(runs: Sequence[Run], task: Task, protocol: str) -> list[tuple[str, str]]:
    """Return the (metric, group) columns of a table of one task and protocol."""
    scores = [s for run in runs for s in run.score_rows if s.protocol == protocol]
    seen = dict.fromkeys((s.metric, s.group) for s in scores if not is_single(s.group))
    return with_better(task, expand_columns(task, table_columns(task.info, list(seen)), runs), scores)


def score_tables(runs: Sequence[Run]) -> list[Any]:
    """Return one table per task and protocol, with intervals and chance level.

    Explanations of marks and reasons for missing scores follow each table. Task `tss` and tasks with several
    benchmarks have a second table, by subset or benchmark. Explanations of the main scores are last.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    tables: list[Any] = []
    for name in dict.fromkeys(r.task for r in runs):
        task = stored_task(name)
        own = [r for r in runs if r.task == name]
        for protocol in dict.fromkeys(s.protocol for r in own for s in r.score_rows):
            columns = shown_columns(own, task, protocol)
            names = dict(zip((r.id for r in own), distinct_names(own), strict=True))
            by = {(r.id, s.metric, s.group): s for r in own for s in r.score_rows if s.protocol == protocol}
            shown = [by.get((r.id, m, g)) for r in own for m, g in columns]
            title = f"{name}, protocol {protocol} (percent unless a unit is given; {intervals_text(shown)})"
            title += f"; {task.info.table_note}" if task.info.table_note else ""
            table = FittingTable(title=title)
            table.add_column("method")
            table.add_column("run")
            for metric, group in columns:
                head = heading(task, metric, group, between="\n")
                table.add_column(head, justify="right", overflow="fold")
            for r in own:
                cells = (
                    Text(terminal_cell(metric_info(task.info, m), by.get((r.id, m, g))).with_interval)
                    for m, g in columns
                )
                table.add_row(Text(names[r.id]), r.id, *cells)
            chance = [
                _chance([by.get((r.id, m, g)) for r in own], metric_info(task.info, m)) for m, g in columns
            ]
            if any(chance):
                table.add_section()
                table.add_row("chance", "", *chance, style="dim")
            tables.append(table)
            tables += [Text(f"* {text}") for text in cautions_of(shown)]
            tables += [Text(f"{NO_VALUE} {text}") for text in _reasons(shown)]
            if (by_benchmark := benchmark_table(own, names, protocol, columns)) is not None:
                tables.append(by_benchmark)
            if name == "tss":
                tables.append(subset_table(own, names, protocol))
    return tables + [Text(text) for text in dict.fromkeys(r.lead[1] for r in runs if r.lead is not None)]


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
    if any(s is not None and s.low is not None for s in scores):
        return "95 % confidence interval"
    notes = {s.note for s in scores if s is not None and s.note}
    parts = [tuple(p for p in note.split("; ") if "interval" in p or "spread" in p) for note in notes]
    reasons = {"; ".join(p) for p in parts if p}
    return f"no confidence interval: {reasons.pop()}" if len(reasons) == 1 else "no confidence interval"


def _chance(scores: Sequence[ScoreRow | None], info: MetricInfo) -> str:
    for score in scores:
        if score is not None and score.chance is not None:
            return f"{info.scale[0] * score.chance:.2f}"
    return ""
