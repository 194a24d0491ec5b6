# SPDX-License-Identifier: BSD-3-Clause
"""Read SatAst: astronaut photographs and satellite images with clicked points, one JSON file per pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...core.formatting import count_text
from ...core.regular_files import is_file
from ...formats.json_yaml import read_json
from .builder import PairDraft
from .problems import PairProblems, first_names

_KEYS = {"query_path", "pred_path", "correspondences"}


def satellite_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read files `*.json` with `query_path`, `pred_path` and `correspondences`. None for other data.

    The last element of `correspondences` has `pts_src` (n, 2) in pixels of the query, which is image 0, and
    `pts_dst` (n, 2) in pixels of the satellite image. Pairs without points are skipped. Image paths may begin
    with folders of the authors' machine. Pairs with the same query are one scene.
    """
    files = [root] if root.is_file() else sorted([*root.glob("*.json"), *root.glob("*/*.json")])
    if not files or files[0].suffix != ".json" or not _is_pair(_content(files[0])):
        return None
    base = root if root.is_dir() else root.parent
    findings.folders = (*findings.folders, base.parent) if root.is_file() else findings.folders
    drafts, empty = [], []
    for file in files:
        try:
            value = read_json(file)
        except FormatError as e:
            findings.problems.append(str(e))
            continue
        name = file.relative_to(base).with_suffix("").as_posix()
        if not _is_pair(value):
            findings.problems.append(f"{file.name}: expected an object with {', '.join(sorted(_KEYS))}")
            continue
        points = _points(value["correspondences"])
        if points is None:
            empty.append(name)
            continue
        images = [_image(str(value[key]), findings) for key in ("query_path", "pred_path")]
        drafts.append(
            PairDraft(
                name,
                (images[0], images[1]),
                name=name,
                scene=images[0],
                dataset="satast",
                truth={"points0": points[0], "points1": points[1]},
            )
        )
    if empty:
        pairs = count_text(len(empty), "pair without points is", "pairs without points are")
        findings.warnings.append(f"{pairs} skipped: {first_names(empty)}")
    return drafts


def _content(file: Path) -> Any:
    try:
        return read_json(file)
    except FormatError:
        return None  # a reader of another layout reports it


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and set(value) >= _KEYS and isinstance(value["correspondences"], list)


def _points(rounds: list[Any]) -> tuple[Any, Any] | None:
    """Return the points of the last round of annotation. None if there are none."""
    last = rounds[-1] if rounds and isinstance(rounds[-1], dict) else {}
    points = last.get("pts_src"), last.get("pts_dst")
    return None if any(p is None or np.size(p) == 0 for p in points) else (points[0], points[1])


def _image(path: str, findings: PairProblems) -> str:
    """Return an image path without the leading folders of the authors' machine."""
    parts = path.replace("\\", "/").split("/")
    names = ["/".join(parts[i:]) for i in range(len(parts))]
    return next((name for name in names if is_file(findings.image(name))), names[0])
