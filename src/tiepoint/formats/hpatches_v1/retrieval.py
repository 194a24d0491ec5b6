# SPDX-License-Identifier: BSD-3-Clause
"""The truth of the 2016 retrieval benchmark: from its `.labels` file, or from the identifiers without one.

The header of the benchmark, then per query the corresponding patches, the query first. A ``#`` begins a
comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import write_lines
from ..text.identifiers import scan_fields, split_first_line
from .definitions import RetrievalBenchmark, read_pool, without_comments
from .patch_ids import PatchList, check_patch_ids, recode, sequence_codes


@dataclass(frozen=True)
class Relevant:
    """Relevant patches of queries, the query itself left out: query q has ``offsets[q]:offsets[q + 1]``."""

    patches: PatchList
    offsets: NDArray[np.int64]


def retrieval_truth(benchmark: RetrievalBenchmark, labels: str | Path | None = None) -> Relevant:
    """Relevant patches of every query.

    Without a `.labels` file: the patches of the same index in the other images of its sequence.
    """
    queries = benchmark.queries
    if labels is not None:
        with without_comments(labels) as data:
            return _read_relevant(benchmark, labels, data)
    _, sequence = sequence_codes(benchmark.pool)
    others = [np.flatnonzero(sequence == sequence[i]) for i in range(len(benchmark.pool))]
    others = [o[o != i].astype(np.int32) for i, o in enumerate(others)]
    image = [others[m] for m in queries.image.tolist()]
    sizes = np.array([len(m) for m in image], np.int64)
    patches = PatchList(benchmark.pool, np.concatenate(image), np.repeat(queries.index, sizes))
    return Relevant(patches, np.concatenate([[0], np.cumsum(sizes)]))


def _read_relevant(benchmark: RetrievalBenchmark, path: str | Path, data: bytes) -> Relevant:
    head, rest = split_first_line(data)
    if set(read_pool(path, head)) != set(benchmark.pool):
        raise FormatError(path, f"its pool is not that of {benchmark.name}.benchmark", line=1)
    fields = scan_fields(rest, "p", repeat=True, path=path, first_line=2)
    queries = benchmark.queries
    if fields.rows != len(queries):
        raise FormatError(path, f"expected {len(queries)} rows (one per query), found {fields.rows}")
    outside = sorted(set(fields.table) - set(benchmark.pool))
    if outside:
        field = int(np.flatnonzero(fields.names == fields.table.index(outside[0]))[0])
        line = int(np.searchsorted(fields.offsets, field, side="right")) + 1
        raise FormatError(path, f"image {outside[0]!r} is not in the pool", line=line)
    patches = recode(PatchList(fields.table, fields.names, fields.numbers), benchmark.pool)
    first = fields.offsets[:-1]
    wrong = np.flatnonzero((patches.image[first] != queries.image) | (patches.index[first] != queries.index))
    if wrong.size:
        i = int(wrong[0])
        reason = f"expected the query {queries.id(i)} first, found {patches.id(int(first[i]))}"
        raise FormatError(path, reason, line=i + 2)
    keep = np.ones(len(patches), bool)
    keep[first] = False
    kept = PatchList(benchmark.pool, patches.image[keep], patches.index[keep])
    return Relevant(kept, fields.offsets - np.arange(fields.rows + 1))


def write_retrieval_labels(path: str | Path, benchmark: RetrievalBenchmark, relevant: Relevant) -> None:
    """Write the pool, then per query the query and its relevant patches."""
    ids, offsets = relevant.patches.ids(), relevant.offsets.tolist()
    rows = (
        ",".join([query, *ids[lo:hi]])
        for query, lo, hi in zip(benchmark.queries.ids(), offsets, offsets[1:], strict=False)
    )
    write_lines(path, (",".join(benchmark.pool), *rows))


def check_relevant(path: str | Path, relevant: Relevant, counts: Mapping[str, int]) -> None:
    """Raise a `FormatError` when a relevant patch does not exist in the dataset."""
    offsets = relevant.offsets
    check_patch_ids(
        relevant.patches,
        counts,
        path=path,
        line_of=lambda i: int(np.searchsorted(offsets, i, side="right")) + 1,
    )
