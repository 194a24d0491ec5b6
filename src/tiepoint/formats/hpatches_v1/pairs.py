# SPDX-License-Identifier: BSD-3-Clause
"""`.pairs` files of the 2016 classification benchmark: one pair of patches a line.

Final form ``patch_a,patch_b``; the first published form had a third column, the label 0 or 1, so that a
list may hold both. Both forms are read, the final one is written. A ``#`` begins a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import write_bytes
from ..text.identifiers import scan_fields
from .definitions import without_comments
from .patch_ids import PatchList, check_patch_ids, recode, sequence_codes

_PAIR_CHUNK = 1 << 16


@dataclass(frozen=True)
class PatchPairs:
    """Pairs of patches with one table of image names ``SEQ.IM``; `labels` where the file had them."""

    images: tuple[str, ...]
    image_a: NDArray[np.int32]
    index_a: NDArray[np.int64]
    image_b: NDArray[np.int32]
    index_b: NDArray[np.int64]
    labels: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.index_a)

    @property
    def a(self) -> PatchList:
        """First patches."""
        return PatchList(self.images, self.image_a, self.index_a)

    @property
    def b(self) -> PatchList:
        """Second patches."""
        return PatchList(self.images, self.image_b, self.index_b)


def same_patch(pairs: PatchPairs) -> NDArray[np.bool_]:
    """Truth by identifiers: a pair corresponds if sequence and index are equal.

    >>> zero, five = np.zeros(2, np.int32), np.array([5, 5])
    >>> p = PatchPairs(("a.ref", "a.e1"), zero, five, zero + 1, np.array([5, 6]))
    >>> same_patch(p).tolist()
    [True, False]
    """
    _, sequence = sequence_codes(pairs.images)
    same: NDArray[np.bool_] = sequence[pairs.image_a] == sequence[pairs.image_b]
    return same & (pairs.index_a == pairs.index_b)


def read_patch_pairs(path: str | Path, counts: Mapping[str, int] | None = None) -> PatchPairs:
    """Read a `.pairs` file of either era.

    Args:
        path: The file. The number of columns (2 or 3) is that of the first line and holds for all.
        counts: Patches of every image ``SEQ.IM`` of the dataset; None leaves that check out.

    Raises:
        FormatError: Empty file, wrong field, unknown sequence or image, index out of range.
    """
    with without_comments(path) as data:
        return _pairs(path, data, counts)


def _pairs(path: str | Path, data: bytes, counts: Mapping[str, int] | None) -> PatchPairs:
    first = data[: data.find(b"\n") if b"\n" in data else len(data)]
    if not first.strip():
        raise FormatError(path, "the file is empty; expected lines 'patch_a,patch_b'")
    width = 3 if first.count(b",") == 2 else 2
    fields = scan_fields(data, "ppl"[:width], path=path)
    names, numbers = fields.names.reshape(-1, width), fields.numbers.reshape(-1, width)
    pairs = PatchPairs(
        fields.table,
        names[:, 0].copy(),
        numbers[:, 0].copy(),
        names[:, 1].copy(),
        numbers[:, 1].copy(),
        numbers[:, 2] == 1 if width == 3 else None,
    )
    if counts is not None:
        check_patch_ids(pairs.a, counts, path=path, line_of=lambda i: i + 1)
        check_patch_ids(pairs.b, counts, path=path, line_of=lambda i: i + 1)
    return pairs


def write_patch_pairs(path: str | Path, pairs: PatchPairs) -> None:
    """Write the final form, ``patch_a,patch_b`` a line, LF, ended by a line feed."""

    def chunks() -> Iterator[bytes]:
        for lo in range(0, len(pairs), _PAIR_CHUNK):
            part = slice(lo, lo + _PAIR_CHUNK)
            a = PatchList(pairs.images, pairs.image_a[part], pairs.index_a[part]).ids()
            b = PatchList(pairs.images, pairs.image_b[part], pairs.index_b[part]).ids()
            yield "".join([f"{x},{y}\n" for x, y in zip(a, b, strict=True)]).encode()

    write_bytes(path, chunks())


def concatenate(parts: Sequence[PatchPairs]) -> PatchPairs:
    """One list of pairs after another, with one image table; labels are kept if every part has them."""
    images = tuple(dict.fromkeys(name for part in parts for name in part.images))
    a = [recode(part.a, images) for part in parts]
    b = [recode(part.b, images) for part in parts]
    labels = [part.labels for part in parts if part.labels is not None]
    return PatchPairs(
        images,
        np.concatenate([x.image for x in a]),
        np.concatenate([x.index for x in a]),
        np.concatenate([x.image for x in b]),
        np.concatenate([x.index for x in b]),
        np.concatenate(labels) if len(labels) == len(parts) else None,
    )
