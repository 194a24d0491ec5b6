# SPDX-License-Identifier: BSD-3-Clause
"""Layouts with one camera file per image: PhotoTourism (HDF5), BlendedMVS and Strecha (text)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...formats.file_io import read_lines
from ...formats.hdf5 import open_hdf5, read_numbers
from .poses import PoseBuilder, Poses


def _files(folder: Path, pattern: str, *below: str) -> list[Path]:
    """Return the files that match `pattern` in the first of the sub-folders `below` that has any."""
    for name in below:
        found = sorted(p for p in (folder / name).glob(pattern) if p.is_file())
        if found:
            return found
    return []


def phototourism_files(folder: Path) -> list[Path]:
    """Return the calibration files of a PhotoTourism scene."""
    return _files(folder, "calibration_*.h5", "", "calibration")


def blended_files(folder: Path) -> list[Path]:
    """Return the camera files of a BlendedMVS scene."""
    return _files(folder, "*_cam.txt", "cams", "")


def strecha_files(folder: Path) -> list[Path]:
    """Return the camera files of a scene of Strecha et al."""
    return _files(folder, "*.camera", "", "cameras", "gt_dense_cameras")


def read_phototourism(folder: Path) -> Poses:
    """Read ``calibration_NAME.h5`` with R (3, 3) and T (3,), world to camera."""
    found = PoseBuilder(folder)
    for path in phototourism_files(folder):
        with found.errors.collect(), open_hdf5(path) as file:
            R, t = read_numbers(file, "R", path), read_numbers(file, "T", path)
            if R.size != 9 or t.size != 3:
                raise FormatError(path, f"R has shape {R.shape} and T {t.shape}; expected (3, 3) and (3,)")
            found.add_matrix(path.stem.removeprefix("calibration_"), R.ravel(), t.ravel(), path=path)
    return found.build()


def read_blended(folder: Path) -> Poses:
    """Read ``NAME_cam.txt``: the word `extrinsic`, then a 4x4 matrix world to camera."""
    found = PoseBuilder(folder)
    for path in blended_files(folder):
        with found.errors.collect():
            lines = read_lines(path)
            at = next((i for i, line in enumerate(lines) if line == "extrinsic"), None)
            if at is None:
                raise FormatError(path, "has no line 'extrinsic'")
            T = _matrix(path, lines, at + 1, 4, 4)
            if not np.array_equal(T[3], [0, 0, 0, 1]):
                raise FormatError(
                    path, "the last row of the extrinsic matrix is not 0 0 0 1; correct the file", line=at + 5
                )
            found.add_matrix(path.stem.removesuffix("_cam"), T[:3, :3], T[:3, 3], line=at + 2, path=path)
    return found.build()


def read_strecha(folder: Path) -> Poses:
    """Read ``IMAGE.camera``: K (3 lines), ``0 0 0``, R camera to world (3 lines), camera centre, size."""
    found = PoseBuilder(folder)
    for path in strecha_files(folder):
        with found.errors.collect():
            lines = read_lines(path)
            R, centre = _matrix(path, lines, 4, 3, 3), _matrix(path, lines, 7, 1, 3)
            found.add_matrix(path.name.removesuffix(".camera"), R, centre, line=5, path=path, inverse=True)
    return found.build()


def _matrix(path: Path, lines: list[str], first: int, rows: int, columns: int) -> NDArray[np.float64]:
    """Read a matrix from consecutive lines, starting at line index `first`."""
    found = []
    for i in range(first, first + rows):
        fields = lines[i].split() if i < len(lines) else []
        try:
            row = [float(f) for f in fields if "_" not in f]
        except ValueError:
            row = []
        if len(row) != columns:
            raise FormatError(path, f"expected {columns} numbers", line=i + 1)
        found.append(row)
    return np.array(found, np.float64)


PER_IMAGE: tuple[tuple[Callable[[Path], list[Path]], Callable[[Path], Poses]], ...] = (
    (phototourism_files, read_phototourism),
    (blended_files, read_blended),
    (strecha_files, read_strecha),
)
"""For each layout, the function that finds its files and the function that reads them."""
