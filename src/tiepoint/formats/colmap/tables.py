# SPDX-License-Identifier: BSD-3-Clause
"""Content of a COLMAP model's files, as stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ErrorCollector, FormatError

Numbers = tuple[float, ...]

CAMERA_MODELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("SIMPLE_PINHOLE", ("f", "cx", "cy")),
    ("PINHOLE", ("fx", "fy", "cx", "cy")),
    ("SIMPLE_RADIAL", ("f", "cx", "cy", "k")),
    ("RADIAL", ("f", "cx", "cy", "k1", "k2")),
    ("OPENCV", ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2")),
    ("OPENCV_FISHEYE", ("fx", "fy", "cx", "cy", "k1", "k2", "k3", "k4")),
    ("FULL_OPENCV", ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")),
    ("FOV", ("fx", "fy", "cx", "cy", "omega")),
    ("SIMPLE_RADIAL_FISHEYE", ("f", "cx", "cy", "k")),
    ("RADIAL_FISHEYE", ("f", "cx", "cy", "k1", "k2")),
    ("THIN_PRISM_FISHEYE", ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1")),
    (
        "RAD_TAN_THIN_PRISM_FISHEYE",
        (*("fx", "fy", "cx", "cy"), *(f"k{i}" for i in range(6)), "p0", "p1", "s0", "s1", "s2", "s3"),
    ),
    ("SIMPLE_DIVISION", ("f", "cx", "cy", "k")),
    ("DIVISION", ("fx", "fy", "cx", "cy", "k")),
    ("SIMPLE_FISHEYE", ("f", "cx", "cy")),
    ("FISHEYE", ("fx", "fy", "cx", "cy")),
    ("EUCM", ("fx", "fy", "cx", "cy", "alpha", "beta")),
    ("EQUIRECTANGULAR", ("w", "h")),
)
"""Name and parameter names of each camera model. The index is COLMAP's model number."""
PARAMETERS = dict(CAMERA_MODELS)
NO_POINT = 2**64 - 1
CAMERA_SENSOR = 0


@dataclass(frozen=True)
class ModelCamera:
    """Camera of a COLMAP model. `where` names its line or file for messages."""

    model: str
    size: tuple[int, int]
    params: Numbers
    where: str


@dataclass(frozen=True)
class ModelImage:
    """Registered image of a COLMAP model: pose as in ``images.*``, camera, name and observed points.

    The quaternion has w first and is not normalised. `points` are the ids of the observed 3D points, None if
    they were not requested.
    """

    id: int
    qvec: Numbers
    tvec: Numbers
    camera: int
    name: str
    where: str
    line: int | None = None
    points: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class ModelFrame:
    """Pose of a rig at one time, and the images (sensor, image id) that it took."""

    rig: int
    qvec: Numbers
    tvec: Numbers
    images: tuple[tuple[int, int], ...]
    line: int | None = None


Sensors = dict[int, tuple[Numbers, Numbers] | None]
"""Pose (q, t) of each camera of a rig, relative to the rig. None for the reference camera."""


@dataclass(frozen=True)
class ModelPoints:
    """Reprojection error and track length of each 3D point, both (p,). A negative error is unknown."""

    errors: NDArray[np.float64]
    lengths: NDArray[np.int64]


@dataclass
class ModelTables:
    """Content of a COLMAP model's files. `points` is None if they are missing or contradict the images."""

    folder: Path
    form: str
    cameras: dict[int, ModelCamera] = field(default_factory=dict)
    images: list[ModelImage] = field(default_factory=list)
    rigs: dict[int, Sensors] | None = None
    frames: dict[int, ModelFrame] | None = None
    points: ModelPoints | None = None
    warnings: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """Return the path of one of the model's files."""
        return self.folder / f"{name}.{'txt' if self.form == 'text' else 'bin'}"


def check_camera(path: Path, line: int | None, model: str, count: int) -> None:
    """Raise a `FormatError` for an unknown camera model or a wrong number of parameters."""
    names = PARAMETERS.get(model)
    if names is None:
        raise FormatError(path, f"the camera model {model} is unknown; use a model of COLMAP", line=line)
    if count != len(names):
        raise FormatError(
            path, f"{model} has {len(names)} parameters ({', '.join(names)}), found {count}", line=line
        )


def check_images(tables: ModelTables, errors: ErrorCollector) -> None:
    """Collect problems of a model's images: duplicate ids, duplicate or invalid names, unknown cameras."""
    path = tables.path("images")
    ids: set[int] = set()
    names: set[str] = set()
    for image in tables.images:
        problem = None
        if image.id in ids:
            problem = f"duplicate image id {image.id}"
        elif image.name in names:
            problem = f"duplicate name {image.name}"
        elif image.camera not in tables.cameras:
            problem = f"camera {image.camera} of image {image.name} is not in {tables.path('cameras').name}"
        elif not image.name or not image.name.isprintable():
            problem = f"image {image.id} has the name {image.name!r}; expected printable text"
        ids.add(image.id)
        names.add(image.name)
        if problem:
            errors.errors.append(FormatError(path, problem, line=image.line))


def points_of_missing_images(tables: ModelTables, missing: int) -> None:
    """Drop the model's points and warn, because tracks name the image `missing`, which the model lacks."""
    tables.points = None
    tables.warnings.append(
        f"{tables.path('points3D')}: tracks name image {missing}, which the model does not have; "
        "only poses were read"
    )
