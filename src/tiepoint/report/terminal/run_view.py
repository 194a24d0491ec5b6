# SPDX-License-Identifier: BSD-3-Clause
"""Print one run in the terminal: summary, scores, scenes and ranks. Write its curves as CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.formatting import count_text
from ...core.records import Records
from ...core.scores import ScoreRow, caution_notes
from ...formats.csv_table import escape_formula
from ...formats.file_io import atomic_path
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import MetricInfo
from ...tasks.info import headline_column, metric_info, table_columns
from ..cells import bracketed, terminal_cell, value_text
from ..figures.curves import AXES, curve_points
from ..figures.heat_map import headline_by_scene
from ..leaderboard import heading
from ..runs.card import card_rows
from ..runs.lazy_records import no_records, scored_records, try_part
from ..runs.scene_views import has_scene_views, run_views
from ..runs.sections import sections

BAR = 40
EDGES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1000)


def rank_histogram(run: Run, protocol: str) -> list[tuple[str, float]]:
    """Return (rank, fraction of correct answers), from stored scores if available, else from records.

    Tied answers have their mean rank. The result is empty for tasks without ranks.
    """
    stored = {
        s.group.removeprefix("rank="): float(s.value or 0.0)
        for s in run.score_rows
        if s.metric == "rank_histogram" and s.protocol == protocol
    }
    if stored:
        return sorted(stored.items(), key=lambda item: _order(item[0]))
    return rank_shares(scored_records(run, stored_task(run.task), protocol))


def histogram_table(run: Run, protocol: str) -> Any:
    """Return the rank histogram of a run as bars. None without ranks."""
    from rich.text import Text

    from .rich_table import FittingTable

    rows = rank_histogram(run, protocol)
    if not rows:
        return None
    table = FittingTable(title=f"rank of the right answers under {protocol}", keys=2)
    table.add_column("rank", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for rank, share in rows:
        table.add_row(Text(rank), f"{100 * share:.1f} %", "█" * round(BAR * min(share, 1.0)))
    return table


def rank_shares(records: Sequence[Records]) -> list[tuple[str, float]]:
    """Return the fraction of answers in each range of ranks. Ties have their mean rank.

    Ranks follow from the record columns `lt` and `eq` of the largest pool.

    >>> r = Records("rank", {"lt": np.array([0, 0, 7]), "eq": np.array([0, 2, 0])})
    >>> [(name, round(share, 2)) for name, share in rank_shares([r])]
    [('1', 0.33), ('2', 0.33), ('6 to 10', 0.33)]
    """
    ranks = []
    for r in records:
        if r.kind != "rank" or not {"lt", "eq"} <= set(r.columns):
            return []
        lt, eq = (np.asarray(r[c], np.float64).reshape(len(r), -1)[:, -1] for c in ("lt", "eq"))
        listed = next((r[c] for c in ("gt_listed", "retrieved") if c in r.columns), np.ones(len(r), bool))
        retrieved = np.asarray(listed, bool).reshape(len(r), -1)[:, -1]
        ranks.append(np.where(retrieved, 1 + lt + eq / 2, np.inf))
    if not ranks or not sum(len(r) for r in ranks):
        return []
    every = np.concatenate(ranks)
    found = []
    before = 0
    for edge in EDGES:
        name = str(edge) if edge == before + 1 else f"{before + 1} to {edge}"
        found.append((name, float(np.mean((every > before) & (every <= edge)))))
        before = edge
    found.append((f"above {before}", float(np.mean((every > before) & np.isfinite(every)))))
    found.append(("never", float(np.mean(np.isinf(every)))))
    return [(name, share) for name, share in found if share]


def _order(rank: str) -> tuple[bool, float, str]:
    return (not rank.isdigit(), float(rank) if rank.isdigit() else 0.0, rank)


MAX_SCENE_COLUMNS = 6
MAX_VALUES = 10


def card_table(run: Run) -> Any:
    """Return the summary of a run as a table, with the time of the run."""
    from rich.text import Text

    from .rich_table import FittingTable

    table = FittingTable(box=None, show_header=False, title=f"run {run.id}", wraps=("",))
    made = ("made", f"{run.stored.created_at}, {run.stored.time_s or 0:.1f} s")
    for key, value in [*card_rows(run), made]:
        table.add_row(Text(key, style="yellow" if key == "warning" else "dim"), Text(value))
    return table


def scored_protocols(run: Run) -> list[str]:
    """Return the protocols of a run's scores, `exact` first."""
    found = dict.fromkeys(s.protocol for s in run.score_rows)
    return sorted(found, key=lambda p: (p != "exact", p))


