# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a comparison from the paired differences of its methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...stats.families import Family
from ...stats.groups import letter_groups, rank_intervals
from ...stats.paired import Paired
from ...stats.sample import Sample
from .result import MethodRow, PairRow


def _separated(family: Family, k: int, level: float) -> bool:
    return bool(family.adjusted[k] <= 1 - level + 1e-12)


def pair_row(names: Sequence[str], p: Paired, k: int, *, level: float, sign: float) -> PairRow:
    """Pair k of the differences; `sign` is -1 where lower is better."""
    first, second = (names[i] for i in p.pairs[k])
    won = None if p.wins is None else tuple(int(w) for w in (p.wins[k] if sign > 0 else p.wins[k][::-1]))
    return PairRow(
        first=first,
        second=second,
        difference=float(p.difference[k]),
        low=_number(p.low[k]),
        high=_number(p.high[k]),
        p=float(p.family.p[k]),
        p_adjusted=float(p.family.adjusted[k]),
        q_exploratory=float(p.q[k]),
        separated=_separated(p.family, k, level),
        effect=_number(p.effect[k]),
        resolvable=_number(p.resolvable[k]),
        wins=None if won is None else (won[0], won[1], won[2]),
    )


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def method_rows(
    names: Sequence[str],
    kept: list[int],
    base: int,
    sample: Sample,
    every: Paired,
    shown: Paired,
    *,
    level: float,
    bounded: bool,
    sign: float,
) -> list[MethodRow]:
    """A row for each distinct method, in the order of `kept` (best first).

    Letters and ranks come from `every` pair, the differences to `base` from the family `shown`.
    """
    low, high = sample.bounds(level=level, bounded=bounded)
    place = {m: i for i, m in enumerate(kept)}
    apart = np.zeros((len(kept), len(kept)), dtype=bool)
    better = np.zeros_like(apart)
    for k, (a, b) in enumerate(every.pairs):
        if _separated(every.family, k, level):
            i, j = place[int(a)], place[int(b)]
            apart[i, j] = apart[j, i] = True
            up, down = (i, j) if sign * every.difference[k] > 0 else (j, i)
            better[up, down] = True
    letters = letter_groups(apart)
    best, worst = rank_intervals(better)
    to_base = {}
    for k, (a, b) in enumerate(shown.pairs):
        if base in (a, b):
            row = pair_row(names, shown, k, level=level, sign=sign)
            to_base[int(a) if b == base else int(b)] = row if b == base else row.flipped()
    return [
        MethodRow(
            method=names[m],
            value=float(sample.value[m]),
            low=_number(low[m]),
            high=_number(high[m]),
            versus=to_base.get(m),
            letters=letters[i],
            rank_best=int(best[i]),
            rank_worst=int(worst[i]),
        )
        for i, m in enumerate(kept)
    ]
