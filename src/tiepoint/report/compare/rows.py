# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a comparison from the paired differences of its methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ...core.scores import PooledBins
from ...stats.multiplicity import letter_groups, rank_intervals
from ...stats.paired import PairedResult, WideResult
from ...stats.pooled import lists_of, pooled_statistic
from ...stats.resampling import SceneScore
from ...stats.samples import MethodSample
from .comparison import MethodRow, PairRow

Ranks = tuple[NDArray[np.int64], NDArray[np.int64]]


def pair_row(names: Sequence[str], p: PairedResult, k: int, *, sign: float) -> PairRow:
    """Pair k of the differences; `sign` is -1 where lower is better."""
    first, second = (names[i] for i in p.pairs[k])
    won = None if p.wins is None else tuple(int(w) for w in (p.wins[k] if sign > 0 else p.wins[k][::-1]))
    return PairRow(
        first=first,
        second=second,
        difference=float(p.difference[k]),
        low=_number(p.low[k]),
        high=_number(p.high[k]),
        single_low=_number(p.single_bounds[0][k]),
        single_high=_number(p.single_bounds[1][k]),
        p=float(p.family.p[k]),
        p_adjusted=float(p.family.adjusted[k]),
        q_exploratory=float(p.q[k]),
        separated=bool(p.separated[k]),
        effect=_number(p.effect[k]),
        resolvable=_number(p.resolvable[k]),
        wins=None if won is None else (won[0], won[1], won[2]),
    )


@dataclass(frozen=True, eq=False)
class PairRows(Sequence[PairRow]):
    """The pairs of a comparison, made into rows when they are looked at."""

    names: Sequence[str]
    paired: PairedResult
    sign: float

    def __len__(self) -> int:
        return len(self.paired.pairs)

    @overload
    def __getitem__(self, k: int) -> PairRow: ...

    @overload
    def __getitem__(self, k: slice) -> tuple[PairRow, ...]: ...

    def __getitem__(self, k: int | slice) -> PairRow | tuple[PairRow, ...]:
        """Pair k, or some of them."""
        if isinstance(k, slice):
            return tuple(self[i] for i in range(*k.indices(len(self))))
        return pair_row(self.names, self.paired, range(len(self))[k], sign=self.sign)

    def separated(self, method: str) -> dict[str, bool]:
        """By the name of every other method: whether it is separated; no interval is made for that."""
        place = self.names.index(method)
        found = self.paired.separated
        mine = np.flatnonzero((self.paired.pairs == place).any(axis=1))
        return {self.names[int(self.paired.pairs[k].sum()) - place]: bool(found[k]) for k in mine}

    def one(self, first: str, second: str) -> PairRow:
        """The pair first - second, with its intervals alone."""
        pair = {self.names.index(first), self.names.index(second)}
        k = next(i for i, both in enumerate(self.paired.pairs.tolist()) if set(both) == pair)
        (row,) = PairRows(self.names, self.paired.take(np.array([k])), self.sign)
        return row if row.first == first else row.flipped()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def letters_and_ranks(
    kept: Sequence[int], every: PairedResult, *, sign: float
) -> tuple[list[tuple[str, ...]], Ranks]:
    """Letters of groups that are not separated, and ranges of ranks, from every pair of methods."""
    apart = np.zeros((len(kept), len(kept)), dtype=bool)
    better = np.zeros_like(apart)
    place = np.zeros(max(kept, default=-1) + 1, dtype=np.int64)
    place[list(kept)] = np.arange(len(kept))
    which = np.flatnonzero(every.separated)
    first, second = place[every.pairs[which]].T
    apart[first, second] = apart[second, first] = True
    up = sign * every.difference[which] > 0
    better[np.where(up, first, second), np.where(up, second, first)] = True
    return letter_groups(apart), rank_intervals(better)


def counted_ranks(wide: WideResult, sign: float = 1.0) -> Ranks:
    """Ranges of ranks from how many methods are separated from each."""
    above, below = (wide.above, wide.below) if sign > 0 else (wide.below, wide.above)
    return 1 + above, len(above) - below


