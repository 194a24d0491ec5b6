# SPDX-License-Identifier: BSD-3-Clause
"""Read and write files of the 2016 classification benchmark: `.pairs`, `.labels`, `.results`.

Labels are one 0 or 1 per line, in the order of the `.pairs` files. ``#`` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import read_bytes, write_bytes
from ..text.identifiers import scan_fields
from ..text.numbers import parse_table
from .definitions import read_classification, without_comments
from .patch_ids import PatchList, check_patch_ids, recode, sequence_codes, split_image

_CHUNK = 1 << 16


@dataclass(frozen=True)
class PatchPairs:
    """Pairs of patches. The patches refer to a common list of image names ``SEQ.IM``.

    `labels` is None if the file has no labels.
    """

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
        """First patch of each pair."""
        return PatchList(self.images, self.image_a, self.index_a)

    @property
    def b(self) -> PatchList:
        """Second patch of each pair."""
        return PatchList(self.images, self.image_b, self.index_b)


def same_patch(pairs: PatchPairs) -> NDArray[np.bool_]:
    """Return whether the two patches of each pair have the same sequence and patch index.

    >>> zero, five = np.zeros(2, np.int32), np.array([5, 5])
    >>> p = PatchPairs(("a.ref", "a.e1"), zero, five, zero + 1, np.array([5, 6]))
    >>> same_patch(p).tolist()
    [True, False]
    """
    _, sequence = sequence_codes(pairs.images)
    same: NDArray[np.bool_] = sequence[pairs.image_a] == sequence[pairs.image_b]
    return same & (pairs.index_a == pairs.index_b)


def read_patch_pairs(path: str | Path, counts: Mapping[str, int] | None = None) -> PatchPairs:
    """Read a `.pairs` file with or without labels.

    Args:
        path: The file. All lines must have the same number of columns, 2 or 3.
        counts: Number of patches of each image ``SEQ.IM`` of the dataset. If None, patches are not checked.

    Raises:
        FormatError: The file is empty, a field is malformed, an image is unknown, or an index is out of
            range.
    """
    with without_comments(path) as data:
        first = data.partition(b"\n")[0]
        if not first.strip():
            raise FormatError(path, "the file is empty; expected lines 'patch_a,patch_b'")
        width = 3 if first.count(b",") == 2 else 2
        fields = scan_fields(data, "ppl"[:width], path=path)
        names, numbers = fields.names.reshape(-1, width), fields.numbers.reshape(-1, width)
        labels = numbers[:, 2] == 1 if width == 3 else None
        pairs = PatchPairs(
            fields.table, names[:, 0].copy(), numbers[:, 0].copy(), names[:, 1].copy(), numbers[:, 1].copy(),
            labels,
        )  # fmt: skip
        if counts is not None:
            check_patch_ids(pairs.a, counts, path=path, line_of=lambda i: i + 1)
            check_patch_ids(pairs.b, counts, path=path, line_of=lambda i: i + 1)
        return pairs


def has_label_column(path: str | Path) -> bool:
    """Return whether the first line of a `.pairs` file has a label after the two patches."""
    with without_comments(path) as data:
        return data.partition(b"\n")[0].count(b",") == 2


def write_patch_pairs(path: str | Path, pairs: PatchPairs) -> None:
    """Write a `.pairs` file: ``patch_a,patch_b`` per line, and ``,label`` if the pairs have labels."""

    def chunks() -> Iterator[bytes]:
        for lo in range(0, len(pairs), _CHUNK):
            part = slice(lo, lo + _CHUNK)
            a = PatchList(pairs.images, pairs.image_a[part], pairs.index_a[part]).ids()
            b = PatchList(pairs.images, pairs.image_b[part], pairs.index_b[part]).ids()
            if pairs.labels is None:
                yield "".join([f"{x},{y}\n" for x, y in zip(a, b, strict=True)]).encode()
            else:
                labels = pairs.labels[part].astype(int).tolist()
                yield "".join([f"{x},{y},{z}\n" for x, y, z in zip(a, b, labels, strict=True)]).encode()

    write_bytes(path, chunks())


def concatenate(parts: Sequence[PatchPairs]) -> PatchPairs:
    """Concatenate lists of patch pairs. Labels are retained if every list has labels."""
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


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of a classification benchmark in file order, with ground truth.

    `parts` has the names of the benchmark's pair lists, and `sizes` their numbers of pairs.
    """

    name: str
    pairs: PatchPairs
    labels: NDArray[np.bool_]
    parts: tuple[str, ...]
    sizes: tuple[int, ...]

    def slices(self) -> dict[str, slice]:
        """Return the slice of rows of each pair list, by name."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return {name: slice(lo, hi) for name, lo, hi in zip(self.parts, ends, ends[1:], strict=False)}


def read_classification_labels(path: str | Path, count: int) -> NDArray[np.bool_] | None:
    """Read the labels of `count` pairs. Return None if the file is empty, as in the first release."""
    with without_comments(path) as data:
        if not data.strip():
            return None
        fields = scan_fields(data, "l", path=path)
    if fields.rows != count:
        raise FormatError(path, f"expected {count} labels (one per pair), found {fields.rows}")
    return fields.numbers == 1


def load_classification(path: str | Path, counts: Mapping[str, int] | None = None) -> LabelledPairs:
    """Read a classification `.benchmark` file with its pairs and ground truth.

    The ground truth is read from the `.labels` file in the same folder, or else from the third column of each
    `.pairs` file. Without both, patches correspond if sequence and index are equal. An empty `.labels` file
    counts as missing.

    Raises:
        FormatError: A file is invalid, or there is no positive or no negative pair.
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
        has_label = np.repeat([part.labels is not None for part in lists], [len(part) for part in lists])
        wrong = np.flatnonzero((labels != stated) & has_label)
        if wrong.size:
            reason = "the label differs from that in the .pairs file; remove one of the labels"
            raise FormatError(labels_path, reason, line=int(wrong[0]) + 1)
    if labels.all() or not labels.any():
        kind = "negative" if labels.all() else "positive"
        raise FormatError(
            p, f"has {len(pairs)} pairs, but no {kind} one; add one, because a score needs both kinds"
        )
    names, sizes = tuple(part.stem for part in benchmark.pairs), tuple(len(part) for part in lists)
    return LabelledPairs(p.stem, pairs, labels, names, sizes)


