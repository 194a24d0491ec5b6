# SPDX-License-Identifier: BSD-3-Clause
"""Read the MMIM dataset: MATLAB files with two images, their homography and landmarks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...formats.mat5 import Mat5Variable, read_mat5
from .builder import PairDraft
from .pair import MAX_MAT_BYTES, Matrix, Size
from .problems import PairProblems

FOLDER = "Multimodal_Image_Matching_Datasets"
"""Folder with the pairs in the published repository. The dataset is recognised by this name."""
IMAGES = ("I_move", "I_fix")
"""Variables with images 0 and 1. The published transform maps the moving image to the fixed one."""
_SLICES = re.compile(r"Medical/(?:PD_T1|PD_T2|T1_T2)/[a-z0-9_]*_(\d+)")


def multimodal_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the pairs `MODALITY/CATEGORY/NAME.mat` of MMIM. None for other folders.

    `root` is the repository, its folder of datasets, or a folder below that. The properties of a pair are
    `modality` (Medical, RemoteSensing, ComputerVision) and `category` (`Medical/PD_T1`). Every pair is a
    scene of its own, with one exception: PD_T1, PD_T2 and T1_T2 show the same brain slices, and all pairs of
    a slice number are one scene.
    """
    base = root / FOLDER
    if not base.is_dir():
        base = next((p for p in (root.absolute(), *root.absolute().parents) if p.name == FOLDER), base)
        if not base.is_dir():
            return None
    files = sorted((base if base.is_relative_to(root.absolute()) else root).rglob("*.mat"))
    drafts = []
    for file in files:
        name = file.absolute().relative_to(base.absolute()).with_suffix("").as_posix()
        try:
            drafts.append(_draft(file.absolute(), name))
        except FormatError as e:
            findings.problems.append(str(e))
    if not files:
        findings.problems.append(f"{base}: contains no .mat file; clone the published repository")
    return drafts


def _draft(file: Path, name: str) -> PairDraft:
    found = read_mat5(file, most=MAX_MAT_BYTES)
    lacking = [key for key in (*IMAGES, "T", "Landmarks") if key not in found]
    if lacking:
        raise FormatError(file, f"lacks {', '.join(lacking)}; expected a pair of MMIM")
    sizes = [_size(file, found[member]) for member in IMAGES]
    T = found["T"].array()
    if T.shape != (3, 3) or not np.isfinite(T).all():
        raise FormatError(file, f"T must be a finite matrix (3, 3), found shape {T.shape}")
    landmarks = found["Landmarks"].fields()
    points = [landmarks.get(key, np.empty(0)).astype(np.float64) for key in ("LMmov", "LMfix")]
    shapes = {p.shape for p in points}
    if len(shapes) > 1 or points[0].ndim != 2 or points[0].shape[1] != 2 or not len(points[0]):
        raise FormatError(
            file, f"LMfix and LMmov must both have shape (n, 2), found {points[1].shape}, {points[0].shape}"
        )
    H = homography_of(T.astype(np.float64))
    if not np.isfinite(H).all():
        raise FormatError(
            file,
            "the last element of T is 0 after conversion to pixels from 0, so H cannot be "
            "normalised; correct T",
        )
    parts = name.split("/")
    category = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    number = _SLICES.fullmatch(name)
    return PairDraft(
        name,
        (str(file), str(file)),
        name=name,
        scene=f"Medical/PD_T1_T2/{number[1]}" if number else name,
        dataset="mmim",
        sizes=(sizes[0], sizes[1]),
        truth={"H": H, "landmarks": np.hstack(points) - 1},
        facts={"modality": parts[0], "category": category},
        members=IMAGES,
    )


def _size(file: Path, image: Mat5Variable) -> Size:
    if image.type_name != "u1" or len(image.shape) != 3 or image.shape[2] != 3 or 0 in image.shape:
        shape = " x ".join(map(str, image.shape))
        raise FormatError(file, f"{image.name} must be an image uint8 (h, w, 3), found {shape}")
    return image.shape[1], image.shape[0]


def homography_of(T: Matrix) -> Matrix:
    """Convert a MATLAB transform to a homography with H33 = 1.

    MATLAB multiplies row vectors, [x y 1] T, and its first pixel is (1, 1). In the result it is (0, 0).

    >>> homography_of(np.array([[2.0, 0, 0], [0, 2, 0], [0, 0, 1]])).tolist()  # (1, 1) goes to (2, 2)
    [[2.0, 0.0, 1.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]]
    """
    S = np.array([[1.0, 0, -1], [0, 1, -1], [0, 0, 1]])
    H = S @ T.T @ np.array([[1.0, 0, 1], [0, 1, 1], [0, 0, 1]])
    with np.errstate(all="ignore"):
        return np.asarray(H / H[2, 2], np.float64)
