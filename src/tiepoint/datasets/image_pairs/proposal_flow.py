# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of PF-PASCAL (a list of pairs, a .mat an image) and PF-WILLOW (class folders, or a list)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...formats.csv_table import csv_rows
from ...formats.file_io import read_lines
from ...formats.image.reader import SUFFIXES
from ...formats.keypoints.pf_willow import read_mat5_matrix, read_pf_keypoints
from .builder import PairDraft
from .problems import PairProblems

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""The classes of PASCAL VOC; the lists of pairs number them from 1."""
NUMBERED = {str(i): name for i, name in enumerate(CLASSES, start=1)}
_WILLOW_POINTS = 10
Points = NDArray[np.float64]


def list_drafts(file: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Pairs of a CSV list: PF-PASCAL (source, target, class number) or PF-WILLOW (names and 40 numbers).

    None for a table of another kind. Names of images are taken without the folders of the authors' machine.
    """
    rows = list(csv_rows(read_lines(file), file))
    head = [name.strip().lower() for name in rows[0]] if rows else []
    if head[:2] == ["imagea", "imageb"]:
        return [_willow_row(row, f"line {i}", findings) for i, row in enumerate(rows[1:], start=2) if row]
    if head[:3] != ["source_image", "target_image", "class"]:
        return None
    base = next(
        (b for b in (file.parent, *file.parent.glob("PF-dataset-PASCAL")) if (b / "Annotations").is_dir()),
        file.parent,
    )
    findings.folders = (base / "JPEGImages", *findings.folders)
    keypoints: dict[tuple[str, str], Points | None] = {}
    drafts = []
    for i, row in enumerate(rows[1:], start=2):
        if row:
            fields = dict(zip(head, (word.strip() for word in row), strict=False))
            drafts.append(_pascal_row(fields, f"line {i}", base, keypoints, findings))
    return drafts


def _pascal_row(
    row: Mapping[str, str],
    where: str,
    base: Path,
    cache: dict[tuple[str, str], Points | None],
    findings: PairProblems,
) -> PairDraft:
    names = [row.get(key, "").rpartition("/")[2] for key in ("source_image", "target_image")]
    number = row.get("class", "")
    category = NUMBERED.get(number, number)
    if row.get("flip", "0") not in ("0", "0.0", ""):
        findings.problems.append(f"{where}: a mirrored pair is for training only; remove it from the list")
    points: list[Points | None] = []
    for name in names:
        key = (category, Path(name).stem)
        if key not in cache:
            cache[key] = _pascal_keypoints(base / "Annotations" / category / f"{key[1]}.mat", findings)
        points.append(cache[key])
    truth = _common(points[0], points[1], where, findings)
    facts = {"category": category}
    two = (names[0], names[1])
    return PairDraft(where, two, scene=None, dataset="pf-pascal", truth=truth, facts=facts)


def _pascal_keypoints(path: Path, findings: PairProblems) -> Points | None:
    """Keypoints (n, 2) of an image, NaN where not visible."""
    try:
        values = read_mat5_matrix(path, "kps")
        if values.ndim != 2 or values.shape[1] != 2:
            raise FormatError(path, f"'kps' must have shape (n, 2), found {values.shape}")
        return values
    except FormatError as e:
        findings.problems.append(str(e))
        return None


def _willow_row(row: list[str], where: str, findings: PairProblems) -> PairDraft:
    names = ["/".join(word.strip().replace("\\", "/").split("/")[-2:]) for word in row[:2]]
    if len(names) < 2:
        findings.problems.append(f"{where} has {len(names)} fields; expected two names and numbers")
        names = [*names, "", ""]
    try:
        numbers = np.array([float(word) for word in row[2:]])
    except ValueError as e:
        findings.problems.append(f"{where}: {e}")
        numbers = np.zeros(0)
    truth: dict[str, Any] = {}
    if numbers.size == 4 * _WILLOW_POINTS:
        xa, ya, xb, yb = numbers.reshape(4, _WILLOW_POINTS)
        truth = _common(np.stack([xa, ya], 1), np.stack([xb, yb], 1), where, findings)
    else:
        findings.problems.append(f"{where} has {numbers.size} numbers; expected {4 * _WILLOW_POINTS}")
    facts = {"category": names[0].partition("/")[0]}
    return PairDraft(where, (names[0], names[1]), dataset="pf-willow", truth=truth, facts=facts)


def willow_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Every ordered pair of a class folder whose images have a `.mat` beside them; None without one."""
    classes = sorted({p.parent for p in root.glob("*/*.mat")})
    drafts = []
    for folder in classes:
        points = {}
        for file in sorted(folder.glob("*.mat")):
            image = next((file.with_suffix(s) for s in SUFFIXES if file.with_suffix(s).is_file()), None)
            if image is None:
                findings.problems.append(f"{file} has no image beside it")
                continue
            try:
                points[f"{folder.name}/{image.name}"] = read_pf_keypoints(file)
            except FormatError as e:
                findings.problems.append(str(e))
        for a, b in permutations(points, 2):
            where = f"{a} to {Path(b).name}"
            truth = _common(points[a], points[b], where, findings)
            facts = {"category": folder.name}
            drafts.append(
                PairDraft(where, (a, b), scene=folder.name, dataset="pf-willow", truth=truth, facts=facts)
            )
    return drafts if classes else None


def _common(a: Points | None, b: Points | None, where: str, findings: PairProblems) -> dict[str, Any]:
    """Points that both images have, with their row numbers as ids; negative or NaN is a point not there."""
    if a is None or b is None:
        return {"points0": np.zeros((0, 2)), "points1": np.zeros((0, 2))}  # its problem is noted already
    if len(a) != len(b):
        findings.problems.append(f"{where}: {len(a)} keypoints and {len(b)}; row i of both is one keypoint")
        return {"points0": np.zeros((0, 2)), "points1": np.zeros((0, 2))}
    with np.errstate(invalid="ignore"):
        both = np.isfinite(a).all(1) & np.isfinite(b).all(1) & (a >= 0).all(1) & (b >= 0).all(1)
    ids = np.flatnonzero(both).astype(np.float64)
    return {"points0": a[both], "points1": b[both], "ids": ids}
