# SPDX-License-Identifier: BSD-3-Clause
"""Sample the 2016 benchmarks: distinct patch pairs, retrieval pools and queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...formats.hpatches_v1.classification import PatchPairs
from ...formats.hpatches_v1.patch_ids import PatchList


@dataclass(frozen=True)
class PatchSpace:
    """Sequences with their numbers of patches, and the number of images per sequence.

    The number of images includes the reference image. `same_scene` has groups of sequences that show one
    scene. The two patches of a `diffseq` pair are from different scenes.
    """

    sequences: tuple[str, ...]
    lengths: NDArray[np.int64]
    n_images: int
    same_scene: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def scenes(self) -> NDArray[np.int64]:
        """Scene number of each sequence.

        >>> PatchSpace(("a", "b", "c"), np.array([2, 3, 4]), 3, (("a", "c"),)).scenes.tolist()
        [0, 1, 0]
        """
        return scene_numbers(self.sequences, self.same_scene)

    def available(self, kind: str) -> int:
        """Return the number of distinct unordered patch pairs of a kind, each from two different images.

        >>> space = PatchSpace(("a", "b"), np.array([2, 3]), 3)
        >>> [space.available(kind) for kind in ("pos", "sameseq", "diffseq")]
        [15, 24, 36]
        """
        pairs = self.n_images * (self.n_images - 1)
        n = self.lengths
        total = int(n.sum())
        of_scene = np.bincount(self.scenes, weights=n).astype(np.int64)
        amount = {
            "pos": total * pairs // 2,
            "sameseq": int((n * (n - 1)).sum()) * pairs // 2,
            "diffseq": (total * total - int((of_scene * of_scene).sum())) * pairs // 2,
        }
        return amount[kind]


def scene_numbers(sequences: Sequence[str], same_scene: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return a scene number for each sequence.

    The sequences of a group in `same_scene` have the same number.
    """
    first = {name: group[0] for group in same_scene for name in group}
    heads = [first.get(s, s) for s in sequences]
    number = {name: i for i, name in reversed(list(enumerate(heads)))}
    return np.array([number[h] for h in heads], np.int64)


def draw_pairs(
    space: PatchSpace, kind: str, size: int, images: Sequence[str], rng: np.random.Generator
) -> PatchPairs:
    """Sample `size` distinct patch pairs of a kind.

    A sequence, one of its patches and two different images are sampled uniformly. The second patch is the
    same patch (`pos`), another patch of the sequence (`sameseq`) or a patch of another sequence (`diffseq`).
    Repeated pairs (in either order) and `diffseq` pairs from one scene are rejected.
    """
    if size > space.available(kind):
        raise InputError(
            f"{size} {kind} pairs are requested, but the dataset has {space.available(kind)}; request fewer"
        )
    starts = np.concatenate([[0], np.cumsum(space.lengths)])
    distinct = np.empty((0, 6), np.int64)
    keys = np.empty(0, np.int64)
    while len(distinct) < size:
        rows = _draw(space, kind, max(1024, int(1.2 * (size - len(distinct)))), rng)
        code = [(starts[rows[:, c]] + rows[:, c + 1]) * space.n_images + rows[:, c + 2] for c in (0, 3)]
        new = np.minimum(*code) * (starts[-1] * space.n_images) + np.maximum(*code)
        keys = np.concatenate([keys, new])
        first = np.sort(np.unique(keys, return_index=True)[1])
        distinct = np.concatenate([distinct, rows])[first]
        keys = keys[first]
    rows = distinct[:size]
    table = tuple(f"{s}.{m}" for s in space.sequences for m in images)
    image = [(rows[:, c] * space.n_images + rows[:, c + 2]).astype(np.int32) for c in (0, 3)]
    return PatchPairs(table, image[0], rows[:, 1], image[1], rows[:, 4])


def _draw(space: PatchSpace, kind: str, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sample patch pairs as rows (sequence, index, image, sequence, index, image). Rows may repeat."""
    n_sequences = len(space.sequences)
    seq = rng.integers(0, n_sequences, size)
    index = rng.integers(0, space.lengths[seq])
    image = rng.integers(0, space.n_images, size)
    image2 = (image + rng.integers(1, space.n_images, size)) % space.n_images
    seq2, index2 = seq, index
    good = np.ones(size, bool)
    if kind == "sameseq":
        good = space.lengths[seq] > 1
        index2 = (index + rng.integers(1, np.maximum(space.lengths[seq], 2))) % space.lengths[seq]
    elif kind == "diffseq":
        seq2 = (seq + rng.integers(1, n_sequences, size)) % n_sequences
        index2 = rng.integers(0, space.lengths[seq2])
        good = space.scenes[seq] != space.scenes[seq2]
    return np.stack([seq, index, image, seq2, index2, image2], axis=1)[good]


def draw_retrieval(
    sequences: Sequence[str],
    usable: dict[str, NDArray[np.int64]],
    images: Sequence[str],
    n_sequences: int,
    n_queries: int,
    rng: np.random.Generator,
) -> tuple[tuple[str, ...], PatchList]:
    """Sample a retrieval pool and queries.

    The pool has all patches of `n_sequences` sequences. Queries are patches of these sequences that `usable`
    lists.
    """
    chosen = [sequences[i] for i in rng.permutation(len(sequences))[:n_sequences]]
    pool = tuple(f"{s}.{m}" for s in chosen for m in images)
    sequence = np.repeat(np.arange(n_sequences), [len(usable[s]) for s in chosen])
    index = np.concatenate([usable[s] for s in chosen])
    pick = rng.permutation(len(index))[:n_queries]
    return pool, PatchList(pool, (sequence[pick] * len(images)).astype(np.int32), index[pick])
