# SPDX-License-Identifier: BSD-3-Clause
"""Sample the 2017 lists of pairs and queries, by the published recipe or without its flaws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_json, seeded_generator
from ...formats.hpatches.task_lists import RefPatches, VerificationPairs
from ...formats.hpatches_v1.classification import PatchPairs
from .sampling_2016 import PatchSpace, draw_pairs, scene_numbers

Ints = NDArray[np.int64]


class LegacyStream:
    """Fast random generator that is bit-identical to `numpy.random.RandomState(seed)`.

    >>> stream, state = LegacyStream(42), np.random.RandomState(42)
    >>> bool((stream.integers(np.full(5, 40)) == state.randint(40, size=5)).all())
    True
    >>> [int(x[0]) for x in stream.first_two(np.array([100]))] == state.permutation(100)[:2].tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        _, key, pos, _, _ = np.random.RandomState(seed).get_state(legacy=True)
        self._pos = int(pos)
        self._state = np.asarray(key, np.uint32).copy()
        self._words = np.empty(624, np.uint32)

    def integers(self, n: Ints) -> Ints:
        """Return ``randint(n[i])`` for every i. All n[i] must be at least 1."""
        from . import _mt19937_loops as kernel

        values = np.empty(len(n), np.int64)
        self._pos = kernel.bounded_integers(
            self._state, self._words, self._pos, np.asarray(n, np.int64) - 1, values
        )
        return values

    def first_two(self, n: Ints) -> tuple[Ints, Ints]:
        """Return ``permutation(n[i])[:2]`` for every i as two columns. All n[i] must be at least 2."""
        from . import _mt19937_loops as kernel

        sizes = np.asarray(n, np.int64)
        if sizes.size and sizes.min() < 2:
            raise InputError(
                "a sequence has only one patch, but sampling a pair needs at least two; exclude the sequence"
            )
        first, second = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.int64)
        swaps = np.empty(int(sizes.max(initial=2)), np.uint32)
        self._pos = kernel.first_two_of_permutation(
            self._state, self._words, self._pos, sizes, first, second, swaps
        )
        return first, second


OFFICIAL_SEED = 42
OFFICIAL_ROWS = 1_000_000
OFFICIAL_IMAGES = 5
"""Number of images that the published recipe uses.

It permutes five image numbers, so image 5 never occurs.
"""


