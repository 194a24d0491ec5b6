# SPDX-License-Identifier: BSD-3-Clause
"""At which rank the right answers of a run stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.records import Records
from ...run.result import Run
from ...tasks import stored_task
from ..runs.lazy_records import scored_records

BAR = 40
EDGES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1000)


def rank_histogram(run: Run, protocol: str) -> list[tuple[str, float]]:
    """(rank, share of the right answers), from the scores where the task has them, else from its records.

    A tied answer stands in the middle of its tie. Empty for tasks without ranks.
    """
    stored = {
        str(s["group"]).removeprefix("rank="): float(s["value"] or 0.0)
        for s in run.stored.scores
        if s["metric"] == "rank_histogram" and s["protocol"] == protocol
    }
    if stored:
        return sorted(stored.items(), key=lambda item: _order(item[0]))
    return rank_shares(scored_records(run, stored_task(run.task), protocol))


def histogram_table(run: Run, protocol: str) -> Any:
    """Rank histogram of a ranking run, as bars; None without ranks."""
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
    """Shares by range of ranks, from columns `lt`, `eq` (the largest pool) and who was retrieved.

    >>> r = Records("rank", {"lt": np.array([0, 0, 7]), "eq": np.array([0, 2, 0])})
    >>> [(name, round(share, 2)) for name, share in rank_shares([r])]
    [('1', 0.33), ('2', 0.33), ('6 to 10', 0.33)]
    """
    ranks = []
    for r in records:
        if r.kind != "rank" or not {"lt", "eq"} <= set(r.columns):
            return []
        lt, eq = (np.asarray(r[c], np.float64).reshape(len(r), -1)[:, -1] for c in ("lt", "eq"))
        kept = next((r[c] for c in ("gt_listed", "retrieved") if c in r.columns), np.ones(len(r), bool))
        known = np.asarray(kept, bool).reshape(len(r), -1)[:, -1]
        ranks.append(np.where(known, 1 + lt + eq / 2, np.inf))
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
