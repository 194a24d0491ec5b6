# SPDX-License-Identifier: BSD-3-Clause
"""Read and write HPatches v2 task files: `splits.json`, verification pairs, retrieval patches.

A split names its test sequences, and optionally its training sequences. The order of the test sequences
matters, because the published pairs were sampled by position in this list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.formatting import path_part
from ..file_io import read_bytes, write_bytes
from ..json_yaml import read_json
from ..text.identifiers import scan_fields, split_first_line


@dataclass(frozen=True)
class Split:
    """A split of the sequences: its name, test sequences and training sequences.

    `train` is None if the split defines no training sequences.
    """

    name: str
    test: tuple[str, ...]
    train: tuple[str, ...] | None = None


def splits_file(folder: str | Path) -> Path | None:
    """Return the path of ``splits.json`` for a folder of task files. None if it is missing.

    The folder is searched first, then its sub-folder ``splits``, where the published tool has the file.
    """
    paths = (Path(folder) / "splits.json", Path(folder) / "splits" / "splits.json")
    return next((path for path in paths if path.is_file()), None)


def read_splits(path: str | Path) -> dict[str, Split]:
    """Read a ``splits.json`` file. Return the splits by name.

    Raises:
        FormatError: The file is not JSON, has an unknown key, a list with duplicate or invalid names, or an
            empty test list.
    """
    raw = read_json(path)
    if not isinstance(raw, dict) or not raw:
        raise FormatError(path, "expected a JSON object that maps split names to splits")
    return {str(name): _split(path, str(name), value) for name, value in raw.items()}


def _split(path: str | Path, name: str, value: Any) -> Split:
    try:
        path_part(name, "the split")
    except InputError as e:
        raise FormatError(path, str(e)) from e
    if not isinstance(value, dict) or "test" not in value:
        raise FormatError(path, f"split {name!r}: expected a JSON object with the list 'test'")
    unknown = sorted(set(value) - {"name", "test", "train"})
    if unknown:
        raise FormatError(path, f"split {name!r}: unknown key {unknown[0]!r}; use name, test, train")
    if value.get("name", name) != name:
        raise FormatError(path, f"split {name!r}: its 'name' is {value['name']!r}; both names must be equal")
    lists = {}
    for key in ("test", "train"):
        names = value.get(key)
        if names is None:
            continue
        if not isinstance(names, list) or not all(isinstance(s, str) and s for s in names):
            raise FormatError(path, f"split {name!r}: {key!r} must be a list of sequence names")
        duplicates = sorted({s for s in names if names.count(s) > 1})
        if duplicates:
            raise FormatError(
                path, f"split {name!r}: {key!r} has the duplicate sequence {duplicates[0]!r}; remove one"
            )
        lists[key] = tuple(names)
    if not lists.get("test"):
        raise FormatError(path, f"split {name!r}: the test list is empty; add sequences or remove the split")
    return Split(name, lists["test"], lists.get("train"))


def write_splits(path: str | Path, splits: Mapping[str, Split]) -> None:
    """Write splits in the published format: one line, keys in the order test, train (optional), name."""
    plain: dict[str, dict[str, Any]] = {}
    for key, split in splits.items():
        plain[key] = {"test": list(split.test)}
        if split.train is not None:
            plain[key]["train"] = list(split.train)
        plain[key]["name"] = split.name
    write_bytes(path, (json.dumps(plain).encode(),))


PAIRS_HEADER = "s1,t1,idx1,s2,t2,idx2"
PATCHES_HEADER = "s,idx"
IMAGES = 6
"""Number of images of a sequence, numbered 0 to 5."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class VerificationPairs:
    """Pairs of patches as columns (n,), for the first and the second patch of each pair.

    Columns are the index into `sequences`, the image number (0 to 5) and the patch index.
    """

    sequences: tuple[str, ...]
    seq1: NDArray[np.int32]
    image1: NDArray[np.int32]
    index1: NDArray[np.int32]
    seq2: NDArray[np.int32]
    image2: NDArray[np.int32]
    index2: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.seq1)


@dataclass(frozen=True)
class RefPatches:
    """Patches of reference images as columns (n,): the index into `sequences`, and the patch index."""

    sequences: tuple[str, ...]
    seq: NDArray[np.int32]
    index: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.seq)


