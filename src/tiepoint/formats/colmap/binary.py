# SPDX-License-Identifier: BSD-3-Clause
"""Read the binary files of a COLMAP model: little endian, without padding, version or magic number."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ErrorCollector, FormatError
from ..file_io import map_bytes
from .tables import (
    CAMERA_MODELS,
    CAMERA_SENSOR,
    NO_POINT,
    ModelCamera,
    ModelFrame,
    ModelImage,
    ModelPoints,
    ModelTables,
    Sensors,
    check_images,
    points_of_missing_images,
)

T = TypeVar("T")
_IMAGE = struct.Struct("<I7dI")
_POINT = struct.Struct("<Q3d3BdQ")
_OBSERVATION = np.dtype([("xy", "<f8", 2), ("point", "<u8")])
_MAX_NAME = 4096
_CHUNK = 1 << 18
"""Number of track elements that are checked at the same time."""


def read_binary_model(folder: Path, *, points: bool = False) -> ModelTables:
    """Read a binary COLMAP model. With `points`, each image gets the ids of the points that it observes.

    Raises:
        InputError: A file is missing or its size contradicts its content. The message names the file.
    """
    tables = ModelTables(folder, "binary")
    errors = ErrorCollector()
    with errors.collect():
        tables.cameras = _read(tables.path("cameras"), _cameras)
    with errors.collect():
        tables.images = _read(tables.path("images"), lambda f, n: _images(f, n, points))
    if not errors.errors:
        check_images(tables, errors)
    if (folder / "rigs.bin").exists():
        with errors.collect():
            tables.rigs = _read(tables.path("rigs"), _rigs)
    if (folder / "frames.bin").exists():
        with errors.collect():
            tables.frames = _read(tables.path("frames"), _frames)
    if (folder / "points3D.bin").exists():
        with errors.collect():
            tables.points, missing = _read(
                tables.path("points3D"), lambda f, n: _points(f, n, [i.id for i in tables.images])
            )
            if missing is not None:
                points_of_missing_images(tables, missing)
    errors.raise_all()
    return tables


class _File:
    """Memory-mapped file with a position. Reading beyond its end raises a `FormatError`."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        self.data = map_bytes(path)
        self.view = memoryview(self.data.data)

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        """Read the next values in a given struct format."""
        self.need(form.size)
        values = form.unpack_from(self.view, self.at)
        self.at += form.size
        return values

    def need(self, count: int) -> None:
        """Raise an error if fewer than `count` bytes remain in the file."""
        left = len(self.data) - self.at
        if count > left:
            raise FormatError(
                self.path,
                f"is cut short: {count} bytes are expected at byte {self.at}, but {left} remain; copy it "
                "again",
            )

    def counted(self, least: int) -> int:
        """Read a u64 number of entries.

        Raise an error if the file is too short for entries of `least` bytes each.
        """
        (n,) = self.take(_U64)
        self.need(n * least)
        return int(n)


_U64, _U32, _CAMERA = struct.Struct("<Q"), struct.Struct("<I"), struct.Struct("<IiQQ")
_RIG, _SENSOR, _HAS_POSE = struct.Struct("<II"), struct.Struct("<iI"), struct.Struct("<iIB")
_POSE, _FRAME, _DATA = struct.Struct("<7d"), struct.Struct("<II7dI"), struct.Struct("<iIQ")


def _read(path: Path, parse: Callable[[_File, int], T], least: int = 1) -> T:
    """Parse a file that starts with the number of entries. Raise an error if bytes remain after the last one.

    `parse` reads the given number of entries, each of at least `least` bytes.
    """
    file = _File(path)
    found = parse(file, file.counted(least))
    left = len(file.data) - file.at
    if left:
        raise FormatError(path, f"has {left} bytes after its last entry; write the model again")
    return found


def _cameras(file: _File, count: int) -> dict[int, ModelCamera]:
    cameras: dict[int, ModelCamera] = {}
    for _ in range(count):
        camera, model, width, height = file.take(_CAMERA)
        if not 0 <= model < len(CAMERA_MODELS):
            raise FormatError(
                file.path,
                f"camera {camera} has the unknown model number {model}; use a camera model of COLMAP",
            )
        if camera in cameras:
            raise FormatError(file.path, f"duplicate camera {camera}; write the model again")
        name, names = CAMERA_MODELS[model]
        params = file.take(struct.Struct(f"<{len(names)}d"))
        cameras[camera] = ModelCamera(name, (width, height), params, f"{file.path.name} (camera {camera})")
    return cameras