@dataclass(frozen=True)
class VerificationDraw:
    """Verification pairs: positives, negatives within a sequence, negatives between sequences.

    The first patch of row r is the same in all three lists.
    """

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
    """Sample verification pairs by the published recipe, from NumPy's legacy random stream.

    The recipe takes these samples one after another, each for all rows:

    1. a sequence s of the test list;
    2. the first two entries (i, i') of a random permutation of its patches;
    3. the first two entries (t, t') of a permutation of five image numbers;
    4. a second sequence s~ and one of its patches, i~.

    Then pos = (s,t,i | s,t',i), intra = (s,t,i | s,t',i') and inter = (s,t,i | s~,t',i~).

    Flaws of the recipe are reproduced: image 5 is never used, rows repeat, and s~ may be s, even with the
    same patch.
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
    """Sample retrieval queries and distractors by the published recipe.

    The recipe takes four samples per query and ten per distractor: first all sequences, then a patch of each.
    It drops patches with too little contrast (not `usable`), then repeated patches, then distractors that are
    also queries. A small dataset gives fewer queries and distractors.
    """
    stream = LegacyStream(seed)
    n = np.array([lengths[s] for s in test], np.int64)
    starts = np.concatenate([[0], np.cumsum(n)])
    good = np.concatenate([np.asarray(usable[s], bool) for s in test])
    lists: list[NDArray[np.int64]] = []
    for size, draws in ((queries, 4 * queries), (distractors, 10 * distractors)):
        seq = stream.integers(np.full(draws, len(test)))
        patch = starts[seq] + stream.integers(n[seq])
        patch = patch[good[patch]]
        patch = patch[np.sort(np.unique(patch, return_index=True)[1])]
        if lists:
            patch = patch[~np.isin(patch, lists[0])]
        lists.append(patch[:size])
    return _ref_patches(test, starts, lists[0]), _ref_patches(test, starts, lists[1])


def _ref_patches(test: Sequence[str], starts: NDArray[np.int64], patch: NDArray[np.int64]) -> RefPatches:
    seq = np.searchsorted(starts, patch, side="right") - 1
    return RefPatches(tuple(test), seq.astype(np.int32), (patch - starts[seq]).astype(np.int32))


def draw_clean(
    test: Sequence[str],
    lengths: Mapping[str, int],
    *,
    rows: int = OFFICIAL_ROWS,
    images: int = 6,
    seed: int = 0,
    same_scene: Sequence[Sequence[str]] = (),
) -> VerificationDraw:
    """Sample verification pairs without the flaws of the published recipe.

    A pair occurs once, in one order. All images are used, and `inter` pairs are from different scenes.
    Sequences are sampled uniformly, as in the published lists. Each list has `rows` pairs, or half of all
    distinct pairs of its kind if that is less, because small sequences would run out of pairs. `same_scene`
    has groups of sequences that show one scene.
    """
    groups = tuple(tuple(group) for group in same_scene)
    space = PatchSpace(tuple(test), np.array([lengths[s] for s in test], np.int64), images, groups)
    names = {"pos": "pos", "intra": "sameseq", "inter": "diffseq"}
    size = min([rows] + [space.available(kind) // 2 for kind in names.values()])
    key = hash_json([list(test), [lengths[s] for s in test], images])
    numbers = [str(k) for k in range(images)]
    drawn = {
        name: _pair_table(
            draw_pairs(space, kind, size, numbers, seeded_generator(seed, "hpatches clean", key, name)),
            tuple(test),
            images,
        )
        for name, kind in names.items()
    }
    return VerificationDraw(drawn["pos"], drawn["intra"], drawn["inter"])


def _pair_table(pairs: PatchPairs, test: tuple[str, ...], images: int) -> VerificationPairs:
    columns = (
        pairs.image_a // images, pairs.image_a % images, pairs.index_a,
        pairs.image_b // images, pairs.image_b % images, pairs.index_b,
    )  # fmt: skip
    return VerificationPairs(test, *(c.astype(np.int32) for c in columns))


def list_facts(lists: VerificationDraw, same_scene: Sequence[Sequence[str]] = ()) -> dict[str, int]:
    """Count the flaws of verification lists, by name.

    The counts are: repeated rows of each list, distinct positive pairs (in either order), `inter` rows within
    one sequence, `inter` rows of the same patch in two images (false negatives), `inter` rows of two
    sequences that show one scene, and images that occur. `same_scene` has groups of sequences that show one
    scene.
    """
    facts = {"rows": len(lists.pos)}
    for name, table in (("pos", lists.pos), ("intra", lists.intra), ("inter", lists.inter)):
        first, second = _codes(table)
        facts[f"repeated_rows_{name}"] = len(table) - len(np.unique(_pair_key(first, second)))
    first, second = _codes(lists.pos)
    key = _pair_key(np.minimum(first, second), np.maximum(first, second))
    facts["distinct_positive_pairs"] = len(np.unique(key))
    inter = lists.inter
    same = inter.seq1 == inter.seq2
    facts["inter_rows_of_one_sequence"] = int(same.sum())
    facts["inter_rows_of_one_patch"] = int((same & (inter.index1 == inter.index2)).sum())
    scene = scene_numbers(inter.sequences, same_scene)
    facts["inter_rows_of_one_scene"] = int((~same & (scene[inter.seq1] == scene[inter.seq2])).sum())
    facts["images_used"] = len(np.union1d(np.unique(lists.pos.image1), np.unique(lists.pos.image2)))
    return facts


def _codes(table: VerificationPairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    top = int(max(table.index1.max(), table.index2.max())) + 1
    code = [
        (seq.astype(np.int64) * 6 + image) * top + index
        for seq, image, index in (
            (table.seq1, table.image1, table.index1),
            (table.seq2, table.image2, table.index2),
        )
    ]
    return code[0], code[1]


def _pair_key(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return first * (int(second.max()) + 1) + second
