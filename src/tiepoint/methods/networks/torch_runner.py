# SPDX-License-Identifier: BSD-3-Clause
"""Run a torch network on patches: in evaluation mode, batched, deterministic, in plain float32.

On the CPU, NumPy resizes and scales patches, item by item. Other devices receive uint8 patches and resize and
scale them. On these, a batch may contain patches of several items, and copies run while the network computes.
All batches have the same shape, and the last one is padded with zeros. The descriptor of a patch therefore
does not depend on other items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import InputError
from ..patches.builtin import area_matrix
from .batches import BATCH, batches, checked_intensity

Array = NDArray[Any]
DEVICE_BATCH = 4096
"""Default batch size on devices other than the CPU."""
IN_FLIGHT = 2
"""Number of batches that a device processes while the next batch is assembled."""
UPLOAD_BYTES = 8 << 20
UPLOADS = 4
"""Number of pinned upload buffers. They are reused, because pinning memory is slow."""
_SHORT = ("out of memory", "can't allocate memory", "not enough memory")


def check_torch_device(device: str, where: str) -> Any:
    """Return the torch device. Raise an error if this machine does not have it."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError) as e:
        raise InputError(
            f"{where}: device {device!r} is not available ({str(e).splitlines()[0]}); use another --device"
        ) from e
    return found


@contextmanager
def plain_float32() -> Iterator[None]:
    """Disable gradients, TF32 and algorithm search, so that equal inputs give bit-identical outputs."""
    backends: Any = torch.backends
    flags = {"enabled": True, "benchmark": False, "deterministic": True}
    wanted: list[tuple[Any, str, Any]] = [(backends.cudnn, name, value) for name, value in flags.items()]
    if hasattr(backends, "fp32_precision"):  # the older settings cannot be read once a newer one was set
        owners = (backends.cuda.matmul, backends.mkldnn.matmul, backends.cudnn.conv, backends.mkldnn.conv)
        wanted += [(owner, "fp32_precision", "ieee") for owner in owners]
    else:
        wanted += [(backends.cudnn, "allow_tf32", False)]
    older = None if hasattr(backends, "fp32_precision") else torch.get_float32_matmul_precision()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in wanted]
    try:
        for owner, name, value in wanted:
            setattr(owner, name, value)
        if older is not None:
            torch.set_float32_matmul_precision("highest")
        with torch.inference_mode():
            yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for owner, name, value in before:
            setattr(owner, name, value)


