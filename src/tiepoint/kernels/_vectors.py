# SPDX-License-Identifier: BSD-3-Clause
"""Searching in a row of scores, one machine vector at a time.

A loop with an early exit does not vectorise by itself. The row must be readable for `PAD` elements past the
last one asked for.
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
    """Vector loads and compares on a one-dimensional array of floats, 64 bytes at a time."""

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
        """A compare's lanes as an integer, lane 0 lowest."""
        narrow = self.builder.bitcast(compared, ir.IntType(self.lanes))
        return self.builder.zext(narrow, _I64)


@intrinsic
def next_within(typingctx: Any, row: Any, start: Any, stop: Any, low: Any, high: Any) -> Any:
    """Index of the first element x of row[start:stop] with low <= x <= high, or `stop`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = _Row(context, builder, signature.args[0], args[0])
        start, stop, low, high = args[1], args[2], x.splat(args[3]), x.splat(args[4])
        entry = builder.block
        loop, found, step, end = (
            builder.append_basic_block(f"next.{n}") for n in ("loop", "hit", "go", "end")
        )
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, end)
        builder.position_at_end(loop)
        k = builder.phi(_I64)
        k.add_incoming(start, entry)
        value = x.load(k)
        inside = builder.and_(builder.fcmp_ordered(">=", value, low), builder.fcmp_ordered("<=", value, high))
        hits = x.bits(inside)
        builder.cbranch(builder.icmp_signed("!=", hits, _int(0)), found, step)
        builder.position_at_end(step)
        following = builder.add(k, _int(x.lanes))
        k.add_incoming(following, step)
        builder.cbranch(builder.icmp_signed("<", following, stop), loop, end)
        builder.position_at_end(found)
        where = builder.add(k, builder.cttz(hits, cgutils.true_bit))
        where = builder.select(builder.icmp_signed("<", where, stop), where, stop)
        builder.branch(end)
        builder.position_at_end(end)
        result = builder.phi(_I64)
        result.add_incoming(stop, entry)
        result.add_incoming(stop, step)
        result.add_incoming(where, found)
        return result

    return types.intp(row, types.intp, types.intp, row.dtype, row.dtype), codegen
