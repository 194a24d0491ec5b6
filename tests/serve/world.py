# SPDX-License-Identifier: BSD-3-Clause
"""A store with two methods of every family on data small enough to be made at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from report_world import make_patches
from scipy.ndimage import gaussian_filter

from pair_truths import pair_truth
from tiepoint.datasets.image_pairs.native_json import write_pairs
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.image.mask import write_mask
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

FAMILIES = {
    "patches": "hpatches-v1/matching",
    "keypoints": "keypoints/geometry",
    "pairs": "pose/relative",
    "dense": "tss",
}
K = np.array([[120.0, 0, 80], [0, 120, 60], [0, 0, 1]])


def texture(seed: int, height: int = 120, width: int = 200) -> np.ndarray:
    """Blobs of several sizes in colour."""
    noise = np.random.default_rng(seed).normal(size=(height, width, 3))
    mixed = sum(gaussian_filter(noise, (s, s, 0)) * s for s in (1.5, 3, 6))
    return np.clip(128 + 90 * np.asarray(mixed), 0, 255).astype(np.uint8)


def make_data(root: Path) -> Path:
    """Patches, a sequence, two posed pairs and three dense pairs."""
    make_patches(root, ["i_a", "v_b"])
    for scene in ("i_one", "v_two"):
        folder, photo = root / "sequences" / scene, texture(len(scene))
        folder.mkdir(parents=True)
        for k in range(1, 7):
            shift = 4 * (k - 1)
            Image.fromarray(photo[:, shift : shift + 160]).save(folder / f"{k}.png")
            if k > 1:
                (folder / f"H_1_{k}").write_text(f"1 0 {-shift}\n0 1 0\n0 0 1\n")
    posed, moved = root / "pose", np.eye(4)
    posed.mkdir()
    moved[0, 3] = -1.0
    photo, pairs = texture(9), []
    for name, shift in (("a", 0), ("b", 10), ("c", 30)):
        Image.fromarray(photo[:, shift : shift + 160]).save(posed / f"{name}.png")
    for other in ("b", "c"):
        images = {"image0": posed / "a.png", "image1": posed / f"{other}.png"}
        size = (160, 120)
        cameras = {"size0": size, "size1": size, "K0": K, "K1": K, "T_0to1": moved}
        pairs.append(pair_truth(f"room/a--{other}", "room", **images, **cameras))
    write_pairs(posed / "pairs.json", pairs)
    for name, move in (("near", 1), ("far", 20)):
        folder, photo = root / "dense" / "S" / name, texture(move, 60, 140)
        folder.mkdir(parents=True)
        for i, start in ((1, 0), (2, move)):
            Image.fromarray(photo[:, start : start + 100]).save(folder / f"image{i}.png")
            write_flo(folder / f"flow{i}.flo", np.full((60, 100, 2), [-move if i == 1 else move, 0.0]))
            write_mask(folder / f"mask{i}.png", np.ones((60, 100), bool))
    return root


def make_store(root: Path) -> Path:
    """The store of `FAMILIES`, two methods each."""
    make_data(root)
    given = {
        "hpatches-v1/matching": (root / "patches", {"tasks": str(root)}, ("resize", "meanstd")),
        "keypoints/geometry": (root / "sequences", {}, ("sift", "orb")),
        "pose/relative": (
            root / "pose" / "pairs.json",
            {"seeds": 1, "estimator": "opencv"},
            ("sift?max_features=60", "orb?max_features=60"),
        ),
        "tss": (root / "dense", {}, ("zero", "farneback")),
    }
    with Store.open(root / "store") as store:
        for task, (data, options, methods) in given.items():
            for method in methods:
                evaluate(RunRequest(method, task, data, ("exact",), options), store)
    return root / "store"