def write_classification_labels(path: str | Path, labels: NDArray[np.bool_]) -> None:
    """Write a `.labels` file: 0 or 1 per line.

    As in the published files, the last line has no line feed.
    """
    text = np.full((len(labels), 2), ord("\n"), np.uint8)
    text[:, 0] = ord("0") + labels.astype(np.uint8)
    write_bytes(path, (text.tobytes()[:-1],))


def refuse_nan(path: str | Path, values: NDArray[np.float64], on_nan: str, line: int | None = None) -> None:
    """Replace NaN by infinity in place if `on_nan` is "miss". Otherwise raise a `FormatError` for NaN."""
    bad = np.flatnonzero(np.isnan(values))
    if not bad.size:
        return
    if on_nan != "miss":
        number = int(bad[0]) + 1
        value = f"value {number} is" if line is not None else "the dissimilarity is"
        reason = f'{value} NaN ({bad.size} such); correct them, or count them as misses: `on_bad="miss"`'
        raise FormatError(path, reason, line=number if line is None else line)
    values[bad] = np.inf


def read_distances(
    path: str | Path, count: int, *, labels: NDArray[np.bool_] | None = None, on_nan: str = "error"
) -> NDArray[np.float64]:
    """Read `count` dissimilarities from a `.results` file.

    An optional second column has labels, 0 or 1. If `labels` is given, the column must equal it. Infinity
    means "never retrieved". NaN is an error, or is read as infinity with ``on_nan="miss"``.
    """
    data = read_bytes(path)
    columns = 2 if data.partition(b"\n")[0].count(b",") == 1 else 1
    table = parse_table(data, path=path, dtype=np.float64, delimiter=",", columns=columns)
    if len(table) != count:
        raise FormatError(path, f"expected {count} lines (one per pair), found {len(table)}")
    if columns == 2:
        wrong = np.flatnonzero((table[:, 1] != 0) & (table[:, 1] != 1))
        if wrong.size:
            label = f"{table[wrong[0], 1]:g}"
            raise FormatError(path, f"the label is {label}, expected 0 or 1", line=int(wrong[0]) + 1)
        if labels is not None:
            wrong = np.flatnonzero((table[:, 1] == 1) != labels)
            if wrong.size:
                reason = "the label differs from the benchmark; are the lines in the order of the pairs?"
                raise FormatError(path, reason, line=int(wrong[0]) + 1)
    distances = np.ascontiguousarray(table[:, 0])
    refuse_nan(path, distances, on_nan)
    return distances


