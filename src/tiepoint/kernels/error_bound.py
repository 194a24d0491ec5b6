# SPDX-License-Identifier: BSD-3-Clause
"""Proven bound on the difference between a matrix-product score and the reference distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT32_UNIT = 2.0**-24
FLOAT64_UNIT = 2.0**-53


def ambiguity_band(
    dim: int, unit: float, a_norm: NDArray[np.float64], b_norm: float, *, scale: float = 1.0
) -> NDArray[np.float64]:
    """Return a bound on |s - (R - |a|^2) / 2| for queries of norm `a_norm` and rows of norm <= `b_norm`.

    R is the reference value (eight-lane float64 sum of squares) of the original rows x, y. The filter uses
    a = fl((x - c) 2^k) and b = fl((y - c) 2^k), rounded to a format with unit roundoff u = `unit`. It
    computes s = fl(h - p) with h = fl(|b|^2 / 2) and p = the product a.b in that format, summed in any
    order, fused or not. R is in the same scaled units (a power of two, exact). Let A = |a|, B = |b| and
    g = D u / (1 - D u), with D = `dim`. The bound is the sum of five parts:

    1. Product: |p - a.b| <= g A B. For any order (left to right, blocks, a tree, split-K partial sums, an
       accumulator that starts at zero, columns padded with zeros) the D products are the leaves of one
       binary tree of additions. On the way to the root a leaf is rounded at most once as a product (never
       by a fused multiply-add) and at most D - 1 times as a sum, because adding zero is exact. Hence
       p = sum a_k b_k (1 + t_k) with |t_k| <= (1 + u)^D - 1 <= g, and sum |a_k b_k| <= A B. This requires
       multiplications and additions of that format (no TF32, no sums of bfloat16 parts, no Strassen). The
       half norm must not enter as the "beta C" of a BLAS call: it would be rounded up to D times.
       Underflow, with or without flushing to zero, costs at most 2^-126 for each product, each operand and
       each sum: 4 D 2^-126.
    2. Half norm and subtraction: u B^2/2 for rounding h, and u (B^2/2 + (1 + g) A B) (1 + u) for the last
       rounding. Together they are below 2 u (B^2/2 + (1 + g) A B) (1 + u).
    3. Centring: each coordinate of a has an error of at most u (1 + 2^-20) times itself plus 2^-149, so
       | |a - b| - |x - y| | <= e := u (1 + 2^-20) (A + B) + 2 sqrt(D) 2^-149. The squares differ by at
       most e (2 |a - b| + e) <= e (2 (A + B) + e), and half of that enters.
    4. Float64 bookkeeping, v = 2^-53: R has relative error below (D/8 + 7) v, and |a|^2 and |b|^2, summed
       in any order, below (D + 1) v. Half of each enters: with A^2 + B^2 <= (A + B)^2 that is below
       (9 D/16 + 4) v (A + B)^2. Converting R to a threshold costs a few more roundings: together below
       (D + 8) v (A + B)^2.
    5. Squares that underflow in the reference lose up to 2^-1074 each, times 2^2k in the scaled units.

    >>> unit_rows = ambiguity_band(128, FLOAT32_UNIT, np.array([1.0]), 1.0)
    >>> bool(7e-6 < unit_rows[0] < 9e-6)
    True
    """
    return np.asarray(score_bound(dim, unit, a_norm, b_norm, scale))


def score_bound(dim: int, unit: float, a_norm: Any, b_norm: Any, scale: float) -> Any:
    """Evaluate the formula of `ambiguity_band` for numbers, arrays or tensors.

    It can be compiled by Numba.
    """
    g = dim * unit / (1.0 - dim * unit)
    product = a_norm * b_norm
    total = a_norm + b_norm
    rounded = g * product + 2.0 * unit * (1.0 + unit) * (0.5 * b_norm**2 + (1.0 + g) * product)
    moved = unit * (1.0 + 2.0**-20) * total + 2.0 * np.sqrt(dim) * 2.0**-149
    underflow = 4 * dim * 2.0**-126 + dim * 2.0**-1074 * scale**2
    bound = rounded + moved * total + 0.5 * moved**2 + (dim + 8) * FLOAT64_UNIT * total**2 + underflow
    # The factor covers the float64 rounding of the bound and of the norms.
    return bound * (1.0 + 1e-9)
