# SPDX-License-Identifier: BSD-3-Clause
"""Detect the layout of the poses of one scene, and read its models."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import FormatError
from ...core.regular_files import is_file, is_folder
from ...formats.colmap.model import find_models
from .calibrations import PER_IMAGE
from .colmap import read_colmap
from .poses import Poses
from .trajectories import KITTI_FIELDS, TUM_FIELDS, read_trajectory, trajectory_fields

PLACES = ("", "sparse", "sparse_gt", "colmap", "dense/sparse", "sfm")
"""Sub-folders of a scene in which models are searched, besides `*_calibration_undistorted` of ETH3D."""
TRAJECTORIES = ("groundtruth.txt", "poses.txt", "trajectory.txt", "CameraTrajectory.txt", "images_poses.txt")
"""Names of trajectory files in the folder of a scene."""
SCENE_JSON = "poses.json"
KNOWN = (
    "a COLMAP model (cameras, images; or sub-folders 0, 1, … with models)",
    "a table of the Image Matching Challenge (.csv)",
    "PhotoTourism (calibration_*.h5)",
    "a TUM or KITTI trajectory (.txt)",
    "BlendedMVS (cams/*_cam.txt)",
    "Strecha (*.camera)",
    "ETH3D (dslr_calibration_undistorted)",
    f"JSON ({SCENE_JSON})",
)
"""Descriptions of the layouts, for messages."""


def model_folders(folder: Path) -> list[Path]:
    """Return the folders of the COLMAP models of a scene. Empty if there are none.

    Raises:
        FormatError: A numbered sub-folder has no model, although another one has.
    """
    if not is_folder(folder):
        return []
    undistorted = sorted(p for p in folder.glob("*_calibration_undistorted") if p.is_dir())
    for place in (*(folder / p for p in PLACES), *undistorted):
        found = find_models(place)
        if not found:
            continue
        if found != [place]:
            lost = [p for p in sorted(place.iterdir()) if p.name.isdigit() and p.is_dir() and p not in found]
            if lost:
                raise FormatError(
                    lost[0], "has no images.bin or images.txt; remove the folder, or copy its model again"
                )
        return found
    return []


def trajectory_file(folder: Path) -> Path | None:
    """Return the trajectory file in the folder of a scene. None if there is none."""
    return next((folder / name for name in TRAJECTORIES if is_file(folder / name)), None)


def has_models(path: Path) -> bool:
    """Return whether a path has the poses of one scene in a known layout.

    Tables and JSON files do not count.
    """
    if is_file(path):
        return path.suffix == ".txt" and trajectory_fields(path) in (TUM_FIELDS, KITTI_FIELDS)
    if not is_folder(path):
        return False
    return bool(
        model_folders(path) or any(files(path) for files, _ in PER_IMAGE) or trajectory_file(path) is not None
    )


def read_models(path: Path) -> tuple[Poses, ...]:
    """Read the models of one scene. Empty if the path has none."""
    if is_file(path):
        return (read_trajectory(path),)
    folders = model_folders(path)
    if folders:
        return tuple(read_colmap(folder) for folder in folders)
    for files, read in PER_IMAGE:
        if files(path):
            return (read(path),)
    file = trajectory_file(path)
    return () if file is None else (read_trajectory(file),)
