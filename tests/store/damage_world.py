# SPDX-License-Identifier: BSD-3-Clause
"""A small store with all families of methods, and ways to damage its files as disks do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from pair_truths import pair_truth
from tiepoint.datasets.hpatches.pack import pack_dataset
from tiepoint.datasets.image_pairs.native_json import write_pairs
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.reader import write_image
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store

Scores = dict[tuple[str, ...], tuple[Any, ...]]
K = np.array([[120.0, 0, 80], [0, 120, 60], [0, 0, 1]])
SPLITS = {"a": {"name": "a", "test": ["v_a", "i_c"], "train": ["v_b"]}}


def texture(seed: int, height: int, width: int) -> np.ndarray:
    """Blobs of several sizes."""
    noise = np.random.default_rng(seed).normal(size=(height, width))
    mixed = sum(gaussian_filter(noise, s) * s for s in (1.5, 3, 6))
    return np.repeat(np.clip(128 + 90 * np.asarray(mixed), 0, 255).astype(np.uint8)[..., None], 3, 2)


def make_data(root: Path) -> None:
    """Packed patches, two image sequences, two posed pairs and two dense pairs."""
    rng = np.random.default_rng(0)
    for scene, count in {"v_a": 30, "v_b": 20, "i_c": 25}.items():
        base = rng.normal(128, 40, (count, 9, 9))
        for image in ("ref", "e1", "h1", "t1"):
            patches = np.clip(base + 15 * rng.normal(size=base.shape), 0, 255).astype(np.uint8)
            write_strip(root / "patches" / scene / f"{image}.png", patches)
    (root / "tasks").mkdir()
    (root / "tasks" / "splits.json").write_text(json.dumps(SPLITS))
    for scene in ("i_one", "v_two"):
        photo = texture(len(scene), 100, 160)
        (root / "sequences" / scene).mkdir(parents=True)
        for k in (1, 2):
            cut = np.ascontiguousarray(photo[:, 6 * k : 6 * k + 140])
            write_image(root / "sequences" / scene / f"{k}.png", cut)
        (root / "sequences" / scene / "H_1_2").write_text("1 0 -6\n0 1 0\n0 0 1\n")
    photo, posed, moved, pairs = texture(9, 120, 200), root / "pose", np.eye(4), []
    posed.mkdir()
    moved[0, 3] = -1.0
    for name, shift in (("a", 0), ("b", 10), ("c", 30)):
        write_image(posed / f"{name}.png", np.ascontiguousarray(photo[:, shift : shift + 160]))
    for other in ("b", "c"):
        images = {"image0": posed / "a.png", "image1": posed / f"{other}.png"}
        cameras = {"size0": (160, 120), "size1": (160, 120), "K0": K, "K1": K, "T_0to1": moved}
        pairs.append(pair_truth(f"room/a--{other}", "room", **images, **cameras))  # type: ignore[arg-type]
    write_pairs(posed / "pairs.json", pairs)
    for name, move in (("near", 1), ("far", 9)):
        folder, photo = root / "dense" / "S" / name, texture(move, 40, 80)
        folder.mkdir(parents=True)
        for i, start in ((1, 0), (2, move)):
            write_image(folder / f"image{i}.png", np.ascontiguousarray(photo[:, start : start + 60]))
            write_flo(folder / f"flow{i}.flo", np.full((40, 60, 2), [-move if i == 1 else move, 0.0]))
            write_mask(folder / f"mask{i}.png", np.ones((40, 60), bool))
    pack_dataset(root / "patches")


def requests(root: Path) -> list[RunRequest]:
    """What is run: two methods a family, one with a fitted transform."""
    lists = {"split": "a", "tasks": str(root / "tasks")}
    posed = {"seeds": 1, "estimator": "opencv"}
    return [
        RunRequest("resize", "hpatches/matching", root / "patches", ("exact", "hpatches-python"), lists),
        RunRequest("meanstd+zca", "hpatches/verification", root / "patches", (), lists | {"lists": "clean"}),
        RunRequest("sift?max_features=60", "keypoints/geometry", root / "sequences"),
        RunRequest("orb?max_features=60", "keypoints/geometry", root / "sequences"),
        RunRequest("sift?max_features=60", "pose/relative", root / "pose" / "pairs.json", (), posed),
        RunRequest("zero", "tss", root / "dense"),
        RunRequest("farneback", "tss", root / "dense"),
    ]


def run_all(root: Path, store: Path) -> list[Run]:
    """All requests, in a store that is there or made."""
    with Store.open(store) as opened:
        return [evaluate(request, opened) for request in requests(root)]


def scores_of(runs: list[Run]) -> Scores:
    """All scores but times, which are measured anew."""
    return {
        (run.task, run.method, s.protocol, s.metric, s.group): (
            s.value, s.n, s.low, s.high,
        )
        for run in runs
        for s in run.score_rows
        if "time" not in s.metric and "per_s" not in s.metric
    }  # fmt: skip


def flip(path: Path, rng: np.random.Generator) -> None:
    """Flip one bit; size and time stay as they are, as when a disk does it."""
    data = bytearray(path.read_bytes())
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    _put(path, data)


def zero(path: Path, rng: np.random.Generator) -> None:
    """Zero 512 bytes."""
    data = bytearray(path.read_bytes())
    at = int(rng.integers(max(1, len(data) - 511)))
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    _put(path, data)


def _put(path: Path, data: bytearray) -> None:
    import os

    facts = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def forget(store: Path, *names: str) -> None:
    """Remove folders of a store and its database, so that runs are made from what is left."""
    for name in names:
        shutil.rmtree(store / name, ignore_errors=True)
    (store / "tiepoint.sqlite").unlink(missing_ok=True)
