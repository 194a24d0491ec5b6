# SPDX-License-Identifier: BSD-3-Clause
"""Images with a pose each, and pairs of them by a list: what COLMAP models and lists of views share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...formats.file_io import read_lines
from .builder import PairDraft
from .cameras import camera_matrix
from .loftr import relative
from .pair import Matrix, Size
from .problems import PairProblems
from .text_lists import floats

PAIRS = "pairs.txt"


@dataclass
class PosedImage:
    """An image with its camera and its pose, world to camera."""

    name: str
    K: Matrix | None
    size: Size | None
    pose: Matrix | None
    points: frozenset[int] = field(default_factory=frozenset)


def view_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Pairs of `views.txt` and `pairs.txt`; None where there is no views.txt.

    `views.txt`: name, R (9), t (3), MODEL, width, height, parameters of the camera; world to camera, centre
    of the first pixel at (.5, .5). `pairs.txt`: two names a line.
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
            findings.problems.append(f"{where}: the name {fields[0]} is there twice")
        K = camera_matrix(fields[13], values[14:], where, findings)
        size = findings.integer_size(values[12:14], where)
        pose = findings.pose(posed_matrix(values[:9], values[9:12]), where, moved=False)
        views[fields[0]] = PosedImage(fields[0], K, size, pose)
    listed = file.with_name(PAIRS)
    if not listed.is_file():
        raise FormatError(listed, f"is not there; it names the pairs of {file.name}, two names a line")
    return pair_views(read_pair_list(listed, findings), views, findings, scene=file.parent.absolute().name)


def posed_matrix(R: Sequence[float], t: Sequence[float]) -> Matrix:
    """[R | t] as a 4x4 matrix.

    >>> posed_matrix([1, 0, 0, 0, 1, 0, 0, 0, 1], [1, 2, 3])[:3, 3].tolist()
    [1.0, 2.0, 3.0]
    """
    T = np.eye(4)
    T[:3, :3] = np.reshape(R, (3, 3))
    T[:3, 3] = t
    return T


def read_pair_list(file: Path, findings: PairProblems) -> list[tuple[str, str, str]]:
    """Where a line is and its two names, of each line of a list of pairs."""
    found = []
    for number, line in enumerate(read_lines(file), start=1):
        fields, where = line.split(), f"{file.name}, line {number}"
        if not fields or line.startswith("#"):
            continue
        if len(fields) < 2:
            findings.problems.append(f"{where} has one name; expected two")
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
    """Pairs of views by their names; a name that no view has is a problem."""
    drafts = []
    for where, a, b in pairs:
        absent = [name for name in (a, b) if name not in views]
        if absent:
            findings.problems.append(f"{where} names {' and '.join(absent)}, which has no pose")
            continue
        v0, v1 = views[a], views[b]
        if v0.pose is None or v1.pose is None or None in (v0.size, v1.size) or v0.K is None or v1.K is None:
            continue  # its problem is noted already
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
