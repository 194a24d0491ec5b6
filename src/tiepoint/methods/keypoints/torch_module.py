# SPDX-License-Identifier: BSD-3-Clause
"""``torch:FILE.py:CLASS?weights=FILE`` on images: an `nn.Module` detects, describes or matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.plugins import check_distance, distance_of
from ...formats.image.reader import to_grey
from ..networks.torch_module import LoadedModule, check_unused, required_inputs, shared_settings
from ..networks.torch_runner import NetworkRunner
from ..parameters import Text
from .descriptors import MAGNIFICATION, PatchAtKeypoints

Image = NDArray[np.uint8]
EDGES = ("extract", "detect", "describe", "match", "match_points", "match_both")
PATCH_PX = 32


class TorchImages:
    """An `nn.Module` that has methods such as ``extract``, ``detect`` or ``match``, or is called directly.

    A module without such methods is called in one of three ways:

    * with an image, float (1, 3, h, w) between 0 and 1 on the device, or (1, 1, h, w) if ``colour = "grey"``;
      it returns what ``extract`` returns;
    * with two images, if `forward` requires two; it returns what ``match`` returns;
    * with patches (n, 1, patch_px, patch_px) around the keypoints of a detector (``torch:…@sift``); it
      returns (n, d).

    A batch dimension of 1 is removed from the output.

    `weights` is a state dict or a checkpoint. `magnification`, `patch_px`, `upright`, `input` and `batch` are
    those of patch networks at keypoints; all other parameters go to the constructor.
    """

    libraries = ("numba", "numpy", "torch")

    def __init__(
        self,
        path: Any,
        weights: str | None = None,
        magnification: float | None = None,
        patch_px: int | None = None,
        upright: bool | None = None,
        input: str | None = None,
        distance: str | None = None,
        batch: int | None = None,
        device: str = "cpu",
        **params: Text,
    ) -> None:
        squares = {"magnification": magnification, "patch_px": patch_px, "upright": upright, "input": input}
        loaded = LoadedModule(path, weights, device, {**shared_settings(path, squares), **params})
        self.loaded, self.name, self.uncached_reason = loaded, loaded.name, loaded.unknown
        self.constructor = loaded.constructor
        self.distance = check_distance(distance or distance_of(loaded.module), self.name)
        self.colour = loaded.setting("colour", None, "rgb")
        if getattr(loaded.module, "kind", None) is not None:
            self.kind = loaded.module.kind
        self.config: dict[str, Any] = {"module": loaded.known, "on": str(loaded.device)}
        self.warnings: list[str] = []
        own = [edge for edge in EDGES if loaded.has(edge)]
        for edge in own:
            setattr(self, edge, self._edge(edge))
        if own or required_inputs(loaded.module) > 1:
            check_unused(squares | {"batch": batch}, path, f"{self.name} is not run on patches")
        if own:
            return
        self._call = loaded.call()
        if required_inputs(loaded.module) > 1:
            self.match = self._match
            return
        self.extract, self.detect = self._extract, self._detect
        side = PATCH_PX if patch_px is None else patch_px
        scale = loaded.setting("input", input, "unit")
        self.runner = NetworkRunner(
            self._call, size=side, intensity=scale, device=loaded.device, where=self.name, batch=batch
        )
        self.warnings = self.runner.warnings
        by = MAGNIFICATION if magnification is None else magnification
        at = PatchAtKeypoints(self.runner, by, side, bool(upright))
        self.describe = at.describe
        self.config |= {**at.config, "input": scale, **self.runner.config(batch)}

    def _edge(self, name: str) -> Any:
        call = self.loaded.call(name)

        def called(*given: Any) -> Any:
            return to_arrays(call(*(g.copy() if isinstance(g, np.ndarray) else g for g in given)))

        return called

    def _tensor(self, image: Image) -> Any:
        """Return an image as network input, float (1, 3 or 1, h, w) between 0 and 1."""
        pixels = to_grey(image) if self.colour == "grey" and image.ndim == 3 else image
        planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        bytes_there = torch.from_numpy(np.ascontiguousarray(planes)).to(self.loaded.device)
        return bytes_there[None].float() / 255

    def _extract(self, image: Image) -> Any:
        """Return keypoints and descriptors of an image."""
        made = without_batch(to_arrays(self._call(self._tensor(image))))
        if isinstance(made, np.ndarray):
            raise InputError(
                f"{self.name} returned one array {made.shape}, expected (keypoints, descriptors); "
                "a network on patches needs a detector, as in torch:FILE.py:CLASS?weights=FILE@sift"
            )
        return made

    def _detect(self, image: Image) -> Any:
        """Return the keypoints of an image."""
        made = without_batch(to_arrays(self._call(self._tensor(image))))
        if isinstance(made, Mapping):
            return made.get("keypoints")
        return made[0] if isinstance(made, tuple) else made

    def _match(self, image1: Image, image2: Image) -> Any:
        """Return the matches of two images, or a flow on image 1."""
        made = without_batch(to_arrays(self._call(self._tensor(image1), self._tensor(image2))))
        if isinstance(made, np.ndarray) and made.ndim == 3 and made.shape[0] == 2 != made.shape[2]:
            return np.ascontiguousarray(made.transpose(1, 2, 0))
        return made


def to_arrays(made: Any) -> Any:
    """Convert all tensors in a module's output to NumPy arrays.

    >>> to_arrays({"a": [torch.ones(2)]})
    {'a': [array([1., 1.], dtype=float32)]}
    """
    if isinstance(made, torch.Tensor):
        values = made.detach().cpu()
        return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    if isinstance(made, Mapping):
        return {key: to_arrays(value) for key, value in made.items()}
    if type(made) in (list, tuple):
        return type(made)(map(to_arrays, made))
    return made


def without_batch(made: Any) -> Any:
    """Remove the batch dimension of 1 from a network's output. A list of one array becomes that array.

    >>> made = without_batch({"keypoints": np.ones((1, 9, 2)), "valid": np.ones((1, 9))})
    >>> made["keypoints"].shape, made["valid"].shape
    ((9, 2), (9,))
    """
    if isinstance(made, Mapping):
        return {key: _single(value, key) for key, value in made.items()}
    if isinstance(made, tuple | list) and not hasattr(made, "_fields"):
        return tuple(_single(value, "valid" if i == 2 else "") for i, value in enumerate(made))
    return _single(made, "")


_OF_ROWS = ("valid", "confidence", "scores")


def _single(value: Any, name: str) -> Any:
    if isinstance(value, list | tuple) and len(value) == 1:
        return value[0]
    ndim = getattr(value, "ndim", 0)
    batched = ndim > (1 if name in _OF_ROWS else 2) and len(value) == 1
    return value[0] if batched else value
