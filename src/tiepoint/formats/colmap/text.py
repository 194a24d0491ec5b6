# SPDX-License-Identifier: BSD-3-Clause
"""Read the text files of a COLMAP model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.errors import ErrorCollector, FormatError
from ..file_io import MAX_LINE_CHARS, reading
from .tables import (
    CAMERA_SENSOR,
    ModelCamera,
    ModelFrame,
    ModelImage,
    ModelPoints,
    ModelTables,
    Sensors,
    check_camera,
    check_images,
    points_of_missing_images,
)

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER_OF_IMAGES = re.compile(r"#\s*Number of images:\s*([0-9]{1,18})")
_IMAGE_FIELDS = 10
_MAX_ERRORS = 50


class _Line(NamedTuple):
    number: int
    text: str
    complete: bool
    """Whether the line ends with a line feed."""


def read_text_model(folder: Path, *, points: bool = False) -> ModelTables:
    """Read a COLMAP text model. With `points`, each image gets the ids of the points that it observes.

    Raises:
        InputError: A file is missing or violates the format. The message names file and line.
    """
    tables = ModelTables(folder, "text")
    errors = ErrorCollector()
    with errors.collect():
        tables.cameras = _cameras(tables.path("cameras"))
    with errors.collect():
        tables.images = _images(tables, points)
    if not errors.errors:
        check_images(tables, errors)
    if (folder / "rigs.txt").exists():
        with errors.collect():
            tables.rigs = _rigs(tables.path("rigs"))
    if (folder / "frames.txt").exists():
        with errors.collect():
            tables.frames = _frames(tables.path("frames"))
    if (folder / "points3D.txt").exists():
        with errors.collect():
            _points(tables)
    del errors.errors[_MAX_ERRORS:]
    errors.raise_all()
    return tables


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the lines of a text file one by one. The file may be larger than memory."""
    with reading(path), open(path, "rb") as file:
        number = 0
        while raw := file.readline(MAX_LINE_CHARS + 1):
            number += 1
            if len(raw) > MAX_LINE_CHARS:
                raise FormatError(
                    path,
                    f"is longer than the limit of {MAX_LINE_CHARS} bytes; check the line ends",
                    line=number,
                )
            try:
                text = raw.decode("utf-8").strip(" \t\r\n\ufeff")
            except UnicodeDecodeError as e:
                raise FormatError(
                    path, "is not a text file (not UTF-8); save it as UTF-8", line=number
                ) from e
            yield _Line(number, text, raw.endswith(b"\n"))