class NetworkRunner:
    """Runner of a patch network from (b, 1, size, size) to descriptors (b, d).

    `batch` is the number of patches per call (default 256 on the CPU, `DEVICE_BATCH` elsewhere). If memory is
    insufficient, `batch` is halved repeatedly, and `warnings` gets one message. `on_device` selects whether
    patches are resized and scaled on the device; by default they are, unless the device is the CPU.
    """

    def __init__(
        self,
        network: Callable[[Any], Any],
        *,
        size: int,
        intensity: str,
        device: Any,
        where: str,
        batch: int | None = None,
        on_device: bool | None = None,
    ) -> None:
        if not isinstance(size, int) or size < 1:
            raise InputError(
                f"{where}: size is {size!r}; expected a positive number of pixels, as in size=32"
            )
        if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
            raise InputError(f"{where}: batch is {batch!r}; expected a positive number, as in batch=1024")
        self.network, self.size, self.device, self.where = network, size, torch.device(device), where
        self.intensity = checked_intensity(intensity, where)
        self.on_device = self.device.type != "cpu" if on_device is None else on_device
        self.wanted = batch or (DEVICE_BATCH if self.on_device else BATCH)
        self.batch = self.wanted
        self.warnings: list[str] = []
        self._columns = 1
        self._weights: dict[int, Any] = {}

    def config(self, batch: int | None) -> dict[str, int]:
        """Return the settings that affect the output: an explicit batch size, and how patches are resized.

        The last bits of the output may depend on the batch size, so an explicit `batch` is part of the key.
        """
        made = {} if batch is None else {"batch": batch}
        return made | ({"resized_on_device": 1} if self.on_device else {})

    def describe(self, patches: Array) -> Array:
        """Return the descriptors, float32 (n, d), of patches, uint8 (n, s, s)."""
        if not self.on_device:
            return self._by_numpy(patches)
        (made,) = self.stream(iter([patches]))
        if isinstance(made, Exception):
            raise made
        return made

    def stream(self, payloads: Iterator[Array]) -> Iterator[Array | Exception]:
        """Yield descriptors of each array of patches, in order, or its exception.

        At most `IN_FLIGHT` + 1 batches of patches, their results and their source arrays are in memory.
        """
        if self.on_device:
            yield from _Pipeline(self).run(payloads)
            return
        for patches in payloads:
            try:
                yield self._by_numpy(patches)
            except Exception as e:
                yield e

    def _by_numpy(self, patches: Array) -> Array:
        parts: list[Array] = []
        done = 0
        while done < len(patches):
            some = patches[done : done + self.batch]
            (block,) = batches(some, self.size, self.intensity, len(some))
            found = self.forward_block(lambda fed: torch.from_numpy(fed[:, None]).to(self.device), block)
            if found is not None:
                parts.append(found.cpu().numpy())
                done += len(some)
        return np.concatenate(parts) if parts else np.empty((0, self._columns), np.float32)

    def forward_block(self, fed: Callable[[Any], Any], block: Any) -> Any:
        """Return the network's output (b, d) for a batch. None if out of memory; `batch` is then halved.

        `block` is the batch, and `fed` calls the network on it.
        """
        try:
            with plain_float32():
                given = fed(block)
                rows = len(given)
                found = self.network(given)
                if not isinstance(found, torch.Tensor) or found.ndim < 1 or len(found) != rows:
                    shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
                    raise InputError(
                        f"{self.where}: the network returned {shape} for {rows} patches; return (n, d)"
                    )
                found = found.detach().float().reshape(rows, -1)
                self._columns = found.shape[1]
                return found
        except (RuntimeError, MemoryError) as e:
            if not out_of_memory(e) or self.batch <= 1:
                raise
        self.halve()
        return None

    def halve(self) -> None:
        """Halve the batch size for all later calls, and warn the first time."""
        self.batch = max(1, self.batch // 2)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.warnings[:] = [
            f"{self.where}: out of memory, so batches have {self.batch} patches instead of {self.wanted}; "
            f"values may differ in their last bits, and batch={self.batch} in the specification makes that "
            "part of the key"
        ]

    def preprocess(self, pixels: Any) -> Any:
        """Convert uint8 patches (b, s, s) on the device to network input (b, 1, size, size)."""
        values = pixels.float()
        if self.intensity == "zscore":
            values = values - values[:, :1, :1]  # exact: a flat patch becomes zero before it is resized
        side = pixels.shape[1]
        if side != self.size:
            if side not in self._weights:
                weights = area_matrix(side, self.size).astype(np.float32)
                self._weights[side] = torch.from_numpy(weights).to(self.device)
            values = self._weights[side] @ (values @ self._weights[side].T)
        if self.intensity == "unit":
            values = values / 255
        elif self.intensity == "zscore":
            values = values - values.mean((1, 2), keepdim=True)
            cells = max(1, self.size * self.size - 1)
            deviation = (values.square().sum((1, 2), keepdim=True) / cells).sqrt()
            values = torch.where(deviation > 0, values / deviation, torch.zeros_like(values))
        return values[:, None]

    def forward(self, pixels: Any, rows: int) -> Any:
        """Return the descriptors of the first `rows` patches. If memory is short, process smaller batches."""
        parts: list[Any] = []
        done = 0
        while done < rows:
            piece = min(self.batch, len(pixels))
            first = min(done, len(pixels) - piece)  # the last piece overlaps the previous one
            found = self.forward_block(self.preprocess, pixels[first : first + piece])
            if found is not None:
                parts.append(found[done - first :])
                done = first + piece
        return torch.cat(parts)[:rows] if len(parts) > 1 else parts[0][:rows]


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports a lack of memory."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or any(words in str(error) for words in _SHORT)


@dataclass
class _Item:
    """Patches of one item in the pipeline. `left` is the number of patches without descriptors."""

    left: int
    values: Array | None = None
    error: Exception | None = None


@dataclass(eq=False)
class _Batch:
    """A batch of patches on the device, the items and rows they belong to, and the downloaded descriptors."""

    pixels: Any
    rows: int = 0
    shares: list[tuple[_Item, int, int, int]] = field(default_factory=list)
    found: Any = None
    values: Any = None
    there: Any = None
    used: Any = None