def _images(file: _File, count: int, points: bool) -> list[ModelImage]:
    images = []
    file.need(count * (_IMAGE.size + 1 + _U64.size))
    for i in range(count):
        image, *pose, camera = file.take(_IMAGE)
        name = bytes(file.data[file.at : file.at + _MAX_NAME]).partition(b"\0")
        if not name[1]:
            raise FormatError(file.path, f"the name of image {image} has no end; write the model again")
        file.at += len(name[0]) + 1
        try:
            text = name[0].decode("utf-8")
        except UnicodeDecodeError as e:
            raise FormatError(file.path, f"the name of image {image} is not UTF-8; rename the image") from e
        seen = file.counted(_OBSERVATION.itemsize)
        ids = None
        if points:
            table = (
                np.frombuffer(file.data, _OBSERVATION, seen, file.at) if seen else np.empty(0, _OBSERVATION)
            )
            ids = table["point"][table["point"] != NO_POINT].astype(np.int64)
        file.at += seen * _OBSERVATION.itemsize
        where = f"{file.path}, image {i + 1}"
        images.append(ModelImage(image, tuple(pose[:4]), tuple(pose[4:]), camera, text, where, points=ids))
    return images


def _rigs(file: _File, count: int) -> dict[int, Sensors]:
    rigs: dict[int, Sensors] = {}
    for _ in range(count):
        rig, number = file.take(_RIG)
        if rig in rigs:
            raise FormatError(file.path, f"duplicate rig {rig}")
        sensors: Sensors = {}
        for i in range(number):
            kind, sensor, *has = file.take(_HAS_POSE if i else _SENSOR)
            if has and has[0] > 1:
                raise FormatError(file.path, f"sensor {sensor} of rig {rig}: expected 0 or 1, found {has[0]}")
            values = file.take(_POSE) if has and has[0] else ()
            if kind != CAMERA_SENSOR:
                continue
            if sensor in sensors:
                raise FormatError(file.path, f"duplicate sensor {sensor} of rig {rig}; write the model again")
            if i and not values:
                raise FormatError(file.path, f"camera {sensor} of rig {rig} has no pose; add it")
            sensors[sensor] = (values[:4], values[4:]) if values else None
        rigs[rig] = sensors
    return rigs


def _frames(file: _File, count: int) -> dict[int, ModelFrame]:
    frames: dict[int, ModelFrame] = {}
    for _ in range(count):
        frame, rig, *pose, number = file.take(_FRAME)
        file.need(number * _DATA.size)
        if frame in frames:
            raise FormatError(file.path, f"duplicate frame {frame}")
        data = [file.take(_DATA) for _ in range(number)]
        images = tuple((sensor, image) for kind, sensor, image in data if kind == CAMERA_SENSOR)
        frames[frame] = ModelFrame(rig, tuple(pose[:4]), tuple(pose[4:]), images)
    return frames


def _points(file: _File, count: int, images: list[int]) -> tuple[ModelPoints, int | None]:
    """Read error and track length of each point.

    Also return the first image id in a track that is unknown.
    """
    file.need(count * _POINT.size)
    errors = np.empty(count)
    lengths, starts = np.empty(count, np.int64), np.empty(count, np.int64)
    size, unpack, view = _POINT.size, _POINT.unpack_from, file.view
    at, end = file.at, len(view)
    for i in range(count):
        if at + size > end:
            file.at = at
            file.need(size)
        values = unpack(view, at)
        at += size
        if values[8] * 8 > end - at:
            file.at = at
            file.need(values[8] * 8)
        errors[i], lengths[i], starts[i] = values[7], values[8], at
        at += values[8] * 8
    file.at = at
    return ModelPoints(errors, lengths), _unknown_image(file.data, starts, lengths, np.unique(images))


def _unknown_image(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], known: NDArray[Any]
) -> int | None:
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, _CHUNK):
        element = np.arange(first, min(first + _CHUNK, total))
        point = np.searchsorted(ends, element, side="right")
        at = starts[point] + 8 * (element - (ends - lengths)[point])
        ids = data[at[:, None] + np.arange(4)].view("<u4")[:, 0]
        unknown = ids[~np.isin(ids, known)]
        if len(unknown):
            return int(unknown[0])
    return None
