# SPDX-License-Identifier: BSD-3-Clause
"""Drawing the 2017 lists: the published recipe, clean lists beside it, and what is wrong with a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formats.hpatches.task_csv import RefPatches, VerificationPairs
from .legacy_stream import LegacyStream

OFFICIAL_SEED = 42
OFFICIAL_ROWS = 1_000_000
OFFICIAL_IMAGES = 5
"""The recipe permutes five image numbers, so image 5 never occurs."""


@dataclass(frozen=True)
class VerificationDraw:
    """Positive pairs, negatives within and between sequences; row r of all three shares its first patch."""

    pos: VerificationPairs
    intra: VerificationPairs
    inter: VerificationPairs


def draw_verification(
    test: Sequence[str],
    lengths: Mapping[str, int],
    *,
    rows: int = OFFICIAL_ROWS,
    images: int = OFFICIAL_IMAGES,
    seed: int = OFFICIAL_SEED,
) -> VerificationDraw:
    """Draw the pairs by the published recipe, from NumPy's legacy stream.

    In this order, each for all rows: a sequence s of the test list; the first two entries (i, i') of a random
    permutation of its patches; the first two (t, t') of a permutation of five image numbers; a second
    sequence s~, and a patch i~ of it. Then pos = (s,t,i | s,t',i), intra = (s,t,i | s,t',i') and
    inter = (s,t,i | s~,t',i~).

    Traps of the recipe, all kept: image 5 is never used, rows repeat, s~ may be s, and even the same patch.
    """
    stream = LegacyStream(seed)
    n = np.array([lengths[s] for s in test], np.int64)
    seq = stream.integers(np.full(rows, len(test)))
    i1, i2 = stream.first_two(n[seq])
    t1, t2 = stream.first_two(np.full(rows, images))
    other = stream.integers(np.full(rows, len(test)))
    i3 = stream.integers(n[other])
    s, a, b, x, y, z, o = (v.astype(np.int32) for v in (seq, t1, t2, i1, i2, i3, other))
    names = tuple(test)
    return VerificationDraw(
        VerificationPairs(names, s, a, x, s, b, x),
        VerificationPairs(names, s, a, x, s, b, y),
        VerificationPairs(names, s, a, x, o, b, z),
    )


def draw_retrieval_lists(
    test: Sequence[str],
    lengths: Mapping[str, int],
    usable: Mapping[str, NDArray[np.bool_]],
    *,
    queries: int = 10_000,
    distractors: int = 20_000,
    seed: int = OFFICIAL_SEED,
) -> tuple[RefPatches, RefPatches]:
    """Draw queries and distractors by the published recipe.

    Four draws a query and ten a distractor, each a sequence, then (after all sequences) a patch; patches
    that are not `usable` (too little contrast) are dropped, then repeats, then distractors that are queries.
    Fewer come out where the dataset has fewer.
    """
    stream = LegacyStream(seed)
    n = np.array([lengths[s] for s in test], np.int64)
    starts = np.concatenate([[0], np.cumsum(n)])
    good = np.concatenate([np.asarray(usable[s], bool) for s in test])
    lists: list[NDArray[np.int64]] = []
    for size, draws in ((queries, 4 * queries), (distractors, 10 * distractors)):
        seq = stream.integers(np.full(draws, len(test)))
        place = starts[seq] + stream.integers(n[seq])
        place = place[good[place]]
        place = place[np.sort(np.unique(place, return_index=True)[1])]
        if lists:
            place = place[~np.isin(place, lists[0])]
        lists.append(place[:size])
    return _ref_patches(test, starts, lists[0]), _ref_patches(test, starts, lists[1])


def _ref_patches(test: Sequence[str], starts: NDArray[np.int64], place: NDArray[np.int64]) -> RefPatches:
    seq = np.searchsorted(starts, place, side="right") - 1
    return RefPatches(tuple(test), seq.astype(np.int32), (place - starts[seq]).astype(np.int32))