def lengths_in_lists(benchmarks: Iterable[Path]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the number of patches of each sequence in pair lists, and the names of the images.

    The lists only give a lower bound, which is returned: the highest index plus one.
    """
    lengths: dict[str, int] = {}
    images: dict[str, None] = {}
    for path in dict.fromkeys(part for file in benchmarks for part in read_classification(file).pairs):
        pairs = read_patch_pairs(path)
        for patches in (pairs.a, pairs.b):
            last = np.full(len(pairs.images), -1, np.int64)
            np.maximum.at(last, patches.image, patches.index)
            for name, index in zip(pairs.images, last.tolist(), strict=True):
                sequence, image = split_image(name)
                lengths[sequence] = max(lengths.get(sequence, 0), index + 1)
                images[image] = None
    return lengths, tuple(images)


def missing_results(folder: str | Path, benchmark: LabelledPairs) -> list[str]:
    """Return the names of a benchmark's missing `.results` files. Empty if its results are complete."""
    root = Path(folder)
    lists = [f"{name}.results" for name in benchmark.parts if not (root / f"{name}.results").is_file()]
    return [] if (root / f"{benchmark.name}.results").is_file() else lists


def read_classification_results(
    folder: str | Path, benchmark: LabelledPairs, *, on_nan: str = "error"
) -> NDArray[np.float64]:
    """Read the dissimilarities of a benchmark's pairs from a results folder.

    The function reads ``BENCHMARK.results`` if it exists, and otherwise one file per pair list
    (``train_easy_pos.results``, …). If a pair list has the name of the benchmark, ``BENCHMARK.results`` is
    ambiguous. It is then the file of that list if the files of all other lists exist.
    """
    root = Path(folder)
    combined = root / f"{benchmark.name}.results"
    parts = {name: root / f"{name}.results" for name in benchmark.parts}
    missing = [path.name for path in parts.values() if not path.is_file()]
    if combined.is_file() and (missing or benchmark.name not in parts):
        return read_distances(combined, len(benchmark.pairs), labels=benchmark.labels, on_nan=on_nan)
    if missing:
        raise FormatError(
            combined,
            f"does not exist, and neither does {' nor '.join(missing)} in {root}; provide one of them",
        )
    return np.concatenate(
        [
            read_distances(parts[name], rows.stop - rows.start, labels=benchmark.labels[rows], on_nan=on_nan)
            for name, rows in benchmark.slices().items()
        ]
    )


def write_classification_results(
    path: str | Path, distances: NDArray[np.float64], labels: NDArray[np.bool_] | None = None
) -> None:
    """Write a `.results` file as the 2016 tool does.

    Each line has one dissimilarity with six decimals (``Inf`` for infinity). If `labels` is given, the label
    follows after a comma.
    """

    def chunks() -> Iterator[bytes]:
        for lo in range(0, len(distances), _CHUNK):
            part = distances[lo : lo + _CHUNK]
            if labels is None:
                text = ("%.6f\n" * len(part)) % tuple(part.tolist())
            else:
                own = labels[lo : lo + _CHUNK].astype(int).tolist()
                text = "".join(f"{d:.6f},{y}\n" for d, y in zip(part.tolist(), own, strict=True))
            if not np.isfinite(part).all():
                text = text.replace("inf", "Inf").replace("nan", "NaN")
            yield text.encode()

    write_bytes(path, chunks())
