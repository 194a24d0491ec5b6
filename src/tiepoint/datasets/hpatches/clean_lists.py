# SPDX-License-Identifier: BSD-3-Clause
"""Clean lists beside those of the published recipe of 2017, and what is wrong with a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import hash_json, seeded_generator
from ...formats.hpatches.task_csv import VerificationPairs
from ...formats.hpatches_v1.pairs import PatchPairs
from .sampling_2016 import PatchSpace, draw_pairs, scene_numbers
from .sampling_2017 import OFFICIAL_ROWS, VerificationDraw


def draw_clean(
    test: Sequence[str],
    lengths: Mapping[str, int],
    *,
    rows: int = OFFICIAL_ROWS,
    images: int = 6,
    seed: int = 0,
    same_scene: Sequence[Sequence[str]] = (),
) -> VerificationDraw:
    """Pairs without the traps: every row once (in either order), all images, `inter` of different scenes.

    A sequence is drawn uniformly, as in the published lists. Each list has `rows` rows, or half of the
    distinct positive pairs where that is less: else the small sequences would be used up. `same_scene` are
    groups of sequences of one scene, which `inter` rows do not pair.
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
    """What can be said against a set of lists.

    Repeated rows of each list, distinct positive pairs (in either order), inter rows of one sequence, inter
    rows that are the same patch (false negatives), inter rows of two sequences of one scene (`same_scene`
    are groups of them), and how many of the six images occur.
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
