# SPDX-License-Identifier: BSD-3-Clause
"""Groups of methods that cannot be told apart, as letters, and intervals of ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


def letter(index: int) -> str:
    """The name of group number `index`: a, b, … z, aa, ab, … and so on without end.

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
    """Letters such that two methods share one if and only if they are not separated.

    Methods come best first. Groups are sets in which no two methods are separated; they are grown greedily
    from the pairs not yet covered, so the effort stays polynomial for any number of methods (all maximal sets
    could be exponentially many). A method separated from all others has a letter of its own.

    Args:
        separated: symmetric (m, m); the diagonal is ignored.

    Returns:
        The letters of each method, in alphabetical order of the groups.

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
    found: list[list[str]] = [[] for _ in range(m)]
    for g, group in enumerate(groups):
        for i in group:
            found[i].append(letter(g))
    return [tuple(letters) for letters in found]


def _grow(group: list[int], together: Flags, open_pairs: Flags) -> list[int]:
    """Add methods not separated from any in the group, those first that cover most open pairs."""
    fits = together[group].all(axis=0)
    covers = open_pairs[group].sum(axis=0)
    while fits.any():
        best = int(np.argmax(np.where(fits, covers, -1)))
        group = [*group, best]
        fits &= together[best]
        covers += open_pairs[best]
    return sorted(group)


def join_letters(letters: tuple[str, ...]) -> str:
    """Letters as one text: run together while single, with blanks once a name has two characters.

    >>> join_letters(("a", "b")), join_letters(("z", "aa"))
    ('ab', 'z aa')
    """
    return ("" if all(len(x) == 1 for x in letters) else " ").join(letters)


def rank_intervals(better: Flags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks a method may truly have, given which are separated and in which direction.

    With family-wise tests at 95 %, all intervals hold at once with 95 %: the best rank is 1 + the number of
    methods separated above, the worst is m - the number separated below. Ranks of resampled tables would be
    too narrow just where methods are close.

    Args:
        better: better[i, j] is True if i is separated from j and above it, (m, m).

    Returns:
        best (m,), worst (m,), counted from 1.

    >>> rank_intervals(np.array([[False, False, True], [False] * 3, [False] * 3]))
    (array([1, 1, 2]), array([2, 3, 3]))
    """
    m = len(better)
    return 1 + better.sum(axis=0).astype(np.int64), m - better.sum(axis=1).astype(np.int64)
