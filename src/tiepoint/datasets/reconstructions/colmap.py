# SPDX-License-Identifier: BSD-3-Clause
"""Read poses from COLMAP models. With rigs, the pose of an image is that of its frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...formats.colmap.model import read_model
from ...formats.colmap.tables import ModelImage, ModelTables, Numbers
from ...geometry.quaternions import product, rotated
from .poses import Floats, PoseBuilder, Poses

AGREEMENT = 1e-6
"""Tolerance between poses in ``images.*`` and ``frames.*``, relative to the largest |t|."""
Pose = tuple[Numbers, Numbers]


def read_colmap(folder: Path) -> Poses:
    """Read the poses of the COLMAP model in a folder.

    Raises:
        InputError: The model violates the format, or its frames contradict its images.
    """
    return colmap_poses(read_model(folder))


def colmap_poses(tables: ModelTables) -> Poses:
    """Return the poses of a model's images in the order of the file."""
    found = PoseBuilder(tables.path("images"), warnings=list(tables.warnings))
    framed = frame_poses(tables)
    reach = max((abs(v) for i in tables.images for v in i.tvec if np.isfinite(v)), default=0.0)
    for image in tables.images:
        q, t = framed.get(image.id, (image.qvec, image.tvec))
        known = len(found.errors.errors)
        found.add_quaternion(image.name, q, t, line=image.line)
        if image.id in framed and len(found.errors.errors) == known:
            _check_agreement(found, image, framed[image.id], reach)
    return found.build(points=tables.points)


def frame_poses(tables: ModelTables) -> dict[int, Pose]:
    """Return the pose (quaternion, translation) of each image id from rigs and frames. Empty without rigs.

    Raises:
        FormatError: Rigs, frames and images do not belong together.
    """
    if tables.frames is None or tables.rigs is None:
        return {}
    path, rigs = tables.path("frames"), tables.rigs
    cameras = {image.id: image.camera for image in tables.images}
    found: dict[int, Pose] = {}
    for key, frame in tables.frames.items():
        for sensor, image in frame.images:
            problem = None
            if frame.rig not in rigs:
                problem = f"frame {key} has rig {frame.rig}, which is not in {tables.path('rigs').name}"
            elif sensor not in rigs[frame.rig]:
                problem = f"frame {key} has camera {sensor}, which rig {frame.rig} does not have"
            elif image not in cameras:
                problem = f"frame {key} has image {image}, which is not in {tables.path('images').name}"
            elif cameras[image] != sensor:
                problem = f"frame {key} gives image {image} camera {sensor}, the image has {cameras[image]}"
            elif image in found:
                problem = f"image {image} is in two frames"
            if problem:
                raise FormatError(path, problem, line=frame.line)
            found[image] = _composed(rigs[frame.rig][sensor], (frame.qvec, frame.tvec))
    for image_id in cameras:
        if image_id not in found:
            raise FormatError(
                path,
                f"the file has no frame with image {image_id} of {tables.path('images').name}; write the "
                "model again",
            )
    return found


def _composed(sensor_from_rig: Pose | None, rig_from_world: Pose) -> Pose:
    if sensor_from_rig is None or not np.isfinite([*rig_from_world[0], *rig_from_world[1]]).all():
        return rig_from_world
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, b = (_unit(pose[0]) for pose in (sensor_from_rig, rig_from_world))
        q = product(a, b)
        t = rotated(a, rig_from_world[1]) + np.asarray(sensor_from_rig[1])
    return tuple(q.tolist()), tuple(t.tolist())


def _unit(q: Numbers) -> Floats:
    values = np.asarray(q, np.float64)
    return values / np.linalg.norm(values)


def _check_agreement(found: PoseBuilder, image: ModelImage, framed: Pose, reach: float) -> None:
    """Report a problem if the pose of an image differs from that of its frame."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        q, other = _unit(image.qvec), _unit(framed[0])
        turn = min(float(np.abs(q - other).max()), float(np.abs(q + other).max()))
        shift = float(np.abs(np.subtract(image.tvec, framed[1])).max())
    same_gaps = (
        not np.isfinite([*image.qvec, *image.tvec]).all() and not np.isfinite(np.ravel(framed[0])).all()
    )
    if same_gaps or (turn <= AGREEMENT and shift <= AGREEMENT * reach):
        return
    found.errors.errors.append(
        FormatError(
            found.path,
            f"the pose of {image.name} differs from that of its frame (quaternion by {turn:.2g}, t by "
            f"{shift:.2g}); write the model again, or remove rigs and frames if the images are right",
            line=image.line,
        )
    )
