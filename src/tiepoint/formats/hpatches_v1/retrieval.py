# SPDX-License-Identifier: BSD-3-Clause
"""Read and write files of the 2016 retrieval benchmark: `.labels` and `.results`.

A `.labels` file starts with the pool, the first line of the benchmark file. Then each query has one line: the
query, followed by its corresponding patches. ``#`` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import read_bytes, write_bytes, write_lines
from ..text.identifiers import FieldTable, scan_fields, split_first_line
from .definitions import RetrievalBenchmark, read_pool, without_comments
from .patch_ids import PatchList, check_patch_ids, recode, sequence_codes


@dataclass(frozen=True)
class Relevant:
    """Relevant patches of all queries. Those of query q are in rows ``offsets[q]:offsets[q + 1]``.

    The query itself is not included.
    """

    patches: PatchList
    offsets: NDArray[np.int64]


def retrieval_truth(benchmark: RetrievalBenchmark, labels: str | Path | None = None) -> Relevant:
    """Return the relevant patches of every query.

    Without a `.labels` file, these are the patches of the query's index in the other images of its sequence.
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
    _check_same_pool(path, head, benchmark)
    fields = scan_fields(rest, "p", repeat=True, path=path, first_line=2)
    queries = benchmark.queries
    if fields.rows != len(queries):
        raise FormatError(path, f"expected {len(queries)} rows (one per query), found {fields.rows}")
    _check_images_in_pool(path, fields, benchmark.pool)
    patches = recode(PatchList(fields.table, fields.names, fields.numbers), benchmark.pool)
    first = fields.offsets[:-1]
    wrong = np.flatnonzero((patches.image[first] != queries.image) | (patches.index[first] != queries.index))
    if wrong.size:
        i = int(wrong[0])
        reason = f"expected the query {queries.id(i)} first, found {patches.id(int(first[i]))}"
        raise FormatError(path, reason, line=i + 2)
    keep = np.ones(len(patches), bool)
    keep[first] = False
    relevant = PatchList(benchmark.pool, patches.image[keep], patches.index[keep])
    return Relevant(relevant, fields.offsets - np.arange(fields.rows + 1))


def _check_same_pool(path: str | Path, head: str, benchmark: RetrievalBenchmark) -> None:
    if set(read_pool(path, head)) != set(benchmark.pool):
        raise FormatError(
            path,
            f"the image pool differs from that of {benchmark.name}.benchmark; both must be equal",
            line=1,
        )


def _check_images_in_pool(path: str | Path, fields: FieldTable, pool: tuple[str, ...]) -> None:
    outside = sorted(set(fields.table) - set(pool))
    if outside:
        field = int(np.flatnonzero(fields.names == fields.table.index(outside[0]))[0])
        line = int(np.searchsorted(fields.offsets, field, side="right")) + 1
        raise FormatError(path, f"image {outside[0]!r} is not in the pool; correct the image name", line=line)


def write_retrieval_labels(path: str | Path, benchmark: RetrievalBenchmark, relevant: Relevant) -> None:
    """Write a `.labels` file: the pool, then one line per query with its relevant patches."""
    ids, offsets = relevant.patches.ids(), relevant.offsets.tolist()
    rows = (
        ",".join([query, *ids[lo:hi]])
        for query, lo, hi in zip(benchmark.queries.ids(), offsets, offsets[1:], strict=False)
    )
    write_lines(path, (",".join(benchmark.pool), *rows))


def check_relevant(path: str | Path, relevant: Relevant, counts: Mapping[str, int]) -> None:
    """Raise a `FormatError` if a relevant patch is not in the dataset."""
    offsets = relevant.offsets

    def line_of(i: int) -> int:
        return int(np.searchsorted(offsets, i, side="right")) + 1

    check_patch_ids(relevant.patches, counts, path=path, line_of=line_of)


NEIGHBOURS = 51
"""Number of patches per row, including the query."""


