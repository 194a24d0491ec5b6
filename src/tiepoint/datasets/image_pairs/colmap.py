# SPDX-License-Identifier: BSD-3-Clause
"""Read image pairs from COLMAP models or from lists of images with poses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...core.formatting import count_text
from ...core.hashing import hash_json
from ...formats.colmap.model import is_model, read_model
from ...formats.colmap.tables import PARAMETERS
from ...formats.file_io import read_lines
from ...geometry.quaternions import rotations_of
from ..reconstructions.colmap import colmap_poses
from .builder import PairDraft
from .loftr import relative
from .pair import Matrix, Size
from .problems import PairProblems
from .text_lists import floats

PINHOLES = ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV")
"""Camera models that equal a pinhole camera if their distortion parameters are 0."""


def camera_matrix(model: str, values: Sequence[float], where: str, findings: PairProblems) -> Matrix | None:
    """Return the matrix K of a camera. Report a problem and return None if the camera is not supported.

    Cameras with distortion are not supported, because matches in distorted images do not obey K and T.

    >>> from pathlib import Path
    >>> camera_matrix("SIMPLE_PINHOLE", [500, 320, 240], "camera 1", PairProblems(Path()))[:2].tolist()
    [[500.0, 0.0, 320.0], [0.0, 500.0, 240.0]]
    """
    names = PARAMETERS[model] if model in PINHOLES else None
    if names is None:
        why = "is always distorted" if model in PARAMETERS else "is not known"
        findings.problems.append(
            f"{where}: the model {model} {why}; undistort the images to PINHOLE (colmap image_undistorter)"
        )
        return None
    if len(values) != len(names):
        findings.problems.append(
            f"{where}: {model} has {len(names)} parameters ({', '.join(names)}), found {len(values)}"
        )
        return None
    given = dict(zip(names, values, strict=True))
    bent = [n for n in names if n[0] in "kp" and given[n] != 0]
    if bent:
        findings.problems.append(
            f"{where}: {model} is distorted ({', '.join(f'{n} = {given[n]:g}' for n in bent)}); "
            "undistort the images to PINHOLE (colmap image_undistorter)"
        )
        return None
    fx, fy = given.get("fx", given.get("f", 0.0)), given.get("fy", given.get("f", 0.0))
    return np.array([[fx, 0, given["cx"]], [0, fy, given["cy"]], [0, 0, 1]], np.float64)


PAIRS = "pairs.txt"


@dataclass
class PosedImage:
    """Image of a list or model, with its camera and its world-to-camera pose."""

    name: str
    K: Matrix | None
    size: Size | None
    pose: Matrix | None
    points: frozenset[int] = field(default_factory=frozenset)


def view_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the pairs of `views.txt` and `pairs.txt`. Return None if views.txt is missing.

    A line of `views.txt` has name, R (9 numbers), t (3 numbers), MODEL, width, height and camera parameters.
    Poses are world to camera. The centre of the first pixel is (.5, .5). A line of `pairs.txt` has two names.
    """
    file = root if root.name == "views.txt" else root / "views.txt"
    if not file.is_file():
        return None
    views: dict[str, PosedImage] = {}
    for number, line in enumerate(read_lines(file), start=1):
        fields, where = line.split(), f"{file.name}, line {number}"
        if not fields or line.startswith("#"):
            continue
        if len(fields) < 17:
            findings.problems.append(
                f"{where} has {len(fields)} fields; "
                "expected name, R (9), t (3), MODEL, width, height, parameters"
            )
            continue
        values = floats([*fields[1:13], *fields[14:]], where, findings)
        if values is None:
            continue
        if fields[0] in views:
            findings.problems.append(f"{where}: duplicate name {fields[0]}; remove one line")
        K = camera_matrix(fields[13], values[14:], where, findings)
        size = findings.integer_size(values[12:14], where)
        pose = findings.pose(posed_matrix(values[:9], values[9:12]), where, moved=False)
        views[fields[0]] = PosedImage(fields[0], K, size, pose)
    listed = file.with_name(PAIRS)
    if not listed.is_file():
        raise FormatError(listed, f"is missing; write the pairs of {file.name} into it, two names per line")
    return pair_views(read_pair_list(listed, findings), views, findings, scene=file.parent.absolute().name)


def posed_matrix(R: Sequence[float], t: Sequence[float]) -> Matrix:
    """Return [R | t] as a 4x4 matrix.

    >>> posed_matrix([1, 0, 0, 0, 1, 0, 0, 0, 1], [1, 2, 3])[:3, 3].tolist()
    [1.0, 2.0, 3.0]
    """
    T = np.eye(4)
    T[:3, :3] = np.reshape(R, (3, 3))
    T[:3, 3] = t
    return T