def method_rows(
    names: Sequence[str],
    kept: list[int],
    base: int,
    sample: MethodSample,
    shown: PairedResult,
    letters: Sequence[tuple[str, ...]],
    ranks: Ranks,
    *,
    level: float,
    bounded: bool,
    sign: float,
    ranks_only: bool = False,
) -> list[MethodRow]:
    """A row for each distinct method, in the order of `kept` (best first).

    Letters and ranks come from every pair, the differences to `base` from the family `shown`. With
    `ranks_only` there are neither differences nor intervals, which take longest.
    """
    if ranks_only:
        low = high = np.full(len(kept), np.nan)
    elif sample.draw is None:
        low, high = (x[kept] for x in sample.bounds(level=level, bounded=bounded))
    else:
        low, high = sample.chosen_bounds(np.array(kept), level=level, bounded=bounded)
    to_base = {}
    which = np.flatnonzero((shown.pairs == base).any(axis=1))
    with_base = shown.take(which[:0] if ranks_only else which)
    for k, (a, b) in enumerate(with_base.pairs):
        row = pair_row(names, with_base, k, sign=sign)
        to_base[int(a) if b == base else int(b)] = row if b == base else row.flipped()
    return [
        MethodRow(
            method=names[m],
            value=float(sample.value[m]),
            low=_number(low[i]),
            high=_number(high[i]),
            versus=to_base.get(m),
            letters=letters[i],
            rank_best=int(ranks[0][i]),
            rank_worst=int(ranks[1][i]),
        )
        for i, m in enumerate(kept)
    ]


ByKind = tuple[tuple[str, float], ...]
"""(kind, score of its scenes alone) in order of the names; empty where there is one kind only."""


def scene_kinds(score: SceneScore) -> ByKind:
    """The score of the scenes of each kind: the mean over cells of the weighted mean over these scenes.

    >>> values = np.array([[0.2, 0.4, 0.9]])
    >>> scene_kinds(SceneScore(("a", "b", "c"), ("i", "i", "v"), values, np.ones((1, 3))))
    (('i', 0.3), ('v', 0.9))
    """
    found = []
    for kind in sorted(set(score.kinds)):
        at = np.array([k == kind for k in score.kinds])
        weights, values = score.weights[:, at], score.values[:, at]
        there = weights.sum(axis=1) > 0
        cells = (weights * values).sum(axis=1)[there] / weights.sum(axis=1)[there]
        found.append((kind, round(float(cells.mean()), 15)))
    return tuple(found) if len(found) > 1 else ()


def pooled_kinds(bins: PooledBins) -> ByKind:
    """The pooled score of each kind: its scenes alone, without pairs that lead to scenes of another kind."""
    kinds = sorted(set(bins.kinds))
    if len(kinds) < 2:
        return ()
    made = [(k, float(np.mean([pooled_statistic(_only(b, k)) for b in lists_of(bins)]))) for k in kinds]
    return tuple((k, v) for k, v in made if np.isfinite(v))


def _only(bins: PooledBins, kind: str) -> PooledBins:
    at = np.flatnonzero([k == kind for k in bins.kinds])
    new = np.full(len(bins.kinds), -1)
    new[at] = np.arange(len(at))
    pairs = np.asarray(bins.negatives).reshape(-1, 4).copy()
    pairs[:, 0], pairs[:, 1] = new[pairs[:, 0]], new[pairs[:, 1]]
    kept = pairs[(pairs[:, 0] >= 0) & (pairs[:, 1] >= 0)]
    return replace(
        bins,
        scenes=tuple(bins.scenes[i] for i in at),
        kinds=(kind,) * len(at),
        positives=bins.positives[at],
        negatives=kept,
        also=(),
    )


def kind_differences(first: ByKind, second: ByKind) -> ByKind:
    """The difference first - second in each kind that both have.

    >>> kind_differences((("i", 0.75), ("v", 0.25)), (("i", 0.5), ("v", 0.5)))
    (('i', 0.25), ('v', -0.25))
    """
    other = dict(second)
    return tuple((kind, value - other[kind]) for kind, value in first if kind in other)


def turns_around(differences: Sequence[tuple[str, float]]) -> bool:
    """Whether a method is ahead in one kind and behind in another.

    >>> turns_around([("i", 0.2), ("v", -0.1)]), turns_around([("i", 0.2), ("v", 0.0)])
    (True, False)
    """
    signs = {np.sign(value) for _, value in differences}
    return {-1.0, 1.0} <= signs
