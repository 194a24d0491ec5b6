# SPDX-License-Identifier: BSD-3-Clause
"""``onnx:FILE``: a patch network run by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file
from ...core.plugins import check_distance
from ...core.regular_files import read_regular_file
from .batches import BATCH, batches, checked_file, checked_intensity, flatten_output

MAX_ONNX_BYTES = 2 << 30
"""Largest model size in bytes that protobuf supports."""
_LOCATION = b"location"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def weight_hashes(file: Path) -> dict[str, str]:
    """Return the hashes of an ONNX file and its external weight files, by file name."""
    names = {
        n: file.parent / n
        for n in sorted(set(external_locations(read_regular_file(file, most=MAX_ONNX_BYTES))))
    }
    there = {name: hash_file(path) for name, path in names.items() if path.is_file()}
    return {file.name: hash_file(file), **there}


def external_locations(model: bytes) -> Iterator[str]:
    r"""Yield the names of the external weight files of a serialised ONNX model.

    The model is parsed as protobuf, without the onnx package. Tensors of the graph and its subgraphs have
    entries (key, value) as strings. The value of the key ``location`` is a file name.

    >>> entry = b"\x0a\x08location\x12\x05w.bin"
    >>> list(external_locations(b"\x6a" + bytes([len(entry)]) + entry))
    ['w.bin']
    """
    if _LOCATION not in model:
        return
    view = memoryview(model)
    waiting = [(0, len(model))]
    while waiting:
        fields = list(_fields(view, *waiting.pop()))
        inner = [(number, a, b) for number, a, b in fields if b > a]
        strings = {number: bytes(view[a:b]) for number, a, b in inner if b - a <= 4096}
        if strings.get(1) == _LOCATION and 2 in strings and len(fields) == 2:
            yield strings[2].decode("utf-8", "replace")
        elif inner:
            waiting += [(a, b) for _, a, b in inner if model.find(_LOCATION, a, b) >= 0]


def _fields(view: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (field number, start, end) of each byte field in a protobuf message, and nothing for other data.

    `at` and `end` delimit the message in `view`.
    """
    found: list[tuple[int, int, int]] = []
    try:
        while at < end:
            tag, at = _varint(view, at, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                _, at = _varint(view, at, end)
            elif kind == _BYTES:
                length, at = _varint(view, at, end)
                found.append((number, at, at + length))
                at += length
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                return
            if number == 0 or at > end:
                return
    except ValueError:
        return
    yield from found


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("the ONNX file ends within a number; replace the truncated file")


Array = NDArray[Any]
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class Onnx:
    """A patch network from an ONNX file with one image input.

    The layout follows from the input's shape: (n, c, h, w), (n, h, w, c) or (n, h, w), with c 1 or 3 (grey is
    repeated). Patches are resized by area to h x w. If the model does not fix h and w, `size` or the patch's
    own side is used. If the model fixes n, batches have n patches. `input` selects the scaling (unit, raw,
    zscore), `output` the output with the descriptors (default: the first), `threads` the number of threads.
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
        self.distance = check_distance(distance, path)
        self.intensity = checked_intensity(input, path)
        self.session = session(str(file), threads, f"{path} is not an ONNX model that onnxruntime can run")
        self.input, self.layout, self.batch, own = _layout(self.session, path)
        if size is not None and own is not None and size != own:
            raise InputError(f"{path}: the input of the model is {own} x {own}; remove size={size}")
        self.size = own if own is not None else size
        names = [o.name for o in self.session.get_outputs()]
        if output is not None and output not in names:
            raise UnknownNameError(f"output of {path}", output, names)
        self.output = output or names[0]
        self.weight_hashes = weight_hashes(file)
        self.config = {"size": self.size, "input": input, "output": self.output}
        self.name = f"onnx:{file.name}"

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, d) of patches (n, s, s)."""
        parts = []
        for block in batches(patches, self.size or patches.shape[1], self.intensity, self.batch or BATCH):
            fed = _fill(block, self.batch)
            ready = _arranged(fed, self.layout).astype(TYPES[self.input.type])
            (found,) = self.session.run([self.output], {self.input.name: ready})
            parts.append(flatten_output(found, len(fed), self.name)[: len(block)])
        return np.concatenate(parts)


def _layout(session: Any, path: str) -> tuple[Any, str, int | None, int | None]:
    """Return the model's input, its layout, and its batch size and side in pixels (None if not fixed)."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InputError(f"{path}: a patch network must have one input, but this model has {len(inputs)}")
    shape = [d if isinstance(d, int) else None for d in inputs[0].shape]
    if inputs[0].type not in TYPES:
        raise InputError(
            f"{path}: the input is {inputs[0].type}; export the model with a floating point input"
        )
    if len(shape) == 3:
        layout, height, width = "nhw", shape[1], shape[2]
    elif len(shape) == 4 and shape[1] in (1, 3):
        layout, height, width = f"nchw{shape[1]}", shape[2], shape[3]
    elif len(shape) == 4 and shape[3] in (1, 3):
        layout, height, width = f"nhwc{shape[3]}", shape[1], shape[2]
    elif len(shape) == 4 and shape[1] is None and shape[3] != 1:
        layout, height, width = "nchw1", shape[2], shape[3]
    else:
        raise InputError(
            f"{path}: the input has shape {inputs[0].shape}; export the model with one such as (n, 1, "
            "side, side)"
        )
    if height != width:
        raise InputError(f"{path}: the input is {height} x {width}; export the model with a square input")
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


def session(
    model: str | bytes,
    threads: int,
    complaint: str,
    *,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    optimization: str = "all",
) -> Any:
    """Return an onnxruntime session of a model, given as a path or as bytes. It runs on the CPU by default.

    `optimization` is the level of graph optimizations: all, extended, basic or none. `complaint` starts the
    error message if the model cannot be loaded.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    level = "ORT_DISABLE_ALL" if optimization == "none" else f"ORT_ENABLE_{optimization.upper()}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    try:
        return ort.InferenceSession(model, options, providers=list(providers))
    except Exception as e:  # onnxruntime's exceptions have no public base class
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise InputError(f"{complaint}: {reason}") from e