def scores_table(run: Run) -> Any:
    """Return all scores except those of single scenes and pairs, one column per protocol.

    Scores that differ only in the value of a numeric group key share a row. The chance level is a column only
    if it differs between the groups of a score.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    task, protocols = stored_task(run.task), scored_protocols(run)
    by = {(s.protocol, s.metric, s.group): s for s in run.score_rows}
    one_level = _one_chance(run)
    table = FittingTable(title="scores (percent unless a unit is given; 95 % confidence interval)", keys=2)
    if one_level:
        levels = ", ".join(f"{name} {level}" for name, level in one_level.items())
        table.caption = f"chance under {protocols[0]}: {levels}"
    for name in ("score", "group", *protocols, "n", *([] if one_level else ["chance"])):
        table.add_column(name, justify="left" if name in ("score", "group") else "right")
    for metric, name, groups in _rows(run):
        cells = [
            _joined([by.get((p, metric, g)) for g in groups], metric_info(task.info, metric))
            for p in protocols
        ]
        first = next((s for p in protocols for g in groups if (s := by.get((p, metric, g)))), None)
        n = "" if first is None else f"{first.n:,}"
        chance = "" if first is None else _chance(run, first)
        one = len(groups) == 1
        more = [n if one else "", *([] if one_level else [chance if one else ""])]
        table.add_row(*(Text(p) for p in (heading(task, metric, "all"), name, *cells, *more)))
    return table


def _chance(run: Run, score: ScoreRow) -> str:
    """Return the chance level of a score as text; empty if it has none."""
    if score.chance is None:
        return ""
    return f"{metric_info(stored_task(run.task).info, score.metric).scale[0] * score.chance:.2f}"


def _one_chance(run: Run) -> dict[str, str]:
    """Return the chance level of each score under the first protocol.

    Empty if the groups of a score have different levels.
    """
    levels: dict[str, set[str]] = {}
    for score in run.score_rows:
        own = score.protocol == scored_protocols(run)[0] and "scene=" not in score.group
        if own and (level := _chance(run, score)):
            levels.setdefault(score.metric, set()).add(level)
    if any(len(found) > 1 for found in levels.values()):
        return {}
    task = stored_task(run.task)
    return {heading(task, metric, "all"): min(found) for metric, found in levels.items()}


def notes(run: Run) -> list[str]:
    """Return the notes of the scores, each once."""
    count = Counter(
        s.note for s in run.score_rows if s.note and s.metric != "metadata" and "scene=" not in s.group
    )
    return [*(f"{note} ({count_text(n, 'score')})" for note, n in count.items()), *_worst_images(run)]


def _worst_images(run: Run) -> list[str]:
    """Return the worst image of each reconstructed scene. Empty for other tasks."""
    skipped: list[str] = []
    found = try_part("worst images", lambda: run_views(run).worst, skipped) if has_scene_views(run) else None
    return [*(found or {}).values(), *skipped]


def json_of(run: Run) -> dict[str, Any]:
    """Return the output of `show` as plain values: scores (also by scene), warnings, summary, notes."""
    protocol = next(iter(scored_protocols(run)), "")
    return {
        "scores": run.rows(),
        "warnings": list(run.warnings),
        "run": run.id,
        "card": {k: v for k, v in card_rows(run) if k != "warning"},
        "notes": notes(run),
        "ranks": [{"rank": rank, "share": share} for rank, share in rank_histogram(run, protocol)],
    }


def _rows(run: Run) -> list[tuple[str, str, list[str]]]:
    """Return (metric, name, groups) of each table row.

    Scores at three or more values of a numeric group key share a row.
    """
    groups: dict[str, list[str]] = {}
    for s in run.score_rows:
        parts = s.group.split(",")
        single = any(p.startswith(("scene=", "pair=")) for p in parts)
        if not single and s.metric not in ("rank_histogram", "metadata"):
            own = groups.setdefault(s.metric, [])
            if s.group not in own:
                own.append(s.group)
    found = []
    for metric, names in groups.items():
        rows: dict[tuple[str, str], list[tuple[float, str]]] = {}
        for name in names:
            rest, key, value = _numeric(name)
            rows.setdefault((rest, key), []).append((value, name))
        for (rest, key), members in sorted(rows.items(), key=lambda item: (item[0][0] != "all", item[0])):
            ordered = sorted(members)
            if key and len(ordered) > 2:
                ordered = _thinned(ordered)
                values = f"{key}=" + "/".join(f"{v:g}" for v, _ in ordered)
                found.append(
                    (metric, values if rest == "all" else f"{rest}, {values}", [n for _, n in ordered])
                )
            else:
                found += [(metric, name, [name]) for _, name in ordered]
    return found


def _thinned(members: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return at most ten evenly spaced elements, including the first and the last."""
    last = len(members) - 1
    places = sorted({round(i * last / (MAX_VALUES - 1)) for i in range(MAX_VALUES)})
    return [members[i] for i in places] if len(members) > MAX_VALUES else members


