# SPDX-License-Identifier: BSD-3-Clause
"""Write keypoints and matches of a scene to a COLMAP database, and read matches back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....datasets.reconstructions.image_scenes import ASSUMED, SceneCamera
from ....geometry.similarity import load_pycolmap
from .matches import SceneMatches

CENTRE = 0.5
"""Position of the centre of the first pixel in COLMAP. It is added to keypoints only in this module."""


def write_database(
    path: Path,
    cameras: Mapping[str, SceneCamera],
    matches: SceneMatches,
    descriptors: Sequence[NDArray[np.uint8]] | None = None,
) -> None:
    """Write a new database. Images are numbered from 1 in the order of `cameras`, which is sorted by name.

    The order affects which initial pair the mapper chooses. Images with equal cameras share one camera.
    """
    pycolmap = load_pycolmap()
    if path.exists():
        raise InputError(f"{path} exists, and COLMAP would add to it; choose a new path")
    if list(cameras) != sorted(cameras):
        raise ValueError("cameras: images of a database must be sorted by name; sort them")
    matches.check(str(path))
    with pycolmap.Database.open(path) as database:
        known: dict[SceneCamera, tuple[int, int]] = {}
        for number, (name, camera) in enumerate(cameras.items()):
            if camera not in known:
                known[camera] = _write_camera(pycolmap, database, camera, len(known) + 1)
            camera_id, rig_id = known[camera]
            image = database.write_image(pycolmap.Image(name=name, camera_id=camera_id))
            frame = pycolmap.Frame()
            frame.rig_id = rig_id
            sensor = pycolmap.sensor_t(pycolmap.SensorType.CAMERA, camera_id)
            frame.add_data_id(pycolmap.data_t(sensor, image))
            database.write_frame(frame)
            places = np.ascontiguousarray(matches.keypoints[number] + CENTRE, np.float32)
            database.write_keypoints(image, places.reshape(-1, 2))
            if descriptors is not None:
                values = np.ascontiguousarray(descriptors[number], np.uint8)
                kind = pycolmap.FeatureExtractorType.SIFT
                database.write_descriptors(image, pycolmap.FeatureDescriptors(type=kind, data=values))
        for (i, j), rows in zip(matches.pairs.tolist(), matches.rows, strict=True):
            if len(rows):
                database.write_matches(i + 1, j + 1, np.ascontiguousarray(rows, np.uint32))


def _write_camera(pycolmap: Any, database: Any, camera: SceneCamera, number: int) -> tuple[int, int]:
    made = pycolmap.Camera(
        model=camera.model, width=camera.size[0], height=camera.size[1], params=list(camera.params)
    )
    made.has_prior_focal_length = camera.source != ASSUMED
    camera_id = database.write_camera(made)
    rig = pycolmap.Rig(rig_id=number)
    rig.add_ref_sensor(pycolmap.sensor_t(pycolmap.SensorType.CAMERA, camera_id))
    return camera_id, database.write_rig(rig)


def read_matches(path: Path, pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return for each pair of images its matched keypoint rows (m, 2)."""
    found = []
    with load_pycolmap().Database.open(path) as database:
        for i, j in pairs.tolist():
            known = database.exists_matches(i + 1, j + 1)
            rows = database.read_matches(i + 1, j + 1) if known else np.empty((0, 2))
            found.append(np.asarray(rows, np.int64).reshape(-1, 2))
    return tuple(found)
