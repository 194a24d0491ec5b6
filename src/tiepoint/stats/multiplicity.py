# SPDX-License-Identifier: BSD-3-Clause
"""Multiple comparisons: step-down max-T, Benjamini-Hochberg, letter groups and rank intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
SLACK = 1e-10
"""Relative tolerance when a sampled statistic is compared with an observed statistic."""


@dataclass(frozen=True)
class TestFamily:
    """P-values of k comparisons that are tested together as one family.

    `p` (k,) are the p-values of single comparisons, and `adjusted` (k,) the family-wise p-values.
    `null_maximum` is the largest statistic of each random sample under the null hypothesis, for critical
    values. `draws` is the number of samples, including the data. `exact` is set if all possible samples were
    used.
    """

    statistic: Array
    p: Array
    adjusted: Array
    null_maximum: Array
    draws: int
    exact: bool

    @property
    def smallest_p(self) -> float:
        """Smallest p-value that is possible with this number of samples."""
        return 1.0 / max(self.draws, 1)

    def critical(self, level: float = 0.95) -> float:
        """Return the value that the maximum exceeds with probability 1 - level under the null hypothesis."""
        return quantile_reached(self.null_maximum, level)


def quantile_reached(samples: Array, level: float) -> float:
    """Return the smallest sample that is at or above the quantile `level`. NaN without samples.

    >>> quantile_reached(np.arange(100.0), 0.95)
    94.0
    """
    if len(samples) == 0:
        return float("nan")
    rank = min(int(np.ceil(level * len(samples))), len(samples)) - 1
    return float(np.partition(samples, rank)[rank])


def step_down(observed: Array, blocks: Callable[[Ints], Iterator[Array]], *, exact: bool) -> TestFamily:
    """Compute p-values by step-down max-T (Westfall and Young) from samples under the null hypothesis.

    Comparisons are sorted in descending order of their observed statistic. The adjusted p-value of the k-th
    comparison is the share of samples in which the largest statistic of the k-th and all later comparisons
    reaches the observed k-th statistic. P-values are then made non-decreasing. The method accounts for the
    dependence of the comparisons, and so has more power than Bonferroni.

    `observed` (k,) are the statistics of the data. `blocks` is called with an order of the comparisons and
    yields samples (k, r) with rows in that order. One of the samples must be the data. Set `exact` if the
    samples are all possible ones.

    >>> draws = np.array([[3.0, 0.1, 0.2, 0.3], [1.0, 2.0, 0.5, 0.5]])
    >>> f = step_down(draws[:, 0], lambda order: iter([draws[order]]), exact=True)
    >>> f.p.tolist(), f.adjusted.tolist()
    ([0.25, 0.5], [0.25, 0.5])
    """
    order = np.argsort(-observed, kind="stable")
    goal = observed[order][:, None] * (1 - SLACK)
    single = np.zeros(len(order), dtype=np.int64)
    joint = np.zeros(len(order), dtype=np.int64)
    maxima = []
    for block in blocks(order):
        single += np.count_nonzero(block >= goal, axis=1)
        largest = np.maximum.accumulate(block[::-1], axis=0)[::-1]
        joint += np.count_nonzero(largest >= goal, axis=1)
        maxima.append(largest[0].copy() if len(order) else np.zeros(block.shape[1]))
    null_maximum = np.concatenate(maxima) if maxima else np.zeros(0)
    return unsort_family(observed, order, single, joint, null_maximum, exact=exact)


def unsort_family(
    observed: Array, order: Ints, single: Ints, joint: Ints, null_maximum: Array, *, exact: bool
) -> TestFamily:
    """Build a `TestFamily` in the original order of comparisons from counts sorted by `order`."""
    draws = max(len(null_maximum), 1)
    p, adjusted = np.empty(len(order)), np.empty(len(order))
    p[order] = single / draws
    adjusted[order] = np.maximum.accumulate(joint / draws)
    return TestFamily(observed, p, adjusted, null_maximum, draws, exact)


def benjamini_hochberg(p: Array) -> Array:
    """Return adjusted p-values that bound the false discovery rate.

    For exploration only: single findings may be false if there are many true differences. Do not use it to
    claim that one method is better than another.

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5])).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.5]
    """
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    out = np.empty(len(p))
    out[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return out


Flags = NDArray[np.bool_]


def letter(index: int) -> str:
    """Return the letters of group number `index`: a, b, … z, aa, ab, and so on.

    >>> [letter(i) for i in (0, 25, 26, 27, 701, 702)]
    ['a', 'z', 'aa', 'ab', 'zz', 'aaa']
    """
    name = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        name = chr(ord("a") + digit) + name
    return name


def letter_groups(separated: Flags) -> list[tuple[str, ...]]:
    """Assign letters to methods. Two methods share a letter if and only if they are not separated.

    Methods are sorted best first. `separated` (m, m) is symmetric. A letter stands for a set of methods of
    which no two are separated. The sets are found greedily in polynomial time. A method that is separated
    from all others has a letter that no other method has.

    >>> s = np.zeros((3, 3), dtype=bool); s[0, 2] = s[2, 0] = True
    >>> letter_groups(s)
    [('a',), ('a', 'b'), ('b',)]
    """
    m = len(separated)
    together = ~np.asarray(separated, dtype=bool)
    np.fill_diagonal(together, False)
    open_pairs = together.copy()
    groups: list[list[int]] = []
    for i in range(m):
        if not together[i].any():
            groups.append([i])
        while open_pairs[i].any():
            group = _grow([i, int(np.argmax(open_pairs[i]))], together, open_pairs)
            open_pairs[np.ix_(group, group)] = False
            groups.append(group)
    groups.sort()
    letters: list[list[str]] = [[] for _ in range(m)]
    for g, group in enumerate(groups):
        for i in group:
            letters[i].append(letter(g))
    return [tuple(own) for own in letters]


def _grow(group: list[int], together: Flags, open_pairs: Flags) -> list[int]:
    """Extend a group by methods that are not separated from any member.

    The method that covers the most pairs in `open_pairs` is added first.
    """
    fits = together[group].all(axis=0)
    covers = open_pairs[group].sum(axis=0)
    while fits.any():
        best = int(np.argmax(np.where(fits, covers, -1)))
        group = [*group, best]
        fits &= together[best]
        covers += open_pairs[best]
    return sorted(group)


def join_letters(letters: tuple[str, ...]) -> str:
    """Join letters to one string, separated by blanks if a name has two or more characters.

    >>> join_letters(("a", "b")), join_letters(("z", "aa"))
    ('ab', 'z aa')
    """
    return ("" if all(len(x) == 1 for x in letters) else " ").join(letters)


def rank_intervals(better: Flags) -> tuple[Ints, Ints]:
    """Return the best and worst possible rank of each method, from the separated pairs.

    `better` (m, m) is True at [i, j] if method i is significantly better than method j. The best rank is 1 +
    the number of significantly better methods. The worst rank is m - the number of significantly worse
    methods. With family-wise tests at 95 %, the probability that all rank intervals are correct is 95 %. Rank
    intervals from bootstrap resamples would be too narrow for methods that are close. Returns best (m,) and
    worst (m,), counted from 1.

    >>> rank_intervals(np.array([[False, False, True], [False] * 3, [False] * 3]))
    (array([1, 1, 2]), array([2, 3, 3]))
    """
    m = len(better)
    return 1 + better.sum(axis=0).astype(np.int64), m - better.sum(axis=1).astype(np.int64)
