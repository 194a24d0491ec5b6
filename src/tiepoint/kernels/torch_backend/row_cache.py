# SPDX-License-Identifier: BSD-3-Clause
"""Rows on a torch device: brought there once, kept while there is room, and their reference values.

The reference is the one of the compiled code: differences in float64, eight running sums, column k to sum
k mod 8, then one fixed tree. Every step is an elementwise operation of its own, so that nothing is contracted
into a fused multiply-add, and IEEE multiplications, additions and square roots of float64 are the same on
every device.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats.npy import file_of
from ..inputs import MAX_ABS_VALUE, as_float
from ..threads import get_threads
from .device import FallBackToCpu, block_bytes, get_device, torch_device

Array = NDArray[Any]
Tensor = Any
CACHE_FRACTION = 0.3
"""Share of a card's memory for features that several comparisons use."""
HOST_CACHE_BYTES = 64 << 20
MAX_THREADS = 12
STAGE_BYTES = 6 << 20
"""A pinned buffer; pinning costs as much as copying forty times, so that there are few, used in turns."""
BYTES_A_PAIR = 34
"""Memory a pair takes for each of its columns while its reference value is summed, with room to spare."""


class DeviceRows(NamedTuple):
    """A matrix on the device: (n, d) float32, float64 or uint8; no value is larger than `peak` (NaN if bad).

    `whole` says that all values are known to be whole numbers.
    """

    values: Tensor
    peak: float
    whole: bool


_lock = threading.RLock()
_kept: dict[Any, DeviceRows] = {}
_batches: list[tuple[int, list[Any]]] = []


def clear_cache() -> None:
    """Drop what is kept on the device."""
    import torch

    with _lock:
        _kept.clear()
        _batches.clear()
    if get_device().startswith("cuda"):
        torch.cuda.empty_cache()


def upload(arrays: Sequence[Array]) -> list[DeviceRows]:
    """Matrices on the device, with exactly the given values; those of mapped files stay there for later.

    Kept is what does not change: maps of files, known by file, time of change and place. The oldest goes when
    a share of the memory is used up.
    """
    device = get_device()
    keys = [_key(device, x) for x in arrays]
    with _lock:
        missing = {k or i: i for i, k in enumerate(keys) if k is None or k not in _kept}
        fresh: dict[Any, DeviceRows] = {}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i in missing.values():
            groups.setdefault((arrays[i].dtype, arrays[i].shape[1:]), []).append(i)
        for some in groups.values():
            made = _bring([_plain(arrays[i]) for i in some])
            fresh |= {keys[i] or i: r for i, r in zip(some, made, strict=True)}
            _keep([(keys[i], r) for i, r in zip(some, made, strict=True) if keys[i] is not None])
        return [fresh.get(key or i) or _kept[key] for i, key in enumerate(keys)]


def upload_matrices(arrays: Sequence[Array]) -> bool:
    """Bring mapped matrices to the device before they are asked for; False where no more are kept there."""
    held = sum(size for size, _ in _batches) + sum(x.nbytes for x in arrays)
    if held > _most_kept():
        return False
    upload(arrays)
    return True


def _key(device: str, x: Array) -> Any:
    """What tells a mapped matrix from all others; None for one that may change."""
    found = None if x.flags.writeable else file_of(x)
    if found is None or not x.flags.c_contiguous:
        return None
    return device, found[0].file, found[1], x.shape, x.dtype


def _plain(x: Array) -> Array:
    """A contiguous matrix of a format that torch and the reference share."""
    if x.dtype in (np.float32, np.float64, np.uint8):
        return np.require(x, requirements=["C", "A"])
    return as_float(x)


def _keep(entries: list[tuple[Any, DeviceRows]]) -> None:
    size, most = sum(r.values.numel() * r.values.element_size() for _, r in entries), _most_kept()
    if not entries or size > most:
        return
    _kept.update(entries)
    _batches.append((size, [k for k, _ in entries]))
    while sum(size for size, _ in _batches) > most:
        for key in _batches.pop(0)[1]:
            _kept.pop(key, None)


