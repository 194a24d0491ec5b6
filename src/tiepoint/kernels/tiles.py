# SPDX-License-Identifier: BSD-3-Clause
"""Compute approximate scores of queries against the distinct rows of a pool, block by block (tiles).

The full score matrix is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .duplicate_rows import WORTH, DistinctRows, find_distinct, fingerprint_keys
from .error_bound import FLOAT32_UNIT, FLOAT64_UNIT, ambiguity_band
from .inputs import as_float, check_shapes, prepare_rows
from .threads import ThreadTeam, equal_parts, one_blas_thread, scratch

Floats = NDArray[np.float64]
Array = NDArray[Any]

# These affect speed only, never results.
TILE_COLUMNS = 4096
TILE_BYTES = 4 << 20
SMALL_PRODUCT = 2**26
SMALL_SUMS = 2**24
AMBIGUOUS_SHARE = 0.01


class Tile(NamedTuple):
    """Block of similarities of queries and pool rows. The fields are the first arguments of every scan.

    `similarity` (queries, rows) holds products, or negative distances. The score is half - similarity, and it
    differs from alpha R - beta by at most `error`, where R is the exact reference value. `a` and `b` are the
    rows from which R is computed; the tile starts at `first_query` and `first_row`.
    """

    similarity: Array
    half: Array
    alpha: float
    beta: Floats
    error: Floats
    exact: bool
    a: Array
    b: Array
    first_query: int
    first_row: int


Visit = Callable[[Tile], int]


@dataclass(frozen=True)
class FilterFrame:
    """Preparation of rows for matrix products: subtract `centre`, multiply by `scale`, cast to `dtype`.

    `scale` is a power of two. `exact` is set if the rows have small integer values, so that every product,
    sum and score is exact in float32.
    """

    centre: Floats
    scale: float
    dtype: Any
    exact: bool

    def project(self, rows: Array, team: ThreadTeam) -> tuple[Any, Any, Any]:
        """Return the prepared rows (n, d), half their squared norms, and their squared norms in float64."""
        from .numba_backend.row_statistics import project

        out, step = np.empty(rows.shape, self.dtype), project(rows.dtype, self.dtype)
        half, square = np.empty(len(rows), self.dtype), np.empty(len(rows))
        team.split(
            len(rows),
            lambda i, j: step(rows[i:j], self.centre, self.scale, out[i:j], half[i:j], square[i:j]),
            smallest=256,
        )
        return out, half, square


def make_team(queries: Array, pool: Array, distance: str) -> ThreadTeam:
    """Create a thread team with a suitable number of threads for a matrix product.

    A large product is split by queries, and each thread uses one BLAS thread. Threads then do not wait for
    each other on a busy machine, and scores are read while they are in the cache. A small product stays on
    the calling thread, because starting threads costs more than it saves.
    """
    size = len(queries) * len(pool) * (pool.shape[1] if pool.ndim == 2 else 1)
    small = SMALL_PRODUCT if distance in ("l2", "cosine") else SMALL_SUMS
    return ThreadTeam(1 if size < small else None)


def make_frame(a: Array, b: Array, team: ThreadTeam) -> FilterFrame:
    """Return a frame that centres on the mean of a pool sample and scales the largest norm to about one."""
    sample = b[:: max(1, len(b) // 256)]
    centre: Floats = np.mean(sample, axis=0, dtype=np.float64).reshape(1, -1)
    largest, integers = _largest(a, b, centre, team)
    if integers:
        centre = np.rint(centre)
        largest, _ = _largest(a, b, centre, team)
        # Scores are multiples of 1/2 up to 1.5 x largest; below 2^23 float32 holds each of them.
        if 1.5 * largest <= 2.0**23:
            return FilterFrame(centre, 1.0, np.float32, exact=True)
    # These limits keep the squared scale finite; see step 5 of `ambiguity_band`.
    exponent = int(np.clip(np.frexp(np.sqrt(largest))[1], -500, 510))
    return FilterFrame(centre, float(np.ldexp(1.0, -exponent)), np.float32, exact=False)


def _largest(a: Any, b: Any, centre: Any, team: ThreadTeam) -> tuple[float, bool]:
    """Return the largest squared centred norm, and whether all values are integers."""
    from .numba_backend.row_statistics import centred_squares

    largest, integers = 0.0, True
    for rows in (a, b):
        square = np.empty(len(rows))

        def survey(i: int, j: int, rows: Any = rows, square: Any = square) -> bool:
            return bool(centred_squares(rows.dtype)(rows[i:j], centre, square[i:j]))

        integers = all(team.split(len(rows), survey, smallest=256)) and integers
        largest = max(largest, float(square.max(initial=0.0)))
    return largest, integers


class TileScores:
    """Scores of `queries` against the distinct rows of `pool`; `run` computes them tile by tile."""

    def __init__(
        self, queries: Array, pool: Array, distance: str, team: ThreadTeam, *, collapse: bool = True
    ) -> None:
        check_shapes(queries, pool, distance, names=("queries", "pool rows"))
        self.team, self.kind = team, {"l2": "l2", "cosine": "l2", "hamming": "hamming"}.get(distance, "l1")
        self.distinct: DistinctRows | None = None
        self.largest = 0.0
        self._part: tuple[Any, Any, float] | None = None
        small = collapse and distance == "l2" and team.size == 1 and len(pool) <= TILE_COLUMNS
        if small and self._enter_small(queries, pool):
            return
        a, b = prepare_rows(queries, distance, name="queries"), prepare_rows(pool, distance, name="pool")
        if a.dtype != b.dtype:
            a, b = a.astype(np.float64), b.astype(np.float64)
        self.distinct = find_distinct(b, team) if collapse else None
        self.a, self.b = a, b if self.distinct is None else b[self.distinct.first]
        if self.kind == "l2":
            self._enter(make_frame(self.a, self.b, team))
        else:
            self.exact, self.dtype = True, np.dtype(np.float32 if self.kind == "hamming" else np.float64)

    def _enter_small(self, queries: Array, pool: Array) -> bool:
        """Prepare small sets of float32 rows in one compiled call.

        Return False if they need the general code.
        """
        if queries.dtype.itemsize > 4 or pool.dtype.itemsize > 4 or not (len(queries) and len(pool)):
            return False
        a, b = as_float(queries), as_float(pool)
        if a.dtype != np.float32 or b.dtype != np.float32:
            return False
        from .numba_backend.row_statistics import enter

        centre = np.empty((1, b.shape[1]))
        left, right = scratch("left", a.shape, np.float32), scratch("right", b.shape, np.float32)
        spare, half = scratch("spare", (len(a),), np.float32), scratch("half", (len(b),), np.float32)
        square, other = scratch("square", (len(a),), np.float64), scratch("other", (len(b),), np.float64)
        error = scratch("error", (len(a),), np.float64)
        keys = fingerprint_keys(b.shape[1])
        code, scale, exact, norm = enter()(
            a, b, keys, WORTH, centre, left, right, spare, half, square, other, error
        )
        if code:
            return False
        self.a, self.b, self.left, self.frame = a, b, left, FilterFrame(centre, scale, np.float32, exact)
        self.exact, self.dtype = exact, np.dtype(np.float32)
        self.beta, self.norm = 0.5 * square, np.sqrt(square)
        self._part, self._error = (right, half, norm), error
        return True

    @property
    def row_dtype(self) -> Any:
        """Dtype of the rows from which exact distances are computed."""
        return self.a.dtype if self.kind == "l2" else np.dtype(np.float32)

    def _enter(self, frame: FilterFrame) -> None:
        self.frame, self.exact, self.dtype, self._part = frame, frame.exact, np.dtype(frame.dtype), None
        self.left, _, square = frame.project(self.a, self.team)
        self.beta, self.norm = 0.5 * square, np.sqrt(square)

    def run(
        self,
        visit: Visit,
        *,
        free: float,
        targets: float = 1.0,
        on_rows: Any = None,
        blocks: Sequence[tuple[int, int]] | None = None,
        cuts: NDArray[np.int64] | None = None,
    ) -> None:
        """Pass every tile to `visit` in row order. `visit` returns how many distances it computed exactly.

        If queries need too many exact distances on average, float32 is too imprecise, and the following tiles
        are computed in float64. The limit is `free` + 0.01 `targets` x rows of the tile. `blocks` are the row
        ranges of the tiles, and `on_rows` is called with each range. `cuts` are the only positions at which
        queries may be split, ascending from 0 to the number of queries. By default, queries may be split
        anywhere.
        """
        n = len(self.b)
        with one_blas_thread():
            for u, end in blocks or [(u, min(u + TILE_COLUMNS, n)) for u in range(0, n, TILE_COLUMNS)]:
                rows = self.b[u:end]
                if on_rows is not None:
                    on_rows(u, end)
                self._run_rows(rows, u, visit, free + AMBIGUOUS_SHARE * targets * len(rows), cuts)

    def _run_rows(self, rows: Array, u: int, visit: Visit, share: float, cuts: Any) -> None:
        """Pass the tiles of one block of rows to `visit`, one block of queries after another."""
        part = self._project(rows)
        stripe = max(1, TILE_BYTES // (len(rows) * self.dtype.itemsize))
        count = max(1, -(-len(self.a) // stripe))
        if len(self.a) >= 32 * self.team.size:
            count = -(-count // self.team.size) * self.team.size
        stripes = equal_parts(len(self.a), count)
        if cuts is not None:
            ends = np.unique(cuts[np.searchsorted(cuts, [stop for _, stop in stripes])])
            stripes = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
        # The first stripes decide whether float32 suffices for the others.
        for some in (stripes[: self.team.size], stripes[self.team.size :]):

            def show(q: int, stop: int, part: Any = part) -> int:
                return self._show(part, rows, q, stop, u, visit)

            sums = sum(self.team.each(some, show))
            queries = sum(stop - q for q, stop in some)
            if sums > queries * share and not self.exact and self.dtype == np.float32:
                self._enter(FilterFrame(self.frame.centre, self.frame.scale, np.float64, exact=False))
                part = self._project(rows)

    def _project(self, rows: Array) -> tuple[Any, Any, float]:
        if self._part is not None:
            return self._part
        if self.kind != "l2":
            return rows, np.zeros(len(rows), self.dtype), 0.0
        right, half, square = self.frame.project(rows, self.team)
        self.largest = float(np.sqrt(square.max()))
        return right, half, self.largest

    def _show(self, part: Any, rows: Any, q: int, stop: int, u: int, visit: Visit) -> int:
        right, half, norm = part
        tile = scratch("tile", (stop - q, len(rows)), self.dtype)
        if self.kind != "l2":
            from .numba_backend.pair_distances import table_hamming, table_l1

            fill = (table_hamming if self.kind == "hamming" else table_l1)(right.dtype, self.dtype)
            fill(self.a[q:stop], right, -1.0, tile)
            none, nothing = np.zeros(len(tile)), np.zeros((1, 1), np.float32)
            return visit(Tile(tile, half, 1.0, none, none, True, nothing, nothing, q, u))
        np.matmul(self.left[q:stop], right.T, out=tile)
        beta, alpha = self.beta[q:stop], 0.5 * self.frame.scale**2
        if self._part is not None:
            error = self._error[q:stop]
        elif self.exact:
            error = np.zeros(stop - q)
        else:
            unit = FLOAT32_UNIT if self.dtype == np.float32 else FLOAT64_UNIT
            error = ambiguity_band(rows.shape[1], unit, self.norm[q:stop], norm, scale=self.frame.scale)
        return visit(Tile(tile, half, alpha, beta, error, self.exact, self.a, self.b, q, u))
