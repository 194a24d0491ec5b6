# SPDX-License-Identifier: BSD-3-Clause
"""Read semantic keypoint pairs: SPair-71k, JSON lists, PF-PASCAL and PF-WILLOW."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.regular_files import is_file
from ...formats.csv_table import csv_rows
from ...formats.file_io import read_lines
from ...formats.image.reader import SUFFIXES
from ...formats.json_yaml import read_json
from ...formats.keypoints.pf_willow import read_mat5_matrix, read_pf_keypoints
from .builder import PairDraft
from .pair import Size
from .problems import PairProblems

SPLITS = ("trn", "val", "test")
FACTS = ("category", "viewpoint_variation", "scale_variation", "truncation", "occlusion", "mirror")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NEEDED = ("src_kps", "trg_kps", "src_bndbox", "trg_bndbox", "category")


def spair_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the pairs of SPair-71k: `PairAnnotation/SPLIT/*.json` and `JPEGImages/CLASS`.

    Return None for other folders. The root folder stands for the split `test`. To read another split, pass
    its folder. The name of a pair is the stem of its file, such as `000001-2007_000123-2008_000456:cat`.
    """
    split = root if root.parent.name == "PairAnnotation" else root / "PairAnnotation" / "test"
    if not (root / "PairAnnotation").is_dir() and split != root:
        return None
    if not split.is_dir():
        raise InputError(f"{split} does not exist; pass the folder of an existing split of {root}")
    base = split.parent.parent
    findings.folders = (base / "JPEGImages", *findings.folders)
    drafts: list[PairDraft] = []
    seen: dict[Path, list[int] | None] = {}
    for file in sorted(split.glob("*.json")):
        try:
            entry = read_json(file)
        except FormatError as e:
            findings.problems.append(str(e))
            continue
        lacking = [key for key in _NEEDED if key not in entry] if isinstance(entry, dict) else list(_NEEDED)
        if lacking:
            findings.problems.append(f"{file.name} lacks {', '.join(lacking)}; add them")
            continue
        drafts.append(_published(file, entry, split.name, seen, findings))
    return drafts


def _published(
    file: Path,
    entry: Mapping[str, Any],
    split: str,
    seen: dict[Path, list[int] | None],
    findings: PairProblems,
) -> PairDraft:
    category = str(entry["category"])
    stems = file.stem.partition(":")[0].split("-")
    names = [entry.get("src_imname"), entry.get("trg_imname")]
    if None in names and len(stems) == 3:
        names = [f"{stem}.jpg" for stem in stems[1:]]
    elif None in names:
        findings.problems.append(f"{file.name}: the file must be named NUMBER-SOURCE-TARGET:CLASS.json")
    truth = {"points0": entry["src_kps"], "points1": entry["trg_kps"]}
    truth |= {"box0": entry["src_bndbox"], "box1": entry["trg_bndbox"]}
    if "kps_ids" in entry:
        truth["ids"] = entry["kps_ids"]
        for side, name in enumerate(names):
            own = file.parents[2] / "ImageAnnotation" / category / f"{Path(name or '').stem}.json"
            if own not in seen:
                seen[own] = _visible(own, findings)
            if seen[own] is not None:
                truth[f"visible{side}"] = seen[own]
    sizes = [_size(entry.get(key), f"{file.name}, {key}", findings) for key in ("src_imsize", "trg_imsize")]
    return PairDraft(
        file.name,
        (f"{category}/{names[0]}", f"{category}/{names[1]}"),
        name=file.stem,
        dataset="spair",
        sizes=(sizes[0], sizes[1]),
        truth=truth,
        facts={**{key: entry[key] for key in FACTS if key in entry}, "split": split},
    )


def _visible(file: Path, findings: PairProblems) -> list[int] | None:
    """Return the ids of all visible keypoints of an image. None if the annotation is missing or invalid."""
    if not is_file(file):
        return None
    try:
        found = read_json(file)
    except FormatError as e:
        findings.problems.append(str(e))
        return None
    keypoints = found.get("kps") if isinstance(found, dict) else None
    if not isinstance(keypoints, dict) or not all(_NUMBER.fullmatch(number) for number in keypoints):
        findings.problems.append(f"{file.name}: `kps` must map keypoint numbers to [x, y] or null")
        return None
    return sorted(int(number) for number, place in keypoints.items() if place is not None)


