# SPDX-License-Identifier: BSD-3-Clause
"""Read keypoints and descriptors of one image in the formats of several programs.

* NumPy archive with any suffix (D2-Net writes ``IMAGE.png.d2-net``): `keypoints` (n, 2 or more; x, y first),
  `descriptors` (n, d) or (d, n), optional `scores` (n,) and `valid` (n,);
* CSV: a header with ``x, y``, optional ``size, angle, response`` (or ``score``), ``octave, class_id``; all
  other columns are the descriptor, in file order;
* HDF5 of hloc: one group per image with `keypoints`, `descriptors` (d, n) and optional `scores`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.keypoints import COLUMNS, Keypoints
from .. import hdf5
from ..file_io import read_lines, write_lines
from ..matches.table import header_columns, read_table
from ..npy import read_npz

Array = NDArray[Any]
_ARRAYS = ("keypoints", "descriptors", "scores", "valid")
_KEYPOINT_COLUMNS = (*COLUMNS, "score", "scores")

EXPORTED = {"tiepoint_keypoints": "keypoints", "tiepoint_valid": "valid"}
"""Datasets that `tiepoint export` adds to hloc features, with all keypoint columns and the validity mask."""


class StoredFeatures(NamedTuple):
    """Features of one image: keypoints, descriptors (n, d), validity mask or None, dtype of the positions."""

    keypoints: Keypoints
    descriptors: Array
    valid: Array | None
    written: np.dtype[Any]


def read_features(path: Path) -> StoredFeatures:
    """Read the features of one image from a ``.npz`` or CSV file.

    Raises:
        FormatError: The file is neither ``.npz`` nor CSV, or arrays are missing or inconsistent.
    """
    if path.suffix == ".csv":
        return _from_csv(path)
    arrays = read_npz(path, _ARRAYS)
    for name in ("keypoints", "descriptors"):
        if name not in arrays:
            raise FormatError(path, f"has no array {name!r}, only {', '.join(arrays) or 'none'}; add it")
    return _from_arrays(arrays, path)


def read_hdf5_features(path: Path, group: str) -> StoredFeatures:
    """Read the features of an image from its group in an HDF5 file.

    Descriptors are read as (d, n), as in hloc, also if both dimensions equal the number of keypoints.
    """
    with hdf5.open_hdf5(path) as file:
        names = [n for n in ("keypoints", "descriptors", "scores", *EXPORTED) if n in file[group]]
        arrays = {name: hdf5.read_numbers(file[group], name, path) for name in names}
    for name, plain in EXPORTED.items():
        if name in arrays:
            arrays[plain] = arrays.pop(name)
    if "descriptors" not in arrays:
        raise FormatError(path, f"{group} has no descriptors; add them, or provide matches")
    if arrays["descriptors"].ndim == 2 and arrays["descriptors"].shape[1] == len(arrays["keypoints"]):
        arrays["descriptors"] = arrays["descriptors"].T
    return _from_arrays(arrays, path)


def _from_arrays(arrays: Mapping[str, Array], path: Path) -> StoredFeatures:
    for name, array in arrays.items():
        if name in _ARRAYS and array.dtype.kind not in "biuf":
            raise FormatError(path, f"{name} has type {array.dtype}, expected numbers")
    table, scores = arrays["keypoints"], arrays.get("scores")
    if table.ndim != 2 or table.shape[1] < 2:
        raise FormatError(path, f"keypoints have shape {table.shape}, expected rows that begin with x, y")
    if scores is not None and scores.shape != (len(table),):
        raise FormatError(
            path, f"scores have shape {scores.shape} for {len(table)} keypoints; expected one per keypoint"
        )
    written = table.dtype
    table = table.astype(np.float64)
    if table.shape[1] == len(COLUMNS):
        try:
            keypoints = Keypoints.from_array(table)
        except InputError as e:
            raise FormatError(path, str(e)) from e
    else:
        size = table[:, 2] if table.shape[1] == 3 else 1.0
        keypoints = Keypoints.at(table[:, :2], size_px=size, response=0.0 if scores is None else scores)
    return StoredFeatures(keypoints, upright(arrays["descriptors"], len(table)), arrays.get("valid"), written)


def upright(descriptors: Array, rows: int) -> Array:
    """Return descriptors as (n, d), where n is `rows`. Transpose them if only the columns match n.

    >>> upright(np.zeros((128, 5)), 5).shape, upright(np.zeros((5, 128)), 5).shape
    ((5, 128), (5, 128))
    """
    if descriptors.ndim == 2 and len(descriptors) != rows and descriptors.shape[1] == rows:
        return descriptors.T
    return descriptors


def is_feature_csv(path: Path) -> bool:
    """Return whether a CSV file has the columns of keypoint positions and descriptors."""
    names = header_columns(path)
    return {"x", "y"} <= set(names) and bool(set(names) - {*_KEYPOINT_COLUMNS, "pair", "index"})


def _from_csv(path: Path) -> StoredFeatures:
    frame = read_table(path)
    frame.columns = [str(name).strip() for name in frame.columns]
    for name in ("x", "y"):
        if name not in frame.columns:
            raise FormatError(path, f"has no column {name}; its columns are {', '.join(frame.columns[:8])}")
    if frame.columns.has_duplicates:
        raise FormatError(path, "has two columns of the same name; remove one")
    rest = [name for name in frame.columns if name not in _KEYPOINT_COLUMNS]
    if not rest:
        raise FormatError(path, "has no descriptor columns; add them to the keypoint columns")
    try:
        values = {n: frame[n].to_numpy(np.float64) for n in frame.columns if n in _KEYPOINT_COLUMNS}
        descriptors = frame[rest].to_numpy(np.float64)
    except (TypeError, ValueError, OverflowError) as e:
        raise FormatError(path, f"contains a value that is not a number ({e}); correct it") from e
    angle = values.get("angle", np.full(len(frame), np.nan))
    response = next((values[n] for n in ("response", "score", "scores") if n in values), 0.0)
    keypoints = Keypoints.at(
        np.column_stack([values["x"], values["y"]]),
        size_px=values.get("size", 1.0),
        angle_deg=np.where(angle < 0, np.nan, angle),
        response=response,
    )
    return StoredFeatures(keypoints, descriptors.astype(np.float32), None, np.dtype(np.float64))


def write_hloc_features(path: Path, images: Iterable[tuple[str, Mapping[str, Array]]]) -> None:
    """Write features of images in the layout of hloc.

    Each image has the arrays ``keypoints`` (n, 7), ``values`` and ``valid``. `read_hdf5_features` restores
    them bit-identically from extra datasets that hloc ignores.
    """
    keypoints, valid = EXPORTED
    with hdf5.new_hdf5(path) as file:
        for name, arrays in images:
            table = np.asarray(arrays["keypoints"], np.float64)
            group = file.create_group(name)
            group["keypoints"] = table[:, :2]
            group["descriptors"] = np.ascontiguousarray(np.asarray(arrays["values"]).T)
            group["scores"] = table[:, COLUMNS.index("response")]
            group[keypoints], group[valid] = table, np.asarray(arrays["valid"], bool)


HEADER = ",".join(COLUMNS)
_INTEGERS = (5, 6)


def write_keypoint_csv(path: str | Path, keypoints: Keypoints) -> None:
    """Write keypoints to a CSV file. `read_keypoint_csv` restores them bit-identically.

    Without keypoints, only the header is written. An unset angle becomes -1. Other NaN or infinite values are
    errors.
    """
    table = keypoints.to_array()
    table[np.isnan(table[:, 3]), 3] = -1.0
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise FormatError(path, f"keypoint {bad[0]} has a NaN or infinite value; remove the keypoint")
    rows = (
        ",".join(str(int(v)) if i in _INTEGERS else repr(float(v)) for i, v in enumerate(row))
        for row in table
    )
    write_lines(path, [HEADER, *rows])


def read_keypoint_csv(path: str | Path) -> Keypoints:
    """Read keypoints from a CSV file. A file with only a header has no keypoints.

    Raises:
        FormatError: The header is missing or wrong, a row has the wrong length, or a value is not a finite
            number.

    >>> import tempfile, pathlib
    >>> p = pathlib.Path(tempfile.mkdtemp()) / "1.csv"
    >>> write_keypoint_csv(p, Keypoints.at([[1.5, 2]], size_px=4))
    >>> read_keypoint_csv(p).angle_deg
    array([nan])
    """
    lines = read_lines(path)
    found = lines[0].replace(" ", "") if lines else "nothing"
    if found != HEADER:
        raise FormatError(path, f"expected the header {HEADER!r}, found {found!r}", line=1)
    rows = [_row(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    table = np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS))
    table[table[:, 3] < 0, 3] = np.nan
    return Keypoints.from_array(table)


def _row(path: str | Path, number: int, line: str) -> list[float]:
    parts = line.split(",")
    if len(parts) != len(COLUMNS):
        raise FormatError(path, f"expected {len(COLUMNS)} fields, found {len(parts)}", line=number)
    values = []
    for i, (name, text) in enumerate(zip(COLUMNS, parts, strict=True)):
        try:
            value = float(text)
        except ValueError:
            raise FormatError(path, f"{name} is {text.strip()!r}, expected a number", line=number) from None
        if not math.isfinite(value):
            raise FormatError(path, f"{name} is {text.strip()!r}, expected a finite number", line=number)
        if i in _INTEGERS and value != int(value):
            raise FormatError(path, f"{name} is {text.strip()!r}, expected an integer", line=number)
        values.append(value)
    return values
