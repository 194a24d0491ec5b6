# SPDX-License-Identifier: BSD-3-Clause
"""``hf:DIR``: SuperPoint, SuperGlue, LightGlue and EfficientLoFTR of transformers from a local folder."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MethodType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow

from ...core.errors import InputError
from ...core.formatting import first_few
from ...core.hashing import hash_file
from ...core.keypoints import Keypoints
from ...core.regular_files import is_file, is_folder, read_regular_file
from ..networks.torch_runner import check_torch_device, plain_float32
from .package import torch_threads

Image = NDArray[np.uint8]
Size = tuple[int, int]
GREY = (0.2989, 0.587, 0.114)
DEFAULT_SIZE = (480, 640)
DETECTORS, MATCHERS, DENSE = ("superpoint",), ("superglue", "lightglue"), ("efficientloftr",)
CONFIG, WEIGHTS, PREPROCESSOR = "config.json", "model.safetensors", "preprocessor_config.json"
MULTIPLE = 32
"""Divisor of EfficientLoFTR's input height and width, in pixels."""
_SIZE = re.compile(r"([1-9]\d*)x([1-9]\d*)")
_LICENCE = re.compile(r"^license(?:_name)?:\s*(\S.*?)\s*$", re.MULTILINE)
_MAX_JSON_BYTES = 16 << 20


