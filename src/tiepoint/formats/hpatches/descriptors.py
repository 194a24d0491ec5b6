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

from ...core.errors import FormatError
from ..file_io import reading
from ..npy import map_npy
from ..npz import read_npz


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