def _most_kept() -> int:
    import torch

    if not get_device().startswith("cuda"):
        return HOST_CACHE_BYTES
    return int(torch.cuda.get_device_properties(torch_device()).total_memory * CACHE_FRACTION)


def _bring(arrays: list[Array]) -> list[DeviceRows]:
    """Matrices of one format and width, one below the other on the device, cut apart again."""
    import torch

    edges = np.concatenate([[0], np.cumsum([len(x) for x in arrays])])
    width = arrays[0].shape[1]
    kind = {"f4": torch.float32, "f8": torch.float64, "u1": torch.uint8}[arrays[0].dtype.str[1:]]
    flat = torch.empty((int(edges[-1]), width), dtype=kind, device=torch_device())
    if flat.is_cuda:
        _stage(arrays, flat)
    else:
        for x, start in zip(arrays, edges, strict=False):
            np.copyto(flat[start : start + len(x)].numpy(), x)
    if kind == torch.uint8 or not flat.numel():
        peaks, whole = np.full(len(arrays), 255.0), True
    else:
        low, high = torch.aminmax(flat, dim=1)
        row = torch.maximum(low.abs(), high.abs()).cpu().numpy()
        starts = np.minimum(edges[:-1], len(row) - 1)
        peaks = np.where(np.diff(edges) > 0, np.maximum.reduceat(row, starts), 0)
        sample = next(x for x in arrays if len(x))[0]
        with np.errstate(invalid="ignore"):
            whole = bool(np.array_equal(np.rint(sample), sample)) and bool(
                (flat.round() == flat).all().item()
            )
    return [DeviceRows(flat[i:j], float(p), whole) for i, j, p in zip(edges, edges[1:], peaks, strict=False)]


def to_device(values: Array) -> Tensor:
    """An array of numbers on the device."""
    import torch

    x = np.ascontiguousarray(values)
    if not get_device().startswith("cuda") or x.nbytes < 1 << 18:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing writes into what is only read there
            return torch.from_numpy(x).to(torch_device())
    kind = torch.from_numpy(np.empty(0, x.dtype)).dtype
    flat = torch.empty((x.size, 1), dtype=kind, device=torch_device())
    with _lock:  # the pinned buffers are one set
        _stage([x.reshape(-1, 1)], flat)
    return flat.view(x.shape)


