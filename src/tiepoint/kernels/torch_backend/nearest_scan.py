# SPDX-License-Identifier: BSD-3-Clause
"""Nearest neighbours on a torch device. Exact distances decide where float32 scores are too close.

Scores, thresholds and bounds are those of the compiled code (`tiles`, `numba_backend.nearest_scan`,
`error_bound`). Centre, scale and blocks may differ, because no result depends on them. Indices come from a
mask, in ascending order, or from stable sorts. `topk` is not stable, so only its values are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..error_bound import FLOAT32_UNIT, score_bound
from ..inputs import check_shapes, prepare_rows
from .device import FallBackToCpu, block_bytes, get_device
from .row_cache import Tensor, check_finite, download, in_chunks, pairs, table, upload

GROUPS = 8
MAX_CANDIDATES = 1 << 22
"""If more scores than this plus one in `CANDIDATE_SHARE` need exact distances, float32 is too imprecise."""
CANDIDATE_SHARE = 32
SMALL = 1 << 24
"""Number of multiplications below which the CPU is faster than the start of a GPU kernel."""
_TOP = float(np.finfo(np.float32).max)
Array = NDArray[Any]


class DeviceTile(NamedTuple):
    """Block of scores of queries from i on and rows from u on of every pool, (queries x pools, columns).

    The scores differ from alpha R - beta by at most `error`, where R is the exact reference value. Columns
    past the last row are infinite.
    """

    scores: Tensor
    beta: Tensor
    error: Tensor
    i: int
    u: int


class DeviceScores:
    """Scores of queries against one or more pools with the same number of rows, computed in tiles."""

    def __init__(self, queries: Array, pools: Sequence[Sequence[Array]], distance: str) -> None:
        import torch

        for part in (p for pool in pools for p in pool):
            check_shapes(queries, part, distance, names=("queries", "pool rows"))
        rows = sum(len(p) for p in pools[0])
        self.q, self.n, self.pools = len(queries), rows, len(pools)
        work = self.q * rows * len(pools) * queries.shape[1]
        if work == 0 or (work < SMALL and get_device() != "torch:cpu"):
            raise FallBackToCpu
        self.kind = {"l2": "l2", "cosine": "l2", "hamming": "hamming"}.get(distance, "l1")
        self.halved = distance == "cosine"
        if distance in ("cosine", "masked_l1"):
            queries = prepare_rows(queries, distance, name="queries")
            pools = [[prepare_rows(p, distance, name="pool") for p in pool] for pool in pools]
        a, *parts = upload([queries, *(p for pool in pools for p in pool)])
        integers = all(p.integers for p in (a, *parts))
        peak = max(check_finite(p).peak for p in (a, *parts))
        b = parts[0].values if len(parts) == 1 else torch.cat([p.values for p in parts])
        self.a, self.b = a.values, b
        if self.a.dtype != self.b.dtype:
            self.a, self.b = self.a.to(torch.float64), self.b.to(torch.float64)
        self.alpha, self.exact = 1.0, True
        if self.kind == "l2":
            self._enter(peak, integers)
        elif self.kind == "hamming":
            self.left = _signs(self.a)

    def _enter(self, peak: float, integers: bool) -> None:
        """Choose centre and scale so that products of small integers are exact.

        For other rows, no norm exceeds one.
        """
        import torch

        width = self.a.shape[1]
        step = max(1, len(self.b) // 256)
        self.centre = self.b[::step].to(torch.float64).mean(dim=0, keepdim=True)
        self.exact = False
        self.scale = 1.0
        if integers and peak <= 2.0**20:
            self.centre = self.centre.round()
            left, square = self._project(self.a)
            squares = (float(self._project(self.b[at])[1].max()) for at in in_chunks(len(self.b), width))
            largest = max(float(square.max()), *squares)
            # Scores are multiples of 1/2 up to 1.5 x largest; below 2^23 float32 holds each of them.
            self.exact = 1.5 * largest <= 2.0**23
        if not self.exact:
            bound = 2.0 * np.sqrt(width) * max(peak, 2.0**-1060)
            self.scale = float(np.ldexp(1.0, -int(np.clip(np.frexp(bound)[1], -500, 510))))
            left, square = self._project(self.a)
        self.left, self.beta, self.norm = left, 0.5 * square, square.sqrt()
        self.alpha = 0.5 * self.scale**2

    def _project(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return fl((x - centre) scale) in float32, and its squared norm in float64, summed in any order."""
        import torch

        parts = []
        for at in in_chunks(len(rows), rows.shape[1]):
            moved = torch.sub(rows[at], self.centre)  # in float64, the format of the centre
            out = moved.mul_(self.scale).to(torch.float32)
            moved = out.to(torch.float64)
            parts.append((out, moved.mul_(moved).sum(dim=1)))
        if len(parts) == 1:
            return parts[0]
        outs, squares = zip(*parts, strict=True)
        return torch.cat(outs), torch.cat(squares)

    def tiles(self) -> Iterator[DeviceTile]:
        """Yield tiles of all scores: for each block of rows, one tile per block of queries."""
        size = 8 if self.kind == "l1" else 4
        room = max(GROUPS, min(1 << 30, block_bytes() // size) // self.pools)
        columns = min(self.n, max(GROUPS, room // min(self.q, 256)))
        queries = max(1, room // (columns + GROUPS))
        for u in range(0, self.n, columns):
            v = min(u + columns, self.n)
            part = self._columns(u, v)
            for i in range(0, self.q, queries):
                j = min(i + queries, self.q)
                yield self._tile(part, i, j, u, v)

    def _columns(self, u: int, v: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows u to v of every pool, half their squared norms and the largest norm.

        Half norms past the last row are infinite.
        """
        import torch

        columns = -(-(v - u) // GROUPS) * GROUPS
        rows = self.b.view(self.pools, self.n, -1)[:, u:v]
        if self.kind == "l1":
            return rows, rows, rows
        shape, device = (self.pools, columns), rows.device
        half = torch.full(shape, torch.inf, dtype=torch.float32, device=device)
        if self.kind == "hamming":
            right = _signs(rows.reshape(-1, rows.shape[2]))
            square = torch.zeros(len(right), dtype=torch.float64, device=device)
        else:
            right, square = self._project(rows.reshape(-1, rows.shape[2]))
        half[:, : v - u] = (0.5 * square).view(self.pools, v - u)
        if columns > v - u:
            padded = torch.zeros((*shape, right.shape[1]), dtype=right.dtype, device=device)
            padded[:, : v - u] = right.view(self.pools, v - u, -1)
            right = padded.view(-1, right.shape[1])
        return right, half, square.max().sqrt()

    def _tile(self, part: tuple[Tensor, Tensor, Tensor], i: int, j: int, u: int, v: int) -> DeviceTile:
        import torch

        right, half, top = part
        zero = torch.zeros((j - i) * self.pools, dtype=torch.float64, device=self.a.device)
        if self.kind == "l1":
            columns = -(-(v - u) // GROUPS) * GROUPS
            shape = (j - i, self.pools, columns)
            scores = torch.full(shape, torch.inf, dtype=torch.float64, device=self.a.device)
            for p in range(self.pools):
                scores[:, p, : v - u] = table(self.a[i:j], right[p], "l1")
            return DeviceTile(scores.view(-1, columns), zero, zero, i, u)
        product = torch.matmul(self.left[i:j], right.T).view(j - i, self.pools, -1)
        if self.kind == "hamming":
            # Differing bits = (bits - product of signs) / 2, exactly.
            product.sub_(self.left.shape[1]).mul_(0.5)
        scores = torch.sub(half, product, out=product).view(-1, product.shape[2])
        if self.kind == "hamming":
            return DeviceTile(scores, zero, zero, i, u)
        beta, error = self.beta[i:j], zero
        if not self.exact:
            error = score_bound(self.a.shape[1], FLOAT32_UNIT, self.norm[i:j], top, self.scale)
        if self.pools > 1:
            beta = beta.repeat_interleave(self.pools)
            error = error if self.exact else error.repeat_interleave(self.pools)
        return DeviceTile(scores, beta, error, i, u)

    def values(
        self,
        tile: DeviceTile,
        row: Tensor,
        column: Tensor,
        score: Tensor,
        more: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the exact distances (squared for l2) of entries of a tile.

        They are derived from exact scores or computed from the rows. `more` contains further queries and
        rows; their values are appended, except if scores are exact.
        """
        import torch

        if self.exact:
            return (score.to(torch.float64) + tile.beta[row]) / self.alpha
        query = tile.i + torch.div(row, self.pools, rounding_mode="floor")
        place = column + tile.u
        if self.pools > 1:
            place = place + (row % self.pools) * self.n
        if more is not None:
            query, place = (torch.cat(x) for x in zip((query, place), more, strict=True))
        return pairs(self.a, self.b, query, place, "l2")

    def block(self, i: int, j: int, u: int, v: int) -> Tensor:
        """Return the distances of queries i to j and rows u to v, float64; for l2 the sums of squares."""
        import torch

        if self.kind != "hamming":
            values = table(self.a[i:j], self.b[u:v], self.kind)
            return values.mul_(0.5) if self.halved else values
        product = torch.matmul(self.left[i:j], _signs(self.b[u:v]).T).to(torch.float64)
        return (self.left.shape[1] - product) / 2

    def listed_values(self, query: Tensor, place: Tensor) -> Tensor:
        """Return the distances of listed pairs of queries and rows, float64; for l2 the sums of squares."""
        if self.kind != "hamming":
            return pairs(self.a, self.b, query, place, self.kind)
        import torch

        return (self.left[query] != _signs(self.b[place])).sum(dim=1).to(torch.float64)

    def within(self, tile: DeviceTile, limit: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and columns of all scores of a tile that are at most their row's `limit`, in order."""
        mask = tile.scores <= limit[:, None]
        hits = mask.nonzero()
        if not self.exact and len(hits) > MAX_CANDIDATES + mask.numel() // CANDIDATE_SHARE:
            raise FallBackToCpu
        return hits[:, 0], hits[:, 1]


def _signs(packed: Tensor) -> Tensor:
    """Expand bits of bytes (n, d) to +1 and -1, float32 (n, 8 d)."""
    import torch

    out = torch.empty((len(packed), 8 * packed.shape[1]), dtype=torch.float32, device=packed.device)
    bits = out.view(len(packed), packed.shape[1], 8)
    for k in range(8):
        bits[:, :, k] = (packed >> k) & 1
    return out.mul_(2).sub_(1)


def above(x: Tensor, like: Tensor) -> Tensor:
    """Convert x to the dtype of `like`, rounded up by at most two steps to a finite number."""
    import torch

    if like.dtype == torch.float64:
        return x.clamp(-np.finfo(np.float64).max, np.finfo(np.float64).max)
    return torch.nextafter(x.to(torch.float32), like.new_full((), torch.inf)).clamp_(-_TOP, _TOP)


def below(x: Tensor, like: Tensor) -> Tensor:
    """Convert x to the dtype of `like`, rounded down by at most two steps to a finite number."""
    return -above(-x, like)


def first_two(
    queries: Array, pools: Sequence[Array], distance: str, aligned: bool
) -> list[tuple[Array, ...]]:
    """Compute `index`, `d1`, `ties` and `d2` of every query in every pool; distances are squared for l2.

    All pools have the same number of rows. With `aligned`, also return the distance of query i from row i.
    """
    import torch

    scores = DeviceScores(queries, [[p] for p in pools], distance)
    count, device = scores.q * scores.pools, scores.a.device
    state = own = more = None
    if aligned:
        query = torch.arange(scores.q, device=device)
        place = query[:, None] + scores.n * torch.arange(scores.pools, device=device)
        more = query.repeat_interleave(scores.pools), place.view(-1)
    parts: list[tuple[Tensor, ...]] = []
    for tile in scores.tiles():
        least = tile.scores.view(len(tile.scores), -1, GROUPS).amin(dim=1)
        second = torch.topk(least, 2, dim=1, largest=False).values[:, 1].to(torch.float64)
        row, column = scores.within(tile, above(second + 2.0 * tile.error, tile.scores))
        pending = None if scores.exact else more
        value = scores.values(tile, row, column, tile.scores[row, column], pending)
        if pending is not None:
            value, own, more = value[: len(row)], value[len(row) :], None
        size = len(tile.scores)
        d1 = torch.full((size,), torch.inf, dtype=torch.float64, device=device)
        d1.scatter_reduce_(0, row, value, "amin")
        tied = value == d1[row]
        index = torch.full((size,), scores.n, dtype=torch.int64, device=device)
        index.scatter_reduce_(0, row, torch.where(tied, column + tile.u, scores.n), "amin")
        ties = torch.zeros((size,), dtype=torch.int64, device=device)
        ties.scatter_add_(0, row, tied.to(torch.int64))
        d2 = torch.full((size,), torch.inf, dtype=torch.float64, device=device)
        d2.scatter_reduce_(0, row, torch.where(tied, torch.inf, value), "amin")
        parts.append((d1, torch.where(ties > 1, d1, d2), index, ties))
        if sum(len(p[0]) for p in parts) == count:  # all queries are compared with this block of rows
            new = parts[0] if len(parts) == 1 else tuple(torch.cat(x) for x in zip(*parts, strict=True))
            state, parts = new if state is None else _merged(state, new), []
    d1, d2, index, ties = state or parts[0]
    columns = [index.to(torch.float64), d1, ties.to(torch.float64), d2]
    if more is not None:
        own = scores.listed_values(*more)
    if own is not None:
        columns.append(own)
    shape = (len(columns), scores.q, scores.pools)
    values = download(torch.stack(columns).view(shape).permute(2, 0, 1).contiguous())
    ints = values[:, 0::2].astype(np.int64)
    return [(ints[p, 0], values[p, 1], ints[p, 1], values[p, 3], *values[p, 4:]) for p in range(scores.pools)]


def _merged(old: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Merge `d1`, `d2`, `index` and `ties` of two blocks of rows; `new` is the block of later rows."""
    import torch

    first = torch.minimum(old[0], new[0])
    from_old, from_new = old[0] == first, new[0] == first
    ties = torch.where(from_old, old[3], 0) + torch.where(from_new, new[3], 0)
    second = torch.minimum(torch.where(from_old, old[1], old[0]), torch.where(from_new, new[1], new[0]))
    return first, torch.where(ties > 1, first, second), torch.where(from_old, old[2], new[2]), ties


def nearest(
    queries: Array, pool: Array, k: int, distance: str, exclude: NDArray[np.int64] | None
) -> tuple[Array, Array]:
    """Return the k nearest pool rows and their distances (q, k), squared for l2, without the excluded row.

    They are sorted by (distance, row).
    """
    import torch

    scores = DeviceScores(queries, [[pool]], distance)
    device = scores.a.device
    keep = min(k + int(exclude is not None), scores.n)
    skip = None if exclude is None else torch.from_numpy(exclude).to(device)
    blocks: dict[int, list[tuple[Tensor, ...]]] = {}
    for tile in scores.tiles():
        some = min(keep, tile.scores.shape[1])
        kth = torch.topk(tile.scores, some, dim=1, largest=False).values.amax(dim=1).to(torch.float64)
        row, column = scores.within(tile, above(kth + 2.0 * tile.error, tile.scores))
        value = scores.values(tile, row, column, tile.scores[row, column])
        place, query = column + tile.u, row + tile.i
        if skip is not None:
            other = place != skip[query]
            value, place, query = value[other], place[other], query[other]
        held = [*blocks.get(tile.i, []), (query, value, place)]
        query, value, place = (torch.cat(x) for x in zip(*held, strict=True))
        blocks[tile.i] = [_best(query, value, place, k)]
    parts = [part for block in blocks.values() for part in block]
    index = download(torch.cat([p[2] for p in parts])).reshape(scores.q, k)
    return index, download(torch.cat([p[1] for p in parts])).reshape(scores.q, k)


def _best(query: Tensor, value: Tensor, place: Tensor, k: int) -> tuple[Tensor, ...]:
    """Return the first k entries of each query by (value, row). `place` must ascend for each query."""
    import torch

    order = torch.sort(value, stable=True).indices
    order = order[torch.sort(query[order], stable=True).indices]
    query = query[order]
    first = torch.searchsorted(query, query)
    chosen = torch.arange(len(query), device=query.device) - first < k
    return query[chosen], value[order][chosen], place[order][chosen]
