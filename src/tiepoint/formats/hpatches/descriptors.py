# SPDX-License-Identifier: BSD-3-Clause
"""Read and write the descriptors of one patch image: CSV, `.npy` or `.npz` files of numbers or bits."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.hashing import hash_bytes, hash_file, hash_json
from ..file_io import map_bytes, reading, write_bytes
from ..npy import map_npy, read_npz
from ..text.numbers import find_delimiter, parse_table


@dataclass(frozen=True)
class DescriptorTable:
    """Descriptors of one image: float32 (n, d), or uint8 (n, bytes) with packed bits if `is_bits`."""

    values: NDArray[Any]
    is_bits: bool = False
    valid: NDArray[np.bool_] | None = None


def npy_chunks(values: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of an `.npy` file that stores an array: first the header, then the data."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    yield head.getvalue()
    yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def read_array(path: Path) -> DescriptorTable:
    """Read descriptors from an `.npy` or `.npz` file.

    float32 arrays and packed bits in an `.npy` file are memory-mapped.
    """
    if path.suffix == ".npy":
        with reading(path):
            values = map_npy(path)
        return _table(path, values, bits=values.dtype == np.uint8)
    arrays = read_npz(path)
    if set(arrays) - {"values", "bits", "valid"} or ("values" in arrays) == ("bits" in arrays):
        raise FormatError(
            path, f"expected the key 'values' or 'bits' (and optionally 'valid'), found {sorted(arrays)}"
        )
    valid = arrays.get("valid")
    if valid is not None and valid.dtype.kind not in "biuf":
        raise FormatError(path, f"'valid' has type {valid.dtype}, expected booleans")
    key = "bits" if "bits" in arrays else "values"
    table = _table(path, arrays[key], bits=key == "bits")
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
    """Return the number of rows in a descriptor file without parsing its numbers."""
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return len(read_array(p).values)
    from ..text import _number_loops as kernel

    return int(kernel.count_rows(map_bytes(p))[0])


def table_shape(path: str | Path, *, delimiter: str | None = None) -> tuple[int, int]:
    """Return the numbers of rows and columns of a descriptor file.

    In a text file, the first line determines the number of columns.

    Raises:
        FormatError: The file is empty or its array has the wrong shape.
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
"""Version of the text parser, part of the cache key of parsed copies."""


def find_descriptor_file(folder: str | Path, sequence: str, image: str) -> Path | None:
    """Return the descriptor file of an image: ``FOLDER/SEQ/IM`` plus a known suffix.

    None if no such file exists. Raise an `InputError` if there are two, such as `.csv` and `.npy`.
    """
    found = [p for s in SUFFIXES if (p := Path(folder) / sequence / f"{image}{s}").is_file()]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} are both descriptors of the same image; remove one")
    return found[0] if found else None


def read_descriptors(
    path: str | Path, *, delimiter: str | None = None, cache: str | Path | None = None
) -> DescriptorTable:
    """Read a descriptor file. float32 `.npy` arrays and parsed copies are memory-mapped.

    Args:
        path: A `.csv`, `.npy` or `.npz` file. Any other suffix is read as text.
        delimiter: Separator of a text file. If None, it is detected.
        cache: Folder for parsed copies of text files. A copy is used if the text file still has the same
            content. If None, no copy is stored.

    Raises:
        FormatError: Rows differ in length, a field is not a number, or an array has the wrong shape or type.
            NaN and infinity are accepted; `find_bad_rows` detects them.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return read_array(p)
    if cache is None:
        return DescriptorTable(parse_table(map_bytes(p), path=p, delimiter=delimiter))
    copy = parsed_copy(hash_file(p), cache, delimiter=delimiter)
    for _ in range(2):
        if not copy.is_file():
            content = map_bytes(p)
            values = parse_table(content, path=p, delimiter=delimiter)
            copy = parsed_copy(hash_bytes(content.data), cache, delimiter=delimiter)
            write_bytes(copy, npy_chunks(values))
        try:
            return DescriptorTable(map_npy(copy))
        except (OSError, FormatError):  # parse again if the copy is corrupt
            copy.unlink(missing_ok=True)
    return DescriptorTable(parse_table(map_bytes(p), path=p, delimiter=delimiter))


def parsed_copy(content: str, cache: str | Path, *, delimiter: str | None = None) -> Path:
    """Return the path of the parsed copy of a text file whose content hash is `content`."""
    key = hash_json([_PARSED, content, delimiter])
    return Path(cache) / key[:2] / f"{key}.npy"


def write_descriptors(path: str | Path, values: NDArray[Any]) -> None:
    """Write descriptors as a comma-separated table.

    Values have nine significant digits, enough to restore every float32 exactly.
    """

    def chunks() -> Iterator[bytes]:
        template = ",".join(["%.9g"] * values.shape[1]) + "\n"
        step = max(1, (1 << 17) // values.shape[1])
        for lo in range(0, len(values), step):
            part = values[lo : lo + step]
            yield ((template * len(part)) % tuple(part.ravel().tolist())).encode()

    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"descriptors must have shape (n, d), found {values.shape}")
    write_bytes(path, chunks())
