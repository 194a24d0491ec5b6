# SPDX-License-Identifier: BSD-3-Clause
"""``xfeat?weights=FILE``: XFeat through onnxruntime. Its dense maps are sampled at any keypoint.

The published ONNX file returns only the 1000 most reliable keypoints. Its maps of descriptors and
reliability, computed on the image resized by 0.6 and 1.3, are inside the graph. This module requests them as
further outputs. A map cell covers 8 x 8 pixels of the resized image. As in XFeat, a keypoint is at the upper
left pixel of its cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.keypoints import Keypoints
from ..networks.batches import checked_file
from ..networks.onnx import session, weight_hashes
from ..transforms import l2_normalise
from .detectors import MAX_FEATURES, select_keypoints

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
CELL_PX = 8
ZOOMS = (0.6, 1.3)
_MAPS = tuple(
    (
        f"/block_fusion/block_fusion.2{end}/Conv_output_0",
        f"/heatmap_head/heatmap_head.3{end}/Sigmoid_output_0",
    )
    for end in ("", "_1")
)


class XFeatLevel(NamedTuple):
    """XFeat maps of one image scale: descriptors (h, w, 64), reliability (h, w), pixels per cell (x, y)."""

    values: NDArray[np.float32]
    reliability: NDArray[np.float32]
    cell_px: Floats


class XFeatMaps:
    """XFeat network that returns descriptor and reliability maps of an image."""

    def __init__(self, weights: str, threads: int = 1) -> None:
        file = checked_file(weights, "ONNX file")
        names = [name for pair in _MAPS for name in pair]
        model = with_outputs(file.read_bytes(), names)
        self.session = session(model, threads, f"{weights} is not the dense XFeat model")
        self.weight_hashes = weight_hashes(file)

    def __call__(self, image: Image) -> list[XFeatLevel]:
        """Return the maps of an RGB image at both scales."""
        colour = np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
        if min(colour.shape[:2]) * ZOOMS[0] < 64:
            raise InputError(
                "xfeat needs images of at least 107 x 107 pixels, "
                f"found {colour.shape[1]} x {colour.shape[0]}"
            )
        fed = np.ascontiguousarray(colour.transpose(2, 0, 1)[None], np.float32)
        names = [name for pair in _MAPS for name in pair]
        found = self.session.run(names, {"images": fed})
        size = np.array([colour.shape[1], colour.shape[0]])
        levels = []
        for zoom, values, reliability in zip(ZOOMS, found[::2], found[1::2], strict=True):
            # in float32, as the Resize operator computes its output size
            resized = np.floor(size.astype(np.float32) * np.float32(zoom)).astype(np.float64)
            cells = np.array([values.shape[3], values.shape[2]])
            cell_px = CELL_PX * (resized / (cells * CELL_PX)) / zoom
            levels.append(XFeatLevel(values[0].transpose(1, 2, 0), reliability[0, 0], cell_px))
        return levels


def with_outputs(model: bytes, names: list[str]) -> bytes:
    """Return an ONNX model whose inner values `names` are additional outputs.

    Protobuf merges concatenated messages. The function therefore appends a graph (field 7) with only outputs
    (field 12, named by field 1). This does not need the onnx package.
    """

    def field(number: int, body: bytes) -> bytes:
        return _varint(number << 3 | 2) + _varint(len(body)) + body

    return model + field(7, b"".join(field(12, field(1, name.encode())) for name in names))


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


class XFeatDetector:
    """XFeat keypoints at the most reliable map cells of two image scales (0.6 and 1.3).

    The size is the cell's side in image pixels. As in XFeat, a fifth of `max_features` comes from the coarse
    scale and four fifths from the fine scale.
    """

    name, libraries = "xfeat", ("numpy", "onnxruntime")

    def __init__(self, weights: str, max_features: int | None = MAX_FEATURES, border_px: float = 0.0) -> None:
        self.maps = XFeatMaps(weights)
        self.max_features, self.border_px = max_features, float(border_px)
        self.weight_hashes = self.maps.weight_hashes
        self.config = {"max_features": max_features, "border_px": self.border_px}

    def detect(self, image: Image) -> Keypoints:
        """Return keypoints of both image scales, highest reliability first."""
        limit = self.max_features
        shares = (None, None) if limit is None else (limit // 5, limit - limit // 5)
        kept = []
        for level, share in zip(self.maps(image), shares, strict=True):
            rows, columns = np.indices(level.reliability.shape)
            xy = np.column_stack([columns.ravel(), rows.ravel()]) * level.cell_px
            found = Keypoints.at(xy, size_px=float(level.cell_px.mean()), response=level.reliability.ravel())
            if share != 0:
                kept.append(select_keypoints(found, image, max_features=share, border_px=self.border_px))
        table = np.concatenate([k.to_array() for k in kept])
        return select_keypoints(
            Keypoints.from_array(table), image, max_features=limit, border_px=self.border_px
        )


class XFeatDescriptor:
    """XFeat descriptors (64 values), sampled bilinearly from one of two maps.

    The map whose cell size is closest to the keypoint's size is used.
    """

    name, distance, libraries = "xfeat", "l2", ("numpy", "onnxruntime")

    def __init__(self, weights: str) -> None:
        self.maps = XFeatMaps(weights)
        self.weight_hashes = self.maps.weight_hashes
        self.config: dict[str, Any] = {}

    def describe(self, image: Image, keypoints: Keypoints) -> NDArray[np.float32]:
        """Return descriptors (n, 64) of length 1."""
        levels = self.maps(image)
        sizes = np.log([level.cell_px.mean() for level in levels])
        chosen = np.abs(np.log(keypoints.size_px)[:, None] - sizes).argmin(axis=1)
        out = np.zeros((len(keypoints), levels[0].values.shape[2]), np.float32)
        for i, level in enumerate(levels):
            rows = chosen == i
            out[rows] = _sampled(level.values, keypoints.xy[rows] / level.cell_px)
        return l2_normalise(out)


def _sampled(values: NDArray[np.float32], at: Floats) -> NDArray[np.float32]:
    """Sample a map (h, w, d) bilinearly at positions (n, 2) in cells. The map's edge is repeated outside."""
    h, w = values.shape[:2]
    x, y = np.clip(at[:, 0], 0, w - 1), np.clip(at[:, 1], 0, h - 1)
    x0, y0 = np.minimum(x.astype(int), w - 2), np.minimum(y.astype(int), h - 2)
    fx, fy = (x - x0)[:, None], (y - y0)[:, None]
    top = values[y0, x0] * (1 - fx) + values[y0, x0 + 1] * fx
    below = values[y0 + 1, x0] * (1 - fx) + values[y0 + 1, x0 + 1] * fx
    return np.asarray(top * (1 - fy) + below * fy, np.float32)
