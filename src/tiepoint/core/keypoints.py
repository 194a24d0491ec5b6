# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of one image, stored as one array per property."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

COLUMNS = ("x", "y", "size", "angle", "response", "octave", "class_id")
"""Columns of the array form, in order."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Keypoints:
    """n keypoints of one image.

    Pixel centres are integers, x runs right, y runs down. `size_px` is the diameter of the region, as in
    OpenCV. `angle_deg` is clockwise from the x axis (y is down). It is **NaN if no orientation was found**;
    OpenCV uses -1 instead, which `from_cv` and `to_cv` convert. `octave` is the value that the detector
    returned.

    Several rows may share one position: SIFT repeats a keypoint for every strong orientation. They are
    separate keypoints here, and one location in `geometry.correspondence.locations`.

    >>> k = Keypoints.at([[3, 4], [5, 6]], size_px=7)
    >>> len(k), k[1:].xy.tolist(), k.to_array().shape
    (2, [[5.0, 6.0]], (2, 7))
    """

    xy: Floats
    size_px: Floats
    angle_deg: Floats
    response: Floats
    octave: NDArray[np.int64]
    class_id: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.xy)
        if self.xy.ndim != 2 or self.xy.shape[1] != 2:
            raise InputError(f"keypoint positions must have shape (n, 2), found {self.xy.shape}")
        for field in fields(self)[1:]:
            column = getattr(self, field.name)
            if column.shape != (n,):
                raise InputError(f"keypoint {field.name} has shape {column.shape}, expected ({n},)")

    @classmethod
    def at(
        cls,
        xy: ArrayLike,
        *,
        size_px: ArrayLike = 1.0,
        angle_deg: ArrayLike = np.nan,
        response: ArrayLike = 0.0,
        octave: ArrayLike = 0,
        class_id: ArrayLike = -1,
    ) -> Keypoints:
        """Create keypoints at positions (n, 2). Each other column is an array (n,) or one value for all."""
        points = np.asarray(xy, dtype=np.float64)
        points = points.reshape(0, 2) if points.size == 0 else points
        n = len(points)

        def column(values: ArrayLike, dtype: type) -> NDArray[Any]:
            given = np.asarray(values)
            if dtype is np.int64 and given.dtype.kind == "f" and not (np.abs(given) < 1 << 62).all():
                raise InputError("keypoint octaves and classes must be integers, found NaN or infinity")
            return np.array(np.broadcast_to(given.astype(dtype, copy=False), (n,)))

        return cls(
            points,
            column(size_px, np.float64),
            column(angle_deg, np.float64),
            column(response, np.float64),
            column(octave, np.int64),
            column(class_id, np.int64),
        )

    @classmethod
    def from_array(cls, table: ArrayLike) -> Keypoints:
        """Create keypoints from an array (n, 7) with columns `COLUMNS`, or from positions (n, 2).

        >>> Keypoints.from_array([[1, 2, 3, float("nan"), 0.5, 0, -1]]).size_px
        array([3.])
        """
        t = np.asarray(table, dtype=np.float64)
        if t.size == 0:
            return cls.at(np.empty((0, 2)))
        if t.ndim != 2 or t.shape[1] not in (2, len(COLUMNS)):
            raise InputError(
                f"keypoints need 2 columns (x, y) or 7 ({', '.join(COLUMNS)}), found shape {t.shape}"
            )
        if t.shape[1] == 2:
            return cls.at(t)
        return cls.at(
            t[:, :2], size_px=t[:, 2], angle_deg=t[:, 3], response=t[:, 4], octave=t[:, 5], class_id=t[:, 6]
        )

    def to_array(self) -> Floats:
        """Return the keypoints as float64 (n, 7) with columns `COLUMNS`. An unset angle is NaN."""
        rest = (self.size_px, self.angle_deg, self.response, self.octave, self.class_id)
        return np.column_stack([self.xy, *rest]).astype(np.float64).reshape(len(self), len(COLUMNS))

    @classmethod
    def from_cv(cls, keypoints: Iterable[Any]) -> Keypoints:
        """Create keypoints from OpenCV keypoints. An angle of -1 becomes NaN."""
        rows = [(*k.pt, k.size, k.angle, k.response, k.octave, k.class_id) for k in keypoints]
        table = np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        table[table[:, 3] < 0, 3] = np.nan
        return cls.from_array(table)

    def to_cv(self) -> list[Any]:
        """Return OpenCV keypoints. A NaN angle becomes -1, and positions are rounded to float32."""
        import cv2

        angles = np.where(np.isnan(self.angle_deg), -1.0, self.angle_deg)
        return [
            cv2.KeyPoint(float(x), float(y), float(s), float(a), float(r), int(o), int(c))
            for (x, y), s, a, r, o, c in zip(
                self.xy, self.size_px, angles, self.response, self.octave, self.class_id, strict=True
            )
        ]

    def __len__(self) -> int:
        return len(self.xy)

    def __getitem__(self, rows: Any) -> Keypoints:
        """Return the keypoints selected by a slice, a boolean mask or an integer array."""
        if isinstance(rows, (int, np.integer)):
            raise InputError("one integer cannot index keypoints; use a slice, a mask or an integer array")
        return Keypoints(*(getattr(self, field.name)[rows] for field in fields(self)))
