# SPDX-License-Identifier: BSD-3-Clause
"""Read, write and find `.benchmark` files of 2016, which define the tasks.

* A classification file has names of `.pairs` files in the same folder, one per line. All their pairs are
  scored together.
* A matching file has ``SEQ.IM,SEQ.IM`` on each line, reference image first.
* A retrieval file has the comma-separated images of the pool on the first line, then one query patch per
  line.

``#`` starts a comment in all files.
"""

from __future__ import annotations

import contextlib
import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from ...core.errors import FormatError, InputError, UnknownNameError
from ...core.formatting import found_in
from ..file_io import lines_of, read_bytes, write_lines
from ..text.identifiers import scan_fields, split_first_line
from .patch_ids import PatchList, check_images, check_patch_ids, recode, split_image

TASKS = ("classification", "matching", "retrieval")


@dataclass(frozen=True)
class ClassificationBenchmark:
    """Classification benchmark: its name and its `.pairs` files in file order."""

    name: str
    pairs: tuple[Path, ...]


@dataclass(frozen=True)
class MatchingBenchmark:
    """Matching benchmark: its name and its image pairs (reference, target)."""

    name: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RetrievalBenchmark:
    """Retrieval benchmark: its name, the images of the pool, and the queries (indices into `pool`)."""

    name: str
    pool: tuple[str, ...]
    queries: PatchList


@contextlib.contextmanager
def without_comments(path: str | Path) -> Iterator[bytes]:
    """Yield the content of a file without comments.

    Lines that have only a comment are removed. If a `FormatError` is raised inside the block, its line number
    is changed to that in the original file.
    """
    data = read_bytes(path)
    if b"#" not in data:
        yield data
        return
    lines, numbers = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        text, mark, _ = line.partition(b"#")
        if not mark or text.strip():
            lines.append(text.rstrip() if mark else text)
            numbers.append(number)
    try:
        yield b"\n".join(lines)
    except FormatError as e:
        if e.line is None or e.path != Path(path) or e.line > len(numbers):
            raise
        raise FormatError(path, e.reason, line=numbers[e.line - 1]) from e


def read_classification(path: str | Path) -> ClassificationBenchmark:
    """Read a classification `.benchmark` file. Its `.pairs` files must be in the same folder."""
    p = Path(path)
    with without_comments(p) as data:
        lines = lines_of(data, p)
        if not lines:
            raise FormatError(p, "the file is empty; expected names of .pairs files, one per line")
        for number, name in enumerate(lines, 1):
            if not name.endswith(".pairs") or "/" in name or "\\" in name:
                raise FormatError(p, f"expected the name of a .pairs file, found {name!r}", line=number)
            if name in lines[: number - 1]:
                raise FormatError(p, f"duplicate {name!r}; remove one", line=number)
            if not os.path.isfile(p.parent / name):
                reason = f"{name!r} is not in {p.parent}; put it beside the .benchmark"
                raise FormatError(p, reason, line=number)
    return ClassificationBenchmark(p.stem, tuple(p.parent / name for name in lines))


