# SPDX-License-Identifier: BSD-3-Clause
"""Collect the problems and warnings of a pair dataset to report them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError, ProblemsError
from ...core.formatting import count_text, first_few
from ...core.regular_files import is_file
from ...formats.image.reader import SUFFIXES, read_orientation, read_size
from ...formats.text.numbers import is_singular
from .pair import Matrix, Size
from .principal_point import doubt_principal_point

ORTHONORMAL = 1e-3
"""Maximum deviation of R^T R from the identity.

Published poses with five decimals deviate by up to 1.5e-5.
"""


_MAX_LISTED = 5


@dataclass
class PairProblems:
    """Collector of the problems and warnings of one pair dataset.

    It also has the folders in which images are searched, and caches image sizes.
    """

    place: Path
    folders: tuple[Path, ...] = ()
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    turned: list[str] = field(default_factory=list)
    lacking: dict[str, list[str]] = field(default_factory=dict)
    assumed: dict[str, Size] = field(default_factory=dict)
    sizeless: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)
    _sizes: dict[Path, Size | None] = field(default_factory=dict)

    def intrinsics(self, value: Any, where: str) -> Matrix | None:
        """Parse a 3x3 matrix K from nested or nine flat numbers. Return None if it is invalid."""
        K = self.numbers(value, (3, 3), where)
        if K is None:
            return None
        if is_singular(K):
            self.problems.append(f"{where} is not invertible; expected [[fx, s, cx], [0, fy, cy], [0, 0, 1]]")
        elif not np.array_equal(K[2], [0, 0, 1]) or K[1, 0] != 0 or K[0, 0] <= 0 or K[1, 1] <= 0:
            self.problems.append(
                f"{where} is not a camera matrix ({_shown(K)}); "
                "expected [[fx, s, cx], [0, fy, cy], [0, 0, 1]]"
            )
        else:
            return K
        return None

    def camera(self, K: Matrix | None, size: Size | None, where: str) -> None:
        """Record a warning if the principal point contradicts the image size.

        Each kind of mistake is one warning.
        """
        doubt = None if K is None or size is None else doubt_principal_point(K, size)
        if doubt is not None:
            self.doubts.setdefault(doubt.kind, []).append(f"{where}: {doubt.message}")

    def pose(self, value: Any, where: str, *, moved: bool = True) -> Matrix | None:
        """Parse a 4x4 or 3x4 pose from nested or flat numbers. Return None if it is invalid.

        If `moved`, a translation of 0 is also a problem, because scores need its direction.
        """
        count = len(value) if isinstance(value, list | tuple | np.ndarray) else 0
        shape = (3, 4) if count in (3, 12) else (4, 4)
        T = self.numbers(value, shape, where)
        if T is None:
            return None
        if shape == (3, 4):
            T = np.vstack([T, [0.0, 0.0, 0.0, 1.0]])
        if not np.array_equal(T[3], [0, 0, 0, 1]):
            self.problems.append(f"{where}: the last row is {_shown(T[3])}; expected 0, 0, 0, 1")
            return None
        R = T[:3, :3]
        off = float(np.abs(R.T @ R - np.eye(3)).max())
        if off > ORTHONORMAL or np.linalg.det(R) <= 0:
            reason = f"R^T R differs from the identity by {off:.2g}" if off > ORTHONORMAL else "it reflects"
            self.problems.append(f"{where}: R is not a rotation ({reason}); expected R of x1 = R x0 + t")
            return None
        if moved and not T[:3, 3].any():
            self.problems.append(f"{where}: the translation t is 0 and has no direction; remove the pair")
            return None
        return T

    def numbers(self, value: Any, shape: tuple[int, ...], where: str) -> Matrix | None:
        """Parse nested or flat numbers as a finite float64 array of a given shape. Return None if invalid.

        A length of -1 in `shape` allows any length.
        """
        words = " x ".join("n" if n == -1 else str(n) for n in shape)
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "iufU":  # text may contain numbers; refuse complex, dates, Booleans
                raise ValueError
            array = array.astype(np.float64)
            if array.shape != shape and (array.ndim == 1 or -1 in shape):
                if array.ndim > 1 and array.shape[1:] != shape[1:]:
                    raise ValueError
                array = array.reshape(shape)
        except (ValueError, TypeError, OverflowError):
            self.problems.append(f"{where}: expected {words} numbers, found {_kind(value)}")
            return None
        if array.ndim != len(shape) or any(s not in (-1, a) for s, a in zip(shape, array.shape, strict=True)):
            self.problems.append(f"{where}: expected {words} numbers, found shape {array.shape}")
            return None
        if not np.isfinite(array).all():
            self.problems.append(f"{where}: a number is not finite; write finite numbers")
            return None
        return np.ascontiguousarray(array)

    def integer_size(self, value: Any, where: str) -> Size | None:
        """Parse (width, height) as two positive integers. Return None if they are invalid."""
        size = self.numbers(value, (2,), where)
        if size is None:
            return None
        if not (np.equal(size, np.rint(size)).all() and (size > 0).all() and (size < 1 << 31).all()):
            self.problems.append(
                f"{where}: expected [width, height] in pixels, found {str(list(value))[:80]}"
            )
            return None
        return int(size[0]), int(size[1])

    def image(self, name: str) -> Path:
        """Return the path of an image in the first folder that contains it.

        If no folder contains it, return its path in the first folder. If the name has no image suffix, each
        known suffix is tried.
        """
        plain = name.replace("\\", "/")
        endings = ("",) if Path(plain).suffix.lower() in SUFFIXES else ("", *SUFFIXES)
        candidates = [folder / f"{plain}{e}" for folder in self.folders or (self.place,) for e in endings]
        return next((path for path in candidates if is_file(path)), candidates[0])

    def size(
        self, path: Path | None, stated: Size | None, where: str, assumed: Size | None = None
    ) -> Size | None:
        """Return (width, height) of an image, as stated or from its header. Report a problem if they differ.

        If neither is available, return `assumed`, the size that dataset and K imply, and record a warning.
        """
        header = self._header(path) if path is not None else None
        if header is None and path is not None and path not in self._sizes:
            return None
        if header is not None and stated is not None and header != stated:
            self.problems.append(
                f"{where}: {path} has {header[0]} x {header[1]} pixels, but {stated[0]} x {stated[1]} are "
                "stated; state the size to which K belongs"
            )
        if header is None and stated is None and assumed is not None:
            self.assumed[str(path or where)] = assumed
            stated = assumed
        if header is None and stated is None:
            named = f"{path} is missing" if path else "no image is named"
            self.sizeless[str(path or where)] = (
                f"{where}: {named} and its size is not stated; add the image or state its size"
            )
        elif header is None:
            self.absent.append(str(path) if path else where)
        return stated or header

    def _header(self, path: Path) -> Size | None:
        if path not in self._sizes:
            if not is_file(path):
                self._sizes[path] = None
                return None
            try:
                self._sizes[path] = read_size(path)
                if read_orientation(path) != 1:
                    self.turned.append(path.name)
            except FormatError as e:
                if str(e) not in self.problems:
                    self.problems.append(str(e))
                return None
        return self._sizes[path]

    def lacks(self, where: str, keys: Sequence[str], needs: str) -> None:
        """Record ground truth that a pair lacks. One message lists all pairs that lack the same keys.

        `needs` is the kind of ground truth that the task requires.
        """
        if keys:
            self.lacking.setdefault(f"{', '.join(keys)}, which {needs} needs", []).append(where)

    def short(self, path: str) -> str:
        """Return a path relative to the first search folder, if it is below that folder."""
        return path.removeprefix(f"{self.folders[0]}/") if self.folders else path

    def end(self) -> tuple[str, ...]:
        """Return all warnings. Raise a `ProblemsError` if there are problems."""
        if len(self.sizeless) <= _MAX_LISTED:
            self.problems += self.sizeless.values()
        else:
            self.problems.append(
                f"{len(self.sizeless)} images are missing and have no stated size "
                f"({first_names([self.short(name) for name in self.sizeless])}); add them or state sizes"
            )
        for what, places in self.lacking.items():
            several = f"{first_names(places)} lack" if len(places) > 1 else f"{places[0]} lacks"
            self.problems.append(f"{several} {what}")
        if self.problems:
            raise ProblemsError(str(self.place), list(dict.fromkeys(self.problems)))
        warnings = list(self.warnings)
        for first, *others in self.doubts.values():
            warnings.append(first + (f" ({len(others)} more of these)" if others else ""))
        if self.absent:
            names = dict.fromkeys(self.short(name) for name in self.absent)
            warnings.append(
                f"{count_text(len(names), 'image is', 'images are')} missing "
                f"({first_names(list(names))}); their pairs can only be scored with matches from files "
                "(files:DIR)"
            )
        if self.assumed:
            shown = first_names([f"{w} x {h}" for w, h in dict.fromkeys(self.assumed.values())])
            warnings.append(
                f"{count_text(len(self.assumed), 'image is', 'images are')} missing, and the size follows "
                f"from dataset and K: {shown}"
            )
        if self.turned:
            warnings.append(
                f"{count_text(len(self.turned), 'image has', 'images have')} an EXIF orientation "
                f"({first_names(self.turned)}), which was not applied"
            )
        return tuple(dict.fromkeys(warnings))


def first_names(names: Sequence[str], shown: int = 3) -> str:
    """Join the first few names as text, followed by an ellipsis if there are more.

    >>> first_names(["a", "b", "c", "d"])
    'a, b, c, …'
    """
    return first_few(names, shown, count=False)


def _kind(value: Any) -> str:
    if isinstance(value, list):
        lengths = [len(v) if isinstance(v, list) else None for v in value]
        return f"a list of {len(value)}" + (f" lists of {lengths[0]}" if lengths and lengths[0] else "")
    return repr(value)[:40]


def _shown(matrix: Matrix) -> str:
    return str(np.array2string(matrix, precision=6, separator=", ").replace("\n", ""))
