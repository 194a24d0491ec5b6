# SPDX-License-Identifier: BSD-3-Clause
"""Build the rows of a comparison from paired differences."""

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
    """Build the row of pair k. `sign` is -1 if lower scores are better."""
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
        skewed=bool(p.skewed[k]),
    )


@dataclass(frozen=True, eq=False)
class PairRows(Sequence[PairRow]):
    """Sequence of the pairs of a comparison. Rows are built on access."""

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
        """Return pair k or a slice of pairs."""
        if isinstance(k, slice):
            return tuple(self[i] for i in range(*k.indices(len(self))))
        return pair_row(self.names, self.paired, range(len(self))[k], sign=self.sign)

    def separated(self, method: str) -> dict[str, bool]:
        """Return whether each other method is separated from a method, by name. Compute no intervals."""
        index = self.names.index(method)
        separated = self.paired.separated
        own = np.flatnonzero((self.paired.pairs == index).any(axis=1))
        return {self.names[int(self.paired.pairs[k].sum()) - index]: bool(separated[k]) for k in own}

    def one(self, first: str, second: str) -> PairRow:
        """Return the pair first - second. Compute the intervals of this pair only."""
        pair = {self.names.index(first), self.names.index(second)}
        k = next(i for i, both in enumerate(self.paired.pairs.tolist()) if set(both) == pair)
        (row,) = PairRows(self.names, self.paired.take(np.array([k])), self.sign)
        return row if row.first == first else row.swapped()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def letters_and_ranks(
    kept: Sequence[int], every: PairedResult, *, sign: float
) -> tuple[list[tuple[str, ...]], Ranks]:
    """Return group letters and rank ranges from all pairs. Methods that share a letter are not separated."""
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
    """Return rank ranges from the number of methods that are separated from each method."""
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
    """Build a row for each distinct method, in the order of `kept` (best first).

    Letters and ranks come from all pairs. The differences to `base` come from the family `shown`.
    `ranks_only` skips differences and intervals, which are slow.
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
        to_base[int(a) if b == base else int(b)] = row if b == base else row.swapped()
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
"""Tuples (kind, score of its scenes), sorted by kind. Empty if there is one kind."""


def scene_kinds(score: SceneScore) -> ByKind:
    """Return the score of each kind of scene.

    The score is the weighted mean over the scenes of the kind, averaged over the rows of `values`.

    >>> values = np.array([[0.2, 0.4, 0.9]])
    >>> scene_kinds(SceneScore(("a", "b", "c"), ("i", "i", "v"), values, np.ones((1, 3))))
    (('i', 0.3), ('v', 0.9))
    """
    by_kind = []
    for kind in sorted(set(score.kinds)):
        members = np.array([k == kind for k in score.kinds])
        weights, values = score.weights[:, members], score.values[:, members]
        present = weights.sum(axis=1) > 0
        cells = (weights * values).sum(axis=1)[present] / weights.sum(axis=1)[present]
        by_kind.append((kind, round(float(cells.mean()), 15)))
    return tuple(by_kind) if len(by_kind) > 1 else ()


def pooled_kinds(bins: PooledBins) -> ByKind:
    """Return the pooled score of each kind of scene, from the pairs whose scenes are of that kind."""
    kinds = sorted(set(bins.kinds))
    if len(kinds) < 2:
        return ()
    scores = [(k, float(np.mean([pooled_statistic(_select(b, k)) for b in lists_of(bins)]))) for k in kinds]
    return tuple((k, v) for k, v in scores if np.isfinite(v))


def _select(bins: PooledBins, kind: str) -> PooledBins:
    """Return the bins of a pooled score for the scenes of one kind."""
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
    """Return the difference first - second for each kind of scene in which both methods have a score.

    >>> kind_differences((("i", 0.75), ("v", 0.25)), (("i", 0.5), ("v", 0.5)))
    (('i', 0.25), ('v', -0.25))
    """
    other = dict(second)
    return tuple((kind, value - other[kind]) for kind, value in first if kind in other)


def is_reversed(differences: Sequence[tuple[str, float]]) -> bool:
    """Return whether a method is better in one kind of scene and worse in another.

    >>> is_reversed([("i", 0.2), ("v", -0.1)]), is_reversed([("i", 0.2), ("v", 0.0)])
    (True, False)
    """
    return {-1.0, 1.0} <= {np.sign(value) for _, value in differences}
