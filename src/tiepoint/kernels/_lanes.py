# SPDX-License-Identifier: BSD-3-Clause
"""The inner loops of the reference distance, as vector code with a fixed order of operations.

Numba's loop vectoriser may not reorder float sums (rightly so), so a plain loop over eight accumulators
stays scalar. These intrinsics write the eight lanes down as one LLVM vector: the same IEEE operations, in
the same order, with nothing contracted into a fused multiply-add, on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 8
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _lane_loop(term: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Code generator: eight running sums of `term(builder, a_k - b_k)` over the whole vectors of a row."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def row(position: int) -> tuple[Any, Any, ir.Type, int]:
            kind = signature.args[position]
            array = make_array(kind)(context, builder, args[position])
            columns = builder.extract_value(array.shape, 1)
            start = builder.gep(array.data, [builder.mul(args[position + 1], columns)])
            element = context.get_value_type(kind.dtype)
            return start, columns, ir.VectorType(element, LANES), context.get_abi_sizeof(element)

        def load(pointer: Any, vector: ir.Type, align: int, k: Any) -> Any:
            address = builder.bitcast(builder.gep(pointer, [k]), vector.as_pointer())
            value = builder.load(address)
            value.align = align
            if isinstance(vector.element, ir.IntType):
                return builder.uitofp(value, _VECTOR)
            return builder.fpext(value, _VECTOR) if vector != _VECTOR else value

        left, columns, left_vector, left_align = row(0)
        right, _, right_vector, right_align = row(2)
        whole = builder.and_(columns, ir.Constant(_I64, -LANES))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        entry = builder.block
        loop, end = builder.append_basic_block("lanes"), builder.append_basic_block("lanes.end")
        builder.cbranch(builder.icmp_signed(">", whole, ir.Constant(_I64, 0)), loop, end)
        builder.position_at_end(loop)
        k, total = builder.phi(_I64), builder.phi(_VECTOR)
        k.add_incoming(ir.Constant(_I64, 0), entry)
        total.add_incoming(zero, entry)
        difference = builder.fsub(
            load(left, left_vector, left_align, k), load(right, right_vector, right_align, k)
        )
        added = builder.fadd(total, term(builder, difference))
        following = builder.add(k, ir.Constant(_I64, LANES))
        k.add_incoming(following, loop)
        total.add_incoming(added, loop)
        builder.cbranch(builder.icmp_signed("<", following, whole), loop, end)
        builder.position_at_end(end)
        sums = builder.phi(_VECTOR)
        sums.add_incoming(zero, entry)
        sums.add_incoming(added, loop)
        lanes = [builder.extract_element(sums, ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
        return cgutils.pack_array(builder, lanes)

    return codegen


def _square(builder: Any, x: Any) -> Any:
    return builder.fmul(x, x)


def _absolute(builder: Any, x: Any) -> Any:
    # |x| by clearing the sign bit: exact, and one instruction.
    bits = ir.VectorType(_I64, LANES)
    mask = ir.Constant(bits, [0x7FFFFFFFFFFFFFFF] * LANES)
    return builder.bitcast(builder.and_(builder.bitcast(x, bits), mask), _VECTOR)


@intrinsic
def _square_lanes(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    return types.UniTuple(types.float64, LANES)(a, types.intp, b, types.intp), _lane_loop(_square)


@intrinsic
def _absolute_lanes(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    return types.UniTuple(types.float64, LANES)(a, types.intp, b, types.intp), _lane_loop(_absolute)


@intrinsic
def popcount(typingctx: Any, word: Any) -> Any:
    """Number of set bits of an unsigned 64-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@njit(nogil=True, error_model="numpy")
def _difference(a: Any, i: int, b: Any, j: int, k: int) -> float:
    """a[i,k] - b[j,k], and 0 past the end of the row: adding it leaves a lane's bits alone."""
    if k >= a.shape[1]:
        return 0.0
    return np.float64(a[i, k]) - np.float64(b[j, k])


@njit(nogil=True, error_model="numpy")
def sum_squares(a: Any, i: int, b: Any, j: int) -> float:
    """Reference value of l2: the sum over k of (a[i,k] - b[j,k])^2; coordinate k goes to lane k mod 8."""
    s = _square_lanes(a, i, b, j)
    d = a.shape[1]
    k = d & -8
    if k == d:
        return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    s0 = s[0] + _difference(a, i, b, j, k) ** 2
    s1 = s[1] + _difference(a, i, b, j, k + 1) ** 2
    s2 = s[2] + _difference(a, i, b, j, k + 2) ** 2
    s3 = s[3] + _difference(a, i, b, j, k + 3) ** 2
    s4 = s[4] + _difference(a, i, b, j, k + 4) ** 2
    s5 = s[5] + _difference(a, i, b, j, k + 5) ** 2
    s6 = s[6] + _difference(a, i, b, j, k + 6) ** 2
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s[7]))


@njit(nogil=True, error_model="numpy")
def sum_absolute(a: Any, i: int, b: Any, j: int) -> float:
    """Reference value of l1: the sum over k of |a[i,k] - b[j,k]|, in the order of `sum_squares`."""
    s = _absolute_lanes(a, i, b, j)
    d = a.shape[1]
    k = d & -8
    if k == d:
        return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    s0 = s[0] + abs(_difference(a, i, b, j, k))
    s1 = s[1] + abs(_difference(a, i, b, j, k + 1))
    s2 = s[2] + abs(_difference(a, i, b, j, k + 2))
    s3 = s[3] + abs(_difference(a, i, b, j, k + 3))
    s4 = s[4] + abs(_difference(a, i, b, j, k + 4))
    s5 = s[5] + abs(_difference(a, i, b, j, k + 5))
    s6 = s[6] + abs(_difference(a, i, b, j, k + 6))
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s[7]))


@njit(nogil=True)
def bit_count(a: Any, i: int, b: Any, j: int) -> int:
    """Hamming distance of two rows of 64-bit words."""
    total = 0
    for k in range(a.shape[1]):
        total += int(popcount(a[i, k] ^ b[j, k]))
    return total
