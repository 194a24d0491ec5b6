# SPDX-License-Identifier: BSD-3-Clause
"""Cache of rows on a torch device, and exact distances computed there.

The sum of a distance is that of the compiled code. Differences are computed in float64, column k is added to
the running sum k mod 8, and the eight sums are added in a fixed tree. Every step is a separate elementwise
operation, so that no fused multiply-add occurs. IEEE multiplications, additions and square roots of float64
are the same on every device.
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
"""Share of the GPU memory for cached features, which later calls reuse."""
HOST_CACHE_BYTES = 64 << 20
MAX_THREADS = 12
STAGE_BYTES = 6 << 20
"""Size of a pinned buffer. Pinning takes as long as forty copies, so a few buffers are reused."""
BYTES_A_PAIR = 34
"""Upper bound of the memory in bytes, per pair and column, for computing a distance."""


class DeviceRows(NamedTuple):
    """Matrix (n, d) on the device, float32, float64 or uint8. `peak` is the largest |value|.

    `integers` is set if all values are known to be integers.
    """

    values: Tensor
    peak: float
    integers: bool


_lock = threading.RLock()
_cached: dict[Any, DeviceRows] = {}
_batches: list[tuple[int, list[Any]]] = []


def clear_cache() -> None:
    """Remove all cached rows from the device."""
    import torch

    with _lock:
        _cached.clear()
        _batches.clear()
    if get_device().startswith("cuda"):
        torch.cuda.empty_cache()


def upload(arrays: Sequence[Array]) -> list[DeviceRows]:
    """Upload matrices to the device without rounding. Memory-mapped files stay cached there.

    The cache contains read-only memory-mapped matrices, by file stamp and offset. It evicts the oldest
    matrices when its share of the memory is full.
    """
    device = get_device()
    keys = [_key(device, x) for x in arrays]
    with _lock:
        missing = {k or i: i for i, k in enumerate(keys) if k is None or k not in _cached}
        fresh: dict[Any, DeviceRows] = {}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i in missing.values():
            groups.setdefault((arrays[i].dtype, arrays[i].shape[1:]), []).append(i)
        for some in groups.values():
            rows = _upload_group([_plain(arrays[i]) for i in some])
            fresh |= {keys[i] or i: r for i, r in zip(some, rows, strict=True)}
            _keep([(keys[i], r) for i, r in zip(some, rows, strict=True) if keys[i] is not None])
        return [fresh.get(key or i) or _cached[key] for i, key in enumerate(keys)]


def upload_matrices(arrays: Sequence[Array]) -> bool:
    """Prefetch memory-mapped matrices to the device. Return False if they do not fit into its cache."""
    size = sum(size for size, _ in _batches) + sum(x.nbytes for x in arrays)
    if size > _cache_bytes():
        return False
    upload(arrays)
    return True


def _key(device: str, x: Array) -> Any:
    """Return the cache key of a memory-mapped matrix. None if it may change or is not memory-mapped."""
    source = None if x.flags.writeable else file_of(x)
    if source is None or not x.flags.c_contiguous:
        return None
    return device, source[0].file, source[1], x.shape, x.dtype


def _plain(x: Array) -> Array:
    """Convert a matrix to contiguous memory and a dtype that torch supports."""
    if x.dtype in (np.float32, np.float64, np.uint8):
        return np.require(x, requirements=["C", "A"])
    return as_float(x)


def _keep(entries: list[tuple[Any, DeviceRows]]) -> None:
    size, limit = sum(r.values.numel() * r.values.element_size() for _, r in entries), _cache_bytes()
    if not entries or size > limit:
        return
    _cached.update(entries)
    _batches.append((size, [k for k, _ in entries]))
    while sum(size for size, _ in _batches) > limit:
        for key in _batches.pop(0)[1]:
            _cached.pop(key, None)


def _cache_bytes() -> int:
    import torch

    if not get_device().startswith("cuda"):
        return HOST_CACHE_BYTES
    return int(torch.cuda.get_device_properties(torch_device()).total_memory * CACHE_FRACTION)


def _upload_group(arrays: list[Array]) -> list[DeviceRows]:
    """Upload matrices with the same dtype and width as one block, and return views of the block."""
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
        peaks, integers = np.full(len(arrays), 255.0), True
    else:
        low, high = torch.aminmax(flat, dim=1)
        row = torch.maximum(low.abs(), high.abs()).cpu().numpy()
        starts = np.minimum(edges[:-1], len(row) - 1)
        peaks = np.where(np.diff(edges) > 0, np.maximum.reduceat(row, starts), 0)
        sample = next(x for x in arrays if len(x))[0]
        with np.errstate(invalid="ignore"):
            integers = bool(np.array_equal(np.rint(sample), sample)) and bool(
                (flat.round() == flat).all().item()
            )
    return [
        DeviceRows(flat[i:j], float(p), integers) for i, j, p in zip(edges, edges[1:], peaks, strict=False)
    ]


def to_device(values: Array) -> Tensor:
    """Upload an array of numbers and return the tensor."""
    import torch

    x = np.ascontiguousarray(values)
    if not get_device().startswith("cuda") or x.nbytes < 1 << 18:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the array may be read-only; nothing writes to it
            return torch.from_numpy(x).to(torch_device())
    kind = torch.from_numpy(np.empty(0, x.dtype)).dtype
    flat = torch.empty((x.size, 1), dtype=kind, device=torch_device())
    with _lock:  # all callers share the pinned buffers
        _stage([x.reshape(-1, 1)], flat)
    return flat.view(x.shape)


def _stage(arrays: list[Array], flat: Tensor) -> None:
    """Copy arrays to the flat GPU tensor through pinned buffers, with several threads."""
    import torch

    from ..numba_backend.row_statistics import copy_parts

    row = max(1, flat.shape[1] * flat.element_size())
    stage_rows = max(1, STAGE_BYTES // row)
    jobs: list[tuple[int, list[Array]]] = [(0, [])]
    at = held = 0
    for x in arrays:
        for i in range(0, len(x), stage_rows):
            piece = x[i : i + stage_rows]
            if held + len(piece) > stage_rows:
                jobs.append((at, []))
                held = 0
            jobs[-1][1].append(piece)
            held += len(piece)
            at += len(piece)
    if row > STAGE_BYTES:
        for start, pieces in jobs:
            block = np.concatenate(pieces) if pieces else np.empty((0, flat.shape[1]))
            flat[start : start + len(block)] = torch.from_numpy(block)
        return
    compiled, pool, stages = copy_parts(), _pool(min(MAX_THREADS, get_threads())), _stages()
    pending: deque[tuple[int, int, Any, Future[None]]] = deque()

    def send() -> None:
        start, count, number, future = pending.popleft()
        future.result()
        pinned, _, event = stages[number]
        source = pinned[: count * row].view(flat.dtype).view(count, flat.shape[1])
        flat[start : start + count].copy_(source, non_blocking=True)
        event.record(torch.cuda.current_stream(flat.device))

    # Threads only copy: Python code in one of them would block all others.
    for k, (start, pieces) in enumerate(jobs):
        if len(pending) == len(stages):
            send()
        bases = np.array([p.__array_interface__["data"][0] for p in pieces], np.uint64)
        sizes = np.array([len(p) * row for p in pieces], np.int64)
        _, buffer, event = stages[k % len(stages)]
        event.synchronize()
        job = pool.submit(compiled, bases, sizes, buffer)
        pending.append((start, sum(len(p) for p in pieces), k % len(stages), job))
    while pending:
        send()
    for _, _, event in stages:
        event.synchronize()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tiepoint-upload")


@cache
def _stages() -> list[tuple[Tensor, Array, Any]]:
    """Return pinned buffers, each with the CUDA event that marks the end of its last copy."""
    import torch

    count = 2 + min(MAX_THREADS, get_threads())
    buffers = torch.empty((count, STAGE_BYTES), dtype=torch.uint8, pin_memory=True)
    return [(pinned, pinned.numpy(), torch.cuda.Event()) for pinned in buffers]


def check_finite(rows: DeviceRows) -> DeviceRows:
    """Return the rows if all their squares are finite.

    Otherwise fall back to the CPU, which reports the row.
    """
    if not rows.peak <= MAX_ABS_VALUE:
        raise FallBackToCpu
    return rows


def reference(gap: Tensor, kind: str) -> Tensor:
    """Return the sum of squares (l2) or magnitudes (l1) of `gap` over its last axis. Overwrites `gap`."""
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


def numpy_sum(terms: Tensor) -> Tensor:
    """Return the sums over the last axis as NumPy computes them: same dtype and same order."""
    width = terms.shape[-1]
    if width > 128:
        half = width // 2 & -8
        return numpy_sum(terms[..., :half]) + numpy_sum(terms[..., half:])
    total, full = terms.new_zeros(terms.shape[:-1]), width & -8
    if full:
        lanes = terms[..., :8].clone()
        for k in range(8, full, 8):
            lanes += terms[..., k : k + 8]
        for _ in range(3):
            lanes = lanes[..., 0::2] + lanes[..., 1::2]
        total = lanes[..., 0].clone()
    for k in range(full, width):
        total += terms[..., k]
    return total


def difference(x: Tensor, y: Tensor) -> Tensor:
    """Return x - y in float64, from exact operands and with one rounding."""
    import torch

    return torch.sub(x.to(torch.float64), y.to(torch.float64) if y.dtype == torch.uint8 else y)


def root(x: Tensor) -> Tensor:
    """Return square roots of float64, correctly rounded.

    CUDA rounds correctly. On the CPU torch may call MKL, which is sometimes off by one unit.
    """
    import torch

    return x.sqrt() if x.is_cuda else torch.from_numpy(np.sqrt(x.numpy()))


def in_chunks(count: int, width: int, bytes_a_column: int = BYTES_A_PAIR) -> Iterator[slice]:
    """Yield slices of `count` pairs of rows of a given width that fit into one block of device memory."""
    step = max(1, block_bytes() // max(1, bytes_a_column * max(width, 8)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def pairs(a: Tensor, b: Tensor, i: Tensor, j: Tensor, kind: str) -> Tensor:
    """Return the distances of rows i of `a` and rows j of `b`, float64 (n,); for l2 the sums of squares."""
    import torch

    parts = [slice(None)] if len(i) == 0 else list(in_chunks(len(i), a.shape[1]))
    values = [reference(difference(a[i[at]], b[j[at]]), kind) for at in parts]
    return values[0] if len(values) == 1 else torch.cat(values)


def table(a: Tensor, b: Tensor, kind: str) -> Tensor:
    """Return the distances of all pairs of rows, float64 (q, n); for l2 the sums of squares."""
    import torch

    out = torch.empty((len(a), len(b)), dtype=torch.float64, device=a.device)
    step = max(1, block_bytes() // max(1, 20 * max(a.shape[1], 8) * max(1, len(b))))
    for start in range(0, len(a), step):
        at = slice(start, start + step)
        out[at] = reference(difference(a[at, None, :], b[None, :, :]), kind)
    return out


def download(x: Tensor) -> Array:
    """Copy a tensor to a new NumPy array."""
    if not x.is_cuda:
        return np.array(x.numpy())
    import torch

    size = x.numel() * x.element_size()
    if not 1 << 16 < size <= 64 << 20:
        return np.asarray(x.cpu().numpy())
    held = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)  # torch reuses pinned memory
    held.copy_(x)
    return np.array(held.numpy())