def _size(value: Any, where: str, findings: PairProblems) -> Size | None:
    """Return (width, height) from [width, height] or [width, height, channels]. None if not stated."""
    if value is None:
        return None
    return findings.integer_size(value[:2] if isinstance(value, list) else value, where)


def is_listed(value: Any) -> bool:
    """Return whether a JSON value is a list of annotations with `source_path` and `source_points`."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and {"source_path", "target_path", "source_points"} <= set(first)


def listed_drafts(value: Any, findings: PairProblems) -> list[PairDraft]:
    """Read a JSON list with `source_path`, `source_points` and `source_bounding_box` for each pair.

    Keys with `target_` in place of `source_` describe the target image.
    """
    drafts = []
    for i, entry in enumerate(value, start=1):
        where = f"entry {i}"
        if not isinstance(entry, dict) or not {"source_path", "target_path"} <= set(entry):
            findings.problems.append(f"{where} has no `source_path` or no `target_path`; add both")
            continue
        keys = {"points0": "source_points", "points1": "target_points"}
        keys |= {"box0": "source_bounding_box", "box1": "target_bounding_box", "ids": "ids"}
        sizes = [_size(entry.get(k), f"{where}, {k}", findings) for k in ("source_size", "target_size")]
        drafts.append(
            PairDraft(
                where,
                (str(entry["source_path"]), str(entry["target_path"])),
                dataset="spair",
                sizes=(sizes[0], sizes[1]),
                truth={ours: entry[theirs] for ours, theirs in keys.items() if theirs in entry},
                facts={key: entry[key] for key in FACTS if key in entry},
            )
        )
    return drafts


CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""Classes of PASCAL VOC. Pair lists number them from 1."""
NUMBERED = {str(i): name for i, name in enumerate(CLASSES, start=1)}
_WILLOW_POINTS = 10
Points = NDArray[np.float64]


def list_drafts(file: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read a CSV pair list of PF-PASCAL or PF-WILLOW. Return None for other tables.

    PF-PASCAL has source, target and class number in each row, PF-WILLOW two names and 40 numbers. Folders of
    the authors' machine are removed from image names.
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
        findings.problems.append(f"{where}: mirrored pairs are for training only; remove the pair")
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
    """Read the keypoints (n, 2) of a PF-PASCAL image. Invisible keypoints are NaN."""
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
        findings.problems.append(f"{where} has {len(names)} fields; expected two image names, then numbers")
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
    """Return every ordered image pair within each PF-WILLOW class. None if there are no `.mat` files."""
    classes = sorted({p.parent for p in root.glob("*/*.mat")})
    drafts = []
    for folder in classes:
        points = {}
        for file in sorted(folder.glob("*.mat")):
            image = next((file.with_suffix(s) for s in SUFFIXES if file.with_suffix(s).is_file()), None)
            if image is None:
                findings.problems.append(f"{file}: the image of the same name is missing; add it")
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
    """Return the keypoints that both images of a pair have. Their ids are the row numbers in the files.

    Negative or NaN coordinates mean that a keypoint is missing.
    """
    if a is None or b is None:
        return {"points0": np.zeros((0, 2)), "points1": np.zeros((0, 2))}  # already reported as a problem
    if len(a) != len(b):
        findings.problems.append(
            f"{where}: the images have {len(a)} and {len(b)} keypoints; expected equal numbers"
        )
        return {"points0": np.zeros((0, 2)), "points1": np.zeros((0, 2))}
    with np.errstate(invalid="ignore"):
        both = np.isfinite(a).all(1) & np.isfinite(b).all(1) & (a >= 0).all(1) & (b >= 0).all(1)
    ids = np.flatnonzero(both).astype(np.float64)
    return {"points0": a[both], "points1": b[both], "ids": ids}
