# SPDX-License-Identifier: BSD-3-Clause
"""Read the test pairs of LoFTR: ScanNet-1500 from `.npz` files, MegaDepth-1500 from pickles."""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...formats.image.reader import read_size
from ...formats.npy import read_npz
from ...formats.pickled_arrays import is_pickle, read_arrays
from .builder import PairDraft
from .pair import Matrix, Size
from .problems import PairProblems, first_names

SCANNET_SIZE = (640, 480)
"""Size (width, height) of the images to which K in the ScanNet index refers."""
_KEYS = ("image_paths", "intrinsics", "poses", "pair_infos")


def scannet_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the ScanNet pairs of `test.npz` and `intrinsics.npz`. None if the files are missing.

    `test.npz` has `name` (n, 4) and `rel_pose` (n, 12). A row of `name` has scene, scan and two frame
    numbers; an image is `sceneNNNN_MM/color/FRAME.jpg`. K refers to 640 x 480 pixels and is scaled for images
    of another size.
    """
    files = [root] if root.is_file() else [*root.glob("test.npz"), *sorted(root.glob("*_test.npz"))]
    file = next((f for f in files if f.suffix == ".npz" and "test" in f.name and not is_pickle(f)), None)
    if file is None:
        return None
    beside = file.with_name(file.name.replace("test", "intrinsics"))
    if not beside.is_file():
        raise FormatError(beside, f"is missing; add this file with the camera matrices K for {file.name}")
    index, cameras = read_npz(file), read_npz(beside)
    lacking = [key for key in ("name", "rel_pose") if key not in index]
    if lacking:
        raise FormatError(
            file,
            f"lacks {', '.join(lacking)}, found {first_names(sorted(index), 8)}; pass the index of LoFTR",
        )
    names, poses = index["name"], index["rel_pose"]
    if names.ndim != 2 or names.shape[1] != 4 or poses.shape != (len(names), 12):
        raise FormatError(
            file, f"expected shapes name (n, 4) and rel_pose (n, 12), found {names.shape} and {poses.shape}"
        )
    if names.dtype.kind not in "iu" or (names < 0).any():
        raise FormatError(
            file, f"name has type {names.dtype}, expected the non-negative integers scene, scan, frame, frame"
        )
    drafts = []
    for i, ((scene, scan, *frames), pose) in enumerate(zip(names.tolist(), poses, strict=True)):
        where, folder = f"row {i}", f"scene{scene:04d}_{scan:02d}"
        if folder not in cameras:
            findings.problems.append(f"{where}: {beside.name} has no camera matrix K for {folder}; add it")
            continue
        images = (f"{folder}/color/{frames[0]}.jpg", f"{folder}/color/{frames[1]}.jpg")
        sizes = [_known_size(findings.image(image)) for image in images]
        K = [_scaled(cameras[folder], size) for size in sizes]
        drafts.append(
            PairDraft(
                where,
                images,
                name=f"{folder}/{frames[0]}--{frames[1]}",
                dataset="scannet",
                assumed=(SCANNET_SIZE, SCANNET_SIZE),
                K=(K[0], K[1]),
                T=pose,
            )
        )
    return drafts


def _known_size(path: Path) -> Size:
    """Return the size of an image from its header, or `SCANNET_SIZE` if it is missing or unreadable."""
    try:
        return read_size(path) if path.is_file() else SCANNET_SIZE
    except FormatError:
        return SCANNET_SIZE


def _scaled(K: Any, size: Size) -> Any:
    if size == SCANNET_SIZE or np.shape(K) != (3, 3) or K.dtype.kind not in "iuf":
        return K
    return K * np.array([[size[0] / SCANNET_SIZE[0]], [size[1] / SCANNET_SIZE[1]], [1.0]])


def megadepth_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the MegaDepth pairs of a pickled index, or of all indices in a folder. None without an index.

    An index is a dict with `image_paths`, `intrinsics`, `poses` (world to camera; None for unused images) and
    `pair_infos`, a list of ([i, j], overlap, central match). T_0to1 = T_j T_i^-1. K puts the centre of the
    first pixel at (.5, .5). The size of a missing image is twice its principal point, which is the image
    centre.
    """
    files = [root] if root.is_file() else sorted(root.glob("*.npz"))
    files = [f for f in files if f.suffix == ".npz" and is_pickle(f)]
    drafts = []
    for file in files:
        index = read_arrays(file)
        lacking = [key for key in _KEYS if key not in index] if isinstance(index, dict) else list(_KEYS)
        if lacking:
            raise FormatError(file, f"lacks {', '.join(lacking)}; pass an index of image pairs")
        for key in _KEYS:
            if not isinstance(index[key], list | tuple | np.ndarray) or getattr(index[key], "ndim", 1) == 0:
                raise FormatError(file, f"{key} is {type(index[key]).__name__}, expected a list")
        for row, info in enumerate(index["pair_infos"]):
            where = f"{file.name}, pair {row}"
            try:
                i, j = (operator.index(v) for v in info[0])
                pair = _indexed(index, i, j, where)
                pair.facts = {"overlap": _share(info[1])}
            except (IndexError, TypeError, ValueError, KeyError, np.linalg.LinAlgError) as e:
                findings.problems.append(f"{where} is invalid ({type(e).__name__}: {e})")
                continue
            drafts.append(pair)
    return drafts if files else None


def _indexed(index: dict[str, Any], i: int, j: int, where: str) -> PairDraft:
    for key in ("image_paths", "intrinsics", "poses"):
        for at in (i, j):
            if not 0 <= at < len(index[key]):
                raise ValueError(f"there is no {key}[{at}]")
            if index[key][at] is None:
                raise ValueError(f"{key}[{at}] is None")
            if key == "image_paths" and not isinstance(index[key][at], str):
                raise ValueError(f"{key}[{at}] is not text")
    poses = [_square(index["poses"][at], 4) for at in (i, j)]
    K = [_square(index["intrinsics"][at], 3) for at in (i, j)]
    sizes = [_centred_size(k) for k in K]
    return PairDraft(
        where,
        (str(index["image_paths"][i]), str(index["image_paths"][j])),
        dataset="megadepth",
        assumed=(sizes[0], sizes[1]),
        K=(K[0], K[1]),
        T=relative(poses[0], poses[1]),
        centre=0.5,
    )


def _square(value: Any, side: int) -> Matrix:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"found {array.dtype}, expected numbers")
    return array.astype(np.float64).reshape(side, side)


def _share(value: Any) -> float:
    share = float(value)
    if not math.isfinite(share):
        raise ValueError("the overlap is not finite; correct it")
    return share


def _centred_size(K: Matrix) -> Size | None:
    size = 2 * K[:2, 2]
    whole = bool((size == np.rint(size)).all() and (size > 0).all())
    return (int(size[0]), int(size[1])) if whole else None


def relative(T0: Matrix, T1: Matrix) -> Matrix:
    """Return T_0to1 = T1 T0^-1 of two world-to-camera poses (4, 4).

    >>> relative(np.eye(4), np.diag([1.0, -1, -1, 1])).diagonal().tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    return np.asarray(T1 @ np.linalg.inv(T0), np.float64)
