# SPDX-License-Identifier: BSD-3-Clause
"""The truth of the 2016 matching benchmark: from its `.labels` file, or patch k to patch k without one.

Three lines a pair of images: header, indices in the first, corresponding indices in the second. A ``#``
begins a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import write_lines
from ..text.numbers import parse_table
from .definitions import MatchingBenchmark, without_comments


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
