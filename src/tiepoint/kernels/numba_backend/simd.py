# SPDX-License-Identifier: BSD-3-Clause
"""Vectorised search and counting in a row of scores.

LLVM does not vectorise loops with an early exit, and its code for comparing and counting is slow. `PAD`
elements after the last requested element must be readable.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

PAD = 16
_I64 = ir.IntType(64)


def _int(value: int) -> Any:
    return ir.Constant(_I64, value)


class _Row:
    """Code generator for 64-byte vector loads and compares on a one-dimensional float array."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.builder = builder
        self.data = make_array(kind)(context, builder, value).data
        self.element = context.get_value_type(kind.dtype)
        self.size = context.get_abi_sizeof(self.element)
        self.lanes = 64 // self.size
        self.vector = ir.VectorType(self.element, self.lanes)

    def load(self, k: Any) -> Any:
        address = self.builder.bitcast(self.builder.gep(self.data, [k]), self.vector.as_pointer())
        value = self.builder.load(address)
        value.align = self.size
        return value

    def splat(self, x: Any) -> Any:
        empty = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(empty, x, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, empty, zeros)

    def bits(self, compared: Any) -> Any:
        """Return the results of a vector comparison as bits of an integer; lane 0 is the lowest bit."""
        narrow = self.builder.bitcast(compared, ir.IntType(self.lanes))
        return self.builder.zext(narrow, _I64)


@intrinsic
def next_within(typingctx: Any, row: Any, start: Any, stop: Any, low: Any, high: Any) -> Any:
    """Return the index of the first element x of row[start:stop] with low <= x <= high, or `stop`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Row(context, builder, signature.args[0], args[0])
        start, stop, low, high = args[1], args[2], x.splat(args[3]), x.splat(args[4])
        entry = builder.block
        loop, hit, step, end = (builder.append_basic_block(f"next.{n}") for n in ("loop", "hit", "go", "end"))
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, end)
        builder.position_at_end(loop)
        k = builder.phi(_I64)
        k.add_incoming(start, entry)
        value = x.load(k)
        inside = builder.and_(builder.fcmp_ordered(">=", value, low), builder.fcmp_ordered("<=", value, high))
        hits = x.bits(inside)
        builder.cbranch(builder.icmp_signed("!=", hits, _int(0)), hit, step)
        builder.position_at_end(step)
        following = builder.add(k, _int(x.lanes))
        k.add_incoming(following, step)
        builder.cbranch(builder.icmp_signed("<", following, stop), loop, end)
        builder.position_at_end(hit)
        where = builder.add(k, builder.cttz(hits, cgutils.true_bit))
        where = builder.select(builder.icmp_signed("<", where, stop), where, stop)
        builder.branch(end)
        builder.position_at_end(end)
        result = builder.phi(_I64)
        result.add_incoming(stop, entry)
        result.add_incoming(stop, step)
        result.add_incoming(where, hit)
        return result

    return types.intp(row, types.intp, types.intp, row.dtype, row.dtype), codegen


@intrinsic
def count_two(typingctx: Any, row: Any, start: Any, stop: Any, low: Any, high: Any) -> Any:
    """Return how many elements of row[start:stop] are < low, and how many are <= high."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Row(context, builder, signature.args[0], args[0])
        start, stop, low, high = args[1], args[2], x.splat(args[3]), x.splat(args[4])

        def counts(k: Any, mask: Any) -> tuple[Any, Any]:
            value = x.load(k)
            below = x.bits(builder.fcmp_ordered("<", value, low))
            within = x.bits(builder.fcmp_ordered("<=", value, high))
            if mask is not None:
                below, within = builder.and_(below, mask), builder.and_(within, mask)
            return builder.ctpop(below), builder.ctpop(within)

        entry = builder.block
        names = ("whole", "body", "rest", "tail", "end")
        loop, body, rest, tail, end = (builder.append_basic_block(f"count.{n}") for n in names)
        builder.branch(loop)
        builder.position_at_end(loop)
        k, below, within = builder.phi(_I64), builder.phi(_I64), builder.phi(_I64)
        for phi, first in ((k, start), (below, _int(0)), (within, _int(0))):
            phi.add_incoming(first, entry)
        following = builder.add(k, _int(x.lanes))
        builder.cbranch(builder.icmp_signed("<=", following, stop), body, rest)
        builder.position_at_end(body)
        more = counts(k, None)
        k.add_incoming(following, body)
        below.add_incoming(builder.add(below, more[0]), body)
        within.add_incoming(builder.add(within, more[1]), body)
        builder.branch(loop)
        builder.position_at_end(rest)
        builder.cbranch(builder.icmp_signed("<", k, stop), tail, end)
        builder.position_at_end(tail)
        # The last vector reaches past `stop`: mask its surplus lanes.
        mask = builder.sub(builder.shl(_int(1), builder.sub(stop, k)), _int(1))
        last = counts(k, mask)
        total = builder.add(below, last[0]), builder.add(within, last[1])
        builder.branch(end)
        builder.position_at_end(end)
        result = []
        for plain, added in zip((below, within), total, strict=True):
            phi = builder.phi(_I64)
            phi.add_incoming(plain, rest)
            phi.add_incoming(added, tail)
            result.append(phi)
        return context.make_tuple(builder, signature.return_type, result)

    pair = types.UniTuple(types.intp, 2)
    return pair(row, types.intp, types.intp, row.dtype, row.dtype), codegen


