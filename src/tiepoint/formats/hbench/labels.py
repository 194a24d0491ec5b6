# SPDX-License-Identifier: BSD-3-Clause
"""The truth of a 2016 benchmark: from its `.labels` file, or from the identifiers where there is none.

Classification: one 0 or 1 a line, in the order of the `.pairs` files. Matching: three lines a pair of
images (header, indices in the first, corresponding indices in the second). Retrieval: the header of the
benchmark, then per query the corresponding patches, the query first. A ``#`` begins a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError
from ..text.field_scan import scan_fields, split_first_line
from ..text.number_table import parse_table
from ..text_file import write_bytes, write_lines
from .benchmark import (
    MatchingBenchmark,
    RetrievalBenchmark,
    read_classification,
    read_pool,
    without_comments,
)
from .ids import PatchList, check_patches, recode, sequence_codes
from .pairs import PairList, concatenate, read_pairs, same_patch


@dataclass(frozen=True)
class LabelledPairs:
    """A classification benchmark ready to score: pairs in file order, truth, names and sizes of the lists."""

    name: str
    pairs: PairList
    labels: NDArray[np.bool_]
    parts: tuple[str, ...]
    sizes: tuple[int, ...]

    def slices(self) -> dict[str, slice]:
        """The rows of each list, by its name."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return {name: slice(lo, hi) for name, lo, hi in zip(self.parts, ends, ends[1:], strict=False)}


@dataclass(frozen=True)
class Relevant:
    """Relevant patches of queries, the query itself left out: query q has ``offsets[q]:offsets[q + 1]``."""

    patches: PatchList
    offsets: NDArray[np.int64]


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
    lists = [read_pairs(part, counts) for part in benchmark.pairs]
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


def matching_truth(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: str | Path | None = None
) -> list[NDArray[np.int64]]:
    """For each pair of images, the target index of every reference patch, (N,).

    Without a `.labels` file patch k corresponds to patch k.

    Raises:
        FormatError: A missing block, an index out of range or there twice, lists of different length.
    """
    if labels is None:
        return [np.arange(counts[a]) for a, _ in benchmark.pairs]
    with without_comments(labels) as data:
        return _targets(benchmark, counts, labels, data)


def _targets(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: str | Path, data: bytes
) -> list[NDArray[np.int64]]:
    lines = data.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != 3 * len(benchmark.pairs):
        wanted = f"{3 * len(benchmark.pairs)} lines (3 for each of {len(benchmark.pairs)} pairs)"
        raise FormatError(labels, f"expected {wanted}, found {len(lines)}")
    truth = []
    for i, (a, b) in enumerate(benchmark.pairs):
        head = lines[3 * i].decode("utf-8", "replace").replace(" ", "").strip()
        if head != f"{a},{b}":
            raise FormatError(labels, f"expected the pair {a},{b}, found {head!r}", line=3 * i + 1)
        side = [
            _indices(lines[3 * i + k], counts[name], labels, 3 * i + k + 1) for k, name in ((1, a), (2, b))
        ]
        if not len(side[0]) == len(side[1]) == counts[a]:
            found = f"{len(side[0])} and {len(side[1])}"
            reason = f"expected {counts[a]} indices for {a} and as many for {b}, found {found}"
            raise FormatError(labels, reason, line=3 * i + 2)
        target = np.empty(counts[a], np.int64)
        target[side[0]] = side[1]
        truth.append(target)
    return truth


def _indices(text: bytes, count: int, path: str | Path, line: int) -> NDArray[np.int64]:
    values = parse_table(text, path=path, dtype=np.float64, delimiter=",", first_line=line)[0]
    index: NDArray[np.int64] = values.astype(np.int64)
    bad = np.flatnonzero((index != values) | (index < 0) | (index >= count))
    if bad.size:
        reason = f"value {bad[0] + 1} is {values[bad[0]]:g}; expected an index from 0 to {count - 1}"
        raise FormatError(path, reason, line=line)
    if np.unique(index).size != index.size:
        raise FormatError(path, "an index appears twice", line=line)
    return index


def write_matching_labels(
    path: str | Path, benchmark: MatchingBenchmark, truth: Sequence[NDArray[np.int64]]
) -> None:
    """Write three lines a pair: header, reference indices, target indices."""
    lines = []
    for (a, b), target in zip(benchmark.pairs, truth, strict=True):
        lines += [f"{a},{b}", ",".join(map(str, range(len(target)))), ",".join(map(str, target.tolist()))]
    write_lines(path, lines)


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
    check_patches(
        relevant.patches,
        counts,
        path=path,
        line_of=lambda i: int(np.searchsorted(offsets, i, side="right")) + 1,
    )
