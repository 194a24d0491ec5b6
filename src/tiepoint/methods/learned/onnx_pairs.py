# SPDX-License-Identifier: BSD-3-Clause
"""``onnx-pairs:FILE``: networks of LightGlue-ONNX, either a complete pipeline or the matcher alone."""

from __future__ import annotations

import re
from typing import Any, Literal

import cv2
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ..networks.batches import checked_file
from ..networks.onnx import TYPES, session, weight_hashes

Image = NDArray[np.uint8]
GREY = (0.299, 0.587, 0.114)
SIDE_MULTIPLE = 8
_PIPELINE, _MATCHER = {"keypoints", "matches", "mscores"}, {"matches0", "mscores0"}
_SIZE = re.compile(r"(\d+)x(\d+)")


class OnnxPairs:
    """A network on two images from an ONNX file of LightGlue-ONNX.

    A pipeline detects and matches. It receives both images, resized to its input size (`size=HxW` if the file
    does not fix it), and returns keypoints in pixels of the input. A matcher alone (inputs `kpts0`, `kpts1`,
    `desc0`, `desc1`) receives features of ``features=disk`` or another name of ``lightglue:``, with keypoints
    divided by the longer side of the image.

    Colours are RGB; `bgr=true` reproduces the preprocessing of LightGlue-ONNX for DISK. An input of float16
    receives float16 images.
    """

    kind = "pairs"
    libraries = ("cv2", "numpy", "onnxruntime")

    def __init__(
        self,
        path: str,
        size: str | None = None,
        bgr: bool = False,
        features: str | None = None,
        max_keypoints: int = 2048,
        threads: int = 1,
        graph_optimization: Literal["all", "extended", "basic", "none"] = "all",
        device: str = "cpu",
    ) -> None:
        file = checked_file(path, "ONNX file")
        self.path, self.bgr = path, bgr
        self.name = f"onnx-pairs:{file.name}"
        self.session = session(
            str(file),
            threads,
            f"{path} is not an ONNX model that onnxruntime can run",
            providers=_providers(device, path),
            optimization=graph_optimization,
        )
        inputs = {i.name: i for i in self.session.get_inputs()}
        outputs = {o.name for o in self.session.get_outputs()}
        self.weight_hashes = weight_hashes(file)
        self.config: dict[str, Any] = {"threads": threads, "graph_optimization": graph_optimization}
        if set(inputs) == {"images"} and outputs >= _PIPELINE:
            if features is not None:
                raise InputError(f"{path} detects keypoints itself; remove features={features}")
            self.input = inputs["images"]
            self.channels, self.size = self._input_form(size)
            self.config |= {"form": "pipeline", "size": list(self.size), "bgr": bgr}
            self.match = self._match_images
        elif set(inputs) >= {"kpts0", "kpts1", "desc0", "desc1"} and outputs >= _MATCHER:
            if size is not None or bgr:
                raise InputError(f"{path} matches features; size and bgr have no effect, remove them")
            self._use_features(features, max_keypoints, threads, device)
            self.config |= {"form": "matcher"}
            self.match = self._match_features
        else:
            raise InputError(
                f"{path} has inputs {', '.join(sorted(inputs))} and outputs {', '.join(sorted(outputs))}; "
                "expected a pipeline of LightGlue-ONNX (images; keypoints, matches, mscores) or its matcher "
                "(kpts0, kpts1, desc0, desc1; matches0, mscores0)"
            )

    def _input_form(self, size: str | None) -> tuple[int, tuple[int, int]]:
        """Return the number of channels and the size (height, width) of a pipeline's input."""
        if self.input.type not in TYPES:
            raise InputError(
                f"{self.path}: the input is {self.input.type}; export the network with a floating point input"
            )
        shape = [d if isinstance(d, int) else None for d in self.input.shape]
        if len(shape) != 4 or shape[0] not in (2, None) or shape[1] not in (1, 3):
            raise InputError(
                f"{self.path}: the input has shape {self.input.shape}; export the network with input (2, "
                "1 or 3, h, w)"
            )
        wanted = (None, None) if size is None else _height_width(size, self.path)
        found = []
        for name, own, given in zip(("height", "width"), shape[2:], wanted, strict=True):
            if own is not None and given not in (None, own):
                raise InputError(f"{self.path}: the {name} of the input is {own}; remove size={size}")
            if own is None and given is None:
                raise InputError(
                    f"{self.path}: the input has no fixed size; add size=HxW, as in size=768x1024"
                )
            if own is None and int(given or 0) % SIDE_MULTIPLE:
                raise InputError(
                    f"{self.path}: size={size} must be a multiple of 8 (SuperPoint), 16 (DISK) or 32 (ALIKED)"
                )
            found.append(int(own or given or 0))
        return int(shape[1] or 0), (found[0], found[1])

    def _use_features(self, features: str | None, max_keypoints: int, threads: int, device: str) -> None:
        from .described import NAMES, PairDescriber, extractor_of

        if features is None:
            raise InputError(
                f"{self.path} is a matcher without features; add features=NAME ({', '.join(NAMES)})"
            )
        if features not in NAMES:
            raise UnknownNameError(f"features of {self.path}", features, NAMES)
        extractor = extractor_of(features, max_keypoints, threads=threads, device=device)
        self.describer = PairDescriber(extractor, self.name, device)
        self.tiepoint_parts = {"extractor": extractor}
        self.config |= {"features": features, "device": device, "weights": dict(self.weight_hashes)}

    def _match_images(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches that a complete pipeline finds in two images."""
        fed = np.stack([self._tensor(image) for image in (image1, image2)]).astype(TYPES[self.input.type])
        names = ["keypoints", "matches", "mscores"]
        keypoints, matches, scores = self.session.run(names, {"images": fed})
        rows = np.asarray(matches, np.int64).reshape(-1, 3)
        of_pair = rows[:, 0] == 0
        height, width = self.size
        found: dict[str, Any] = {"confidence": np.asarray(scores, np.float64).reshape(-1)[of_pair]}
        for side, image in enumerate((image1, image2)):
            scale = np.array([image.shape[1] / width, image.shape[0] / height])
            points = (np.asarray(keypoints[side], np.float64) + 0.5) * scale - 0.5
            found[f"points{side}"] = points[rows[of_pair, side + 1]]
            found[f"keypoints{side}"] = np.array([len(points)], np.int64)
        return found

    def _tensor(self, image: Image) -> NDArray[np.float32]:
        """Return an image as input (c, h, w) between 0 and 1."""
        height, width = self.size
        colours = np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image
        resized = cv2.resize(colours, (width, height), interpolation=cv2.INTER_LINEAR)
        planes = resized[..., ::-1] if self.bgr else resized
        values = planes.astype(np.float32) / np.float32(255)
        if self.channels == 1:
            return (values @ np.array(GREY, np.float32))[None]
        return np.ascontiguousarray(values.transpose(2, 0, 1))

    def _match_features(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches that a matcher finds between the features of two images."""
        (pair,) = self.describer.describe([(image1, image2)])
        if 0 in pair.counts:
            return pair.matches(np.empty((0, 2), np.int64), np.empty(0))
        fed: dict[str, Any] = {}
        for side, (arrays, size) in enumerate(zip(pair.features, pair.sizes, strict=True)):
            points = np.asarray(arrays["keypoints"], np.float32)[:, :2]
            half = np.array(size, np.float32) / 2
            fed[f"kpts{side}"] = ((points - half) / half.max())[None]
            fed[f"desc{side}"] = np.asarray(arrays["values"], np.float32)[None]
        types = {i.name: TYPES[i.type] for i in self.session.get_inputs()}
        fed = {name: np.ascontiguousarray(array, types[name]) for name, array in fed.items()}
        rows, scores = self.session.run(["matches0", "mscores0"], fed)
        return pair.matches(np.asarray(rows, np.int64).reshape(-1, 2), np.asarray(scores).reshape(-1))


def _height_width(size: str, path: str) -> tuple[int, int]:
    found = _SIZE.fullmatch(size)
    if found is None or "0" in found.groups():
        raise InputError(f"{path}: size is {size!r}; expected HEIGHTxWIDTH, as in size=768x1024")
    return int(found[1]), int(found[2])


def _providers(device: str, path: str) -> tuple[str, ...]:
    """Return the providers of onnxruntime for a device, or raise an error if it is not available."""
    if device == "cpu":
        return ("CPUExecutionProvider",)
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise InputError(
            f"{path}: this onnxruntime runs on the CPU only; install onnxruntime-gpu, or omit --device"
        )
    return ("CUDAExecutionProvider", "CPUExecutionProvider")
