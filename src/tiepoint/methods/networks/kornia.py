# SPDX-License-Identifier: BSD-3-Clause
"""``kornia:NAME?weights=FILE``: kornia's patch networks with a local weight file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import kornia.feature
import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import UnknownNameError
from ...core.hashing import hash_file
from .batches import checked_file
from .torch_module import load_weights, state_dict
from .torch_runner import NetworkRunner, check_torch_device

Array = NDArray[Any]
NETWORKS = ("HardNet", "HardNet8", "HyNet", "SOSNet", "TFeat")
SIDE = 32
_HARD_TFEAT = {"features.0": "features.1", "features.3": "features.4", "classifier.1": "descr.0"}


class Kornia:
    """HardNet, HardNet8, HyNet, SOSNet or TFeat: 128 values from the patch resized by area to 32 x 32.

    The networks receive intensities from 0 to 255 and normalise the patch themselves: HardNet by mean and
    deviation, TFeat and SOSNet by instance normalisation (with an epsilon for values of 0 to 255), HyNet by
    the root mean square. TFeat's output is not normalised.

    A HardTFeat checkpoint is recognised by its layer names. HardTFeat was trained on patches divided by their
    sample standard deviation, and its output is normalised to length 1. This class does both.
    """

    distance = "l2"
    libraries = ("kornia", "numpy", "torch")

    def __init__(self, name: str, weights: str, batch: int | None = None, device: str = "cpu") -> None:
        known = {n.lower(): n for n in NETWORKS}
        if name.lower() not in known:
            raise UnknownNameError("kornia network", name, NETWORKS)
        network_name = known[name.lower()]
        file = checked_file(weights, "weight file")
        self.device = check_torch_device(device, f"kornia:{name}")
        self.network = getattr(kornia.feature, network_name)(pretrained=False)
        state = state_dict(file)
        self.is_hard_tfeat = network_name == "TFeat" and "classifier.1.weight" in state
        if self.is_hard_tfeat:
            state = _renamed(state)
            self.network.features[0] = torch.nn.Identity()
        load_weights(self.network, state, f"{weights} does not fit kornia's {network_name}")
        self.network = self.network.eval().to(self.device)
        self.weight_hashes = {file.name: hash_file(file)}
        self.name = f"kornia:{network_name}"
        self.runner = NetworkRunner(
            self.network,
            size=SIDE,
            intensity="zscore" if self.is_hard_tfeat else "raw",
            device=self.device,
            where=self.name,
            batch=batch,
        )
        self.warnings = self.runner.warnings
        made = self.runner.config(batch)
        self.config = {"network": network_name, "hard_tfeat": self.is_hard_tfeat, **made}
        if self.runner.on_device:
            self.describe_stream = self._described

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, 128) of patches (n, s, s)."""
        return self.postprocess(self.runner.describe(patches))

    def _described(self, payloads: Iterator[Array]) -> Iterator[Array | Exception]:
        for made in self.runner.stream(payloads):
            yield made if isinstance(made, Exception) else self.postprocess(made)

    def postprocess(self, values: Array) -> Array:
        """Normalise the output of HardTFeat to length 1. Return other outputs unchanged."""
        if not self.is_hard_tfeat:
            return values
        length = np.sqrt(np.square(values, dtype=np.float64).sum(axis=1, keepdims=True))
        return (values / np.maximum(length, 1e-10)).astype(np.float32)


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the layers of a HardTFeat checkpoint to those of TFeat.

    The final 8 x 8 convolution becomes the equivalent linear layer.
    """
    out: dict[str, Any] = {}
    for key, value in state.items():
        layer, _, part = key.rpartition(".")
        if layer in _HARD_TFEAT:
            name = f"{_HARD_TFEAT[layer]}.{part}"
            out[name] = value.flatten(1) if name == "descr.0.weight" else value
        elif not key.startswith("SIFT."):  # the checkpoint contains an unused SIFT layer
            out[key] = value
    return out
