# SPDX-License-Identifier: BSD-3-Clause
"""Read and write files of the 2016 matching benchmark: `.labels` and `.results`.

A `.labels` file has three lines per image pair: the header, the patch indices in the first image, and the
corresponding indices in the second image. ``#`` starts a comment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ..file_io import reading, write_bytes, write_lines
from ..text.numbers import parse_table
from .classification import refuse_nan
from .definitions import MatchingBenchmark, without_comments
from .patch_ids import split_image


def matching_truth(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: str | Path | None = None
) -> list[NDArray[np.int64]]:
    """Return the ground truth of each image pair: for every reference patch, the index of its target, (n,).

    Without a `.labels` file, patch k of one image corresponds to patch k of the other.

    Raises:
        FormatError: An image pair is missing, an index is duplicate or out of range, or lists differ in
            length.
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
        expected = f"{3 * len(benchmark.pairs)} (3 for each of {len(benchmark.pairs)} pairs)"
        raise FormatError(labels, f"has {len(lines)} lines, expected {expected}")
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
            reason = f"expected {counts[a]} indices each for {a} and {b}, found {found}"
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
        raise FormatError(path, "duplicate index", line=line)
    return index


def write_matching_labels(
    path: str | Path, benchmark: MatchingBenchmark, truth: Sequence[NDArray[np.int64]]
) -> None:
    """Write a `.labels` file. Each image pair has a header, reference indices and target indices."""
    lines = []
    for (a, b), target in zip(benchmark.pairs, truth, strict=True):
        lines += [f"{a},{b}", ",".join(map(str, range(len(target)))), ",".join(map(str, target.tolist()))]
    write_lines(path, lines)


@dataclass(frozen=True)
class NeighbourList:
    """Nearest descriptors of one image pair: for each patch of image `a`, the ranked patches of image `b`.

    ``index[k, i]`` is the neighbour of rank k + 1 of patch i.
    """

    a: str
    b: str
    index: NDArray[np.int64]
    distance: NDArray[np.float64]


def iter_matching_results(
    path: str | Path, counts: Mapping[str, int] | None = None, *, on_nan: str = "error"
) -> Iterator[NeighbourList]:
    """Yield the neighbours of each image pair of a results file, one pair at a time to save memory.

    Each image pair must have an even number of lines of equal length. Indices must be integers, unique per
    patch and, if `counts` is given, inside the target image. Dissimilarities must not decrease.
    """
    head: tuple[str, str] | None = None
    block: list[bytes] = []
    start = blank = 0
    with reading(path), open(path, "rb") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise FormatError(path, "empty line; remove it", line=blank)
            images = _header(line)
            if images is None and head is None:
                raise FormatError(
                    path, "expected a pair of images SEQ.IM,SEQ.IM on the first line", line=number
                )
            if images is None:
                block.append(line)
                continue
            if head is not None:
                yield _block(path, head, start, block, counts, on_nan)
            head, start, block = images, number, []
    if head is None:
        raise FormatError(path, "the file is empty; expected a pair of images and its neighbours")
    yield _block(path, head, start, block, counts, on_nan)


def _header(line: bytes) -> tuple[str, str] | None:
    """Return the two images of a header line, or None for other lines.

    A number with a decimal point is not an image name.
    """
    if line.count(b",") != 1:
        return None
    parts = [part.strip() for part in line.decode("utf-8", "replace").split(",")]
    with contextlib.suppress(ValueError):
        float(parts[0])
        return None
    try:
        for part in parts:
            split_image(part)
    except InputError:
        return None
    return parts[0], parts[1]


