# SPDX-License-Identifier: BSD-3-Clause
"""Distances of listed pairs of rows, and tables of all pairs of two blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .inputs import BLOCK, check_shapes, first_bad_row, prepare_rows
from .threads import ThreadTeam
from .torch_backend.device import run_on_device

Tiler = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


def pair_distances(
    a: NDArray[Any],
    b: NDArray[Any],
    index_a: ArrayLike,
    index_b: ArrayLike,
    *,
    distance: str = "l2",
    squared: bool = False,
) -> NDArray[np.float64]:
    """Reference distance between row index_a[i] of `a` and row index_b[i] of `b`, float64 (n,).

    l2 is the square root of the sum of squares (the sum itself with `squared`), l1 the sum of absolute
    differences, hamming the number of differing bits, cosine 1 - cos, masked_l1 the l1 distance of
    value x mask. Only the listed rows are read, so `a` and `b` may be memory maps of any size.

    The trap: the square root can round two different sums of squares to one number. Where ties matter,
    keep `squared` values and give them to `rank_counts(..., squared=True)`.

    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> pair_distances(a, a, [0, 1], [1, 1])
    array([5., 0.])
    """
    a, b = np.asarray(a), np.asarray(b)
    check_shapes(a, b, distance, names=("rows of a", "rows of b"))
    left, right = _index(index_a, len(a), "index_a"), _index(index_b, len(b), "index_b")
    if len(left) != len(right):
        raise InputError(
            f"index_a has {len(left)} entries and index_b {len(right)}; they must have equally many"
        )
    direct = _direct(a, b, distance)

    def on_device() -> NDArray[Any]:
        from .torch_backend.counts import listed_pair_values

        return listed_pair_values(a, b, left, right, distance)

    def compiled() -> NDArray[Any]:
        out = np.empty(len(left))
        (_run_direct if direct else _run_gathered)(a, b, left, right, distance, out)
        return out

    found = run_on_device(on_device, compiled) if direct else compiled()
    return finish(found, distance, squared=squared)


def pair_distances_sq(
    a: NDArray[Any], b: NDArray[Any], index_a: ArrayLike, index_b: ArrayLike
) -> NDArray[np.float64]:
    """Squared l2 reference of the listed pairs: the number that decides every l2 ordering and tie.

    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> pair_distances_sq(a, a, [0], [1])
    array([25.])
    """
    return pair_distances(a, b, index_a, index_b, distance="l2", squared=True)


def pair_distances_across(
    parts: Sequence[NDArray[Any]],
    lists: Sequence[NDArray[Any]],
    out: NDArray[np.float64],
    *,
    distance: str = "l2",
    steps: NDArray[np.int8] | None = None,
) -> None:
    """Reference values of pairs of rows of several matrices, without laying these side by side.

    `lists` are part_a, row_a, part_b, row_b and place, all (n,): pair i is row row_a[i] of parts[part_a[i]]
    and row row_b[i] of parts[part_b[i]], and its value (squared for l2) goes to out[place[i]]. The matrices
    may be memory maps: only listed rows are read, nothing is copied. See `fit_across` for those it takes.

    NumPy subtracts float32 rows in float32. Where `steps` is given (l2 of float32), steps[place[i]] says by
    how many numbers float32(sqrt(sum)) moves for it; at most one up or down, as every difference is rounded
    once.

    >>> parts, out = [np.zeros((2, 3)), np.ones((1, 3))], np.zeros(2)
    >>> pair_distances_across(parts, np.array([[0, 0], [0, 1], [1, 0], [0, 0], [1, 0]]), out)
    >>> out.tolist()
    [0.0, 3.0]
    """
    if not fit_across(parts, distance):
        raise InputError("these matrices must be laid side by side first; see fit_across")
    from .numba_backend.pair_distances import across, rows_missing

    part_a, row_a, part_b, row_b, place = lists
    if len({len(x) for x in lists}) > 1:
        raise InputError(
            f"the lists name pairs and must have the same length, found {[len(x) for x in lists]}"
        )

    if steps is not None and (distance != "l2" or parts[0].dtype != np.float32 or len(steps) != len(out)):
        raise InputError("steps exist for l2 of float32 rows, one for each value")
    counted = np.empty(0, np.int8) if steps is None else steps
    loop, missing = across(parts[0].dtype), rows_missing()
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
            raise InputError(f"row_{name}[{i}] is {row[i]}, but matrix {part[i]} has {rows[part[i]]} rows")
    checked = [*sides[0], *sides[1], _short(place, len(out), "place")]
    l2 = distance == "l2"

    def on_device() -> None:
        from .torch_backend.counts import write_distances_across as torch_across

        torch_across(parts, checked, out, distance, steps)

    def compiled() -> None:
        with ThreadTeam() as team:
            finite = team.split(
                len(place),
                lambda i, j: loop(parts[0], bases, *(x[i:j] for x in checked), out, l2, counted),
                smallest=2048,
            )
        if not all(finite):
            _refuse_not_finite(parts, *sides[0], "a", place, out)
            _refuse_not_finite(parts, *sides[1], "b", place, out)

    run_on_device(on_device, compiled)


def _refuse_not_finite(parts: Any, part: Any, row: Any, name: str, place: Any, out: Any) -> None:
    """Raise for the first row that made a value not finite."""
    for i in np.flatnonzero(~np.isfinite(out[place])):
        if first_bad_row(parts[part[i]][row[i] : row[i] + 1]) is not None:
            where = f"pair {i}: row {row[i]} of matrix {part[i]} (side {name})"
            raise InputError(f"{where} is not finite or too large; remove failed rows first")


def _short(index: NDArray[Any], end: int, name: str) -> NDArray[np.int32]:
    """An index in 32 bits, all of it in 0 … end-1."""
    found = np.asarray(index)
    if found.size and (found.min() < 0 or found.max() >= end):
        i = int(np.argmax((found < 0) | (found >= end)))
        raise InputError(f"{name}[{i}] is {found[i]}, outside 0 to {end - 1}")
    return np.ascontiguousarray(found, np.int32)


def fit_across(parts: Sequence[NDArray[Any]], distance: str) -> bool:
    """Whether `pair_distances_across` takes these: l2 or l1 of C-ordered matrices of one format and width."""
    first = parts[0]
    return all(p.shape[1:] == first.shape[1:] and _direct(first, p, distance) for p in parts)


def finish(value: NDArray[np.float64], distance: str, *, squared: bool) -> NDArray[np.float64]:
    """From the reference value that decides ties to the distance a user sees, in place."""
    if distance == "l2" and not squared:
        return np.sqrt(value, out=value)
    if squared and distance != "l2":
        raise InputError(f"squared distances exist for l2 only, found {distance}")
    if distance == "cosine":
        value *= 0.5
    return value


def _index(index: ArrayLike, rows: int, name: str) -> NDArray[np.int64]:
    found = np.asarray(index)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers of shape (n,), found {found.dtype} {found.shape}")
    if found.size and (found.min() < 0 or found.max() >= rows):
        where = int(np.argmax((found < 0) | (found >= rows)))
        raise InputError(f"{name}[{where}] is {found[where]}, but there are {rows} rows (0 to {rows - 1})")
    return np.ascontiguousarray(found, dtype=np.int64)


def _direct(a: NDArray[Any], b: NDArray[Any], distance: str) -> bool:
    kinds = (np.float32, np.float64, np.uint8)
    same = a.dtype == b.dtype and all(x.flags.c_contiguous and x.flags.aligned for x in (a, b))
    return distance in ("l2", "l1") and same and a.dtype in kinds


def _run_direct(a: Any, b: Any, left: Any, right: Any, distance: str, out: Any) -> None:
    from .numba_backend.pair_distances import pairs_l1, pairs_l2

    loop = (pairs_l2 if distance == "l2" else pairs_l1)(a.dtype)
    with ThreadTeam() as team:
        team.split(len(out), lambda i, j: loop(a, b, left[i:j], right[i:j], out[i:j]), smallest=2048)
    if not np.isfinite(out).all():
        pair = int(np.argmin(np.isfinite(out)))
        for name, x, row in (("a", a, left[pair]), ("b", b, right[pair])):
            if first_bad_row(x[row : row + 1]) is not None:
                raise InputError(f"pair {pair}: row {row} of {name} is not finite; remove failed rows first")


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


def tiler(
    queries: NDArray[Any], pool: NDArray[Any], distance: str
) -> tuple[NDArray[Any], NDArray[Any], Tiler]:
    """Both sides ready for the loops, and the function that makes a tile of two blocks of them.

    Values are what decides order and ties: squared sums for l2, the distance itself otherwise.
    """
    from .numba_backend.pair_distances import table_hamming, table_l1, table_l2

    queries, pool = np.asarray(queries), np.asarray(pool)
    check_shapes(queries, pool, distance, names=("queries", "pool rows"))
    a, b = prepare_rows(queries, distance, name="queries"), prepare_rows(pool, distance, name="pool")
    if a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    loop = {"hamming": table_hamming, "l2": table_l2, "cosine": table_l2}.get(distance, table_l1)(a.dtype)

    def tile(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        out = np.empty((len(left), len(right)))
        loop(left, right, out)
        if distance == "cosine":
            out *= 0.5
        return out

    return a, b, tile


def value_table(queries: NDArray[Any], pool: NDArray[Any], *, distance: str) -> NDArray[np.float64]:
    """Reference value of every query and pool row, float64 (q, p), the whole table at once.

    Values are what decides order and ties: squared sums for l2, the distance itself otherwise.

    >>> value_table(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]), distance="l2")
    array([[25.,  1.]])
    """

    def compiled() -> NDArray[np.float64]:
        a, b, tile = tiler(queries, pool, distance)
        return tile(a, b)

    return run_on_device(lambda: _on_device(queries, pool, distance), compiled)


def _on_device(queries: NDArray[Any], pool: NDArray[Any], distance: str) -> NDArray[np.float64]:
    from .torch_backend.counts import value_table

    return value_table(np.asarray(queries), np.asarray(pool), distance)
