# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of two images of one class: SPair-71k as published, and as one JSON list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.errors import FormatError, InputError
from ...core.regular_files import is_file
from ...formats.json_yaml import read_json
from .builder import PairDraft
from .pair import Size
from .problems import PairProblems

SPLITS = ("trn", "val", "test")
FACTS = ("category", "viewpoint_variation", "scale_variation", "truncation", "occlusion", "mirror")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NEEDED = ("src_kps", "trg_kps", "src_bndbox", "trg_bndbox", "category")


def spair_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Pairs of `PairAnnotation/SPLIT/*.json` with images in `JPEGImages/CLASS`; None for other folders.

    Of the root folder the split `test` is read; the folder of another split can be given itself. The name of
    a pair is the stem of its file, e.g. `000001-2007_000123-2008_000456:cat`.
    """
    split = root if root.parent.name == "PairAnnotation" else root / "PairAnnotation" / "test"
    if not (root / "PairAnnotation").is_dir() and split != root:
        return None
    if not split.is_dir():
        raise InputError(f"{split} does not exist; give the folder of another split of {root}")
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
            findings.problems.append(f"{file.name} lacks {', '.join(lacking)}")
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
        findings.problems.append(f"{file.name}: expected NUMBER-SOURCE-TARGET:CLASS.json as its name")
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
    """Numbers of all keypoints that an image has; None without its own annotation."""
    if not is_file(file):
        return None
    try:
        found = read_json(file)
    except FormatError as e:
        findings.problems.append(str(e))
        return None
    keypoints = found.get("kps") if isinstance(found, dict) else None
    if not isinstance(keypoints, dict) or not all(_NUMBER.fullmatch(number) for number in keypoints):
        findings.problems.append(f"{file.name}: expected `kps` with a number and [x, y] or null each")
        return None
    return sorted(int(number) for number, place in keypoints.items() if place is not None)


def _size(value: Any, where: str, findings: PairProblems) -> Size | None:
    """(width, height) of [width, height] or [width, height, channels]; None where nothing is stated."""
    if value is None:
        return None
    return findings.integer_size(value[:2] if isinstance(value, list) else value, where)


def is_listed(value: Any) -> bool:
    """Whether a JSON value is a list of annotations with `source_path` and `source_points`."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and {"source_path", "target_path", "source_points"} <= set(first)


def listed_drafts(value: Any, findings: PairProblems) -> list[PairDraft]:
    """Pairs of a list with `source_path`, `source_points`, `source_bounding_box`, the same of the target."""
    drafts = []
    for i, entry in enumerate(value, start=1):
        where = f"entry {i}"
        if not isinstance(entry, dict) or not {"source_path", "target_path"} <= set(entry):
            findings.problems.append(f"{where} lacks `source_path` or `target_path`")
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