@dataclass(frozen=True)
class Rankings:
    """Ranked patches of every query, nearest descriptor first.

    A patch is an image index into `pool` and a patch index, each (queries, neighbours). Column 0 is the
    query.
    """

    pool: tuple[str, ...]
    image: NDArray[np.int32]
    index: NDArray[np.int64]


def read_retrieval_results(
    path: str | Path,
    benchmark: RetrievalBenchmark,
    counts: Mapping[str, int],
    *,
    neighbours: int = NEIGHBOURS,
) -> Rankings:
    """Read the rankings of a benchmark's queries, in the order of the benchmark.

    The file must have the pool of the benchmark and one row for every query, in any order. A row starts with
    the query and has `neighbours` distinct patches of the pool, or fewer if the pool is smaller.
    """
    head, rest = split_first_line(read_bytes(path))
    if not head:
        raise FormatError(path, "the file is empty; expected the pool, then one row per query")
    _check_same_pool(path, head, benchmark)
    width = min(neighbours, sum(counts[name] for name in benchmark.pool))
    fields = scan_fields(rest, "p", repeat=True, path=path, first_line=2)
    lengths = np.diff(fields.offsets)
    wrong = np.flatnonzero(lengths != width)
    if wrong.size:
        i = int(wrong[0])
        reason = f"expected {width} patches (the query and its {width - 1} nearest), found {lengths[i]}"
        raise FormatError(path, reason, line=i + 2)
    _check_images_in_pool(path, fields, benchmark.pool)
    patches = recode(PatchList(fields.table, fields.names, fields.numbers), benchmark.pool)
    check_patch_ids(patches, counts, path=path, line_of=lambda i: i // width + 2)
    image, index = patches.image.reshape(-1, width), patches.index.reshape(-1, width)
    order = _rows_of_queries(path, benchmark, image[:, 0], index[:, 0])
    key = np.sort(index * len(benchmark.pool) + image, axis=1)
    repeated = np.argwhere(key[:, 1:] == key[:, :-1])
    if repeated.size:
        row, column = map(int, repeated[0])
        number, code = divmod(int(key[row, column]), len(benchmark.pool))
        patch = f"{benchmark.pool[code]}.{number}"
        raise FormatError(path, f"duplicate patch {patch} in the row; list each patch once", line=row + 2)
    return Rankings(benchmark.pool, image[order], index[order])


def _rows_of_queries(
    path: str | Path, benchmark: RetrievalBenchmark, image: NDArray[np.int32], index: NDArray[np.int64]
) -> list[int]:
    """Return the row number of each query.

    Raise a `FormatError` for a missing, unknown or duplicate query.
    """
    queries = benchmark.queries
    keys = zip(queries.image.tolist(), queries.index.tolist(), strict=True)
    query_of = {key: i for i, key in enumerate(keys)}
    rows: dict[int, int] = {}
    for row, key in enumerate(zip(image.tolist(), index.tolist(), strict=True)):
        name = f"{benchmark.pool[key[0]]}.{key[1]}"
        query = query_of.get(key)
        if query is None:
            reason = f"expected a query first, {name} is not a query of {benchmark.name}.benchmark"
            raise FormatError(path, reason, line=row + 2)
        if query in rows:
            reason = f"duplicate query {name} (first on line {rows[query] + 2}); remove one"
            raise FormatError(path, reason, line=row + 2)
        rows[query] = row
    missing = [i for i in range(len(queries)) if i not in rows]
    if missing:
        first = queries.id(missing[0])
        raise FormatError(
            path, f"{len(missing)} of {len(queries)} queries have no row; add them, starting with {first}"
        )
    return [rows[i] for i in range(len(queries))]


def write_retrieval_results(path: str | Path, rankings: Rankings) -> None:
    """Write a `.results` file: the pool, then one row per query."""
    pool = rankings.pool

    def chunks() -> Iterator[bytes]:
        yield (",".join(pool) + "\n").encode()
        for image, index in zip(rankings.image.tolist(), rankings.index.tolist(), strict=True):
            row = [f"{pool[m]}.{k}" for m, k in zip(image, index, strict=True)]
            yield (",".join(row) + "\n").encode()

    write_bytes(path, chunks())
