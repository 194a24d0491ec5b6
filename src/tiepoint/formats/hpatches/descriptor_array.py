# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of one patch-image in arrays, numbers or packed bits: `.npy` and `.npz` files, checked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError
from ..what_it_is import instead


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
    try:
        loaded = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise FormatError(path, instead(path, f"is not a readable {path.suffix} file ({e})")) from e
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
