# SPDX-License-Identifier: BSD-3-Clause
"""``kornia:NAME?weights=FILE`` for networks on images: keypoint methods, LightGlue and LoFTR."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kornia.feature
import numpy as np
import torch
from kornia.feature.loftr.loftr import default_cfg
from kornia.geometry.transform import resize as resize_tensor
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file
from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..networks.batches import checked_file
from ..networks.kornia import NETWORKS as PATCH_NETWORKS
from ..networks.torch_module import load_weights, state_dict
from ..networks.torch_runner import check_torch_device, plain_float32
from .described import NAMES, PairDescriber, extractor_of
from .package import torch_threads

Image = NDArray[np.uint8]
FRAME_RADII_PER_SIZE = 6.0
"""Diameter of kornia's local affine frame, in keypoint sizes; the same as in `keynet`."""


class Network(NamedTuple):
    """A network of kornia: the roles of its weight files, its function, and the source of its weights."""

    files: tuple[str, ...]
    run: str
    source: str


NETWORKS = {
    "DISK": Network(("disk",), "_disk", "github.com/cvlab-epfl/disk, licence Apache-2.0"),
    "ALIKED": Network(("aliked",), "_aliked", "github.com/Shiaoming/ALIKED, licence BSD-3"),
    "DeDoDe": Network(("detector", "descriptor"), "_dedode", "github.com/Parskatt/DeDoDe, licence MIT"),
    "XFeat": Network(("xfeat",), "_xfeat", "github.com/verlab/accelerated_features, licence Apache-2.0"),
    "KeyNetAffNetHardNet": Network(
        ("keynet", "affnet", "orinet", "hardnet"),
        "_keynet",
        "github.com/axelBarroso/Key.Net-Pytorch, github.com/ducha-aiki/affnet, github.com/DagnyT/hardnet",
    ),
    "LightGlue": Network(("lightglue",), "", "github.com/cvg/LightGlue, licence Apache-2.0"),
    "LoFTR": Network(("loftr",), "", "github.com/zju3dv/LoFTR, licence Apache-2.0"),
}
"""Networks on images by their names in kornia."""

Found = tuple[Any, Any, Any]
"""Points (n, 2) in pixels of the network input, scores (n,) and descriptors (n, d)."""


