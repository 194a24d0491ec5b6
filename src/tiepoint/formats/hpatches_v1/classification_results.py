# SPDX-License-Identifier: BSD-3-Clause
"""`.results` of the 2016 classification benchmark: one dissimilarity a line, in the order of the pairs.

The first published form, that of the document, repeated the label in a second column and had one file for
each `.pairs`; the final one has the score alone and one file for each `.benchmark`. Both are read and
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import read_bytes, write_bytes
from ..text.numbers import parse_table
from .classification import LabelledPairs

_CHUNK = 1 << 16


def refuse_nan(path: str | Path, values: NDArray[np.float64], on_nan: str, line: int | None = None) -> None:
    """Make NaN infinite in place (`on_nan` "miss"), or raise a `FormatError` naming the first ("error")."""
    bad = np.flatnonzero(np.isnan(values))
    if not bad.size:
        return
    if on_nan != "miss":
        where = int(bad[0]) + 1
        place = f"value {where} is" if line is not None else "the dissimilarity is"
        reason = f'{place} NaN ({bad.size} such); correct them, or count them as misses: `on_bad="miss"`'
        raise FormatError(path, reason, line=where if line is None else line)
    values[bad] = np.inf


def read_distances(
    path: str | Path, count: int, *, labels: NDArray[np.bool_] | None = None, on_nan: str = "error"
) -> NDArray[np.float64]:
    """Read `count` dissimilarities; a second column must be 0 or 1 and equal to `labels` where given.

    Infinity stands for "never retrieved". NaN is an error, or infinity with ``on_nan="miss"``.
    """
    data = read_bytes(path)
    head = data[: data.find(b"\n") if b"\n" in data else len(data)]
    columns = 2 if head.count(b",") == 1 else 1
    table = parse_table(data, path=path, dtype=np.float64, delimiter=",", columns=columns)
    if len(table) != count:
        raise FormatError(path, f"expected {count} lines (one per pair), found {len(table)}")
    if columns == 2:
        wrong = np.flatnonzero((table[:, 1] != 0) & (table[:, 1] != 1))
        if wrong.size:
            raise FormatError(
                path, f"the label is {table[wrong[0], 1]:g}, not 0 or 1", line=int(wrong[0]) + 1
            )
        if labels is not None:
            wrong = np.flatnonzero((table[:, 1] == 1) != labels)
            if wrong.size:
                reason = "the label is not that of the benchmark; are the lines in the order of the pairs?"
                raise FormatError(path, reason, line=int(wrong[0]) + 1)
    distances = np.ascontiguousarray(table[:, 0])
    refuse_nan(path, distances, on_nan)
    return distances


def missing_results(folder: str | Path, benchmark: LabelledPairs) -> list[str]:
    """Names of the files that a results folder lacks for a benchmark: its own, or those of its lists."""
    root = Path(folder)
    lists = [f"{name}.results" for name in benchmark.parts if not (root / f"{name}.results").is_file()]
    return [] if (root / f"{benchmark.name}.results").is_file() else lists


def read_classification_results(
    folder: str | Path, benchmark: LabelledPairs, *, on_nan: str = "error"
) -> NDArray[np.float64]:
    """Dissimilarities of a benchmark's pairs from a results folder.

    Reads ``BENCHMARK.results``, or else one file for each `.pairs` (``train_easy_pos.results``, …). Where a
    list has the name of the benchmark, its file is that of the list if those of the other lists are there.
    """
    root = Path(folder)
    whole = root / f"{benchmark.name}.results"
    parts = {name: root / f"{name}.results" for name in benchmark.parts}
    missing = [path.name for path in parts.values() if not path.is_file()]
    if whole.is_file() and (missing or benchmark.name not in parts):
        return read_distances(whole, len(benchmark.pairs), labels=benchmark.labels, on_nan=on_nan)
    if missing:
        raise FormatError(whole, f"does not exist, and neither does {' nor '.join(missing)} in {root}")
    return np.concatenate(
        [
            read_distances(parts[name], rows.stop - rows.start, labels=benchmark.labels[rows], on_nan=on_nan)
            for name, rows in benchmark.slices().items()
        ]
    )


def write_classification_results(
    path: str | Path, distances: NDArray[np.float64], labels: NDArray[np.bool_] | None = None
) -> None:
    """Write one dissimilarity a line with six decimals (``Inf`` for infinity), as the 2016 tool does.

    With `labels`, the truth follows behind a comma.
    """

    def chunks() -> Iterator[bytes]:
        for lo in range(0, len(distances), _CHUNK):
            part = distances[lo : lo + _CHUNK]
            if labels is None:
                text = ("%.6f\n" * len(part)) % tuple(part.tolist())
            else:
                own = labels[lo : lo + _CHUNK].astype(int).tolist()
                text = "".join(f"{d:.6f},{y}\n" for d, y in zip(part.tolist(), own, strict=True))
            yield (
                text if np.isfinite(part).all() else text.replace("inf", "Inf").replace("nan", "NaN")
            ).encode()

    write_bytes(path, chunks())