class _Pipeline:
    """State of one `NetworkRunner.stream`: on CUDA, upload, network and download run concurrently."""

    def __init__(self, runner: NetworkRunner) -> None:
        self.runner = runner
        self.device = runner.device
        self.is_cuda = self.device.type == "cuda"
        self.up: Any = torch.cuda.Stream(self.device) if self.is_cuda else None
        self.down: Any = torch.cuda.Stream(self.device) if self.is_cuda else None
        self.ring: deque[tuple[Any, Any]] = deque()
        self.flying: deque[_Batch] = deque()
        self.spare: list[_Batch] = []
        self.now: _Batch | None = None

    def run(self, payloads: Iterator[Array]) -> Iterator[Array | Exception]:
        """Yield the descriptors of each item, or its exception, in order."""
        waiting: deque[_Item] = deque()
        for patches in payloads:
            item = _Item(len(patches))
            waiting.append(item)
            with self._here():
                self._take(item, patches)
            yield from self._finished(waiting)
        with self._here():
            self._launch()
            while self.flying:
                self._land()
        yield from self._finished(waiting)

    def _here(self) -> Any:
        return torch.cuda.device(self.device) if self.is_cuda else nullcontext()

    def _finished(self, waiting: deque[_Item]) -> Iterator[Array | Exception]:
        while waiting and (waiting[0].error is not None or not waiting[0].left):
            item = waiting.popleft()
            none = np.empty((0, self.runner._columns), np.float32)
            yield item.error or (none if item.values is None else item.values)

    def _take(self, item: _Item, patches: Array) -> None:
        """Append the patches of an item to the current batch, and start the network on each full batch."""
        done = 0
        try:
            while done < len(patches) and item.error is None:
                if self.now is not None and self.now.pixels.shape[1] != patches.shape[1]:
                    self._launch()
                if self.now is None:
                    self.now = self._begun(patches.shape[1])
                batch = self.now
                some = patches[done : done + len(batch.pixels) - batch.rows]
                batch.shares.append((item, done, batch.rows, len(some)))
                self._upload(batch, some)
                done += len(some)
                if batch.rows == len(batch.pixels):
                    self._launch()
        except Exception as e:
            item.error = e

    def _begun(self, side: int) -> _Batch:
        """Return an empty batch for patches of `side` pixels. Reuse the memory of a finished batch."""
        size = self.runner.batch
        for old in self.spare:
            if old.pixels.shape == (size, side, side):
                self.spare.remove(old)
                if self.is_cuda:
                    self.up.wait_event(old.used)
                return _Batch(old.pixels, values=old.values)
        self.spare.clear()
        try:
            pixels = torch.empty((size, side, side), dtype=torch.uint8, device=self.device)
            if self.is_cuda:  # kernels that used this memory before may still be running
                self.up.wait_stream(torch.cuda.current_stream())
                pixels.record_stream(self.up)
            return _Batch(pixels)
        except (RuntimeError, MemoryError) as e:
            if not out_of_memory(e) or size <= 1:
                raise
        self.runner.halve()
        return self._begun(side)

    def _upload(self, batch: _Batch, patches: Array) -> None:
        """Append patches to a batch on the device."""
        if not self.is_cuda:
            some = torch.from_numpy(np.require(patches, np.uint8, ("C", "W")))
            batch.pixels[batch.rows : batch.rows + len(patches)] = some
            batch.rows += len(patches)
            return
        each = max(1, UPLOAD_BYTES // patches[0].size)
        for i in range(0, len(patches), each):
            some = patches[i : i + each]
            if len(self.ring) < UPLOADS:
                room = max(UPLOAD_BYTES, patches[0].size)
                buffer, sent = torch.empty(room, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()
            else:
                buffer, sent = self.ring.popleft()
                sent.synchronize()
                if len(buffer) < some.size:
                    buffer = torch.empty(some.size, dtype=torch.uint8, pin_memory=True)
            staged = buffer[: some.size].view(some.shape)
            np.copyto(staged.numpy(), some)
            with torch.cuda.stream(self.up):
                batch.pixels[batch.rows : batch.rows + len(some)].copy_(staged, non_blocking=True)
                sent.record(self.up)
            self.ring.append((buffer, sent))
            batch.rows += len(some)

    def _launch(self) -> None:
        """Start the network on the current batch and the download of its descriptors."""
        batch, self.now = self.now, None
        if batch is None or not batch.rows:
            return
        while len(self.flying) >= IN_FLIGHT:
            self._land()
        try:
            if self.is_cuda:
                torch.cuda.current_stream().wait_stream(self.up)
            batch.pixels[batch.rows :].zero_()
            batch.found = self.runner.forward(batch.pixels, batch.rows)
            self._download(batch)
        except Exception as e:
            for item, *_ in batch.shares:
                item.error = e
            return
        self.flying.append(batch)

    def _download(self, batch: _Batch) -> None:
        if not self.is_cuda:
            batch.values = batch.found.cpu()
            return
        current = torch.cuda.current_stream()
        batch.used = current.record_event()
        shape = batch.found.shape
        if batch.values is None or batch.values.shape[1] != shape[1] or len(batch.values) < shape[0]:
            batch.values = torch.empty(shape, dtype=torch.float32, pin_memory=True)
        self.down.wait_event(batch.used)
        with torch.cuda.stream(self.down):
            batch.values[: shape[0]].copy_(batch.found, non_blocking=True)
            batch.there = self.down.record_event()

    def _land(self) -> None:
        """Wait for the descriptors of the oldest batch and assign them to its items."""
        batch = self.flying.popleft()
        if self.is_cuda:
            batch.there.synchronize()
        values = batch.values.numpy()
        for item, at, begin, count in batch.shares:
            if item.values is None:
                item.values = np.empty((at + item.left, values.shape[1]), np.float32)
            item.values[at : at + count] = values[begin : begin + count]
            item.left -= count
        batch.found = None
        self.spare.append(batch)