def read_pair_list(file: Path, findings: PairProblems) -> list[tuple[str, str, str]]:
    """Read a pair list. Return (place, name 0, name 1) of each pair; the place is file and line number."""
    found = []
    for number, line in enumerate(read_lines(file), start=1):
        fields, where = line.split(), f"{file.name}, line {number}"
        if not fields or line.startswith("#"):
            continue
        if len(fields) < 2:
            findings.problems.append(f"{where} has one image name; expected two")
            continue
        found.append((where, fields[0].replace("\\", "/"), fields[1].replace("\\", "/")))
    return found


def pair_views(
    pairs: Sequence[tuple[str, str, str]],
    views: Mapping[str, PosedImage],
    findings: PairProblems,
    *,
    scene: str,
    facts: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> list[PairDraft]:
    """Build image pairs with poses from pairs of image names. Report names of images without a pose."""
    drafts = []
    for where, a, b in pairs:
        absent = [name for name in (a, b) if name not in views]
        if absent:
            findings.problems.append(
                f"{where}: no pose is given for {' and '.join(absent)}; add it or remove the pair"
            )
            continue
        v0, v1 = views[a], views[b]
        if v0.pose is None or v1.pose is None or None in (v0.size, v1.size) or v0.K is None or v1.K is None:
            continue  # already reported as a problem
        drafts.append(
            PairDraft(
                where,
                (a, b),
                scene=scene,
                sizes=(v0.size, v1.size),
                K=(v0.K, v1.K),
                T=relative(v0.pose, v1.pose),
                centre=0.5,
                facts=(facts or {}).get((a, b), {}),
            )
        )
    return drafts


SHARED = 30
"""Minimum number of 3D points that both images of a pair observe."""
OVERLAP = 0.1
"""Minimum fraction of shared points, relative to the image of the pair with fewer points."""
MAX_PAIRS = 5000
"""Maximum number of pairs that are formed from a model without a pair list."""
_PLACES = ("", "sparse", "sparse/0", "dense/sparse")


def model_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read the pairs of a COLMAP model, text or binary. Return None if the model files are missing.

    The model is in the folder `root` or in its sub-folder `sparse`. The file `pairs.txt` (two names per
    line), in `root` or beside the model, lists the pairs. Without it, two images form a pair if they share at
    least 30 points and a tenth of the points of the image with fewer points. Such pairs have the properties
    `shared_points` and `overlap`. Image files are searched in a sub-folder `images` of `root`, of the model
    folder and of its parent.

    COLMAP puts the centre of the first pixel at (.5, .5). Poses are world to camera. The images of one model
    are one scene. Distorted cameras are reported as problems; undistort the images first.
    """
    base = next((root / p for p in _PLACES if is_model(root / p)), None)
    if base is None:
        return None
    above = (root, base, base.parent, base.parent.parent)
    findings.folders = tuple(dict.fromkeys((*findings.folders, *(p / "images" for p in above))))
    views = _views(base, findings)
    scene = root.absolute().name
    listed = next((p / PAIRS for p in (root, base) if (p / PAIRS).is_file()), None)
    if listed is not None:
        return pair_views(read_pair_list(listed, findings), views, findings, scene=scene)
    shared = _shared(views)
    if not shared and not findings.problems:
        findings.problems.append(
            f"no pair of {count_text(len(views), 'image')} overlaps enough: a pair needs {SHARED} shared "
            f"points that are at least {OVERLAP:.0%} of the points of one image; list the pairs in {PAIRS}"
        )
    names = list(shared)
    if len(names) > MAX_PAIRS:
        findings.warnings.append(
            f"only {MAX_PAIRS} of {len(names)} pairs that share points are used, selected by a hash "
            f"of their names; list the pairs in {PAIRS} to use others"
        )
        names = sorted(sorted(names, key=hash_json)[:MAX_PAIRS])
    pairs = [(f"{a} and {b}", a, b) for a, b in names]
    return pair_views(pairs, views, findings, scene=scene, facts=shared)


def _views(folder: Path, findings: PairProblems) -> dict[str, PosedImage]:
    """Return the images of a COLMAP model by name, with cameras and observed points."""
    tables = read_model(folder, points=True)
    poses = colmap_poses(tables)
    findings.warnings += poses.warnings
    cameras = {
        number: (
            camera_matrix(camera.model, camera.params, camera.where, findings),
            findings.integer_size(camera.size, camera.where),
        )
        for number, camera in tables.cameras.items()
    }
    views = {}
    for image, q, t in zip(tables.images, poses.q, poses.t, strict=True):
        if np.isnan(q).any():
            findings.problems.append(f"{image.where}: a number is not finite; expected finite numbers")
            continue
        K, size = cameras[image.camera]
        seen = frozenset([] if image.points is None else image.points.tolist())
        pose = posed_matrix(rotations_of(q).ravel().tolist(), t.tolist())
        views[image.name] = PosedImage(image.name, K, size, pose, seen)
    return views


def _shared(views: Mapping[str, PosedImage]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the pairs of images that share points, with the number and fraction of these points."""
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
