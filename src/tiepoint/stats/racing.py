# SPDX-License-Identifier: BSD-3-Clause
"""Race of methods: draw units one by one, claim which method is ahead, end as early as possible."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from ..core.errors import InputError
from .betting import (
    BETS,
    EDGE,
    Array,
    UnitBounds,
    adjusted_evidence,
    bet,
    capital_of,
    confidence_set,
    unit_bounds,
)

Pair = tuple[str, str]
GOALS = ("best", "order", "baseline")
PREFIX = "tiepoint-race"
_GROWTH = 1.1
"""Ratio of the numbers of units at which a race computes confidence sets."""


def keyed_uniform(prefix: str, seed: int, key: str) -> float:
    """Return a random number between 0 and 1 that depends only on the arguments.

    >>> round(keyed_uniform("tiepoint-race", 0, "A/00"), 6)
    0.760128
    """
    digest = hashlib.sha256(f"{prefix}|{seed}|{key}".encode()).digest()
    return ((int.from_bytes(digest[:8], "big") >> 11) + 0.5) / 2**53


def racing_order(weights: Mapping[str, float], seed: int) -> list[str]:
    """Return a random order of the units, drawn one by one with probabilities in proportion to weight."""
    return sorted(weights, key=lambda key: (-math.log(keyed_uniform(PREFIX, seed, key)) / weights[key], key))


def scene_order(
    strata: Mapping[str, str], shares: Mapping[str, float], seed: int
) -> Iterator[tuple[str, str]]:
    """Yield (stratum, scene) in random order, without repetition.

    `strata` has the stratum of each scene, `shares` the probability of each stratum. The iteration ends when
    the sampled stratum has no scene left.
    """
    names = sorted(shares)
    ends = np.cumsum([shares[name] for name in names])
    left = {name: racing_order({s: 1.0 for s, of in strata.items() if of == name}, seed) for name in names}
    for step in range(len(strata) + 1):
        u = keyed_uniform(f"{PREFIX}-stratum", seed, str(step)) * ends[-1]
        name = names[min(int(np.searchsorted(ends, u, side="right")), len(names) - 1)]
        if not left[name]:
            return
        yield name, left[name].pop(0)


@dataclass(frozen=True)
class Claim:
    """Claim that `better` is ahead of `worse`, made after `step` units with adjusted evidence `evidence`."""

    better: str
    worse: str
    step: int
    evidence: float


Ending = Literal["decided", "undecided", "complete"]


Interval = tuple[int, float, float]


def running(intervals: Sequence[Interval]) -> list[Interval]:
    """Intersect each confidence set (units, low, high) with all earlier ones.

    The intersections hold simultaneously.

    >>> running([(1, -1.0, 0.5), (2, -0.5, 0.8)])
    [(1, -1.0, 0.5), (2, -0.5, 0.5)]
    """
    cut: list[Interval] = []
    for n, low, high in intervals:
        if cut:
            low, high = max(low, cut[-1][1]), min(high, cut[-1][2])
        # Sets that exclude each other, which happens with probability alpha at most, leave the last one.
        cut.append((n, low, high) if low <= high else (n, *cut[-1][1:]))
    return cut


class Race:
    """State of a race. Call `step` with the values of one unit after another.

    Attributes:
        steps: Number of units added.
        active: Methods still in the race.
        claims: Claims in order.
        evaluations: Number of units of each method.
        intervals: Confidence sets of each pair's difference: (units, low, high). All sets of one pair hold
            simultaneously with probability 1 - alpha. `running` intersects them.
    """

    def __init__(
        self,
        methods: Sequence[str],
        *,
        goal: str = "best",
        baseline: str | None = None,
        alpha: float = 0.05,
        finite: bool = True,
    ) -> None:
        """Set up a race. `finite` is True for a list of units, and False for samples from a population."""
        if len(methods) < 2:
            raise InputError(f"a race needs at least two methods, found {len(methods)}; add a method")
        if not 0 < alpha < 1:
            raise InputError(f"`alpha` is {alpha}; expected a probability between 0 and 1")
        if goal not in GOALS or (goal == "baseline") != (baseline is not None):
            raise InputError(f"`goal` is {goal!r}; expected best, order or baseline=NAME")
        if baseline is not None and baseline not in methods:
            raise InputError(f"baseline {baseline!r} is not in the race; choose one of {', '.join(methods)}")
        self.goal, self.baseline, self.alpha, self.finite = goal, baseline, alpha, finite
        self.methods = list(methods)
        self.active = list(methods)
        self.steps = 0
        self.claims: list[Claim] = []
        self.evaluations = dict.fromkeys(methods, 0)
        pairs = [p for p in combinations(methods, 2) if baseline is None or baseline in p]
        self.pairs: list[Pair] = pairs
        self.intervals: dict[Pair, list[Interval]] = {p: [] for p in pairs}
        self._open = set(pairs)
        self._logs = np.zeros((len(pairs), 2, len(BETS)))
        self._evidence = np.ones((len(pairs), 2))
        self._weights: list[float] = []
        self._history: list[Array] = []
        """Differences of all pairs by unit. Those of closed pairs are ignored."""
        self._used = dict.fromkeys(pairs, 0)
        """Number of units that count for each pair."""
        self._sides = np.array([[methods.index(a), methods.index(b)] for a, b in pairs]).reshape(-1, 2).T
        self._going = np.ones(len(pairs), bool)
        self._seen = np.zeros(len(pairs))
        self._left = 1.0
        self._next_interval = 1

    @property
    def over(self) -> bool:
        """Whether the goal is reached."""
        return len(self.active) <= (1 if self.goal == "best" else 0)

    @property
    def undecided(self) -> list[Pair]:
        """Pairs without a claim whose methods are both still in the race."""
        return [p for p in self.pairs if p in self._open]

    def step(self, values: Mapping[str, float], weight: float = 1.0, *, last: bool = False) -> list[Claim]:
        """Add one unit: the value of every active method, between 0 and 1. Return the new claims.

        `weight` is the unit's share of a finite list. `last` marks the last unit of such a list, after which
        differences are known exactly.
        """
        for name in self.active:
            if not 0.0 <= values[name] <= 1.0:
                raise InputError(
                    f"{name}: a unit has the value {values[name]}; a race needs values in 0 to 1"
                )
        self.steps += 1
        self._weights.append(weight)
        for name in self.active:
            self.evaluations[name] += 1
        self._feed(values, weight)
        if last and self.finite:
            self._left = 0.0
        evidence = self._evidence.copy()
        if self.finite:
            # A sign that the remaining units cannot change is certain without a bet.
            going = self._going
            evidence[going & (self._seen - self._left > EDGE), 0] = np.inf
            evidence[going & (self._seen + self._left < -EDGE), 1] = np.inf
            if last:
                evidence[going & (np.abs(self._seen) <= EDGE)] = 0.0
        claims = self._claim(evidence)
        if self.steps >= self._next_interval or last:
            self.note_intervals()
            self._next_interval = max(self.steps + 1, math.ceil(_GROWTH * self.steps))
        self._leave()
        return claims

    def _feed(self, values: Mapping[str, float], weight: float) -> None:
        by_method = np.array([values.get(m, 0.0) if m in self.active else 0.0 for m in self.methods])
        d = by_method[self._sides[0]] - by_method[self._sides[1]]
        self._history.append(d)
        for pair in self._open:
            self._used[pair] += 1
        seen, left = (self._seen, self._left) if self.finite else (np.zeros(len(d)), 1.0)
        drawn, sign = seen + left * d, np.array([1.0, -1.0])
        # Bets on a positive and on a negative difference; the tested mean is 0.
        room = left - sign * seen[:, None]
        logs = bet(self._logs, sign * drawn[:, None], room)
        self._logs = np.where(self._going[:, None, None], logs, self._logs)
        self._evidence = np.where(self._going[:, None], capital_of(self._logs), self._evidence)
        self._seen = self._seen + np.where(self._going, weight * d, 0.0)
        if self.finite:
            self._left = max(0.0, self._left - weight)

    def _close(self, pair: Pair) -> None:
        """Freeze a pair: further units do not count for it."""
        self._note_interval(pair)
        self._open.discard(pair)
        self._going[self.pairs.index(pair)] = False

    def _units(self, pair: Pair) -> UnitBounds:
        n, at = self._used[pair], self.pairs.index(pair)
        d = np.array([row[at] for row in self._history[:n]])
        return unit_bounds(d, np.array(self._weights[:n]) if self.finite else None)

    def _claim(self, evidence: Array) -> list[Claim]:
        if not (evidence[self._going] >= 1 / self.alpha).any():
            return []  # adjusting never adds evidence
        adjusted = adjusted_evidence(evidence.ravel()).reshape(evidence.shape)
        found = []
        for i, (a, b) in enumerate(self.pairs):
            if (a, b) in self._open:
                found += [
                    (adjusted[i, k], better, worse) for k, (better, worse) in enumerate([(a, b), (b, a)])
                ]
        made: list[Claim] = []
        for strength, better, worse in sorted(found, key=lambda x: -x[0]):
            if strength >= 1 / self.alpha and not self._ahead(worse, better):
                claim = Claim(better, worse, self.steps, float(strength))
                made.append(claim)
                self.claims.append(claim)
        for claim in made:
            pair = self._pair(claim.better, claim.worse)
            self._close(pair)
            # A closed pair keeps the evidence of its claim.
            self._evidence[self.pairs.index(pair)] = evidence[self.pairs.index(pair)]
        return made

    def _pair(self, a: str, b: str) -> Pair:
        return (a, b) if (a, b) in self._used else (b, a)

    def _ahead(self, a: str, b: str) -> bool:
        """Return whether the claims say that a method is ahead of another one, directly or through others."""
        reached, todo = {a}, [a]
        while todo:
            here = todo.pop()
            further = {c.worse for c in self.claims if c.better == here} - reached
            reached |= further
            todo += further
        return b in reached

    def _leave(self) -> None:
        beaten = {c.worse for c in self.claims}
        settled = {m for m in self.methods if not any(m in p for p in self._open)}
        if self.goal == "best":
            gone = beaten
        elif self.goal == "order":
            gone = settled
        else:
            gone = settled if len(settled) == len(self.methods) else settled - {self.baseline}
        for name in [m for m in self.active if m in gone]:
            self.active.remove(name)
        for pair in [p for p in self._open if not set(p) <= set(self.active)]:
            self._close(pair)

    def note_intervals(self) -> None:
        """Compute the confidence sets of all pairs without a claim, from the units added until now."""
        for pair in self.undecided:
            self._note_interval(pair)

    def _note_interval(self, pair: Pair) -> None:
        own = self.intervals[pair]
        if own and own[-1][0] == self.steps:
            return
        own.append((self.steps, *confidence_set(self._units(pair), self.alpha)))

    def interval(self, better: str, worse: str) -> tuple[float, float]:
        """Return the newest confidence set of `better` minus `worse`."""
        pair = self._pair(better, worse)
        _, low, high = self.intervals[pair][-1]
        return (low, high) if pair == (better, worse) else (-high, -low)

    def mean_difference(self, better: str, worse: str) -> float:
        """Return the mean difference over the units that both methods ran. An early stop exaggerates it."""
        pair = self._pair(better, worse)
        at = self.pairs.index(pair)
        value = float(np.mean([row[at] for row in self._history[: self._used[pair]]]))
        return value if pair == (better, worse) else -value
