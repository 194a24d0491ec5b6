# SPDX-License-Identifier: BSD-3-Clause
"""Terminal tables of `tss`: its subsets with and without mirrored pairs, and both rows of every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...run.result import Run
from ..runs.names import distinct_names

MEASURES = (("T5", "flow_accuracy", ""), ("T10", "flow_accuracy", "threshold=10"), ("IoU", "iou", ""))
"""Name, metric and what its group adds to that of the subset."""

ALL = (("all: mean of the subsets", ""), ("all: mean over the pairs", "weighting=pairs"))

Scores = Mapping[tuple[str, str], Any]


def subset_table(runs: Sequence[Run], names: Mapping[str, str], protocol: str) -> Any:
    """A row a method and subset, then the two means over all, each with `Average` and `w/o flip`.

    `names` has the name of each run by its id.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    title = (
        f"tss, protocol {protocol}, percent: T5 and T10 are flow accuracy within 5 and 10 % of the target's "
        "larger side; Average takes all pairs, w/o flip those that are not mirrored"
    )
    table = FittingTable(title=title, keys=2 if len(runs) > 1 else 1)
    if len(runs) > 1:
        table.add_column("method")
    table.add_column("subset")
    table.add_column("pairs", justify="right")
    for kind in ("Average", "w/o flip"):
        for name, _, _ in MEASURES:
            table.add_column(f"{kind}\n{name}", justify="right")
    for run in runs:
        scores = _scores(run, protocol)
        subsets = sorted(g.removeprefix("subset=") for m, g in scores if m == "iou" and _is_subset(g))
        # Of one subset all means are the same.
        rows = [(s, f"subset={s}") for s in subsets] + (list(ALL) if len(subsets) != 1 else [])
        for k, (label, part) in enumerate(rows):
            cells = [
                _percent(scores.get((metric, _group(flip, part, extra))))
                for flip in ("", "flip=0")
                for _, metric, extra in MEASURES
            ]
            own = [Text(names[run.id] if k == 0 else "")] if len(runs) > 1 else []
            n = _pairs(scores, part)
            table.add_row(
                *own, Text(label), str(n), *cells, end_section=k in (len(subsets) - 1, len(rows) - 1)
            )
    return table


def pair_tables(runs: Sequence[Run]) -> list[Any]:
    """One table a run and protocol: T5 and IoU of both directions of every pair."""
    from rich.text import Text

    from .rich_table import FittingTable

    tables = []
    for run, name in zip(runs, distinct_names(runs), strict=True):
        flips = {k: r.meta.get("flip") for k, by in run.unit_records.items() for r in by.values()}
        for protocol in dict.fromkeys(str(s["protocol"]) for s in run.stored.scores):
            scores = _scores(run, protocol)
            groups = [g for m, g in scores if m == "iou" and g.startswith("direction=")]
            title = Text(f"tss, protocol {protocol}, {name}: the pairs, percent")
            table = FittingTable(title=title, keys=2)
            for column in ("pair", "direction", "flip"):
                table.add_column(column)
            for column in ("T5", "IoU"):
                table.add_column(column, justify="right")
            for group in groups:
                direction, _, pair = group.removeprefix("direction=").partition(",pair=")
                cells = [_percent(scores.get((metric, group))) for metric in ("flow_accuracy", "iou")]
                table.add_row(Text(pair), direction, str(flips.get(pair, "")), *cells)
            tables.append(table)
    return tables


def _pairs(scores: Scores, part: str) -> int:
    """Pairs of a subset, or of all, of which anything was scored: a flow, or the masks."""
    subset = part.removeprefix("subset=") + "/" if _is_subset(part) else ""
    rows = (g.partition(",pair=")[2] for (_, g), s in scores.items() if s["value"] is not None)
    scored = len({pair for pair in rows if pair and pair.startswith(subset)})
    # Undefined scores of pairs that count, as the kit has them, are in these numbers.
    counted = [s["n"] for m in ("flow_accuracy", "iou") if (s := scores.get((m, _group(part))))]
    return max([scored, *counted])


def _scores(run: Run, protocol: str) -> Scores:
    return {(s["metric"], s["group"]): s for s in run.stored.scores if s["protocol"] == protocol}


def _is_subset(group: str) -> bool:
    return group.startswith("subset=") and "," not in group


def _group(*parts: str) -> str:
    return ",".join(sorted(p for p in parts if p)) or "all"


def _percent(score: Any) -> str:
    if score is None:
        return ""
    return "–" if score["value"] is None else f"{100 * score['value']:.2f}"
