# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of one patch-image, row k for patch k: text, `.npy`, `.npz`, packed bits.

===============  ================================================================================
``IM.csv``       one descriptor a line; commas, semicolons, tabs or blanks, found by itself; no header
``IM.npy``       (n, d) real numbers; or packed bits, uint8 (n, bytes), as `numpy.packbits` makes them;
                 or unpacked bits, bool (n, bits), packed on reading
``IM.npz``       the same under the key ``values`` (numbers) or ``bits`` (packed), optional ``valid`` (n,)
===============  ================================================================================

A uint8 `.npy` is taken for packed bits, since that is how binary descriptors are commonly kept; byte-valued
vectors belong under ``values`` of an `.npz`, or in another number type.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError
from ...model.hashing import hash_json
from ..text.number_table import find_delimiter, parse_table
from ..text_file import map_bytes, write_bytes

SUFFIXES = (".csv", ".npy", ".npz")
_PARSED = 1
"""Version of the parsed copies; a change of the parser makes old copies void."""


@dataclass(frozen=True)
class DescriptorTable:
    """Descriptors of one image: float32 (n, d), or packed bits uint8 (n, bytes) when `is_bits`."""

    values: NDArray[Any]
    is_bits: bool = False
    valid: NDArray[np.bool_] | None = None


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
        return _read_array(p)
    if cache is None:
        return DescriptorTable(parse_table(map_bytes(p), path=p, delimiter=delimiter))
    copy = parsed_copy(p, cache, delimiter=delimiter)
    if not copy.is_file():
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, _npy_chunks(values))
    try:
        return DescriptorTable(np.load(copy, mmap_mode="r"))
    except (OSError, ValueError):
        # A damaged copy is not the user's problem: it is made anew.
        copy.unlink(missing_ok=True)
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, _npy_chunks(values))
        return DescriptorTable(values)


def parsed_copy(path: Path, cache: str | Path, *, delimiter: str | None = None) -> Path:
    """Where the parsed copy of a text file is kept, by its path, size, time and inode."""
    try:
        stat = path.stat()
    except OSError as e:
        raise FormatError(path, "the file does not exist") from e
    key = hash_json([_PARSED, str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino, delimiter])
    return Path(cache) / key[:2] / f"{key}.npy"


def _npy_chunks(values: NDArray[Any]) -> Iterator[bytes | memoryview]:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    yield head.getvalue()
    yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _read_array(path: Path) -> DescriptorTable:
    try:
        loaded = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise FormatError(path, f"is not a readable {path.suffix} file ({e})") from e
    if isinstance(loaded, np.ndarray):
        return _table(path, loaded, bits=loaded.dtype == np.uint8)
    with loaded:
        unknown = sorted(set(loaded.files) - {"values", "bits", "valid"})
        if unknown or ("values" in loaded.files) == ("bits" in loaded.files):
            raise FormatError(
                path, f"expected the key 'values' or 'bits' (and 'valid'), found {sorted(loaded.files)}"
            )
        key = "bits" if "bits" in loaded.files else "values"
        valid = loaded["valid"].astype(bool) if "valid" in loaded.files else None
        table = _table(path, loaded[key], bits=key == "bits")
    if valid is not None and valid.shape != (len(table.values),):
        raise FormatError(path, f"'valid' has shape {valid.shape}, expected ({len(table.values)},)")
    return DescriptorTable(table.values, table.is_bits, valid)


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


@dataclass(frozen=True)
class BadRows:
    """Rows that cannot be compared: with NaN, with infinity, all zero (row indices, ascending)."""

    nan: NDArray[np.int64]
    infinite: NDArray[np.int64]
    zero: NDArray[np.int64]

    def problems(self, where: str, *, zero: bool = True) -> list[str]:
        """One sentence for each kind of bad row, naming the first of them."""
        kinds = [("NaN", self.nan), ("an infinite value", self.infinite)] + [("only zeros", self.zero)] * zero
        return [
            f"{where}: {len(rows)} descriptors have {what} (rows {_some(rows)})"
            for what, rows in kinds
            if len(rows)
        ]


def _some(rows: NDArray[np.int64]) -> str:
    return ", ".join(map(str, rows[:8].tolist())) + (", …" if len(rows) > 8 else "")


def find_bad_rows(values: NDArray[Any]) -> BadRows:
    """Rows with NaN, with infinity (and no NaN), and all-zero rows.

    >>> b = find_bad_rows(np.array([[1, 2], [np.nan, 0], [0, 0], [np.inf, 1]], np.float32))
    >>> b.nan.tolist(), b.infinite.tolist(), b.zero.tolist()
    ([1], [3], [2])
    """
    none = np.empty(0, np.int64)
    if values.dtype.kind != "f":
        return BadRows(none, none, np.flatnonzero(~values.any(axis=1)))
    finite = np.isfinite(values).all(axis=1)
    zero = np.flatnonzero(finite & ~values.any(axis=1))
    suspects = np.flatnonzero(~finite)
    has_nan = np.isnan(values[suspects]).any(axis=1)
    return BadRows(suspects[has_nan], suspects[~has_nan], zero)


def count_rows(path: str | Path) -> int:
    """Rows of a descriptor file without parsing its numbers, for early checks."""
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return len(_read_array(p).values)
    from ..text import _number_kernel as kernel

    return int(kernel.count_rows(map_bytes(p))[0])


def table_shape(path: str | Path, *, delimiter: str | None = None) -> tuple[int, int]:
    """Rows and columns of a descriptor file without parsing its numbers; columns are those of the first line.

    Raises:
        FormatError: An empty file, an array of the wrong shape.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        rows, columns = _read_array(p).values.shape
        return rows, columns
    rows = count_rows(p)
    if not rows:
        raise FormatError(p, "the file is empty; expected one row of numbers per line")
    with p.open("rb") as f:
        head = f.readline().decode("utf-8", "replace").strip()
    sep = find_delimiter(head) if delimiter is None else delimiter
    return rows, len(head.split()) if sep == " " else head.count(sep) + 1
