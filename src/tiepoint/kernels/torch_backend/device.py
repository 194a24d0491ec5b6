# SPDX-License-Identifier: BSD-3-Clause
"""Select the device of the kernels: compiled code on the CPU, or torch. Results are the same."""

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
"""Share of the free GPU memory that the blocks of one kernel may use."""
HOST_BYTES = 64 << 20
"""Block size for torch on the CPU, not much larger than the CPU cache."""
MIN_BLOCK_BYTES = 1 << 20
"""Smallest block size. If memory is still too small, the kernel falls back to the CPU."""
_bytes: dict[str, int] = {}


class FallBackToCpu(Exception):
    """Signal that a call must run as compiled code on the CPU, or is faster there."""


def set_device(device: str | None) -> None:
    """Set the device of the kernels: cpu, cuda, cuda:NUMBER, or torch:cpu (None: cpu).

    ``torch:cpu`` runs the GPU code on the CPU, to test that the results are the same. With
    ``TIEPOINT_KERNELS=torch`` in the environment, ``cpu`` means ``torch:cpu``. mps has no float64; the
    kernels then stay on the CPU, with a warning.

    Raises:
        InputError: the device is unknown or missing on this machine.

    >>> set_device("torch:cpu"); get_device()
    'torch:cpu'
    >>> set_device(None)
    """
    global _device
    name = device or "cpu"
    if not _NAMES.fullmatch(name):
        raise InputError(f"unknown device {name!r}; write cpu, cuda, cuda:NUMBER, mps or torch:cpu")
    if name == "mps":
        warnings.warn(
            "`device` mps has no float64; the CPU computes distances instead", UserWarning, stacklevel=2
        )
        name = "cpu"
    if name == "cpu" and os.environ.get("TIEPOINT_KERNELS") == "torch":
        name = "torch:cpu"
    if name != "cpu" and name != _device:
        _check(name)
    _device = name


def get_device() -> str:
    """Return the device of the kernels of this process.

    >>> get_device() in ("cpu", "torch:cpu")
    True
    """
    return _device


def on_torch() -> bool:
    """Return whether kernels run through torch instead of the compiled CPU code."""
    return _device != "cpu"


def torch_device() -> Any:
    """Return the device of the kernels as a torch.device."""
    import torch

    return torch.device(_device.removeprefix("torch:"))


def _check(name: str) -> None:
    try:
        import torch
    except ImportError as e:
        raise InputError(f"`device` {name} needs the package 'torch': pip install 'tiepoint[learned]'") from e
    if os.environ.get("NVIDIA_TF32_OVERRIDE", "0") != "0" and name != "torch:cpu":
        raise InputError("NVIDIA_TF32_OVERRIDE lowers the precision of products; unset it to use `device`")
    try:
        torch.zeros(1, device=name.removeprefix("torch:"), dtype=torch.float64).sum().item()
    except (RuntimeError, AssertionError) as e:
        raise InputError(f"`device` {name} cannot be used: {str(e).splitlines()[0]}; choose cpu") from e


def run_on_device(work: Callable[[], T], instead: Callable[[], T]) -> T:
    """Return `work()` on the torch device, or `instead()` if the device cannot run it.

    `instead` is the compiled CPU code. When the device runs out of memory, its cache is cleared and `work` is
    retried with blocks of half the size. If that does not help, `instead` runs, with a warning.
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
                f"{_device} has too little memory, so the CPU computes these distances; use a GPU with "
                "more free memory",
                UserWarning,
                stacklevel=3,
            )
            return instead()


def upload_ahead(arrays: Sequence[NDArray[Any]]) -> bool:
    """Upload memory-mapped matrices before they are needed. Return False if none can be uploaded.

    >>> upload_ahead([])
    False
    """

    def ahead() -> bool:
        from .row_cache import upload_matrices

        return upload_matrices(arrays)

    return len(arrays) > 0 and run_on_device(ahead, lambda: False)


def _is_memory(error: BaseException) -> bool:
    import torch

    texts = ("allocate memory", "ALLOC_FAILED", "out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in texts)


def block_bytes() -> int:
    """Return the maximum size in bytes of a block of scores or rows on the device."""
    import torch

    if _device not in _bytes:
        if _device == "torch:cpu":
            _bytes[_device] = HOST_BYTES
        else:
            free, _ = torch.cuda.mem_get_info(torch_device())
            _bytes[_device] = max(MIN_BLOCK_BYTES, int(free * SHARE) // 8)
    return _bytes[_device]


def halve() -> bool:
    """Halve the block size. Return False if it is already the smallest."""
    now = block_bytes()
    _bytes[_device] = max(MIN_BLOCK_BYTES, now // 2)
    if now <= MIN_BLOCK_BYTES:
        _bytes.pop(_device)  # a later call may have more memory
        return False
    return True


@contextmanager
def exact_products() -> Iterator[None]:
    """Disable TF32 and bfloat16 for products of float32 matrices within the context.

    The settings are global to the process: the first kernel sets them and the last restores them.
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
