# SPDX-License-Identifier: BSD-3-Clause
"""Affine frames as text (`IMNAME.frames`): one frame a line, ``x,y,a11,a21,a12,a22``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError


def write_frames(path: str | Path, frames: NDArray[np.float64]) -> None:
    """Write frames (n, 2, 3) = [A | centre] with 6 digits after the point.

    Order of a line: centre x, y, then A by columns, as VLFeat orders an oriented ellipse. A maps the unit
    circle to the region; pixel centres are integers, (0, 0) is the top left one.
    """
    if frames.ndim != 3 or frames.shape[1:] != (2, 3):
        raise InputError(f"frames have shape (n, 2, 3), found {frames.shape}")
    columns = np.concatenate([frames[:, :, 2], frames[:, :, 0], frames[:, :, 1]], axis=1)
    lines = [",".join(f"{v:.6f}" for v in row) for row in columns]
    Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_frames(path: str | Path) -> NDArray[np.float64]:
    """Read frames as float64 (n, 2, 3); a line that does not hold six finite numbers is a `FormatError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise FormatError(path, f"cannot be read as text ({e})") from e
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = [float(word) for word in line.split(",")]
        except ValueError:
            raise FormatError(path, f"expected 6 numbers, found {line!r}", line=number) from None
        if len(row) != 6 or not np.isfinite(row).all():
            raise FormatError(path, f"expected 6 finite numbers, found {line!r}", line=number)
        rows.append(row)
    values = np.array(rows).reshape(-1, 6)
    return np.stack([values[:, 2:4], values[:, 4:6], values[:, 0:2]], axis=2)
