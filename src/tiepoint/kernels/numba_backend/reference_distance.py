# SPDX-License-Identifier: BSD-3-Clause
"""Inner loops of the reference distance: vector code with a fixed order of operations.

LLVM must not reorder float sums, so it does not vectorise a plain loop over eight accumulators. These
intrinsics emit the eight lanes as one LLVM vector. Every machine executes the same IEEE operations in the
same order, without fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

LANES = 8
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _lane_loop(term: Callable[[Any, Any], Any], *, single: bool = False) -> Callable[..., Any]:
    """Return a Numba code generator for the sum of `term(builder, a_k - b_k)` over a row, in eight lanes.

    With `single` the difference of float32 numbers is rounded to float32 before it becomes a double.
    """

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
            return value

        def double(value: Any) -> Any:
            if isinstance(value.type.element, ir.IntType):
                return builder.uitofp(value, _VECTOR)
            return builder.fpext(value, _VECTOR) if value.type != _VECTOR else value

        def minus(x: Any, y: Any) -> Any:
            if single and isinstance(x.type.element, ir.FloatType):
                return double(builder.fsub(x, y))
            return builder.fsub(double(x), double(y))

        left, columns, left_vector, left_align = row(0)
        right, _, right_vector, right_align = row(2)
        full = builder.and_(columns, ir.Constant(_I64, -LANES))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        entry = builder.block
        loop, end = builder.append_basic_block("lanes"), builder.append_basic_block("lanes.end")
        builder.cbranch(builder.icmp_signed(">", full, ir.Constant(_I64, 0)), loop, end)
        builder.position_at_end(loop)
        k, total = builder.phi(_I64), builder.phi(_VECTOR)
        k.add_incoming(ir.Constant(_I64, 0), entry)
        total.add_incoming(zero, entry)
        difference = minus(load(left, left_vector, left_align, k), load(right, right_vector, right_align, k))
        added = builder.fadd(total, term(builder, difference))
        following = builder.add(k, ir.Constant(_I64, LANES))
        k.add_incoming(following, loop)
        total.add_incoming(added, loop)
        builder.cbranch(builder.icmp_signed("<", following, full), loop, end)
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
def _single_lanes(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    kind = types.UniTuple(types.float64, LANES)
    return kind(a, types.intp, b, types.intp), _lane_loop(_square, single=True)


@intrinsic
def _absolute_lanes(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    return types.UniTuple(types.float64, LANES)(a, types.intp, b, types.intp), _lane_loop(_absolute)


@intrinsic
def popcount(typingctx: Any, word: Any) -> Any:
    """Return the number of set bits of an unsigned 64-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


# Every function below has a unique name: cached compiled code refers to its callees by name, and closures of
# one factory would be confused with each other.


@njit(nogil=True, error_model="numpy")
def _squared(a: Any, i: int, b: Any, j: int, k: int) -> float:
    return (np.float64(a[i, k]) - np.float64(b[j, k])) ** 2 if k < a.shape[1] else 0.0


@njit(nogil=True, error_model="numpy")
def _single(a: Any, i: int, b: Any, j: int, k: int) -> float:
    return np.float64(np.float32(a[i, k]) - np.float32(b[j, k])) ** 2 if k < a.shape[1] else 0.0


@njit(nogil=True, error_model="numpy")
def _magnitude(a: Any, i: int, b: Any, j: int, k: int) -> float:
    return abs(np.float64(a[i, k]) - np.float64(b[j, k])) if k < a.shape[1] else 0.0


@njit(nogil=True, error_model="numpy")
def _add_lanes(s: Any) -> float:
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


@njit(nogil=True, error_model="numpy")
def _with_rest(s: Any, r0: float, r1: float, r2: float, r3: float, r4: float, r5: float, r6: float) -> float:
    """Add the columns after the last full vector to their lanes (k mod 8) and return the sum of the lanes.

    `r0` to `r6` are the terms of these columns.
    """
    s0, s1, s2, s3 = s[0] + r0, s[1] + r1, s[2] + r2, s[3] + r3
    return ((s0 + s1) + (s2 + s3)) + (((s[4] + r4) + (s[5] + r5)) + ((s[6] + r6) + s[7]))


@njit(nogil=True, error_model="numpy")
def sum_squares(a: Any, i: int, b: Any, j: int) -> float:
    """Return the l2 reference value of two rows: the sum over k of (a[i,k] - b[j,k])^2."""
    s, k = _square_lanes(a, i, b, j), a.shape[1] & -8
    if k == a.shape[1]:
        return _add_lanes(s)
    r0, r1, r2 = _squared(a, i, b, j, k), _squared(a, i, b, j, k + 1), _squared(a, i, b, j, k + 2)
    r3, r4, r5 = _squared(a, i, b, j, k + 3), _squared(a, i, b, j, k + 4), _squared(a, i, b, j, k + 5)
    return _with_rest(s, r0, r1, r2, r3, r4, r5, _squared(a, i, b, j, k + 6))