def _stage(arrays: list[Array], flat: Tensor) -> None:
    """Copy to the card through pinned buffers, several threads at a time."""
    import torch

    from ..numba_backend.row_statistics import copy_parts

    row = max(1, flat.shape[1] * flat.element_size())
    most = max(1, STAGE_BYTES // row)
    jobs: list[tuple[int, list[Array]]] = [(0, [])]
    at = held = 0
    for x in arrays:
        for i in range(0, len(x), most):
            piece = x[i : i + most]
            if held + len(piece) > most:
                jobs.append((at, []))
                held = 0
            jobs[-1][1].append(piece)
            held += len(piece)
            at += len(piece)
    if row > STAGE_BYTES:
        for start, pieces in jobs:
            whole = np.concatenate(pieces) if pieces else np.empty((0, flat.shape[1]))
            flat[start : start + len(whole)] = torch.from_numpy(whole)
        return
    compiled, pool, stages = copy_parts(), _pool(min(MAX_THREADS, get_threads())), _stages()
    under_way: deque[tuple[int, int, Any, Future[None]]] = deque()

    def sent() -> None:
        start, count, number, future = under_way.popleft()
        future.result()
        pinned, _, event = stages[number]
        source = pinned[: count * row].view(flat.dtype).view(count, flat.shape[1])
        flat[start : start + count].copy_(source, non_blocking=True)
        event.record(torch.cuda.current_stream(flat.device))

    # Threads copy and do nothing else: each step of Python in one of them would hold up all others.
    for k, (start, pieces) in enumerate(jobs):
        if len(under_way) == len(stages):
            sent()
        bases = np.array([p.__array_interface__["data"][0] for p in pieces], np.uint64)
        sizes = np.array([len(p) * row for p in pieces], np.int64)
        _, room, event = stages[k % len(stages)]
        event.synchronize()
        job = pool.submit(compiled, bases, sizes, room)
        under_way.append((start, sum(len(p) for p in pieces), k % len(stages), job))
    while under_way:
        sent()
    for _, _, event in stages:
        event.synchronize()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tiepoint-upload")


@cache
def _stages() -> list[tuple[Tensor, Array, Any]]:
    """Pinned buffers in turns, each with the event of its last copy."""
    import torch

    count = 2 + min(MAX_THREADS, get_threads())
    whole = torch.empty((count, STAGE_BYTES), dtype=torch.uint8, pin_memory=True)
    return [(pinned, pinned.numpy(), torch.cuda.Event()) for pinned in whole]


def check_finite(rows: DeviceRows) -> DeviceRows:
    """The rows, if all their squares are finite; else the compiled code says which one is not."""
    if not rows.peak <= MAX_ABS_VALUE:
        raise FallBackToCpu
    return rows


def reference(gap: Tensor, kind: str) -> Tensor:
    """Sums over the last axis of the squares (l2) or sizes (l1) of float64 differences, which are lost."""
    import torch

    term = gap.mul_(gap) if kind == "l2" else gap.abs_()
    width = term.shape[-1]
    lanes = term[..., :8].clone() if width >= 8 else torch.nn.functional.pad(term, (0, 8 - width))
    for k in range(8, width - 7, 8):
        lanes += term[..., k : k + 8]
    rest = width % 8 if width > 8 else 0
    if rest:
        lanes[..., :rest] += term[..., width - rest :]
    for _ in range(3):
        lanes = lanes[..., 0::2] + lanes[..., 1::2]
    return lanes[..., 0]


def difference(x: Tensor, y: Tensor) -> Tensor:
    """Differences in float64, exact operands, one rounding."""
    import torch

    return torch.sub(x.to(torch.float64), y.to(torch.float64) if y.dtype == torch.uint8 else y)


def root(x: Tensor) -> Tensor:
    """Square roots of float64, correctly rounded.

    CUDA's are. On the processor torch may ask a library (MKL) that is off by one unit now and then.
    """
    import torch

    return x.sqrt() if x.is_cuda else torch.from_numpy(np.sqrt(x.numpy()))


def in_chunks(count: int, width: int, bytes_a_column: int = BYTES_A_PAIR) -> Iterator[slice]:
    """Ranges of pairs that fit into a block."""
    step = max(1, block_bytes() // max(1, bytes_a_column * max(width, 8)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def pairs(a: Tensor, b: Tensor, i: Tensor, j: Tensor, kind: str) -> Tensor:
    """Reference values of rows i of `a` and rows j of `b`, float64 (n,)."""
    import torch

    parts = [slice(None)] if len(i) == 0 else list(in_chunks(len(i), a.shape[1]))
    found = [reference(difference(a[i[at]], b[j[at]]), kind) for at in parts]
    return found[0] if len(found) == 1 else torch.cat(found)


def table(a: Tensor, b: Tensor, kind: str) -> Tensor:
    """Reference values of all pairs of rows, float64 (q, n)."""
    import torch

    out = torch.empty((len(a), len(b)), dtype=torch.float64, device=a.device)
    step = max(1, block_bytes() // max(1, 20 * max(a.shape[1], 8) * max(1, len(b))))
    for start in range(0, len(a), step):
        at = slice(start, start + step)
        out[at] = reference(difference(a[at, None, :], b[None, :, :]), kind)
    return out


def download(x: Tensor) -> Array:
    """A tensor as an array of its own."""
    if not x.is_cuda:
        return np.array(x.numpy())
    import torch

    size = x.numel() * x.element_size()
    if not 1 << 16 < size <= 64 << 20:
        return np.asarray(x.cpu().numpy())
    held = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)  # torch keeps pinned memory for later
    held.copy_(x)
    return np.array(held.numpy())
