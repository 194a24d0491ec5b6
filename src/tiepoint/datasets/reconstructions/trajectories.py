# SPDX-License-Identifier: BSD-3-Clause
"""Trajectory files: TUM (timestamps) and KITTI (one pose per line, no names). Poses are camera to world."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...formats.file_io import read_lines
from ...geometry.quaternions import conjugate, rotated
from .poses import PoseBuilder, Poses

TUM_FIELDS, KITTI_FIELDS = 8, 12
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf)", re.IGNORECASE)


def trajectory_fields(path: Path) -> int:
    """Return the number of fields in the first line that is not a comment, or 0 if there is no such line."""
    lines = (line for line in read_lines(path) if line and not line.startswith("#"))
    return len(next(lines, "").split())


def read_trajectory(path: Path) -> Poses:
    """Read a trajectory: TUM if lines have 8 fields, KITTI if they have 12."""
    count = trajectory_fields(path)
    if count == TUM_FIELDS:
        return _read_tum(path)
    if count == KITTI_FIELDS:
        return _read_kitti(path)
    raise FormatError(
        path,
        f"not a trajectory: lines have {count} fields; expected timestamp tx ty tz qx qy qz qw "
        "(TUM) or the 12 numbers of a 3x4 matrix (KITTI)",
    )


def _read_tum(path: Path) -> Poses:
    """Read ``timestamp tx ty tz qx qy qz qw``. The name of an image is its timestamp as written."""
    found = PoseBuilder(path)
    times: set[float] = set()
    for number, values in _rows(path, TUM_FIELDS, found):
        time = float(values[0])
        if time in times:
            found.errors.errors.append(FormatError(path, f"duplicate timestamp {values[0]}", line=number))
            continue
        times.add(time)
        shift, (x, y, z, w) = np.array(values[1:4], np.float64), map(float, values[4:])
        to_world = np.array([w, x, y, z])
        if np.isfinite([*to_world, *shift]).all() and abs(np.linalg.norm(to_world) - 1) <= 1e-3:
            to_world = to_world / np.linalg.norm(to_world)
            shift = -rotated(conjugate(to_world), shift)
        found.add_quaternion(
            values[0], conjugate(to_world).tolist(), shift.tolist(), line=number, strict=True
        )
    return found.build()


def _read_kitti(path: Path) -> Poses:
    found = PoseBuilder(path)
    for i, (number, values) in enumerate(_rows(path, KITTI_FIELDS, found)):
        matrix = np.array(values, np.float64).reshape(3, 4)
        found.add_matrix(f"{i:06d}", matrix[:, :3], matrix[:, 3], line=number, inverse=True)
    return found.build(ordered=True)


def _rows(path: Path, count: int, found: PoseBuilder) -> list[tuple[int, list[str]]]:
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line.startswith("#"):
            continue
        fields = line.split()
        bad = next((f for f in fields if not _NUMBER.fullmatch(f)), None)
        if len(fields) != count or bad is not None:
            reason = f"found {len(fields)} fields" if bad is None else f"found {bad[:40]!r}"
            found.errors.errors.append(FormatError(path, f"expected {count} numbers, {reason}", line=number))
            continue
        rows.append((number, fields))
    return rows