@intrinsic
def least_two(typingctx: Any, row: Any, stop: Any) -> Any:
    """Return the two smallest elements of row[:stop]. Padding up to a full vector must be infinite."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Row(context, builder, signature.args[0], args[0])
        infinite = ir.Constant(x.vector, [float("inf")] * x.lanes)

        def smaller(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", a, b), a, b)

        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", a, b), b, a)

        entry = builder.block
        loop, body, end = (builder.append_basic_block(f"least.{n}") for n in ("loop", "body", "end"))
        builder.branch(loop)
        builder.position_at_end(loop)
        k, first, second = builder.phi(_I64), builder.phi(x.vector), builder.phi(x.vector)
        for phi, start in ((k, _int(0)), (first, infinite), (second, infinite)):
            phi.add_incoming(start, entry)
        builder.cbranch(builder.icmp_signed("<", k, args[1]), body, end)
        builder.position_at_end(body)
        value = x.load(k)
        second.add_incoming(smaller(second, larger(first, value)), body)
        first.add_incoming(smaller(first, value), body)
        k.add_incoming(builder.add(k, _int(x.lanes)), body)
        builder.branch(loop)
        builder.position_at_end(end)
        # Reduce with scalars: LLVM 22 miscompiles a compare of a vector with a shuffle of itself.
        pairs = []
        for lane in range(x.lanes):
            at = ir.Constant(ir.IntType(32), lane)
            pairs.append((builder.extract_element(first, at), builder.extract_element(second, at)))
        while len(pairs) > 1:
            pairs = [
                (smaller(a, c), smaller(larger(a, c), smaller(b, d)))
                for (a, b), (c, d) in zip(pairs[::2], pairs[1::2], strict=True)
            ]
        smallest = list(pairs[0])
        return context.make_tuple(builder, signature.return_type, smallest)

    pair = types.UniTuple(row.dtype, 2)
    return pair(row, types.intp), codegen


@intrinsic
def prefetch(typingctx: Any, rows: Any, i: Any, k: Any) -> Any:
    """Prefetch the cache line that contains rows[i, k]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, args[0])
        columns = builder.extract_value(array.shape, 1)
        at = builder.gep(array.data, [builder.add(builder.mul(args[1], columns), args[2])])
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [builder.bitcast(at, byte), i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp), codegen


@intrinsic
def pointer(typingctx: Any, address: Any) -> Any:
    """Convert an address to a pointer. The caller must keep the array alive."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.uint64), codegen


@intrinsic
def as_type_of(typingctx: Any, like: Any, x: Any) -> Any:
    """Round x to the format of `like`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[1], signature.args[1], signature.args[0])

    return like(like, x), codegen
