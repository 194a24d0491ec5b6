# SPDX-License-Identifier: BSD-3-Clause
"""``onnx:FILE``: a patch network run by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from .batches import BATCH, batches, checked_distance, checked_file, checked_intensity, flatten_output
from .onnx_file import weight_hashes

Array = NDArray[Any]
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class Onnx:
    """A network with one image input.

    The layout is read from the input's shape: (n, c, h, w), (n, h, w, c) or (n, h, w), with c 1 or 3 (grey is
    repeated). Patches are resized by area to h x w; where these are free, `size` or the patch's own side
    is used. A fixed n is respected. `input` says what the intensities are (unit, raw, zscore), `output` which
    output is the descriptor (default the first), `threads` how many to use inside one process.
    """

    libraries = ("numpy", "onnxruntime")

    def __init__(
        self,
        path: str,
        size: int | None = None,
        input: str = "unit",
        output: str | None = None,
        distance: str = "l2",
        threads: int = 1,
    ) -> None:
        file = checked_file(path, "ONNX file")
        self.distance = checked_distance(distance, path)
        self.intensity = checked_intensity(input, path)
        self.session = session(str(file), threads, f"{path} is not an ONNX model that onnxruntime can run")
        self.input, self.layout, self.batch, own = _layout(self.session, path)
        if size is not None and own is not None and size != own:
            raise InputError(f"{path}: the model's input is {own} x {own}, so size={size} cannot be used")
        self.size = own if own is not None else size
        names = [o.name for o in self.session.get_outputs()]
        if output is not None and output not in names:
            raise UnknownNameError(f"output of {path}", output, names)
        self.output = output or names[0]
        self.weight_hashes = weight_hashes(file)
        self.config = {"size": self.size, "input": input, "output": self.output}
        self.name = f"onnx:{file.name}"

    def describe(self, patches: Array) -> Array:
        """(n, s, s) -> (n, d)."""
        parts = []
        for block in batches(patches, self.size or patches.shape[1], self.intensity, self.batch or BATCH):
            fed = _fill(block, self.batch)
            ready = _arranged(fed, self.layout).astype(_TYPES[self.input.type])
            (found,) = self.session.run([self.output], {self.input.name: ready})
            parts.append(flatten_output(found, len(fed), self.name)[: len(block)])
        return np.concatenate(parts)


def _layout(session: Any, path: str) -> tuple[Any, str, int | None, int | None]:
    """The input, its layout, its batch size and its side (None where free)."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InputError(f"{path}: a patch network has one input, this model has {len(inputs)}")
    shape = [d if isinstance(d, int) else None for d in inputs[0].shape]
    if inputs[0].type not in _TYPES:
        raise InputError(f"{path}: the input must be floating point, found {inputs[0].type}")
    if len(shape) == 3:
        layout, height, width = "nhw", shape[1], shape[2]
    elif len(shape) == 4 and shape[1] in (1, 3):
        layout, height, width = f"nchw{shape[1]}", shape[2], shape[3]
    elif len(shape) == 4 and shape[3] in (1, 3):
        layout, height, width = f"nhwc{shape[3]}", shape[1], shape[2]
    elif len(shape) == 4 and shape[1] is None and shape[3] != 1:
        layout, height, width = "nchw1", shape[2], shape[3]
    else:
        raise InputError(f"{path}: cannot tell where the patch goes in an input of shape {inputs[0].shape}")
    if height != width:
        raise InputError(f"{path}: patches are square, the model's input is {height} x {width}")
    return inputs[0], layout, shape[0], height


def _arranged(block: Array, layout: str) -> Array:
    if layout == "nhw":
        return block
    channels = int(layout[-1])
    axis = 1 if layout.startswith("nchw") else 3
    return np.repeat(np.expand_dims(block, axis), channels, axis=axis)


def _fill(block: Array, batch: int | None) -> Array:
    if batch is None or len(block) == batch:
        return block
    return np.concatenate([block, np.repeat(block[-1:], batch - len(block), axis=0)])


def session(model: str | bytes, threads: int, complaint: str) -> Any:
    """A session that runs a model, given as a path or as its bytes, on the CPU."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's exceptions have no public base class
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise InputError(f"{complaint}: {reason}") from e