class KorniaImages:
    """A network of kornia on images, with local weight files.

    `weights` is a file, or several separated by commas: detector and descriptor of DeDoDe; Key.Net, AffNet,
    OriNet and HardNet of KeyNetAffNetHardNet. `resize` is the long side of the network input in pixels;
    `none`, the default, keeps the image size. `features` names the features that LightGlue matches.
    `version=indoor_new` is LoFTR with the corrected attention temperature. `centre` is subtracted from the
    points of LoFTR.
    """

    libraries = ("kornia", "numpy", "torch")
    distance = "l2"

    def __init__(
        self,
        path: str,
        weights: str,
        max_keypoints: int = 2048,
        resize: int | None = None,
        threshold: float | None = None,
        model: str = "aliked-n16",
        features: str | None = None,
        filter: float = 0.1,
        adaptive: bool = False,
        version: str = "outdoor",
        centre: float = 0.5,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        if path.lower() in map(str.lower, PATCH_NETWORKS):
            raise InputError(
                f"kornia:{path} describes patches; add a detector, as in kornia:{path}?weights=FILE@sift"
            )
        if not self.knows(path):
            raise UnknownNameError("kornia network", path, [*NETWORKS, *PATCH_NETWORKS])
        name = next(known for known in NETWORKS if known.lower() == path.lower())
        self.name, self.network_name = f"kornia:{name}", name
        self.device = check_torch_device(device, self.name)
        known = NETWORKS[name]
        self.files = _weight_files(weights, name, known)
        self.weight_hashes = {role: hash_file(file) for role, file in self.files.items()}
        self.max_keypoints, self.resize, self.threads = max_keypoints, resize, threads
        self.threshold, self.model, self.centre, self.version = threshold, model, float(centre), version
        self.filter, self.adaptive = float(filter), adaptive
        self.config: dict[str, Any] = {"network": name, "threads": threads, "tf32": False}
        self._network: Any = None
        if name == "LightGlue":
            self._match_features_of(features, device)
            return
        self.config["resize"] = resize
        if name == "LoFTR":
            if version not in ("outdoor", "indoor", "indoor_new"):
                raise UnknownNameError("version of LoFTR", version, ("outdoor", "indoor", "indoor_new"))
            self.config |= {"temp_bug_fix": version == "indoor_new", "centre": self.centre}
            self.kind, self.match = "pairs", self._match_dense
            return
        self.config |= {"max_keypoints": max_keypoints, "threshold": threshold}
        if name == "ALIKED":
            self.config["model"] = model
        self.keep_images = True
        self.extract = self._extract

    @staticmethod
    def knows(name: str) -> bool:
        """Return whether a name, in any case, is that of a network on images."""
        return name.lower() in map(str.lower, NETWORKS)

    def _match_features_of(self, features: str | None, device: str) -> None:
        if features not in NAMES:
            raise InputError(
                f"{self.name} matches features and has none; add features=NAME ({', '.join(NAMES)})"
            )
        extractor = extractor_of(str(features), self.max_keypoints, threads=self.threads, device=device)
        self.describer = PairDescriber(extractor, self.name, device)
        self.tiepoint_parts = {"extractor": extractor}
        self.config |= {
            "features": features,
            "filter": self.filter,
            "adaptive": self.adaptive,
            "device": self.device.type,
            "weights": dict(self.weight_hashes),
        }
        self.kind, self.match = "pairs", self._match_features

    def network(self) -> Any:
        """Return the network in evaluation mode, loaded on first use."""
        if self._network is None:
            made = getattr(self, f"_make_{self.network_name.lower()}")()
            self._network = made.eval().to(self.device)
        return self._network

    def _load(self, module: Any, role: str, state: Mapping[str, Any] | None = None) -> Any:
        """Load the weights of role `role` into a module. Buffers that the file lacks keep their values."""
        given = dict(state_dict(self.files[role]) if state is None else state)
        for key, value in module.named_buffers():
            if key.endswith(("hw_grid", "confidence_thresholds", "num_batches_tracked")):
                given.setdefault(key, value)
        load_weights(module, given, f"{self.files[role]} does not fit {role} of {self.name}")
        return module

    def _make_disk(self) -> Any:
        return self._load(kornia.feature.DISK(), "disk")

    def _make_aliked(self) -> Any:
        threshold = 0.2 if self.threshold is None else self.threshold
        made = kornia.feature.ALIKED(self.model, self.max_keypoints, threshold)
        return self._load(made, "aliked")

    def _make_dedode(self) -> Any:
        state = state_dict(self.files["descriptor"])
        if any("dinov2" in key for key in state):
            raise InputError(
                f"{self.files['descriptor']}: the descriptor G of DeDoDe needs the weights of DINOv2, which "
                "kornia downloads; pass the weights of descriptor B"
            )
        made = kornia.feature.DeDoDe("L", "B", amp_dtype=torch.float32)
        self._load(made.detector, "detector")
        self._load(made.descriptor, "descriptor", state)
        return made

    def _make_xfeat(self) -> Any:
        made = kornia.feature.XFeat(self.max_keypoints, 0.05 if self.threshold is None else self.threshold)
        state = state_dict(self.files["xfeat"])
        self._load(made.net, "xfeat", {key.removeprefix("net."): value for key, value in state.items()})
        return made

    def _make_keynetaffnethardnet(self) -> Any:
        orienter = kornia.feature.LAFOrienter(angle_detector=kornia.feature.OriNet(False))
        shape = kornia.feature.LAFAffNetShapeEstimator(False, preserve_orientation=False)
        detector = kornia.feature.KeyNetDetector(
            False,
            num_features=self.max_keypoints,
            ori_module=orienter,
            aff_module=shape,
            score_threshold=self.threshold or 0.0,
        )
        hardnet = kornia.feature.HardNet(False)
        self._load(detector.model, "keynet")
        self._load(shape, "affnet")
        self._load(orienter.angle_detector, "orinet")
        self._load(hardnet, "hardnet")
        return kornia.feature.LocalFeature(detector, kornia.feature.LAFDescriptor(hardnet, 32, True))

    def _make_lightglue(self) -> Any:
        depth, width = (0.95, 0.99) if self.adaptive else (-1, -1)
        made = kornia.feature.LightGlue(
            features=None,
            input_dim=128,
            flash=False,
            depth_confidence=depth,
            width_confidence=width,
            filter_threshold=self.filter,
        )
        state = state_dict(self.files["lightglue"])
        for i in range(made.conf.n_layers):
            for part in ("self_attn", "cross_attn"):
                old, new = f"{part}.{i}.", f"transformers.{i}.{part}."
                state = {new + k.removeprefix(old) if k.startswith(old) else k: v for k, v in state.items()}
        return self._load(made, "lightglue", state)

    def _make_loftr(self) -> Any:
        config = copy.deepcopy(default_cfg)
        config["coarse"]["temp_bug_fix"] = self.version == "indoor_new"
        if self.threshold is not None:
            config["match_coarse"]["thr"] = self.threshold
        return self._load(kornia.feature.LoFTR(pretrained=None, config=config), "loftr")

    def _tensor(self, image: Image) -> tuple[Any, NDArray[np.float64]]:
        """Return an image as network input (1, c, h, w) between 0 and 1, and image pixels per input pixel."""
        grey = self.network_name in ("LoFTR", "KeyNetAffNetHardNet")
        if grey:
            planes = to_grey(image)[None]
        else:
            planes = np.repeat(image[None], 3, axis=0) if image.ndim == 2 else image.transpose(2, 0, 1)
        given = torch.from_numpy(np.ascontiguousarray(planes)).to(self.device).float()[None] / 255
        if self.resize is not None:
            given = resize_tensor(given, self.resize, side="long", antialias=True)
        height, width = given.shape[-2:]
        return given, np.array([image.shape[1] / width, image.shape[0] / height])

    def _extract(self, image: Image) -> tuple[Keypoints, NDArray[np.float32], NDArray[np.bool_]]:
        """Return keypoints, descriptors and validity of an image.

        Descriptors of blank patches are invalid.
        """
        run: Callable[[Any], Found] = getattr(self, NETWORKS[self.network_name].run)
        with torch_threads(self.threads), plain_float32():
            given, scale = self._tensor(image)
            points, scores, values = (t.float().cpu().numpy() for t in run(given))
        xy = (points[:, :2].astype(np.float64) + 0.5) * scale - 0.5
        size = points[:, 2] * scale.mean() if points.shape[1] > 2 else 1.0
        edge = np.array([image.shape[1], image.shape[0]]) - 0.5
        inside = ((xy >= -0.5) & (xy <= edge)).all(axis=1)
        keypoints = Keypoints.at(xy, size_px=size, response=scores)[np.flatnonzero(inside)]
        values = np.ascontiguousarray(values[inside])
        return keypoints, values, np.asarray(values.any(axis=1))

    def _disk(self, given: Any) -> Found:
        found = self.network()(
            given, self.max_keypoints, score_threshold=self.threshold or 0.0, pad_if_not_divisible=True
        )[0]
        return found.keypoints, found.detection_scores, found.descriptors

    def _aliked(self, given: Any) -> Found:
        found = self.network()(given)[0]
        return found.keypoints, found.keypoint_scores, found.descriptors

    def _dedode(self, given: Any) -> Found:
        points, scores, values = self.network()(given, n=self.max_keypoints)
        return points[0] - 0.5, scores[0], torch.nn.functional.normalize(values[0], dim=-1)

    def _xfeat(self, given: Any) -> Found:
        height, width = given.shape[-2:]
        found = self.network().detectAndCompute(given)[0]
        # kornia maps pixel i of the input, whose sides it floors to multiples of 32, to i W / W'
        ratio = torch.tensor([width / (width // 32 * 32), height / (height // 32 * 32)], device=given.device)
        return found["keypoints"] + 0.5 * ratio - 0.5, found["scores"], found["descriptors"]

    def _keynet(self, given: Any) -> Found:
        frames, scores, values = self.network()(given)
        radius = kornia.feature.get_laf_scale(frames)[0].reshape(-1, 1)
        points = torch.cat([frames[0, :, :, 2], 2 * radius / FRAME_RADII_PER_SIZE], dim=1)
        return points, scores[0], values[0]

    def _match_dense(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches of LoFTR."""
        with torch_threads(self.threads), plain_float32():
            (first, scale0), (second, scale1) = self._tensor(image1), self._tensor(image2)
            found = self.network()({"image0": first, "image1": second})
            points = [found[f"keypoints{i}"].float().cpu().numpy().astype(np.float64) for i in (0, 1)]
            confidence = found["confidence"].float().cpu().numpy().astype(np.float64)
        moved = [
            (p - self.centre + 0.5) * scale - 0.5 for p, scale in zip(points, (scale0, scale1), strict=True)
        ]
        return {"points0": moved[0], "points1": moved[1], "confidence": confidence}

    def _match_features(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return the matches of LightGlue."""
        (pair,) = self.describer.describe([(image1, image2)])
        if 0 in pair.counts:
            return pair.matches(np.empty((0, 2), np.int64), np.empty(0))
        data = {}
        for side, (arrays, size) in enumerate(zip(pair.features, pair.sizes, strict=True)):
            given = {
                "keypoints": np.asarray(arrays["keypoints"], np.float32)[:, :2],
                "descriptors": np.asarray(arrays["values"], np.float32),
                "image_size": np.array(size, np.float32),
            }
            data[f"image{side}"] = {k: torch.from_numpy(v)[None].to(self.device) for k, v in given.items()}
        with torch_threads(self.threads), plain_float32():
            found = self.network()(data)
            rows, scores = found["matches"][0].cpu().numpy(), found["scores"][0].float().cpu().numpy()
        return pair.matches(rows, scores)


def _weight_files(weights: str, name: str, known: Network) -> dict[str, Path]:
    """Return the weight files by role. If one is missing, the error names it and where to get it."""
    paths = weights.split(",")
    if len(paths) != len(known.files):
        raise InputError(
            f"kornia:{name} needs {len(known.files)} weight files ({', '.join(known.files)}), found "
            f"{len(paths)}; separate them by commas, as in weights={','.join(known.files)}"
        )
    try:
        return {
            role: checked_file(path, f"weight file of {name}")
            for role, path in zip(known.files, paths, strict=True)
        }
    except InputError as e:
        if "not found" not in str(e):
            raise
        raise InputError(f"{e} (weights: {known.source})") from e
