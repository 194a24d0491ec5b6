# SPDX-License-Identifier: BSD-3-Clause
"""Check descriptors and convert them so that only the distances l2, l1 and hamming must be computed.

Cosine becomes l2, and masked_l1 becomes l1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.plugins import DISTANCES

Matrix = NDArray[Any]

# Squares of larger values overflow float64, and all distances would tie at infinity.
MAX_ABS_VALUE = 1e150

# Rows per block in passes that allocate temporary memory.
BLOCK = 16384


def check_shapes(a: Matrix, b: Matrix, distance: str, *, names: tuple[str, str]) -> None:
    """Raise InputError unless both arrays are (n, d) with equal d and a dtype supported by the distance."""
    if distance not in DISTANCES:
        raise InputError(f"unknown distance {distance!r}; choose one of {', '.join(DISTANCES)}")
    for name, x in zip(names, (a, b), strict=True):
        if x.ndim != 2:
            raise InputError(f"{name}: expected shape (n, d), found {x.shape}; pass one row per descriptor")
        if distance == "hamming" and x.dtype != np.uint8:
            raise InputError(
                f"{name}: hamming needs packed bits, uint8 (n, bytes), found {x.dtype}; pack them with "
                "numpy.packbits"
            )
        if x.dtype.kind not in "fiub":
            raise InputError(f"{name}: expected real numbers, found dtype {x.dtype}; convert them first")
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"descriptors: {names[0]} have {a.shape[1]} columns, but {names[1]} have {b.shape[1]}; pass "
            "equal widths"
        )
    if a.shape[1] == 0:
        raise InputError(f"{names[0]} have no columns; pass at least one number per descriptor")
    if distance == "masked_l1" and a.shape[1] % 2:
        raise InputError(
            f"masked_l1: found {a.shape[1]} columns; pass an even number, first the values and then their "
            "masks"
        )


def prepare_rows(values: Matrix, distance: str, *, name: str) -> Matrix:
    """Convert rows to the formats of the compiled loops and return them.

    The formats are float32 or float64 for l2 and l1, and 64-bit words for hamming. For cosine, rows are
    divided by their norm (float64), so that l2 gives the same order. For masked_l1, values are multiplied by
    their masks.
    """
    if distance == "hamming":
        pad = -values.shape[1] % 8
        padded = np.pad(values, ((0, 0), (0, pad))) if pad else values
        return np.require(np.ascontiguousarray(padded).view(np.uint64), requirements="A")
    x = as_float(values)
    bad = first_bad_row(x)
    if bad is not None:
        if np.isnan(x[bad]).any():
            reason = "NaN"
        else:
            beyond = f"a value beyond {MAX_ABS_VALUE:g}, whose square overflows"
            reason = "infinite" if np.isinf(x[bad]).any() else beyond
        raise InputError(f"{name}, row {bad}: {reason}; remove failed rows before the comparison")
    if distance == "cosine":
        return normalise(x, name=name)
    if distance == "masked_l1":
        half = x.shape[1] // 2
        return np.multiply(x[:, :half], x[:, half:], dtype=np.float64)
    return x


def as_float(values: Matrix) -> Matrix:
    """Convert rows without rounding to C-ordered float32 or float64 (float64 for integers over 16 bits)."""
    if values.dtype == np.float64 or (values.dtype.kind in "iuf" and values.dtype.itemsize > 2):
        kind: Any = np.float32 if values.dtype == np.float32 else np.float64
    else:
        kind = np.float32
    return np.require(values, dtype=kind, requirements=["C", "A"])


def first_bad_row(x: Matrix) -> int | None:
    """Return the first row with a NaN, an infinity or an overflowing square; None if all rows are valid."""
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        top, bottom = (float(block.max()), float(block.min())) if block.size else (0.0, 0.0)
        if not (top <= MAX_ABS_VALUE and bottom >= -MAX_ABS_VALUE):  # a NaN fails both
            good = np.all(np.abs(block.astype(np.float64)) <= MAX_ABS_VALUE, axis=1)
            return start + int(np.argmin(good))
    return None


def first_outside(x: Matrix, low: int, end: int) -> int | None:
    """Return the first index i with x[i] < low or x[i] >= end; None if all values are in range."""
    if x.size and (x.min() < low or x.max() >= end):
        return int(np.argmax((x < low) | (x >= end)))
    return None


def normalise(x: Matrix, *, name: str) -> Matrix:
    """Divide rows by their Euclidean norm in float64. Raise InputError for a zero row."""
    from .numba_backend.pair_distances import pairs_l2

    out = np.empty(x.shape)
    origin = np.zeros((1, x.shape[1]))
    for start in range(0, len(x), BLOCK):
        block = np.asarray(x[start : start + BLOCK], dtype=np.float64)
        peak = np.max(np.abs(block), axis=1)
        if not np.all(peak > 0):
            row = start + int(np.argmin(peak > 0))
            raise InputError(
                f"{name}, row {row}: all values are zero, so cosine is undefined; remove failed rows"
            )
        # Scaling by a power of two is exact and keeps squares of tiny and huge rows inside float64.
        scaled = np.ldexp(block, -np.frexp(peak)[1][:, None])
        square, rows = np.empty(len(block)), np.arange(len(block))
        pairs_l2(np.float64)(scaled, origin, rows, np.zeros_like(rows), square)
        np.divide(scaled, np.sqrt(square)[:, None], out=out[start : start + BLOCK])
    return out