def _block(
    path: str | Path, head: tuple[str, str], start: int, lines: list[bytes], counts: Mapping[str, int] | None,
    on_nan: str,
) -> NeighbourList:  # fmt: skip
    a, b = head
    if counts is not None:
        unknown = next((image for image in head if image not in counts), None)
        if unknown is not None:
            raise FormatError(path, f"the dataset has no image {unknown!r}", line=start)
    if not lines or len(lines) % 2:
        expected = "expected a line of indices and one of distances for each neighbour"
        raise FormatError(path, f"the pair {a},{b} has {len(lines)} lines; {expected}", line=start)
    columns = counts[a] if counts is not None else lines[0].count(b",") + 1
    rows = [
        parse_table(
            line, path=path, dtype=np.float64, delimiter=",", columns=columns, first_line=start + 1 + i
        )[0]
        for i, line in enumerate(lines)
    ]
    raw, distance = np.stack(rows[::2]), np.stack(rows[1::2])
    with np.errstate(invalid="ignore"):
        index = raw.astype(np.int64)
    limit = counts[b] if counts is not None else np.iinfo(np.int64).max
    bad = np.argwhere((index != raw) | (index < 0) | (index >= limit))
    if bad.size:
        k, i = map(int, bad[0])
        until = f" to {limit - 1}" if counts is not None else ""
        reason = f"value {i + 1} is {raw[k, i]:g}; expected the index of a patch of {b}, 0{until}"
        raise FormatError(path, reason, line=start + 1 + 2 * k)
    for k, row in enumerate(distance):
        refuse_nan(path, row, on_nan, line=start + 2 + 2 * k)
    falls = np.argwhere(distance[1:] < distance[:-1])
    if falls.size:
        k, i = map(int, falls[0])
        value, before = distance[k + 1, i], distance[k, i]
        reason = f"value {i + 1} is {value:g}, less than the {before:g} before it"
        raise FormatError(path, f"dissimilarities must not decrease, but {reason}", line=start + 4 + 2 * k)
    order = np.sort(np.where(np.isfinite(distance), index, -1 - np.arange(len(index))[:, None]), axis=0)
    repeated = np.flatnonzero((order[1:] == order[:-1]).any(axis=0))
    if repeated.size:
        raise FormatError(
            path,
            f"reference patch {repeated[0]} has the same target twice; list each target once",
            line=start + 1,
        )
    return NeighbourList(a, b, index, distance)


def read_matching_results(
    path: str | Path, benchmark: MatchingBenchmark, counts: Mapping[str, int], *, on_nan: str = "error"
) -> list[NeighbourList]:
    """Read the neighbours of all image pairs, in the order of the benchmark.

    A missing, unknown or duplicate image pair is an error.
    """
    found: dict[tuple[str, str], NeighbourList] = {}
    expected = set(benchmark.pairs)
    for block in iter_matching_results(path, counts, on_nan=on_nan):
        pair = (block.a, block.b)
        if pair in found:
            raise FormatError(path, f"duplicate pair {block.a},{block.b}; remove one")
        if pair not in expected:
            raise FormatError(
                path, f"the pair {block.a},{block.b} is not in {benchmark.name}.benchmark; remove it"
            )
        found[pair] = block
    missing = [pair for pair in benchmark.pairs if pair not in found]
    if missing:
        first = ",".join(missing[0])
        raise FormatError(
            path,
            f"{len(missing)} of {len(benchmark.pairs)} pairs are missing; add them, starting with {first}",
        )
    return [found[pair] for pair in benchmark.pairs]


def write_matching_results(path: str | Path, blocks: Iterable[NeighbourList]) -> None:
    """Write a `.results` file with 2 K + 1 lines per image pair.

    Distances are formatted as by the 2016 tool (see `matlab_numbers`).
    """

    def chunks() -> Iterator[bytes]:
        for block in blocks:
            lines = [f"{block.a},{block.b}"]
            for index, distance in zip(block.index, block.distance, strict=True):
                lines += [",".join(map(str, index.tolist())), matlab_numbers(distance)]
            yield ("\n".join(lines) + "\n").encode()

    write_bytes(path, chunks())


def matlab_numbers(values: NDArray[np.float64]) -> str:
    """Format numbers as MATLAB's ``%d`` does: integers plain, others as ``%e``, infinity as ``Inf``.

    >>> matlab_numbers(np.array([7.174843, 12.0, np.inf]))
    '7.174843e+00,12,Inf'
    """
    finite = np.isfinite(values)
    integer = finite & (np.trunc(np.where(finite, values, 0.5)) == values) & (np.abs(values) < 2.0**53)
    if not integer.any() and finite.all():
        return (("%e," * len(values)) % tuple(values.tolist()))[:-1]
    text = [f"{v:.0f}" if w else f"{v:e}" for v, w in zip(values.tolist(), integer.tolist(), strict=True)]
    return ",".join(text).replace("inf", "Inf").replace("nan", "NaN")