@njit(nogil=True, error_model="numpy")
def sum_squares_single(a: Any, i: int, b: Any, j: int) -> float:
    """Return `sum_squares` of float32 rows with differences rounded to float32, as in NumPy."""
    s, k = _single_lanes(a, i, b, j), a.shape[1] & -8
    if k == a.shape[1]:
        return _add_lanes(s)
    r0, r1, r2 = _single(a, i, b, j, k), _single(a, i, b, j, k + 1), _single(a, i, b, j, k + 2)
    r3, r4, r5 = _single(a, i, b, j, k + 3), _single(a, i, b, j, k + 4), _single(a, i, b, j, k + 5)
    return _with_rest(s, r0, r1, r2, r3, r4, r5, _single(a, i, b, j, k + 6))


@njit(nogil=True, error_model="numpy")
def sum_absolute(a: Any, i: int, b: Any, j: int) -> float:
    """Return the l1 reference value of two rows: the sum over k of |a[i,k] - b[j,k]|."""
    s, k = _absolute_lanes(a, i, b, j), a.shape[1] & -8
    if k == a.shape[1]:
        return _add_lanes(s)
    r0, r1, r2 = _magnitude(a, i, b, j, k), _magnitude(a, i, b, j, k + 1), _magnitude(a, i, b, j, k + 2)
    r3, r4, r5 = _magnitude(a, i, b, j, k + 3), _magnitude(a, i, b, j, k + 4), _magnitude(a, i, b, j, k + 5)
    return _with_rest(s, r0, r1, r2, r3, r4, r5, _magnitude(a, i, b, j, k + 6))


@njit(nogil=True, error_model="numpy")
def _gap(a: Any, i: int, b: Any, j: int, k: int) -> Any:
    return np.float32(abs(np.float32(a[i, k]) - np.float32(b[j, k])))


@njit(nogil=True, error_model="numpy")
def _add_block(a: Any, i: int, b: Any, j: int, start: int, stop: int, s: Any) -> Any:
    """Add at most 128 float32 terms |a[i,k] - b[j,k]| to the lanes `s` and reduce them, in NumPy's order."""
    total, k = np.float32(0.0), start
    if stop - start >= 8:
        for lane in range(8):
            s[lane] = _gap(a, i, b, j, start + lane)
        k += 8
        while k + 8 <= stop:
            for lane in range(8):
                s[lane] += _gap(a, i, b, j, k + lane)
            k += 8
        total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    while k < stop:
        total += _gap(a, i, b, j, k)
        k += 1
    return total


@njit(nogil=True, error_model="numpy")
def sum_absolute_single(a: Any, i: int, b: Any, j: int, tree: Any, memory: Any) -> Any:
    """Return the l1 distance of float32 rows, computed in float32 in the order of NumPy's sum.

    `tree` is the `sum_tree` of the row width, and `memory` a work array, float32 (64,).
    """
    depth, start = 0, np.int64(0)  # a literal 0 would be compiled separately
    for k in range(tree.shape[0]):
        memory[8 + depth] = _add_block(a, i, b, j, start, tree[k, 0], memory)
        start = tree[k, 0]
        for _ in range(tree[k, 1]):
            depth -= 1
            memory[8 + depth] += memory[9 + depth]
        depth += 1
    return memory[8]


@cache
def sum_tree(width: int) -> NDArray[np.int64]:
    """Return the order in which NumPy adds `width` numbers, as rows (block end, additions after it).

    NumPy splits more than 128 numbers into two halves and adds their sums. The length of the first half is
    rounded down to a multiple of eight. The order is stored as a list because cached compiled code must not
    recurse.

    >>> sum_tree(300).tolist()
    [[72, 0], [144, 1], [216, 0], [300, 2]]
    """
    blocks: list[list[int]] = []

    def split(start: int, stop: int) -> None:
        if stop - start <= 128:
            blocks.append([stop, 0])
            return
        half = start + ((stop - start) // 2 & -8)
        split(start, half)
        split(half, stop)
        blocks[-1][1] += 1

    split(0, width)
    return np.array(blocks, np.int64)


@njit(nogil=True)
def bit_count(a: Any, i: int, b: Any, j: int) -> int:
    """Return the Hamming distance of two rows of 64-bit words."""
    total = 0
    for k in range(a.shape[1]):
        total += int(popcount(a[i, k] ^ b[j, k]))
    return total