class HuggingFace:
    """A network of transformers, in a folder with its configuration, weights and preprocessor.

    Images are resized to `size` (``HxW``, by default that of the preprocessor; the aspect ratio changes) and
    converted to grey. Keypoint positions are not rounded; the post-processing of transformers truncates them.
    `threshold` is the confidence that a match must exceed.

    EfficientLoFTR of transformers 5.22 combines features of cells that do not match each other.
    ``pairing=aligned`` corrects this, and ``pairing=shipped`` runs the code unchanged.
    """

    libraries = ("PIL", "numpy", "torch", "transformers")
    distance = "l2"

    def __init__(
        self,
        path: str,
        size: str | None = None,
        threshold: float = 0.0,
        pairing: Literal["aligned", "shipped"] = "aligned",
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.folder = Path(path).expanduser()
        self.name = f"hf:{self.folder.resolve().name}"
        _check_folder(self.folder, path)
        self.kind_of_model = str(_read_json(self.folder / CONFIG).get("model_type"))
        known = (*DETECTORS, *MATCHERS, *DENSE)
        if self.kind_of_model not in known:
            raise InputError(
                f"{self.folder / CONFIG}: model_type is {self.kind_of_model!r}; expected {', '.join(known)}"
            )
        self.size = _input_size(size, self.folder / PREPROCESSOR)
        if self.kind_of_model in DENSE and any(side % MULTIPLE for side in self.size):
            raise InputError(
                f"{self.name}: EfficientLoFTR needs sides that are multiples of {MULTIPLE}, found "
                f"{self.size[0]}x{self.size[1]}; add size=HxW, as in size=480x640"
            )
        self.device = check_torch_device(device, self.name)
        self.threshold, self.pairing, self.threads = float(threshold), pairing, threads
        names = (CONFIG, PREPROCESSOR, WEIGHTS)
        self.weight_hashes = {name: hash_file(self.folder / name) for name in names}
        self.config: dict[str, Any] = {"size": list(self.size), "threads": threads, "tf32": False}
        if self.kind_of_model in DETECTORS:
            self.extract = self._extract
            self.keep_images = True
        else:
            self.kind = "pairs"
            self.match = self._match
            self.config["threshold"] = self.threshold
        if self.kind_of_model in DENSE:
            self.config["pairing"] = pairing
        self.warnings = _licence(self.folder, self.name)
        self._network: Any = None

    def network(self) -> Any:
        """Return the network in float32, loaded on first use."""
        if self._network is None:
            made = self._loaded().eval().to(self.device)
            if self.kind_of_model in DENSE and self.pairing == "aligned":
                made._get_matches_from_scores = MethodType(aligned_matches, made)
            self._network = made
        return self._network

    def _loaded(self) -> Any:
        with _offline() as transformers:
            detects = self.kind_of_model in DETECTORS
            auto = "AutoModelForKeypointDetection" if detects else "AutoModelForKeypointMatching"
            try:
                made, report = getattr(transformers, auto).from_pretrained(
                    str(self.folder),
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
            except Exception as e:  # of transformers, safetensors and torch, without a common base
                raise InputError(f"{self.folder} cannot be loaded: {' '.join(str(e).split())[:300]}") from e
        wrong = {k: sorted(map(str, report.get(k, ()))) for k in ("missing_keys", "mismatched_keys")}
        if problems := [f"{k.replace('_', ' ')}: {first_few(v, 5)}" for k, v in wrong.items() if v]:
            raise InputError(f"{self.folder / WEIGHTS} does not fit {CONFIG}: {'; '.join(problems)}")
        return made

    def _input(self, image: Image) -> NDArray[np.float32]:
        """Return an image as network input (3, h', w') with three equal channels."""
        colours = np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image
        height, width = self.size
        resized = Pillow.fromarray(colours).resize((width, height), Pillow.Resampling.BILINEAR)
        values = np.asarray(resized).astype(np.float32) * np.float32(1 / 255)
        red, green, blue = (np.float32(c) * values[..., i] for i, c in enumerate(GREY))
        return np.repeat((red + green + blue)[None], 3, axis=0)

    def _points(self, relative: Any, image: Image) -> NDArray[np.float64]:
        """Convert points to pixels of the original image.

        The network returns them relative to its input size.
        """
        height, width = self.size
        pixels = relative.float().cpu().numpy() * np.array([width, height], np.float32)
        scale = np.array([image.shape[1] / width, image.shape[0] / height])
        return (pixels.astype(np.float64) + 0.5) * scale - 0.5

    def _extract(self, image: Image) -> tuple[Keypoints, NDArray[np.float32]]:
        """Return the keypoints and descriptors of an image."""
        with torch_threads(self.threads), plain_float32():
            found = self.network()(torch.from_numpy(self._input(image))[None].to(self.device))
            valid = found.mask[0].bool()
            scores = found.scores[0][valid].float().cpu().numpy()
            values = found.descriptors[0][valid].float().cpu().numpy()
            points = self._points(found.keypoints[0][valid], image)
        return Keypoints.at(points, response=scores), np.ascontiguousarray(values)

    def _match(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches of two images."""
        given = np.stack([self._input(image) for image in (image1, image2)])
        with torch_threads(self.threads), plain_float32():
            found = self.network()(torch.from_numpy(given)[None].to(self.device))
            points = [self._points(found.keypoints[0, side], i) for side, i in enumerate((image1, image2))]
            matches = found.matches[0].cpu().numpy()
            scores = found.matching_scores[0].float().cpu().numpy().astype(np.float64)
            mask = None if getattr(found, "mask", None) is None else found.mask[0].bool().cpu().numpy()
        if self.kind_of_model in DENSE:
            return self._dense_matches(points, matches, scores, (image1, image2))
        assert mask is not None
        first = np.flatnonzero((matches[0] > -1) & mask[0] & (scores[0] > self.threshold))
        second = matches[0][first]
        real = mask[1][second]  # images with fewer keypoints are padded
        first, second = first[real], second[real]
        return {
            "points0": points[0][first],
            "points1": points[1][second],
            "confidence": scores[0][first],
            "keypoints0": np.array([mask[0].sum()], np.int64),
            "keypoints1": np.array([mask[1].sum()], np.int64),
        }

    def _dense_matches(
        self, points: list[Any], matches: Any, scores: Any, images: tuple[Image, Image]
    ) -> dict[str, Any]:
        """Return the matches of EfficientLoFTR that exceed the threshold and are inside both images."""
        if self.pairing == "shipped":  # as the package: each side is filtered alone, and paired by rank
            kept = [np.flatnonzero((matches[s] > -1) & (scores[s] > self.threshold)) for s in (0, 1)]
            count = min(map(len, kept))
            rows = [k[:count] for k in kept]
        else:
            row = np.flatnonzero((matches[0] > -1) & (scores[0] > self.threshold))
            rows = [row, row]
        found = [points[s][rows[s]] for s in (0, 1)]
        inside = np.ones(len(rows[0]), bool)
        for p, image in zip(found, images, strict=True):
            edge = np.array([image.shape[1], image.shape[0]]) - 0.5
            inside &= ((p >= -0.5) & (p <= edge)).all(axis=1)
        return {
            "points0": found[0][inside],
            "points1": found[1][inside],
            "confidence": scores[0][rows[0]][inside],
        }


def aligned_matches(model: Any, scores: Any) -> tuple[Any, Any]:
    """Return EfficientLoFTR's matched cells (1, 2, n) and their scores. Column i is about cell i of image 0.

    This replaces a method of transformers, with the same threshold, border and mutual check. The original
    orders the cells of image 0 by the cells of image 1, so that its two rows do not belong together.
    """
    _, h0, w0, h1, w1 = scores.shape
    flat = scores.reshape(1, h0 * w0, h1 * w1)
    kept = (scores > model.config.coarse_matching_threshold).clone()
    border = model.config.coarse_matching_border_removal
    for axis, side in enumerate((h0, w0, h1, w1), start=1):
        if border > 0:
            kept.narrow(axis, 0, min(border, side)).fill_(False)
            kept.narrow(axis, side - min(border, side), min(border, side)).fill_(False)
    kept = kept.reshape(1, h0 * w0, h1 * w1)
    kept &= (flat == flat.max(2, keepdim=True).values) & (flat == flat.max(1, keepdim=True).values)
    value, there = (flat * kept).max(2)
    here = torch.arange(h0 * w0, device=scores.device)[None]
    cells = torch.stack([here, there], dim=1)
    both = torch.stack([value, value], dim=1)
    return torch.where(both > 0, cells, torch.full_like(cells, -1)), both


@contextmanager
def _offline() -> Iterator[Any]:
    """Import transformers with network access and progress bars disabled, and yield it."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        transformers = importlib.import_module("transformers")
        shown = transformers.logging.is_progress_bar_enabled()
        transformers.logging.disable_progress_bar()
        try:
            yield transformers
        finally:
            if shown:
                transformers.logging.enable_progress_bar()
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


def _check_folder(folder: Path, path: str) -> None:
    """Raise an error if the folder, a file in it, or transformers is missing."""
    if not is_folder(folder):
        raise InputError(
            f"hf:{path}: folder not found; pass a local folder with {CONFIG}, {WEIGHTS} and {PREPROCESSOR}, "
            "because nothing is downloaded"
        )
    missing = [name for name in (CONFIG, WEIGHTS, PREPROCESSOR) if not is_file(folder / name)]
    if missing:
        why = ""
        if WEIGHTS in missing and (other := sorted(p.name for p in folder.glob("*.bin"))):
            why = f" ({other[0]} may contain code and is not read; save it with safe_serialization=True)"
        raise InputError(
            f"{folder}: {' and '.join(missing)} not found{why}; copy all files of the model into the folder, "
            "under the licence of its page on huggingface.co, because nothing is downloaded"
        )
    if find_spec("transformers") is None:
        raise InputError("hf:DIR needs the package 'transformers': pip install transformers")


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_regular_file(file, most=_MAX_JSON_BYTES))
    except ValueError as e:
        raise InputError(f"{file} is not a JSON file ({e}); copy it again") from e
    if not isinstance(found, dict):
        raise InputError(f"{file}: expected a JSON object, found {type(found).__name__}")
    return found


def _input_size(size: str | None, file: Path) -> Size:
    """Return the height and width of the network input, from `size` or the preprocessor's `file`."""
    if size is not None:
        found = _SIZE.fullmatch(size)
        if found is None:
            raise InputError(f"hf: size is {size!r}; expected HEIGHTxWIDTH, as in size=480x640")
        return int(found[1]), int(found[2])
    own = _read_json(file).get("size") or dict(zip(("height", "width"), DEFAULT_SIZE, strict=True))
    sides = [own.get(name) for name in ("height", "width")] if isinstance(own, dict) else [None]
    if not all(isinstance(side, int) and side > 0 for side in sides):
        raise InputError(f"{file}: size is {own!r}, expected height and width; add size=HxW")
    return int(sides[0] or 0), int(sides[1] or 0)


def _licence(folder: Path, name: str) -> list[str]:
    """Return a notice with the licence that the model card in the folder states; empty without a card."""
    card = folder / "README.md"
    if not is_file(card):
        return []
    text = read_regular_file(card, most=_MAX_JSON_BYTES).decode("utf-8", "replace")
    head = text.split("---")[1] if text.startswith("---") and text.count("---") > 1 else ""
    found = list(dict.fromkeys(_LICENCE.findall(head)))
    return [f"{name}: its card states the licence {', '.join(found)}"] if found else []
