# SPDX-License-Identifier: BSD-3-Clause
"""Strata: the kinds of scenes within which scenes are exchangeable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def strata_of(kinds: Sequence[str]) -> NDArray[np.int64]:
    """Number the strata of scenes, 0 … H-1 in alphabetical order of their kinds.

    A kind with a single scene says nothing about its own spread. Such kinds form one stratum together;
    if that still holds one scene, it joins the smallest other stratum (the first of equals).

    Args:
        kinds: the kind of each scene, (S,).

    Returns:
        Stratum of each scene, int64 (S,).

    >>> strata_of(["v", "i", "v", "i"]).tolist(), strata_of(["v", "i", "v", "x"]).tolist()
    ([1, 0, 1, 0], [1, 0, 1, 0])
    """
    names, stratum = np.unique(np.asarray(kinds, dtype=object).astype(str), return_inverse=True)
    size = np.bincount(stratum, minlength=len(names))
    single = np.flatnonzero(size == 1)
    if len(single) and len(names) > 1:
        if len(single) == 1:
            others = np.flatnonzero(size > 1)
            target = others[np.argmin(size[others])]
        else:
            target = single[0]
        stratum = np.where(np.isin(stratum, single), target, stratum)
    # Renumber by first occurrence among the sorted kinds, so that gaps left by merging vanish.
    return np.unique(stratum, return_inverse=True)[1].astype(np.int64)


def stratum_members(strata: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Indices of the scenes of each stratum, in the order of the strata.

    >>> [m.tolist() for m in stratum_members(np.array([1, 0, 1]))]
    [[1], [0, 2]]
    """
    return [np.flatnonzero(strata == h) for h in range(int(strata.max(initial=-1)) + 1)]
