# SPDX-License-Identifier: BSD-3-Clause
"""Rank counts and distances of listed pairs on a torch device; see `nearest_scan` for the method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import nearest_scan
from .device import FallBackToCpu, block_bytes, get_device
from .nearest_scan import MAX_CANDIDATES, DeviceScores, DeviceTile, above, below
from .row_cache import (
    Tensor,
    difference,
    download,
    in_chunks,
    numpy_sum,
    pairs,
    reference,
    root,
    to_device,
    upload,
)

SPARSE = 24
"""If fewer than one in this many scores can affect a target, each of them is evaluated separately."""
FEW = 1 << 16
"""Up to this many scores are always evaluated separately."""
ROOT_SLACK = 2.0**-50
"""Bound on the relative rounding error of a square and of a square root."""
Array = NDArray[Any]
Ints = NDArray[np.int64]


class Targets(NamedTuple):
    """Input of `rank_counts`: targets sorted by query, with their values and positions.

    `root` is set if values are square roots. `limit` (q, s) is ascending for each query. With `own`, the row
    at a target's position is skipped. `order` is the original index of each target, and `column` (q, s) the
    original column of each limit. Results are in the original order.
    """

    query: Ints
    value: Array
    position: Ints
    root: bool
    own: bool
    limit: Ints
    order: Ints
    column: Ints


class _Counter:
    """Sums of the counts (targets, limits) over tiles. Every query has the same number of target slots."""

    def __init__(self, scores: DeviceScores, targets: Targets, groups: tuple[Any, Any] | None) -> None:
        import torch

        self.scores, self.targets = scores, targets
        device = scores.a.device
        per = np.bincount(targets.query, minlength=scores.q)
        self.slots, self.columns = int(per.max()), targets.limit.shape[1]
        cells = scores.q * self.slots * (self.columns + 1)
        if cells > 8 * len(targets.query) * (self.columns + 1) + (1 << 22):
            raise FallBackToCpu
        self.at = np.arange(len(targets.query)) - (np.cumsum(per) - per)[targets.query]
        value = np.full((scores.q, self.slots), -1.0)
        value[targets.query, self.at] = targets.value
        position = np.zeros((scores.q, self.slots), np.int64)
        position[targets.query, self.at] = targets.position
        self.value, self.position = to_device(value), to_device(position)
        self.limit = to_device(targets.limit)
        self.groups = None if groups is None else (to_device(groups[0]), to_device(groups[1]))
        self.first_limit = int(targets.limit.min())
        shape = (3, scores.q, self.slots, self.columns + 1)
        self.steps = torch.zeros(shape, dtype=torch.int64, device=device)
        self.nearer_total = torch.zeros(
            (scores.q, self.slots, self.columns), dtype=torch.int64, device=device
        )

    def add(self, tile: DeviceTile) -> None:
        """Count the scores of one tile for their targets."""
        import torch

        i, j = tile.i, tile.i + len(tile.scores)
        value = self.value[i:j]
        low = high = value
        if self.targets.root:
            square = value * value
            low, high = square * (1.0 - ROOT_SLACK), square * (1.0 + ROOT_SLACK)
        alpha, beta, error = self.scores.alpha, tile.beta[:, None], tile.error[:, None]
        present = value >= 0
        low = below(torch.where(present, alpha * low - beta - error, -torch.inf), tile.scores)
        high = above(torch.where(present, alpha * high - beta + error, -torch.inf), tile.scores)
        mask = tile.scores <= high.amax(dim=1)[:, None]
        count = int(mask.sum())
        if count == 0:
            return
        if count <= max(mask.numel() // SPARSE, FEW):
            hits = mask.nonzero()
            self._one_by_one(tile, low, high, hits[:, 0], hits[:, 1])
        else:
            del mask
            self._all(tile, low, high)

    def _one_by_one(self, tile: DeviceTile, low: Tensor, high: Tensor, row: Tensor, column: Tensor) -> None:
        if self.groups is not None:
            other = self.groups[1][tile.u + column] != self.groups[0][tile.i + row]
            row, column = row[other], column[other]
        step = max(1, block_bytes() // (16 * self.slots))
        for start in range(0, len(row), step):
            r, c = row[start : start + step], column[start : start + step]
            score = tile.scores[r, c]
            nearer = score[:, None] < low[r]
            self._count(0, tile, r, c, nearer)
            inside = (score[:, None] <= high[r]) & ~nearer
            some = inside.any(dim=1).nonzero()[:, 0]
            self._decide(tile, r[some], c[some], score[some], inside[some], None)

    def _all(self, tile: DeviceTile, low: Tensor, high: Tensor) -> None:
        import torch

        i, j, width = tile.i, tile.i + len(tile.scores), min(tile.scores.shape[1], self.scores.n - tile.u)
        scores = tile.scores[:, :width]
        if self.groups is not None:
            own = self.groups[1][None, tile.u : tile.u + width] == self.groups[0][i:j, None]
            scores.masked_fill_(own, torch.inf)
        edge = (self.limit[i:j] - tile.u).clamp(0, width)
        free = self.first_limit >= tile.u + width
        for slot in range(self.slots):
            nearer = scores < low[:, slot, None]
            if free:
                self.nearer_total[i:j, slot] += nearer.sum(dim=1)[:, None]
            else:
                running = torch.cumsum(nearer, dim=1, dtype=torch.int32)
                counted = running.gather(1, (edge - 1).clamp(min=0))
                self.nearer_total[i:j, slot] += torch.where(edge > 0, counted, 0)
            inside = (scores <= high[:, slot, None]).logical_and_(~nearer)
            hits = inside.nonzero()
            if not self.scores.exact and len(hits) > MAX_CANDIDATES:
                raise FallBackToCpu
            r, c = hits[:, 0], hits[:, 1]
            self._decide(tile, r, c, scores[r, c], None, slot)

    def _decide(
        self,
        tile: DeviceTile,
        row: Tensor,
        column: Tensor,
        score: Tensor,
        inside: Tensor | None,
        slot: int | None,
    ) -> None:
        """Recompute scores that are too close to a target's score, and count them by their exact distances.

        `row` and `column` give their places in the tile. `slot` is the number of a target, or None for all
        targets of which `inside` (entries, slots) is true.
        """
        if not len(row):
            return
        value = self.scores.values(tile, row, column, score)
        value = root(value) if self.targets.root else value
        chosen = slice(None) if slot is None else slice(slot, slot + 1)
        target = self.value[:, chosen][tile.i + row]
        nearer, equal = value[:, None] < target, value[:, None] == target
        if inside is not None:
            nearer, equal = nearer & inside, equal & inside
        before = equal & ((tile.u + column)[:, None] < self.position[:, chosen][tile.i + row])
        for kind, mask in enumerate((nearer, equal, before)):
            self._count(kind, tile, row, column, mask, slot or 0)

    def _count(
        self, kind: int, tile: DeviceTile, row: Tensor, column: Tensor, mask: Tensor, first_slot: int = 0
    ) -> None:
        """Count entries of a tile for their targets, at every limit above their position.

        `kind` is 0 for nearer, 1 for equal, 2 for equal at an earlier position. `mask` (entries, slots)
        selects the targets of each entry.
        """
        import torch

        hits = mask.nonzero()
        if not len(hits):
            return
        entry, slot = hits[:, 0], hits[:, 1] + first_slot
        query, place = tile.i + row, tile.u + column
        step = torch.empty_like(place)
        for at in in_chunks(len(place), self.columns, 9):
            step[at] = (self.limit[query[at]] <= place[at, None]).sum(dim=1)
        cell = (query[entry] * self.slots + slot) * (self.columns + 1) + step[entry]
        self.steps[kind].view(-1).scatter_add_(0, cell, torch.ones_like(cell))

    def result(self) -> Ints:
        """Return counts (3, targets, limits) with targets and limits in their original order."""
        import torch

        query, value, position, root_of, own, _, order, column = self.targets
        counts = self.steps.cumsum(dim=3)[..., :-1]
        counts[0] += self.nearer_total
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        cell = to_device((query * self.slots + self.at)[back])
        counts = counts.reshape(3, -1, self.columns)[:, cell]
        if own:
            own_value = self.scores.listed_values(to_device(query), to_device(position))
            own_value = root(own_value) if root_of else own_value
            at, target = to_device(back), to_device(value)
            counted = (to_device(position)[:, None] < self.limit[to_device(query)])[at]
            if self.groups is not None:
                other = self.groups[1][to_device(position)] != self.groups[0][to_device(query)]
                counted &= other[at, None]
            counts[0] -= (counted & (own_value < target)[at, None]).to(torch.int64)
            counts[1] -= (counted & (own_value == target)[at, None]).to(torch.int64)
        if self.columns > 1:
            place = to_device(np.argsort(column, axis=1))[to_device(query[back])]
            counts = counts.gather(2, place.expand(3, -1, -1))
        return download(counts)


def rank_counts(scores: DeviceScores, targets: Targets, groups: tuple[Any, Any] | None) -> Ints:
    """Return the counts `lt`, `eq` and `eq_before` (3, t, s) of sorted targets. Limits must be ascending.

    `groups` are the group numbers of queries and pool rows. Rows of the query's own group are skipped.
    """
    counter = _Counter(scores, targets, groups)
    for tile in scores.tiles():
        counter.add(tile)
    return counter.result()


def pooled_step_counts(
    queries: Array, pool: Array, position: Ints, stride: int, distance: str, value: Array, at: Ints
) -> Ints:
    """Return the step arrays (3, n + 1) of `group_counts.count_below` for all pairs of rows."""
    import torch

    scores = DeviceScores(queries, [[pool]], distance)
    n = len(value)
    run = np.concatenate([[0], np.cumsum(value[1:] != value[:-1])])
    span = 2 + max(int(at.max()), int(position.max()) + abs(stride) * scores.n)
    if int(at.min()) < 0 or int(position.min()) < 0 or stride < 0 or (int(run[-1]) + 1) * span >= 2**62:
        raise FallBackToCpu
    edges, place = to_device(value), to_device(position)
    composed, runs = to_device(run * span + at), to_device(run)
    out = torch.zeros((3, n + 1), dtype=torch.int64, device=scores.a.device)
    columns = min(scores.n, 4096)
    step = max(1, block_bytes() // (40 * columns))
    for i in range(0, scores.q, step):
        for u in range(0, scores.n, columns):
            tile = scores.block(i, min(i + step, scores.q), u, min(u + columns, scores.n))
            up = torch.searchsorted(edges, tile, right=True)
            out[0] += torch.bincount(up.view(-1), minlength=n + 1)
            low = torch.searchsorted(edges, tile)
            row, column = (low < up).nonzero(as_tuple=True)
            low, up = low[row, column], up[row, column]
            out[1] += torch.bincount(low, minlength=n + 1) - torch.bincount(up, minlength=n + 1)
            p = place[i + row] + stride * (u + column)
            k = torch.searchsorted(composed, runs[low] * span + p, right=True)
            out[2] += torch.bincount(k, minlength=n + 1) - torch.bincount(up, minlength=n + 1)
    return download(out)


def value_table(queries: Array, pool: Array, distance: str) -> Array:
    """Return the distances of all pairs of rows, (q, n); for l2 the sums of squares."""
    scores = DeviceScores(queries, [[pool]], distance)
    return download(scores.block(0, scores.q, 0, scores.n))


def _few(count: int, width: int) -> bool:
    return get_device() != "torch:cpu" and count * width < nearest_scan.SMALL // 8


def listed_pair_values(a: Array, b: Array, left: Ints, right: Ints, distance: str) -> Array:
    """Return the distances of listed pairs of rows from two matrices with the same dtype; squared for l2."""
    if _few(len(left), a.shape[1]) or not len(left):
        raise FallBackToCpu
    sides = []
    for x, index in ((a, left), (b, right)):
        select = len(x) > 2 * len(index)  # selecting rows on the CPU is then cheaper than uploading all rows
        sides.append((np.ascontiguousarray(x[index]), None) if select else (x, index))
    rows_a, rows_b = upload([side[0] for side in sides])
    i, j = (to_device(np.arange(len(left)) if index is None else index) for _, index in sides)
    values = pairs(rows_a.values, rows_b.values, i, j, distance)
    if not bool(values.isfinite().all()):
        raise FallBackToCpu
    return download(values)


def write_distances_across(
    parts: Sequence[Array], lists: Sequence[Array], out: Array, distance: str, steps: NDArray[np.int8] | None
) -> None:
    """Run `pair_distances.pair_distances_across` on the torch device."""
    import torch

    part_a, row_a, part_b, row_b, place = lists
    if _few(len(place), parts[0].shape[1]) or not len(place):
        raise FallBackToCpu
    rows = [r.values for r in upload(parts)]
    flat = rows[0] if len(rows) == 1 else torch.cat(rows)
    starts = to_device(np.cumsum([0, *(len(p) for p in parts)])[:-1])
    sides = [(to_device(p), to_device(r)) for p, r in ((part_a, row_a), (part_b, row_b))]
    values = torch.empty(len(place), dtype=torch.float64, device=flat.device)
    moved = torch.empty(0 if steps is None else len(place), dtype=torch.int8, device=flat.device)
    for at in in_chunks(len(place), flat.shape[1]):
        x, y = (flat[starts[p[at]] + r[at]] for p, r in sides)
        values[at] = exact = reference(difference(x, y), distance)
        if steps is not None:
            if distance == "l2":
                single, exact = root(reference(torch.sub(x, y).to(torch.float64), "l2")), root(exact)
            else:
                single = numpy_sum(torch.sub(x, y).abs_())
            single, exact = (v.to(torch.float32).view(torch.int32) for v in (single, exact))
            moved[at] = (single - exact).to(torch.int8)
    if not bool(values.isfinite().all()):
        raise FallBackToCpu
    for result, output in ((values, out), (moved, steps)):
        if output is None:
            continue
        if len(place) == len(output):
            ordered = torch.empty_like(result)
            ordered[to_device(place).to(torch.int64)] = result
            output[:] = download(ordered)
        else:
            output[place] = download(result)
