# SPDX-License-Identifier: BSD-3-Clause
"""Compute distances of listed pairs of rows, or of all pairs of two blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .inputs import BLOCK, check_shapes, first_bad_row, first_outside, prepare_rows
from .threads import ThreadTeam
from .torch_backend.device import run_on_device

Floats = NDArray[np.float64]
Array = NDArray[Any]
Tiler = Callable[[Array, Array], Floats]


def pair_distances(
    a: Array, b: Array, index_a: ArrayLike, index_b: ArrayLike, *, distance: str = "l2", squared: bool = False
) -> Floats:
    """Return the distances of rows index_a[i] of `a` and index_b[i] of `b`, float64 (n,).

    l2 is the square root of the sum of squares (the sum itself with `squared`), l1 the sum of absolute
    differences, hamming the number of differing bits, cosine 1 - cos, and masked_l1 the l1 distance of values
    multiplied by their masks. Only the listed rows are read, so `a` and `b` may be memory maps of any size.

    The square root can round two different sums of squares to one number. If ties matter, compute `squared`
    values and pass them to `rank_counts(..., squared=True)`.

    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> pair_distances(a, a, [0, 1], [1, 1])
    array([5., 0.])
    """
    a, b = np.asarray(a), np.asarray(b)
    check_shapes(a, b, distance, names=("rows of a", "rows of b"))
    left, right = _index(index_a, len(a), "index_a"), _index(index_b, len(b), "index_b")
    if len(left) != len(right):
        raise InputError(
            f"index_a and index_b: found {len(left)} and {len(right)} entries; pass equal lengths"
        )
    direct = _direct(a, b, distance)

    def on_device() -> Array:
        from .torch_backend.counts import listed_pair_values

        return listed_pair_values(a, b, left, right, distance)

    def compiled() -> Array:
        out = np.empty(len(left))
        (_run_direct if direct else _run_gathered)(a, b, left, right, distance, out)
        return out

    values = run_on_device(on_device, compiled) if direct else compiled()
    return finish(values, distance, squared=squared)


def pair_distances_sq(a: Array, b: Array, index_a: ArrayLike, index_b: ArrayLike) -> Floats:
    """Return the squared l2 distances of listed pairs of rows. They decide the order and ties of l2.

    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> pair_distances_sq(a, a, [0], [1])
    array([25.])
    """
    return pair_distances(a, b, index_a, index_b, distance="l2", squared=True)


def pair_distances_across(
    parts: Sequence[Array],
    lists: Sequence[Array],
    out: Floats,
    *,
    distance: str = "l2",
    steps: NDArray[np.int8] | None = None,
) -> None:
    """Compute distances of pairs of rows from several matrices, without concatenating the matrices.

    `lists` contains part_a, row_a, part_b, row_b and place, each (n,). Pair i consists of row row_a[i] of
    parts[part_a[i]] and row row_b[i] of parts[part_b[i]]. Its distance (squared for l2) is written to
    out[place[i]]. The matrices must satisfy `fit_across`. They may be memory maps, because only listed rows
    are read.

    NumPy subtracts float32 rows in float32, and adds the magnitudes of l1 in float32 too. With `steps` (only
    for float32 rows), steps[place[i]] is the number of float32 steps by which this rounding changes
    float32(sqrt(sum)) of l2 (-1, 0 or 1) or float32(sum) of l1.

    >>> parts, out = [np.zeros((2, 3)), np.ones((1, 3))], np.zeros(2)
    >>> pair_distances_across(parts, np.array([[0, 0], [0, 1], [1, 0], [0, 0], [1, 0]]), out)
    >>> out.tolist()
    [0.0, 3.0]
    """
    if not fit_across(parts, distance):
        raise InputError(
            "parts: not C-ordered with one dtype and width, for l2 or l1 (see `fit_across`); concatenate the "
            "matrices first"
        )
    from .numba_backend.pair_distances import across, rows_missing
    from .numba_backend.reference_distance import sum_tree

    part_a, row_a, part_b, row_b, place = lists
    if len({len(x) for x in lists}) > 1:
        raise InputError(
            f"lists: its five rows must have equal lengths, found {[len(x) for x in lists]}; pass one "
            "entry per pair"
        )
    if steps is not None and (parts[0].dtype != np.float32 or len(steps) != len(out)):
        raise InputError("steps: needs float32 rows and one entry per output value; omit it for other rows")
    counted = np.empty(0, np.int8) if steps is None else steps
    loop, missing, tree = across(parts[0].dtype), rows_missing(), sum_tree(parts[0].shape[1])
    bases = np.array([p.__array_interface__["data"][0] for p in parts], np.uint64)
    rows = np.array([len(p) for p in parts], np.int64)
    end = np.iinfo(np.int32).max
    sides = [
        (_short(part_a, len(parts), "part_a"), _short(row_a, end, "row_a")),
        (_short(part_b, len(parts), "part_b"), _short(row_b, end, "row_b")),
    ]
    for name, (part, row) in zip("ab", sides, strict=True):
        if missing(rows, part, row):
            i = int(np.argmax(row >= rows[part]))
            raise InputError(
                f"row_{name}[{i}] is {row[i]}, but matrix {part[i]} has {rows[part[i]]} rows; pass a valid "
                "row index"
            )
    checked = [*sides[0], *sides[1], _short(place, len(out), "place")]
    l2 = distance == "l2"

    def on_device() -> None:
        from .torch_backend.counts import write_distances_across

        write_distances_across(parts, checked, out, distance, steps)

    def compiled() -> None:
        finite = ThreadTeam().split(
            len(place),
            lambda i, j: loop(parts[0], bases, *(x[i:j] for x in checked), out, l2, counted, tree),
            smallest=2048,
        )
        if not all(finite):
            _refuse_not_finite(parts, *sides[0], "a", place, out)
            _refuse_not_finite(parts, *sides[1], "b", place, out)

    run_on_device(on_device, compiled)


def _refuse_not_finite(parts: Any, part: Any, row: Any, name: str, place: Any, out: Any) -> None:
    """Raise InputError for the first pair whose distance is not finite because of its row on side `name`."""
    for i in np.flatnonzero(~np.isfinite(out[place])):
        if first_bad_row(parts[part[i]][row[i] : row[i] + 1]) is not None:
            where = f"pair {i}: row {row[i]} of matrix {part[i]} (side {name})"
            raise InputError(f"{where} has NaN, infinite or too large values; remove failed rows first")


def _short(index: Array, end: int, name: str) -> NDArray[np.int32]:
    """Convert an index array to int32 and check that its values are within 0 ... end - 1."""
    x = np.asarray(index)
    if (i := first_outside(x, 0, end)) is not None:
        raise InputError(f"{name}[{i}] is {x[i]}, outside 0 to {end - 1}; pass a valid index")
    return np.ascontiguousarray(x, np.int32)


def fit_across(parts: Sequence[Array], distance: str) -> bool:
    """Return whether all matrices are C-ordered, with one dtype and width, and the distance is l2 or l1."""
    first = parts[0]
    return all(p.shape[1:] == first.shape[1:] and _direct(first, p, distance) for p in parts)


def finish(value: Floats, distance: str, *, squared: bool) -> Floats:
    """Convert reference values to distances in place, e.g. sums of squares to their square roots."""
    if distance == "l2" and not squared:
        return np.sqrt(value, out=value)
    if squared and distance != "l2":
        raise InputError(f"squared: squared distances exist for l2 only, found {distance}; omit `squared`")
    if distance == "cosine":
        value *= 0.5
    return value


def _index(index: ArrayLike, rows: int, name: str) -> NDArray[np.int64]:
    x = np.asarray(index)
    if x.size == 0:
        x = x.astype(np.int64)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise InputError(
            f"{name}: expected integers of shape (n,), found {x.dtype} {x.shape}; convert it first"
        )
    if (i := first_outside(x, 0, rows)) is not None:
        raise InputError(f"{name}[{i}] is {x[i]}, but there are {rows} rows; pass 0 to {rows - 1}")
    return np.ascontiguousarray(x, dtype=np.int64)


def _direct(a: Array, b: Array, distance: str) -> bool:
    """Return whether the compiled loops can read the rows of both matrices in place."""
    kinds = (np.float32, np.float64, np.uint8)
    same = a.dtype == b.dtype and all(x.flags.c_contiguous and x.flags.aligned for x in (a, b))
    return distance in ("l2", "l1") and same and a.dtype in kinds


def _run_direct(a: Any, b: Any, left: Any, right: Any, distance: str, out: Any) -> None:
    from .numba_backend.pair_distances import pairs_l1, pairs_l2

    loop = (pairs_l2 if distance == "l2" else pairs_l1)(a.dtype)
    split = ThreadTeam().split
    split(len(out), lambda i, j: loop(a, b, left[i:j], right[i:j], out[i:j]), smallest=2048)
    if not np.isfinite(out).all():
        pair = int(np.argmin(np.isfinite(out)))
        for name, x, row in (("a", a, left[pair]), ("b", b, right[pair])):
            if first_bad_row(x[row : row + 1]) is not None:
                raise InputError(
                    f"pair {pair}: row {row} of {name} has NaN or infinite values; remove failed rows first"
                )


def _run_gathered(a: Any, b: Any, left: Any, right: Any, distance: str, out: Any) -> None:
    from .numba_backend.pair_distances import pairs_hamming, pairs_l1, pairs_l2

    loop = {"hamming": pairs_hamming, "l2": pairs_l2, "cosine": pairs_l2}.get(distance, pairs_l1)
    for i in range(0, len(out), BLOCK):
        part = slice(i, min(i + BLOCK, len(out)))
        rows = np.arange(part.stop - part.start)
        x = prepare_rows(a[left[part]], distance, name=f"pairs from {i}, rows of a")
        y = prepare_rows(b[right[part]], distance, name=f"pairs from {i}, rows of b")
        if x.dtype != y.dtype:
            x, y = x.astype(np.float64), y.astype(np.float64)
        loop(x.dtype)(x, y, rows, rows, out[part])


def tiler(queries: Array, pool: Array, distance: str) -> tuple[Array, Array, Tiler]:
    """Return both prepared matrices, and a function that computes the distances of two blocks of rows.

    For l2 the function returns sums of squares, which decide order and ties.
    """
    from .numba_backend.pair_distances import table_hamming, table_l1, table_l2

    queries, pool = np.asarray(queries), np.asarray(pool)
    check_shapes(queries, pool, distance, names=("queries", "pool rows"))
    a, b = prepare_rows(queries, distance, name="queries"), prepare_rows(pool, distance, name="pool")
    if a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    sign: tuple[float, ...] = ()
    if distance in ("l2", "cosine"):
        loop = table_l2(a.dtype)
    else:
        loop, sign = (table_hamming if distance == "hamming" else table_l1)(a.dtype, np.float64), (1.0,)

    def tile(left: Array, right: Array) -> Floats:
        out = np.empty((len(left), len(right)))
        loop(left, right, *sign, out)
        if distance == "cosine":
            out *= 0.5
        return out

    return a, b, tile


def value_table(queries: Array, pool: Array, *, distance: str) -> Floats:
    """Return the distances of all pairs of query and pool rows, float64 (q, p); for l2 the sums of squares.

    These values decide order and ties.

    >>> value_table(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]), distance="l2")
    array([[25.,  1.]])
    """

    def on_device() -> Floats:
        from .torch_backend.counts import value_table

        return value_table(np.asarray(queries), np.asarray(pool), distance)

    def compiled() -> Floats:
        a, b, tile = tiler(queries, pool, distance)
        return tile(a, b)

    return run_on_device(on_device, compiled)
