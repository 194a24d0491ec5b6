# SPDX-License-Identifier: BSD-3-Clause
"""The truth of the 2016 classification benchmark: from its `.labels` file, or from its lists of pairs.

One 0 or 1 a line, in the order of the `.pairs` files. A ``#`` begins a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import write_bytes
from ..text.identifiers import scan_fields
from .definitions import read_classification, without_comments
from .pairs import PatchPairs, concatenate, read_patch_pairs, same_patch


@dataclass(frozen=True)
class LabelledPairs:
    """A classification benchmark ready to score: pairs in file order, truth, names and sizes of the lists."""

    name: str
    pairs: PatchPairs
    labels: NDArray[np.bool_]
    parts: tuple[str, ...]
    sizes: tuple[int, ...]

    def slices(self) -> dict[str, slice]:
        """The rows of each list, by its name."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return {name: slice(lo, hi) for name, lo, hi in zip(self.parts, ends, ends[1:], strict=False)}


def read_classification_labels(path: str | Path, count: int) -> NDArray[np.bool_] | None:
    """Labels of `count` pairs; None for an empty file (a placeholder of the first published state)."""
    with without_comments(path) as data:
        if not data.strip():
            return None
        fields = scan_fields(data, "l", path=path)
    if fields.rows != count:
        raise FormatError(path, f"expected {count} labels (one per pair), found {fields.rows}")
    return fields.numbers == 1


def load_classification(path: str | Path, counts: Mapping[str, int] | None = None) -> LabelledPairs:
    """Read a classification `.benchmark` with its pairs and truth.

    The truth is that of the `.labels` file beside it; where that is missing or empty, the third column of
    each `.pairs` file; where one has none, the identifiers (same sequence, same index).

    Raises:
        FormatError: As the readers do, and when there is no negative or no positive pair.
    """
    p = Path(path)
    benchmark = read_classification(p)
    lists = [read_patch_pairs(part, counts) for part in benchmark.pairs]
    pairs = concatenate(lists)
    labels_path = p.with_suffix(".labels")
    labels = read_classification_labels(labels_path, len(pairs)) if labels_path.is_file() else None
    stated = np.concatenate([same_patch(part) if part.labels is None else part.labels for part in lists])
    if labels is None:
        labels = stated
    else:
        said = np.repeat([part.labels is not None for part in lists], [len(part) for part in lists])
        wrong = np.flatnonzero((labels != stated) & said)
        if wrong.size:
            reason = "differs from the label in the .pairs file; remove one"
            raise FormatError(labels_path, reason, line=int(wrong[0]) + 1)
    if labels.all() or not labels.any():
        kind = "negative" if labels.all() else "positive"
        raise FormatError(
            p, f"has no {kind} pair among {len(pairs)}, so there is nothing to tell apart and no score"
        )
    names, sizes = tuple(part.stem for part in benchmark.pairs), tuple(len(part) for part in lists)
    return LabelledPairs(p.stem, pairs, labels, names, sizes)


def write_classification_labels(path: str | Path, labels: NDArray[np.bool_]) -> None:
    """Write 0 or 1 a line; as in the published files, no line feed after the last."""
    text = np.full((len(labels), 2), ord("\n"), np.uint8)
    text[:, 0] = ord("0") + labels.astype(np.uint8)
    write_bytes(path, (text.tobytes()[:-1],))
