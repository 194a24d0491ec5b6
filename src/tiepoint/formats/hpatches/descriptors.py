# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of one patch-image in arrays, numbers or packed bits: `.npy` and `.npz` files, checked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.hashing import hash_json
from ..file_io import map_bytes, reading, write_bytes
from ..npy import map_npy, read_npz
from ..text.numbers import find_delimiter, parse_table


@dataclass(frozen=True)
class DescriptorTable:
    """Descriptors of one image: float32 (n, d), or packed bits uint8 (n, bytes) when `is_bits`."""

    values: NDArray[Any]
    is_bits: bool = False
    valid: NDArray[np.bool_] | None = None


def npy_chunks(values: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """The bytes of an `.npy` file, piece by piece."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    yield head.getvalue()
    yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def read_array(path: Path) -> DescriptorTable:
    """The table in an `.npy` or `.npz` file; numbers in float32 and bits of an `.npy` are memory-mapped."""
    if path.suffix == ".npy":
        with reading(path):
            found = map_npy(path)
        return _table(path, found, bits=found.dtype == np.uint8)
    loaded = read_npz(path)
    names = list(loaded)
    unknown = sorted(set(names) - {"values", "bits", "valid"})
    if unknown or ("values" in names) == ("bits" in names):
        raise FormatError(path, f"expected the key 'values' or 'bits' (and 'valid'), found {sorted(names)}")
    valid = loaded.get("valid")
    if valid is not None and valid.dtype.kind not in "biuf":
        raise FormatError(path, f"'valid' is {valid.dtype}, expected truth values")
    key = "bits" if "bits" in loaded else "values"
    table = _table(path, loaded[key], bits=key == "bits")
    if valid is not None and valid.shape != (len(table.values),):
        raise FormatError(path, f"'valid' has shape {valid.shape}, expected ({len(table.values)},)")
    return DescriptorTable(table.values, table.is_bits, None if valid is None else valid.astype(bool))


def _table(path: Path, values: NDArray[Any], *, bits: bool) -> DescriptorTable:
    if values.ndim != 2 or 0 in values.shape:
        raise FormatError(path, f"expected an array (n, d), found shape {values.shape}")
    if values.dtype == np.bool_:
        return DescriptorTable(np.packbits(values, axis=1), is_bits=True)
    if bits:
        if values.dtype != np.uint8:
            raise FormatError(path, f"packed bits must be uint8, found {values.dtype}")
        return DescriptorTable(values, is_bits=True)
    if values.dtype.kind not in "fiu":
        raise FormatError(path, f"expected real numbers, found {values.dtype}")
    if values.dtype == np.float32:
        return DescriptorTable(values)
    with np.errstate(over="ignore"):
        return DescriptorTable(values.astype(np.float32))


def count_descriptor_rows(path: str | Path) -> int:
    """Rows of a descriptor file without parsing its numbers, for early checks."""
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return len(read_array(p).values)
    from ..text import _number_loops as kernel

    return int(kernel.count_rows(map_bytes(p))[0])


def table_shape(path: str | Path, *, delimiter: str | None = None) -> tuple[int, int]:
    """Rows and columns of a descriptor file without parsing its numbers; columns are those of the first line.

    Raises:
        FormatError: An empty file, an array of the wrong shape.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        rows, columns = read_array(p).values.shape
        return rows, columns
    rows = count_descriptor_rows(p)
    if not rows:
        raise FormatError(p, "the file is empty; expected one row of numbers per line")
    with p.open("rb") as f:
        head = f.readline().decode("utf-8", "replace").strip()
    sep = find_delimiter(head) if delimiter is None else delimiter
    return rows, len(head.split()) if sep == " " else head.count(sep) + 1


SUFFIXES = (".csv", ".npy", ".npz")
_PARSED = 1
"""Version of the parsed copies; a change of the parser makes old copies void."""


def find_descriptor_file(folder: str | Path, sequence: str, image: str) -> Path | None:
    """The descriptor file of an image, ``FOLDER/SEQ/IM`` with one of the known endings, or None.

    Two files for one image (say `.csv` and `.npy`) are an `InputError`: which one counts is not guessed.
    """
    found = [p for s in SUFFIXES if (p := Path(folder) / sequence / f"{image}{s}").is_file()]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} describe the same image; remove one")
    return found[0] if found else None


def read_descriptors(
    path: str | Path, *, delimiter: str | None = None, cache: str | Path | None = None
) -> DescriptorTable:
    """Read a descriptor file; `.npy` numbers in float32 and parsed copies are memory-mapped.

    Args:
        path: A file ending in `.csv`, `.npy` or `.npz` (any other ending is read as text).
        delimiter: Of a text file; None finds it.
        cache: Folder for parsed copies of text files, used again while the file's path, size, time and
            inode stay the same. None keeps no copy. Nothing is ever written beside the file.

    Raises:
        FormatError: Ragged rows, a field that is no number, an array of the wrong shape or type. NaN and
            infinity are read as they are: see `find_bad_rows`.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return read_array(p)
    if cache is None:
        return DescriptorTable(parse_table(map_bytes(p), path=p, delimiter=delimiter))
    copy = parsed_copy(p, cache, delimiter=delimiter)
    if not copy.is_file():
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, npy_chunks(values))
    try:
        return DescriptorTable(map_npy(copy))
    except (OSError, FormatError):
        # A damaged copy is not the user's problem: it is made anew.
        copy.unlink(missing_ok=True)
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, npy_chunks(values))
        return DescriptorTable(values)


def parsed_copy(path: Path, cache: str | Path, *, delimiter: str | None = None) -> Path:
    """Where the parsed copy of a text file is kept, by its path, size, time and inode."""
    try:
        stat = path.stat()
    except OSError as e:
        raise FormatError(path, "the file does not exist") from e
    key = hash_json([_PARSED, str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino, delimiter])
    return Path(cache) / key[:2] / f"{key}.npy"


def write_descriptors(path: str | Path, values: NDArray[Any]) -> None:
    """Write a text table: commas, as many digits as bring every float32 back (nine), whole numbers plain."""

    def chunks() -> Iterator[bytes]:
        form = ",".join(["%.9g"] * values.shape[1]) + "\n"
        step = max(1, (1 << 17) // values.shape[1])
        for lo in range(0, len(values), step):
            part = values[lo : lo + step]
            yield ((form * len(part)) % tuple(part.ravel().tolist())).encode()

    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"descriptors must have shape (n, d), found {values.shape}")
    write_bytes(path, chunks())
