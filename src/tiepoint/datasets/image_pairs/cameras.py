# SPDX-License-Identifier: BSD-3-Clause
"""Camera models of COLMAP as camera matrices: pinholes exactly, distorted ones refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .pair import Matrix
from .problems import PairProblems

PARAMETERS = {
    "SIMPLE_PINHOLE": ("f", "cx", "cy"),
    "PINHOLE": ("fx", "fy", "cx", "cy"),
    "SIMPLE_RADIAL": ("f", "cx", "cy", "k"),
    "RADIAL": ("f", "cx", "cy", "k1", "k2"),
    "OPENCV": ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2"),
    "FULL_OPENCV": ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"),
}
"""Models that are a pinhole where their further parameters are 0."""
_CURVED = ("OPENCV_FISHEYE", "FOV", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "THIN_PRISM_FISHEYE")


def camera_matrix(model: str, values: Sequence[float], where: str, findings: PairProblems) -> Matrix | None:
    """K of a camera; None after a problem was noted.

    A distortion that is not 0 is a problem, never ignored: matches of a distorted image do not obey K and T.

    >>> from pathlib import Path
    >>> camera_matrix("SIMPLE_PINHOLE", [500, 320, 240], "camera 1", PairProblems(Path()))[:2].tolist()
    [[500.0, 0.0, 320.0], [0.0, 500.0, 240.0]]
    """
    names = PARAMETERS.get(model)
    if names is None:
        why = "bends straight lines even without parameters" if model in _CURVED else "is not known"
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


def rotation(q: Sequence[float], where: str, findings: PairProblems) -> Matrix | None:
    """The rotation of a quaternion (w, x, y, z), scaled to length 1; one far from it is a problem.

    >>> from pathlib import Path
    >>> rotation([0, 1, 0, 0], "image 1", PairProblems(Path())).diagonal().tolist()
    [1.0, -1.0, -1.0]
    """
    length = float(np.linalg.norm(q))
    if not abs(length - 1) < 1e-3:
        findings.problems.append(f"{where}: the quaternion has length {length:g}; expected 1")
        return None
    w, x, y, z = (float(v) / length for v in q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