def read_pairs_csv(path: str | Path, lengths: Mapping[str, int] | None = None) -> VerificationPairs:
    """Read verification pairs from a CSV file.

    If `lengths` (number of patches by sequence) is given, a patch that does not exist is an error.
    """
    table, names, numbers = _read(path, PAIRS_HEADER, "wnnwnn")
    pairs = VerificationPairs(
        table, names[:, 0].copy(), numbers[:, 1].copy(), numbers[:, 2].copy(), names[:, 3].copy(),
        numbers[:, 4].copy(), numbers[:, 5].copy(),
    )  # fmt: skip
    for image in (pairs.image1, pairs.image2):
        bad = np.flatnonzero(image >= IMAGES)
        if bad.size:
            reason = f"image number {image[bad[0]]} does not exist; expected 0 (ref) to {IMAGES - 1}"
            raise FormatError(path, reason, line=int(bad[0]) + 2)
    if lengths is not None:
        _check_indices(path, table, pairs.seq1, pairs.index1, lengths)
        _check_indices(path, table, pairs.seq2, pairs.index2, lengths)
    return pairs


def read_patches_csv(path: str | Path, lengths: Mapping[str, int] | None = None) -> RefPatches:
    """Read retrieval queries or distractors from a CSV file.

    If `lengths` (number of patches by sequence) is given, a patch that does not exist is an error.
    """
    table, names, numbers = _read(path, PATCHES_HEADER, "wn")
    patches = RefPatches(table, names[:, 0].copy(), numbers[:, 1].copy())
    if lengths is not None:
        _check_indices(path, table, patches.seq, patches.index, lengths)
    return patches


def _read(
    path: str | Path, header: str, pattern: str
) -> tuple[tuple[str, ...], NDArray[np.int32], NDArray[np.int32]]:
    head, rest = split_first_line(read_bytes(path))
    if head.replace(" ", "") != header:
        raise FormatError(path, f"expected the header {header!r}, found {head[:80]!r}", line=1)
    fields = scan_fields(rest, pattern, path=path, first_line=2)
    if not fields.rows:
        raise FormatError(path, "has no rows after the header; write at least one")
    shape = (fields.rows, len(pattern))
    numbers = fields.numbers.reshape(shape)
    large = np.flatnonzero(numbers > np.iinfo(np.int32).max)
    if large.size:
        row, column = divmod(int(large[0]), len(pattern))
        raise FormatError(path, f"{numbers[row, column]} is not a patch index", line=row + 2)
    return fields.table, fields.names.reshape(shape), numbers.astype(np.int32)


def _check_indices(
    path: str | Path,
    table: tuple[str, ...],
    seq: NDArray[np.int32],
    index: NDArray[np.int32],
    lengths: Mapping[str, int],
) -> None:
    limit = np.array([lengths.get(name, 0) for name in table], np.int64)
    bad = np.flatnonzero(index >= limit[seq])
    if not bad.size:
        return
    i = int(bad[0])
    name = table[seq[i]]
    more = f" ({bad.size} such rows; the file may belong to another dataset)"
    if name not in lengths:
        raise FormatError(path, f"the dataset has no sequence {name!r}{more}", line=i + 2)
    reason = f"patch {index[i]} of {name!r} does not exist: the sequence has {lengths[name]} patches{more}"
    raise FormatError(path, reason, line=i + 2)


def pairs_csv_chunks(pairs: VerificationPairs) -> Iterator[bytes]:
    """Yield the content of a verification CSV file in chunks of bytes."""
    columns = [pairs.seq1, pairs.image1, pairs.index1, pairs.seq2, pairs.image2, pairs.index2]
    return _chunks(PAIRS_HEADER, "wnnwnn", pairs.sequences, columns)


def patches_csv_chunks(patches: RefPatches) -> Iterator[bytes]:
    """Yield the content of a retrieval CSV file in chunks of bytes."""
    return _chunks(PATCHES_HEADER, "wn", patches.sequences, [patches.seq, patches.index])


def _chunks(
    header: str, pattern: str, sequences: Sequence[str], columns: Sequence[NDArray[np.int32]]
) -> Iterator[bytes]:
    from ..text import _identifier_loops as kernel

    yield (header + "\n").encode()
    names = [name.encode() for name in sequences]
    text = np.frombuffer(b"".join(names) or b" ", np.uint8)
    starts = np.cumsum([0] + [len(name) for name in names])
    is_name = np.array([c == "w" for c in pattern])
    table = np.stack(columns).astype(np.int64)
    width = sum(max(map(len, names), default=0) if c == "w" else 19 for c in pattern) + len(pattern)
    out = np.empty(min(_CHUNK, table.shape[1]) * width, np.uint8)
    for lo in range(0, table.shape[1], _CHUNK):
        hi = min(lo + _CHUNK, table.shape[1])
        size = kernel.write_rows(table, is_name, text, starts, out, lo, hi)
        yield out[:size].tobytes()
