# SPDX-License-Identifier: BSD-3-Clause
"""Where the kernels run: compiled code on the processor, or a torch device. No result depends on it."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

from ...core.errors import InputError

T = TypeVar("T")
_NAMES = re.compile(r"cpu|mps|torch:cpu|cuda(:\d+)?")
_device = "cpu"
_lock = threading.Lock()
_inside = 0
_restore: list[tuple[Any, Any]] = []

SHARE = 0.25
"""Share of a card's free memory that the blocks of one kernel may take."""
HOST_BYTES = 64 << 20
"""The same for torch on the processor, whose blocks should not be much larger than its cache."""
MIN_BLOCK_BYTES = 1 << 20
"""Blocks are halved down to this many bytes before a kernel is left to the processor."""
_bytes: dict[str, int] = {}


class FallBackToCpu(Exception):
    """This call is better served, or only served, by the compiled code."""


def set_device(device: str | None) -> None:
    """Let the kernels run on `device`: cpu, cuda, cuda:NUMBER, or torch:cpu (None: cpu).

    ``torch:cpu`` is what runs on a card, run on the processor: for tests, and to see on any machine that the
    results are the same. Where the environment says ``TIEPOINT_KERNELS=torch``, ``cpu`` means that. A device
    without float64 (mps) cannot run them; they then stay on the processor, with a notice.

    Raises:
        InputError: what names no device, or one that this machine does not have.

    >>> set_device("torch:cpu"); get_device()
    'torch:cpu'
    >>> set_device(None)
    """
    global _device
    name = device or "cpu"
    if not _NAMES.fullmatch(name):
        raise InputError(f"unknown device {name!r}; `device` is cpu, cuda, cuda:NUMBER, mps or torch:cpu")
    if name == "mps":
        warnings.warn("mps has no float64: distances are compared on the CPU", UserWarning, stacklevel=2)
        name = "cpu"
    if name == "cpu" and os.environ.get("TIEPOINT_KERNELS") == "torch":
        name = "torch:cpu"
    if name != "cpu" and name != _device:
        _check(name)
    _device = name


def get_device() -> str:
    """Where the kernels of this process run.

    >>> get_device() in ("cpu", "torch:cpu")
    True
    """
    return _device


def on_torch() -> bool:
    """Whether kernels run through torch."""
    return _device != "cpu"


def torch_device() -> Any:
    """The device as torch knows it."""
    import torch

    return torch.device(_device.removeprefix("torch:"))


def _check(name: str) -> None:
    try:
        import torch
    except ImportError as e:
        raise InputError(f"`device` {name} needs torch; pip install 'tiepoint[learned]'") from e
    if os.environ.get("NVIDIA_TF32_OVERRIDE", "0") != "0" and name != "torch:cpu":
        raise InputError("NVIDIA_TF32_OVERRIDE forces products of lower precision; unset it to use `device`")
    try:
        torch.zeros(1, device=name.removeprefix("torch:"), dtype=torch.float64).sum().item()
    except (RuntimeError, AssertionError) as e:
        raise InputError(f"the device {name!r} cannot be used: {str(e).splitlines()[0]}") from e


def run_on_device(work: Callable[[], T], instead: Callable[[], T]) -> T:
    """What `work` returns on the torch device, else what the compiled code does `replacement_column`.

    Out of memory, everything kept on the device is dropped and `work` is tried again with blocks of half the
    size; if that does not help, the processor takes over, with a notice.
    """
    if not on_torch():
        return instead()
    import torch

    from .row_cache import clear_cache

    while True:
        try:
            with exact_products(), torch.inference_mode():
                return work()
        except FallBackToCpu:
            return instead()
        except (torch.OutOfMemoryError, RuntimeError) as e:
            if not _is_memory(e):
                raise
        clear_cache()
        if not halve():
            warnings.warn(
                f"{_device} has too little memory: this comparison is made on the CPU",
                UserWarning,
                stacklevel=3,
            )
            return instead()


def upload_ahead(arrays: Sequence[NDArray[Any]]) -> bool:
    """Bring mapped matrices to the device before they are asked for; False where that brings nothing.

    >>> upload_ahead([])
    False
    """

    def ahead() -> bool:
        from .row_cache import upload_matrices

        return upload_matrices(arrays)

    return len(arrays) > 0 and run_on_device(ahead, lambda: False)


def _is_memory(error: BaseException) -> bool:
    import torch

    said = ("allocate memory", "ALLOC_FAILED", "out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in said)


def block_bytes() -> int:
    """Bytes one block of scores or rows may take on the device."""
    import torch

    if _device not in _bytes:
        if _device == "torch:cpu":
            _bytes[_device] = HOST_BYTES
        else:
            free, _ = torch.cuda.mem_get_info(torch_device())
            _bytes[_device] = max(MIN_BLOCK_BYTES, int(free * SHARE) // 8)
    return _bytes[_device]


def halve() -> bool:
    """Make blocks half as large; False where they are as small as they get."""
    now = block_bytes()
    _bytes[_device] = max(MIN_BLOCK_BYTES, now // 2)
    if now <= MIN_BLOCK_BYTES:
        _bytes.pop(_device)  # the next call may find more
        return False
    return True


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 matrices in float32: no TF32, no bfloat16 inside.

    The settings belong to the process: the first kernel in makes them and the last one out takes them back.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _enter()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for owner, before in _restore:
                    _set(owner, before)
                _restore.clear()


def _enter() -> None:
    import torch

    owners = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    if hasattr(owners[0], "fp32_precision"):
        for owner in owners:
            _restore.append((owner, owner.fp32_precision))
            _set(owner, "ieee")
    else:
        _restore.append((torch, torch.get_float32_matmul_precision()))
        _set(torch, "highest")


def _set(owner: Any, value: str) -> None:
    if hasattr(owner, "set_float32_matmul_precision"):
        owner.set_float32_matmul_precision(value)
    else:
        owner.fp32_precision = value