def _rows(path: Path, least: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of each line that is not blank or a comment.

    A line with fewer than `least` fields is an error; `expected` describes the fields.
    """
    for number, text, _ in _lines(path):
        if not text or text.startswith("#"):
            continue
        fields = text.split()
        if len(fields) < least:
            raise FormatError(path, f"expected {expected}", line=number)
        yield number, fields


def _integer(text: str, path: Path, line: int, least: int = 0, most: int = 2**32 - 1) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else least - 1
    if not least <= value <= most:
        raise FormatError(path, f"expected an integer of at least {least}, found {text[:40]!r}", line=line)
    return value


def _numbers(fields: Sequence[str], path: Path, line: int) -> tuple[float, ...]:
    try:
        values = tuple(map(float, fields))
    except ValueError:
        values = ()
    if len(values) != len(fields) or any("_" in f for f in fields):
        bad = next(f for f in fields if "_" in f or not _is_number(f))
        raise FormatError(path, f"expected a number, found {bad[:40]!r}", line=line)
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cameras(path: Path) -> dict[int, ModelCamera]:
    cameras: dict[int, ModelCamera] = {}
    for number, fields in _rows(path, 5, "number, MODEL, width, height, parameters"):
        camera = _integer(fields[0], path, number)
        check_camera(path, number, fields[1], len(fields) - 4)
        if camera in cameras:
            raise FormatError(path, f"duplicate camera {camera}; remove one", line=number)
        width, height = (_integer(f, path, number, 1, 2**63) for f in fields[2:4])
        params = _numbers(fields[4:], path, number)
        cameras[camera] = ModelCamera(
            fields[1], (width, height), params, f"{path.name}, line {number} (camera {camera})"
        )
    return cameras


def _images(tables: ModelTables, points: bool) -> list[ModelImage]:
    """Read the two lines of each image. The second line has the observations and may be empty."""
    path = tables.path("images")
    images: list[ModelImage] = []
    stated: int | None = None
    lines = _lines(path)
    last: _Line | None = None
    for line in lines:
        if not line.text or line.text.startswith("#"):
            found = _NUMBER_OF_IMAGES.match(line.text)
            stated = int(found[1]) if found else stated
            continue
        image = _image(path, line)
        last = line
        observed = next(lines, None)
        seen = np.empty(0, np.int64)
        if observed is not None:
            last = observed
            seen = _observed(path, observed, points)
        images.append(image if not points else ModelImage(**{**vars(image), "points": seen}))
    if stated is not None and len(images) < stated:
        raise FormatError(
            path,
            f"has {len(images)} images, but its header states {stated}; copy the file again, or "
            "correct the header if you removed images",
        )
    if last is not None and not last.complete and last.text:
        tables.warnings.append(
            f"{path}, line {last.number}: the last line has no line feed; check that the file is complete"
        )
    return images


def _image(path: Path, line: _Line) -> ModelImage:
    fields = line.text.split()
    if len(fields) != _IMAGE_FIELDS:
        hint = "; a name must not contain blanks" if len(fields) > _IMAGE_FIELDS else ""
        raise FormatError(
            path,
            f"expected the {_IMAGE_FIELDS} fields IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, found "
            f"{len(fields)}{hint}",
            line=line.number,
        )
    values = _numbers(fields[1:8], path, line.number)
    return ModelImage(
        _integer(fields[0], path, line.number),
        values[:4],
        values[4:],
        _integer(fields[8], path, line.number),
        fields[9],
        f"{path}, line {line.number}",
        line.number,
    )


def _observed(path: Path, line: _Line, points: bool) -> np.ndarray:
    """Check the number of fields in a line of observations.

    Return the ids of the observed points if requested.
    """
    fields = line.text.split()
    if len(fields) % 3 or (fields and not _is_number(fields[0])):
        looks = len(fields) == _IMAGE_FIELDS and not _is_number(fields[-1])
        reason = (
            "looks like an image where points belong; write the (possibly empty) line X Y POINT3D_ID … after "
            "each image"
            if looks
            else f"expected triples X Y POINT3D_ID, found {len(fields)} fields"
        )
        raise FormatError(path, reason, line=line.number)
    if not points:
        return np.empty(0, np.int64)
    ids = [_integer(f, path, line.number, -1, 2**63 - 1) for f in fields[2::3]]
    found = np.array(ids, np.int64)
    return found[found >= 0]


def _sensor_type(text: str, path: Path, line: int) -> int:
    known = {"CAMERA": CAMERA_SENSOR, "IMU": 1, "DEPTH": 2}
    if text not in known:
        raise FormatError(
            path, f"unknown sensor type {text[:40]!r}; use one of {', '.join(known)}", line=line
        )
    return known[text]


def _rigs(path: Path) -> dict[int, Sensors]:
    rigs: dict[int, Sensors] = {}
    for number, fields in _rows(path, 2, "RIG_ID NUM_SENSORS …"):
        rig, count = (_integer(f, path, number) for f in fields[:2])
        if rig in rigs:
            raise FormatError(path, f"duplicate rig {rig}", line=number)
        sensors: Sensors = {}
        rest = fields[2:]
        for i in range(count):
            take = 2 if i == 0 else 3
            if len(rest) < take:
                raise FormatError(
                    path, f"ends before sensor {i + 1} of {count}; write the model again", line=number
                )
            kind = _sensor_type(rest[0], path, number)
            sensor = _integer(rest[1], path, number)
            pose = None
            has = i > 0 and _integer(rest[2], path, number, 0, 1)
            rest = rest[take:]
            if has:
                if len(rest) < 7:
                    raise FormatError(
                        path, f"ends inside the pose of sensor {sensor}; write the model again", line=number
                    )
                values = _numbers(rest[:7], path, number)
                pose, rest = (values[:4], values[4:]), rest[7:]
            if kind == CAMERA_SENSOR:
                if sensor in sensors:
                    raise FormatError(path, f"duplicate sensor {sensor}; remove one", line=number)
                if i and pose is None:
                    raise FormatError(path, f"camera {sensor} of rig {rig} has no pose; add it", line=number)
                sensors[sensor] = pose
        if rest:
            raise FormatError(path, f"{len(rest)} fields follow the last sensor; remove them", line=number)
        rigs[rig] = sensors
    return rigs


def _frames(path: Path) -> dict[int, ModelFrame]:
    frames: dict[int, ModelFrame] = {}
    for number, fields in _rows(path, 10, "FRAME_ID RIG_ID QW QX QY QZ TX TY TZ NUM_DATA_IDS …"):
        frame, rig = (_integer(f, path, number) for f in fields[:2])
        values = _numbers(fields[2:9], path, number)
        count = _integer(fields[9], path, number)
        if len(fields) != 10 + 3 * count:
            raise FormatError(
                path,
                f"expected {10 + 3 * count} fields for {count} data ids, found {len(fields)}",
                line=number,
            )
        if frame in frames:
            raise FormatError(path, f"duplicate frame {frame}", line=number)
        images = tuple(
            (_integer(fields[k + 1], path, number), _integer(fields[k + 2], path, number, 0, 2**63))
            for k in range(10, len(fields), 3)
            if _sensor_type(fields[k], path, number) == CAMERA_SENSOR
        )
        frames[frame] = ModelFrame(rig, values[:4], values[4:], images, number)
    return frames


def _points(tables: ModelTables) -> None:
    """Read reprojection error and track length of each 3D point into `tables`."""
    path = tables.path("points3D")
    known = {str(image.id) for image in tables.images}
    errors: list[float] = []
    lengths: list[int] = []
    missing: int | None = None
    for number, fields in _rows(path, 8, "ID X Y Z R G B ERROR (IMAGE_ID POINT2D_IDX) …"):
        if len(fields) % 2:
            raise FormatError(path, "expected pairs IMAGE_ID POINT2D_IDX after ERROR", line=number)
        track = fields[8::2]
        if missing is None and not known.issuperset(track):
            missing = _integer(next(f for f in track if f not in known), path, number)
        errors.append(_numbers(fields[7:8], path, number)[0])
        lengths.append(len(track))
    tables.points = ModelPoints(np.array(errors, np.float64), np.array(lengths, np.int64))
    if missing is not None:
        points_of_missing_images(tables, missing)
