# SPDX-License-Identifier: BSD-3-Clause
"""Rows as the kernels compare them: checked, in one layout, with the distance reduced to l2, l1 or bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.plugins import DISTANCES

Matrix = NDArray[Any]

# Squares of larger values overflow float64, so that all distances would tie at infinity.
MAX_ABS_VALUE = 1e150

# Rows handled at once where a pass needs memory of its own.
BLOCK = 16384


def check_shapes(a: Matrix, b: Matrix, distance: str, *, names: tuple[str, str]) -> None:
    """Raise InputError unless both are (n, d) with the same d and a dtype that fits the distance."""
    if distance not in DISTANCES:
        raise InputError(f"unknown distance {distance!r}; one of {', '.join(DISTANCES)}")
    for name, x in zip(names, (a, b), strict=True):
        if x.ndim != 2:
            raise InputError(f"{name} must have shape (n, d), found {x.shape}")
        if distance == "hamming" and x.dtype != np.uint8:
            raise InputError(f"{name}: hamming compares packed bits, uint8 (n, bytes), found {x.dtype}")
        if x.dtype.kind not in "fiub":
            raise InputError(f"{name} must be real numbers, found dtype {x.dtype}")
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"{names[0]} have {a.shape[1]} columns and {names[1]} {b.shape[1]}; both must have the same"
        )
    if a.shape[1] == 0:
        raise InputError(f"{names[0]} have no columns; a descriptor needs at least one number")
    if distance == "masked_l1" and a.shape[1] % 2:
        raise InputError(f"masked_l1 needs values and mask side by side, found {a.shape[1]} columns")


def prepare_rows(values: Matrix, distance: str, *, name: str) -> Matrix:
    """Rows ready for the compiled loops: float32 or float64 for l2 and l1, 64-bit words for hamming.

    cosine becomes l2 on rows divided by their norm (float64); masked_l1 becomes l1 on value x mask.
    """
    if distance == "hamming":
        return _words(values)
    x = as_float(values)
    bad = first_bad_row(x)
    if bad is not None:
        raise InputError(f"{name}, row {bad}: {_why_bad(x[bad])}; remove failed rows before comparing")
    if distance == "cosine":
        return normalise(x, name=name)
    if distance == "masked_l1":
        half = x.shape[1] // 2
        return np.multiply(x[:, :half], x[:, half:], dtype=np.float64)
    return x


def as_float(values: Matrix) -> Matrix:
    """C-ordered float32 or float64 with exactly the given values (integers of over 16 bits: float64)."""
    if values.dtype == np.float64 or (values.dtype.kind in "iuf" and values.dtype.itemsize > 2):
        kind: Any = np.float32 if values.dtype == np.float32 else np.float64
    else:
        kind = np.float32
    return np.require(values, dtype=kind, requirements=["C", "A"])


def first_bad_row(x: Matrix) -> int | None:
    """Index of the first row with a NaN, an infinity, or a value whose square overflows float64."""
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        top, bottom = (float(block.max()), float(block.min())) if block.size else (0.0, 0.0)
        if not (top <= MAX_ABS_VALUE and bottom >= -MAX_ABS_VALUE):  # a NaN fails both
            good = np.all(np.abs(block.astype(np.float64)) <= MAX_ABS_VALUE, axis=1)
            return start + int(np.argmin(good))
    return None


def _why_bad(row: Matrix) -> str:
    if np.isnan(row).any():
        return "NaN"
    return "infinite" if np.isinf(row).any() else f"a value beyond {MAX_ABS_VALUE:g}, whose square overflows"


def normalise(x: Matrix, *, name: str) -> Matrix:
    """Float64 rows divided by their Euclidean norm (eight-lane reference sum); a zero row is an error."""
    from .numba_backend.pair_distances import pairs_l2

    out = np.empty(x.shape)
    origin = np.zeros((1, x.shape[1]))
    for start in range(0, len(x), BLOCK):
        block = np.asarray(x[start : start + BLOCK], dtype=np.float64)
        peak = np.max(np.abs(block), axis=1)
        if not np.all(peak > 0):
            row = start + int(np.argmin(peak > 0))
            raise InputError(f"{name}, row {row}: all zero, cosine needs a direction")
        # An exact power of two keeps squares of tiny and huge rows inside float64.
        scaled = np.ldexp(block, -np.frexp(peak)[1][:, None])
        square, rows = np.empty(len(block)), np.arange(len(block))
        pairs_l2(np.float64)(scaled, origin, rows, np.zeros_like(rows), square)
        np.divide(scaled, np.sqrt(square)[:, None], out=out[start : start + BLOCK])
    return out


def _words(bits: Matrix) -> Matrix:
    pad = -bits.shape[1] % 8
    whole = np.pad(bits, ((0, 0), (0, pad))) if pad else np.ascontiguousarray(bits)
    return np.require(whole.view(np.uint64), requirements="A")
