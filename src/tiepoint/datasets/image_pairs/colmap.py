# SPDX-License-Identifier: BSD-3-Clause
"""A COLMAP model as text: pairs of its images by a list, or by the points they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

from ...core.amounts import count_text
from ...core.errors import FormatError
from ...core.hashing import hash_json
from ...formats.file_io import read_lines
from .builder import PairDraft
from .cameras import camera_matrix, rotation
from .pair import Matrix, Size
from .posed import PAIRS, PosedImage, pair_views, posed_matrix, read_pair_list
from .problems import PairProblems
from .text_lists import floats

SHARED = 30
"""Least number of points that both images of a pair see."""
OVERLAP = 0.1
"""Least share of the points of the image that sees fewer."""
MAX_PAIRS = 5000
"""At most this many pairs are taken from a model without a list."""
_POINT = re.compile(r"-?[0-9]{1,19}")
_PLACES = ("", "sparse", "sparse/0", "dense/sparse")


def model_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Pairs of `cameras.txt` and `images.txt`, in the folder or its `sparse`; None where they are not.

    With `pairs.txt` (two names a line) beside the model or in the folder, its pairs; else every two images
    that share at least 30 points and a tenth of the points of the one that sees fewer, with facts
    `shared_points` and `overlap`. Images are looked for in `images` of the folder, of the model and above
    it. COLMAP puts the centre of the first pixel at (.5, .5); poses are world to camera. One model is one
    scene. Distorted cameras are problems: their images must be undistorted first.
    """
    base = next((root / p for p in _PLACES if (root / p / "images.txt").is_file()), None)
    if base is None or not (base / "cameras.txt").is_file():
        binary = next((root / p for p in _PLACES if (root / p / "images.bin").is_file()), None)
        if binary is not None:
            raise FormatError(
                binary, "is a binary model; write it as text (colmap model_converter --output_type TXT)"
            )
        return None
    above = (root, base, base.parent, base.parent.parent)
    findings.folders = tuple(dict.fromkeys((*findings.folders, *(p / "images" for p in above))))
    cameras = _cameras(base / "cameras.txt", findings)
    views = {view.name: view for view in _views(base / "images.txt", cameras, findings)}
    scene = root.absolute().name
    listed = next((p / PAIRS for p in (root, base) if (p / PAIRS).is_file()), None)
    if listed is not None:
        return pair_views(read_pair_list(listed, findings), views, findings, scene=scene)
    shared = _shared(views)
    if not shared and not findings.problems:
        findings.problems.append(
            f"no two of {count_text(len(views), 'image')} share {SHARED} points, {OVERLAP:g} of all; "
            f"name pairs in {PAIRS}"
        )
    names = list(shared)
    if len(names) > MAX_PAIRS:
        findings.warnings.append(
            f"{MAX_PAIRS} of {len(names)} pairs that share points are taken, drawn by their names"
        )
        names = sorted(sorted(names, key=hash_json)[:MAX_PAIRS])
    pairs = [(f"{a} and {b}", a, b) for a, b in names]
    return pair_views(pairs, views, findings, scene=scene, facts=shared)


def _cameras(path: Path, findings: PairProblems) -> dict[str, tuple[Matrix | None, Size | None]]:
    """K and size by the number of the camera."""
    cameras: dict[str, tuple[Matrix | None, Size | None]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields, where = line.split(), f"{path.name}, line {number}"
        if not fields or line.startswith("#"):
            continue
        values = floats(fields[2:], where, findings) if len(fields) > 4 else []
        if not values:
            if values is not None:
                findings.problems.append(f"{where}: expected number, MODEL, width, height, parameters")
            continue
        if fields[0] in cameras:
            findings.problems.append(f"{where}: camera {fields[0]} is there twice")
        K = camera_matrix(fields[1], values[2:], f"{where} (camera {fields[0]})", findings)
        cameras[fields[0]] = (K, findings.integer_size(values[:2], where))
    return cameras


def _views(
    path: Path, cameras: Mapping[str, tuple[Matrix | None, Size | None]], findings: PairProblems
) -> Iterator[PosedImage]:
    """Images: a line with number, quaternion, t, camera, name; then a line of x, y, point (may be empty)."""
    lines = [(n, line) for n, line in enumerate(read_lines(path), start=1) if not line.startswith("#")]
    while lines and not lines[0][1]:
        del lines[0]
    names: set[str] = set()
    for (number, head), (_, tail) in zip(lines[::2], [*lines[1::2], (0, "")], strict=False):
        fields, where = head.split(maxsplit=9), f"{path.name}, line {number}"
        values = floats(fields[1:8], where, findings) if len(fields) == 10 else []
        if not values:
            if values is not None:
                findings.problems.append(
                    f"{where}: expected number, quaternion, t, camera and name of an image"
                )
            continue
        name = fields[9]
        if name in names:
            findings.problems.append(f"{where}: the name {name} is there twice")
        names.add(name)
        if fields[8] not in cameras:
            findings.problems.append(f"{where}: camera {fields[8]} is not in cameras.txt")
            continue
        R = rotation(values[:4], where, findings)
        K, size = cameras[fields[8]]
        points = frozenset(int(word) for word in tail.split()[2::3] if _POINT.fullmatch(word))
        pose = None if R is None else posed_matrix(R.ravel().tolist(), values[4:7])
        yield PosedImage(name, K, size, pose, points - {-1})


def _shared(views: Mapping[str, PosedImage]) -> dict[tuple[str, str], dict[str, float]]:
    """Pairs of names in order, with the number and share of their common points."""
    seen: dict[int, list[str]] = {}
    for name in sorted(views):
        for point in views[name].points:
            seen.setdefault(point, []).append(name)
    common = Counter(two for names in seen.values() for two in combinations(names, 2))
    found = {}
    for (a, b), count in sorted(common.items()):
        overlap = count / min(len(views[a].points), len(views[b].points))
        if count >= SHARED and overlap >= OVERLAP:
            found[a, b] = {"shared_points": count, "overlap": overlap}
    return found
