# SPDX-License-Identifier: BSD-3-Clause
"""Poses of the images of one model, checked and normalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ErrorCollector, FormatError
from ...core.formatting import count_text, first_few
from ...formats.colmap.tables import ModelPoints
from ...geometry.quaternions import conjugate, quaternions_of, rotated

Floats = NDArray[np.float64]
ORTHONORMAL = 1e-3
"""Maximum deviation of R^T R from the identity."""
MIN_NORM = 1e-6
"""Minimum length of a quaternion. Shorter ones have no reliable direction."""
WARN_NORM = 1e-3
"""Deviation of a quaternion's length from 1 above which the reader warns."""
_NO_POSE = (np.full(4, np.nan), np.full(3, np.nan))


@dataclass(frozen=True)
class Poses:
    """Poses x_camera = R(q) x_world + t of the images of one model.

    `q` (n, 4) has w first and length 1, and `t` is (n, 3). Images without a pose have NaN. `registered` (n,)
    is False if the file lists the image as not registered; in other rows of NaN the numbers were not finite.
    If `ordered`, the file has no names, and row i is image i. `points` are the 3D points of the model, None
    if unknown.
    """

    names: tuple[str, ...]
    q: Floats
    t: Floats
    registered: NDArray[np.bool_]
    place: str
    ordered: bool = False
    points: ModelPoints | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def invalid(self) -> int:
        """Number of poses with numbers that were not finite."""
        return int((self.registered & np.isnan(self.q).any(axis=1)).sum())


@dataclass
class PoseBuilder:
    """Collector of the poses of one file or folder. `build` raises all problems together."""

    path: Path
    errors: ErrorCollector = field(default_factory=ErrorCollector)
    warnings: list[str] = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)
    _q: list[Floats] = field(default_factory=list)
    _t: list[Floats] = field(default_factory=list)
    _scaled: list[str] = field(default_factory=list)
    _missing: set[str] = field(default_factory=set)

    def add_quaternion(
        self,
        name: str,
        q: Sequence[float],
        t: Sequence[float],
        *,
        line: int | None = None,
        path: Path | None = None,
        strict: bool = False,
    ) -> None:
        """Add a pose with a quaternion (w first) of any length.

        If `strict`, the length must be 1 up to 1e-3, as in trajectory files.
        """
        where = path or self.path
        if not np.isfinite([*q, *t]).all():
            self._add(name, *_NO_POSE, line, path)
            return
        raw, largest = np.asarray(q, np.float64), max(map(abs, q))
        if largest > 1e100:  # the sum of squares would overflow
            raw = raw / largest
        length = float(np.linalg.norm(raw))
        shown = largest if largest > 1e100 else length
        if length < MIN_NORM or (strict and abs(shown - 1) > WARN_NORM):
            expected = "1" if strict else "a rotation"
            reason = f"{name}: the quaternion has length {shown:g}; expected {expected}"
            self.errors.errors.append(FormatError(where, reason, line=line))
            return
        if abs(shown - 1) > WARN_NORM:
            self._scaled.append(f"{name}: {shown:g}")
        self._add(name, raw / length, t, line, path)

    def add_matrix(
        self,
        name: str,
        R: Sequence[float] | Floats,
        t: Sequence[float] | Floats,
        *,
        line: int | None = None,
        path: Path | None = None,
        inverse: bool = False,
    ) -> None:
        """Add a pose with a rotation matrix of nine numbers. If `inverse`, (R, t) maps camera to world."""
        matrix, shift = np.reshape(np.asarray(R, np.float64), (3, 3)), np.asarray(t, np.float64).ravel()
        if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
            self._add(name, *_NO_POSE, line, path)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            off = float(np.abs(matrix.T @ matrix - np.eye(3)).max())
        if not off <= ORTHONORMAL or np.linalg.det(matrix) <= 0:
            why = f"R^T R differs from the identity by {off:.2g}" if not off <= ORTHONORMAL else "it reflects"
            self.errors.errors.append(
                FormatError(path or self.path, f"{name}: R is not a rotation ({why})", line=line)
            )
            return
        q = quaternions_of(matrix)
        if inverse:
            q = conjugate(q)
            shift = -rotated(q, shift)
        self._add(name, q, shift, line, path)

    def add_missing(self, name: str, *, line: int | None = None, path: Path | None = None) -> None:
        """Add an image that the file lists as not registered."""
        self._missing.add(name)
        self._add(name, *_NO_POSE, line, path)

    def _add(
        self, name: str, q: Floats, t: Sequence[float] | Floats, line: int | None, path: Path | None
    ) -> None:
        if name in self._names:
            self.errors.errors.append(FormatError(path or self.path, f"duplicate image {name}", line=line))
            return
        self._names[name] = len(self._names)
        self._q.append(q)
        self._t.append(np.asarray(t, np.float64))

    def build(self, *, points: ModelPoints | None = None, ordered: bool = False) -> Poses:
        """Return the collected poses. Raise one error with all problems."""
        del self.errors.errors[50:]
        self.errors.raise_all()
        if self._scaled:
            quaternions = count_text(len(self._scaled), "quaternion")
            self.warnings.append(
                f"{self.path}: normalised {quaternions} whose length is not 1 ({first_few(self._scaled, 3)})"
            )
        n = len(self._names)
        return Poses(
            tuple(self._names),
            np.array(self._q, np.float64).reshape(n, 4),
            np.array(self._t, np.float64).reshape(n, 3),
            np.array([name not in self._missing for name in self._names], bool),
            str(self.path),
            ordered,
            points,
            tuple(self.warnings),
        )
