# SPDX-License-Identifier: BSD-3-Clause
"""``torchscript:FILE``, and how a torch network is run: in evaluation mode, batched, deterministic."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...model.errors import InputError
from ...model.hashing import hash_file
from .batches import batches, checked_distance, checked_file, checked_intensity, flat

Array = NDArray[Any]


def torch_device(device: str, where: str) -> Any:
    """The device, or an error if this machine has none such."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError) as e:
        raise InputError(f"{where}: the device {device!r} cannot be used: {str(e).splitlines()[0]}") from e
    return found


def run_network(network: Any, patches: Array, *, size: int, intensity: str, device: Any, where: str) -> Array:
    """Descriptors (n, d) of patches by a network that takes (b, 1, size, size)."""
    parts = []
    with (
        torch.inference_mode(),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
    ):
        for block in batches(patches, size, intensity):
            found = network(torch.from_numpy(block[:, None]).to(device))
            parts.append(flat(found.detach().float().cpu().numpy(), len(block), where))
    return np.concatenate(parts)


class TorchScript:
    """A scripted or traced network that takes float (n, 1, size, size) and gives (n, d)."""

    libraries = ("numpy", "torch")

    def __init__(
        self, path: str, size: int = 32, input: str = "unit", distance: str = "l2", device: str = "cpu"
    ) -> None:
        file = checked_file(path, "TorchScript file")
        self.distance = checked_distance(distance, path)
        self.intensity = checked_intensity(input, path)
        self.size = size
        self.device = torch_device(device, path)
        try:
            self.network = torch.jit.load(str(file), map_location=self.device).eval()
        except (RuntimeError, ValueError) as e:
            reason = str(e).strip().splitlines()[0]
            raise InputError(f"{path} is not a TorchScript file that torch can load: {reason}") from e
        self.weight_hashes = {file.name: hash_file(file)}
        self.config = {"size": size, "input": input}
        self.name = f"torchscript:{file.name}"

    def describe(self, patches: Array) -> Array:
        """(n, s, s) -> (n, d)."""
        return run_network(
            self.network,
            patches,
            size=self.size,
            intensity=self.intensity,
            device=self.device,
            where=self.name,
        )