def read_matching(path: str | Path, counts: Mapping[str, int] | None = None) -> MatchingBenchmark:
    """Read a matching `.benchmark` file.

    If `counts` is given, all images must exist and the images of a pair must have the same number of patches.
    """
    with without_comments(path) as data:
        fields = scan_fields(data, "ii", path=path)
        if not fields.rows:
            raise FormatError(path, "the file is empty; expected lines 'SEQ.IM,SEQ.IM'")
        names = [fields.table[code] for code in fields.names]
        pairs = tuple(zip(names[::2], names[1::2], strict=True))
        if len(set(pairs)) != len(pairs):
            first = {pair: i for i, pair in reversed(list(enumerate(pairs)))}
            line = next(i for i, pair in enumerate(pairs) if first[pair] != i)
            raise FormatError(path, f"duplicate pair {','.join(pairs[line])}; remove one", line=line + 1)
        if counts is not None:
            check_images(names, counts, path=path, line_of=lambda i: i // 2 + 1)
            for line, (a, b) in enumerate(pairs, 1):
                if counts[a] != counts[b]:
                    reason = f"{a} has {counts[a]} patches but {b} has {counts[b]}; they must be equal"
                    raise FormatError(path, reason, line=line)
        return MatchingBenchmark(Path(path).stem, pairs)


def read_pool(path: str | Path, line: str, counts: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Parse the first line of a retrieval file and return the images of the pool."""
    pool = scan_fields(line.encode(), "i", repeat=True, path=path)
    if not pool.rows:
        raise FormatError(path, "expected comma-separated images of the pool, found an empty line", line=1)
    if len(pool.table) != len(pool.names):
        code, times = np.unique(pool.names, return_counts=True)
        name = pool.table[code[times > 1][0]]
        raise FormatError(path, f"the pool has the duplicate image {name!r}; remove one", line=1)
    if counts is not None:
        check_images(pool.table, counts, path=path, line_of=lambda _: 1)
    return pool.table


def read_retrieval(path: str | Path, counts: Mapping[str, int] | None = None) -> RetrievalBenchmark:
    """Read a retrieval `.benchmark` file. Queries must be distinct patches of images in the pool."""
    with without_comments(path) as data:
        return _retrieval(path, data, counts)


def _retrieval(path: str | Path, data: bytes, counts: Mapping[str, int] | None) -> RetrievalBenchmark:
    head, rest = split_first_line(data)
    pool = read_pool(path, head, counts)
    fields = scan_fields(rest, "p", path=path, first_line=2)
    queries = PatchList(fields.table, fields.names, fields.numbers)
    if not len(queries):
        raise FormatError(path, "expected one query patch per line after the first line, found none")
    outside = set(fields.table) - set(pool)
    if outside:
        i = next(i for i, code in enumerate(fields.names) if fields.table[code] in outside)
        raise FormatError(
            path,
            f"query {queries.id(i)!r} belongs to an image outside the pool; add the image or remove "
            "the query",
            line=i + 2,
        )
    queries = recode(queries, pool)
    if counts is not None:
        check_patch_ids(queries, counts, path=path, line_of=lambda i: i + 2)
    key = np.stack([queries.image, queries.index], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse.ravel()] != np.arange(len(queries)))
    if repeated.size:
        i = int(repeated[0])
        raise FormatError(path, f"duplicate query {queries.id(i)!r}; remove one", line=i + 2)
    return RetrievalBenchmark(Path(path).stem, pool, queries)


def write_classification(path: str | Path, positives: str, negatives: str) -> None:
    """Write a classification `.benchmark` file that names the `.pairs` files of positives and negatives."""
    write_lines(path, (positives, negatives))


def write_matching(path: str | Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write a matching `.benchmark` file: one image pair per line."""
    write_lines(path, (f"{a},{b}" for a, b in pairs))


def write_retrieval(path: str | Path, benchmark: RetrievalBenchmark) -> None:
    """Write a retrieval `.benchmark` file: the pool on the first line, then the queries."""
    write_lines(path, [",".join(benchmark.pool), *benchmark.queries.ids()])


def task_of(path: str | Path) -> str:
    """Return the task of a `.benchmark` file, detected from its content.

    A classification file names `.pairs` files. A retrieval file has a patch name (two dots) on its second
    line. A matching file has only image names.
    """
    with without_comments(path) as data:
        lines = lines_of(data, path)
    if not lines:
        raise FormatError(path, "the file is empty")
    if lines[0].endswith(".pairs"):
        return "classification"
    try:
        split_image(lines[0].split(",")[0].strip())
    except InputError as e:
        raise FormatError(path, f"is not a benchmark file: {e}", line=1) from e
    return "retrieval" if len(lines) > 1 and lines[1].count(".") == 2 and "," not in lines[1] else "matching"


def find_benchmarks(folder: str | Path, task: str, pattern: str = "*") -> list[Path]:
    """Return the `.benchmark` files of a task below a folder, sorted by name.

    The function searches ``FOLDER/TASK``, ``FOLDER/benchmarks/TASK`` and ``FOLDER``, and returns the files of
    the first folder that has any. In ``FOLDER`` itself, the content of a file determines its task. `pattern`
    selects files by name, with or without the suffix (``train_*``, ``train_easy_illum.benchmark``).
    """
    root = Path(folder)
    if task not in TASKS:
        raise UnknownNameError("2016 task", task, TASKS)
    if not root.is_dir():
        raise InputError(f"the task folder {root} does not exist; pass the folder of the .benchmark files")
    found: list[Path] = []
    for folder in (root / task, root / "benchmarks" / task, root):
        found = sorted(folder.glob("*.benchmark"))
        if folder == root:
            found = [p for p in found if task_of(p) == task]
        if found:
            break
    if not found:
        raise InputError(
            f"no .benchmark file of {task} in {root}, {root / task} or {root / 'benchmarks' / task}; "
            "pass the folder of these files as `tasks`, or create them with `data tasks`"
        )
    selected = [p for p in found if fnmatchcase(p.stem, pattern.removesuffix(".benchmark"))]
    if not selected:
        raise UnknownNameError(f"{task} benchmark", pattern, (p.stem for p in found))
    return selected


def result_folders(folder: str | Path, task: str) -> dict[str, Path]:
    """Return the folders with `.results` files of a task, by descriptor name.

    The function searches ``FOLDER/DESC/TASK``, ``FOLDER/TASK/DESC``, ``FOLDER/TASK`` and ``FOLDER``. In the
    last two cases, the name of FOLDER is the descriptor name.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"the results folder {root} does not exist; pass the folder of the .results files")
    found: dict[str, Path] = {}
    for path in sorted(root.glob(f"*/{task}")):
        if any(path.glob("*.results")):
            found[path.parent.name] = path
    for path in sorted((root / task).glob("*")):
        if path.is_dir() and any(path.glob("*.results")):
            found[path.name] = path
    for path in (root / task, root):
        if not found and path.is_dir() and any(path.glob("*.results")):
            found[root.resolve().name] = path
    if not found:
        raise InputError(
            f"{root} has no .results file: {found_in(root)}\n"
            f"  expected: *.results in DESC/{task}, {task}/DESC, {task} or the folder itself"
        )
    return found
