# SPDX-License-Identifier: BSD-3-Clause
"""Where the kernels run: compiled code on the processor, or a torch device. No result depends on it."""

from __future__ import annotations

import os
import re
import warnings

from ..model.errors import InputError

_NAMES = re.compile(r"cpu|mps|torch:cpu|cuda(:\d+)?")
_device = "cpu"


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