def _numeric(group: str) -> tuple[str, str, float]:
    """Split off the numeric part of a group. Return the remaining group, the numeric key and its value."""
    parts = group.split(",")
    for part in parts:
        key, _, value = part.partition("=")
        if key in AXES:
            try:
                return ",".join(p for p in parts if p != part) or "all", key, float(value)
            except ValueError:
                break
    return group, "", 0.0


def _joined(scores: Sequence[ScoreRow | None], info: MetricInfo) -> str:
    if len(scores) == 1:
        return terminal_cell(info, scores[0]).with_interval
    if not any(scores):
        return ""
    star = " *" if any(s is not None and caution_notes(s.note) for s in scores) else ""
    values = (
        "–" if s is None or s.value is None else bracketed(f"{info.scale[0] * s.value:.1f}", s)
        for s in scores
    )
    return "  ".join(values) + star


def scene_table(run: Run) -> Any:
    """Return the scores by scene under the first protocol, or else the headline score's scene values."""
    from rich.text import Text

    from .rich_table import FittingTable

    protocol = next(iter(scored_protocols(run)), "")
    found = sections([run], protocol)
    if not found:
        return None
    task, rows = found[0].definition, found[0].rows(run)
    cells = {
        (metric, group.removeprefix("scene=")): terminal_cell(metric_info(task.info, metric), s).with_interval
        for (metric, group), s in rows.items()
        if group.startswith("scene=") and "," not in group
    }
    if not cells:
        behind = headline_by_scene(found[0], run).items()
        cells = {(found[0].metric, scene): value_text(found[0].info, value) for scene, value in behind}
    if not cells:
        return None
    have = list(dict.fromkeys((metric, "all") for metric, _ in cells))
    best = headline_column(task.info, have)
    columns = [c for c in table_columns(task.info, have) if c != best]
    metrics = [c[0] for c in ([best] if best else []) + columns][:MAX_SCENE_COLUMNS]
    table = FittingTable(title=f"scores by scene under {protocol}")
    table.add_column("scene")
    for metric in metrics:
        table.add_column(heading(task, metric, "all"), justify="right")
    for scene in dict.fromkeys(scene for _, scene in cells):
        table.add_row(Text(scene), *(Text(cells.get((m, scene), "")) for m in metrics))
    return table


def write_curves(run: Run, path: Path) -> int:
    """Write the points of the run's curves as CSV (group, curve, x, y). Return the number of points."""
    task = stored_task(run.task)
    records = scored_records(run, task, "exact")
    if not records:
        raise InputError(no_records(run))
    curves = curve_points(task, records)
    if curves is None:
        raise InputError(f"task {task.name} has no curves; omit `curves`")
    n = 0
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f)
        writer.writerow(["group", "curve", "x", "y"])
        for group, curve, xs, ys in curves:
            for x, y in zip(xs, ys, strict=True):
                writer.writerow(
                    [escape_formula(group), escape_formula(curve), repr(float(x)), repr(float(y))]
                )
                n += 1
    return n
