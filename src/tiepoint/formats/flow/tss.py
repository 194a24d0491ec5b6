# SPDX-License-Identifier: BSD-3-Clause
"""Read and write files of the TSS evaluation kit: results, annotations and ``scores.csv``."""

from __future__ import annotations

import json
import math
import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import Workspace
from ...core.errors import FormatError, InputError
from ..file_io import reading, write_text
from ..image.mask import read_mask, write_mask
from .flo import read_flo, write_flo

Arrays = Mapping[str, NDArray[Any]]
_FILES = {"flow1": "flow1.flo", "flow2": "flow2.flo", "mask1": "mask1.png", "mask2": "mask2.png"}


@dataclass(frozen=True)
class PairResult:
    """Flows and masks that a method computed for an image pair.

    `arrays` has those of flow1 and flow2 (h, w, 2), mask1 and mask2 (h, w) that exist. `problems` has one
    message per unreadable file. `present` is False if the folder is missing.
    """

    arrays: Arrays
    problems: tuple[str, ...] = ()
    present: bool = True
    _status: str = field(default="status", repr=False)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays for the feature cache. The array ``status`` stores the other fields as JSON."""
        status = json.dumps({"present": self.present, "problems": list(self.problems)})
        return {**self.arrays, self._status: np.frombuffer(status.encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> PairResult:
        """Create a result from the arrays of `to_arrays`.

        Arrays without ``status`` come directly from a method and have no problems.

        >>> arrays = PairResult({}, ("flow1.flo: truncated",)).to_arrays()
        >>> PairResult.from_arrays(arrays).problems
        ('flow1.flo: truncated',)
        """
        own = {name: np.array(arrays[name]) for name in _FILES if name in arrays}
        if "status" not in arrays:
            return cls(own)
        status = json.loads(bytes(np.asarray(arrays["status"])))
        return cls(own, tuple(status["problems"]), bool(status["present"]))


def read_pair_result(folder: str | Path, space: Workspace | None = None) -> PairResult:
    """Read the results of an image pair from a folder.

    Missing files are skipped, and unreadable files are reported in `problems`. If a workspace `space` is
    given, the files are read into its arrays.

    >>> read_pair_result("nowhere").present
    False
    """
    if not os.path.isdir(folder):
        return PairResult({}, present=False)
    arrays: dict[str, NDArray[Any]] = {}
    problems: list[str] = []
    for name, file in _FILES.items():
        path = f"{folder}/{file}"
        if os.path.exists(path):
            try:
                reader: Callable[..., NDArray[Any]] = read_flo if file.endswith(".flo") else read_mask
                arrays[name] = reader(path, space=space, name=name)
            except FormatError as e:
                problems.append(str(e))
    return PairResult(arrays, tuple(problems))


def write_pair_result(folder: str | Path, arrays: Arrays) -> None:
    """Write the flows and masks of an image pair into a folder, which is created if missing.

    The files are flow1.flo, flow2.flo, mask1.png and mask2.png. Arrays that do not exist are skipped.

    >>> write_pair_result("x", {"values": np.zeros(3)})
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: x: nothing to write; pass flow1, flow2, mask1 or mask2
    """
    if not any(name in arrays for name in _FILES):
        raise InputError(f"{folder}: nothing to write; pass flow1, flow2, mask1 or mask2")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    for name, file in _FILES.items():
        if name in arrays:
            if name.startswith("flow"):
                write_flo(path / file, arrays[name])
            else:
                write_mask(path / file, np.asarray(arrays[name]))


THRESHOLDS = tuple(range(1, 51))
"""Error thresholds of the columns T1 to T50 of ``scores.csv``, in percent of the larger image side."""
_MAX_BYTES = 1 << 20


def _text(path: Path) -> str:
    with reading(path), path.open("rb") as f:
        data = f.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise FormatError(path, f"has more bytes than the limit of {_MAX_BYTES}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise FormatError(path, f"is not UTF-8 text: {e.reason} at byte {e.start}; save it as UTF-8") from e


def read_flip(path: str | Path) -> int:
    """Read the flip flag of a pair: 1 if the two objects face opposite directions, else 0.

    A missing file means 0, as in the kit.

    >>> read_flip("nowhere/flip_gt.txt")
    0
    """
    p = Path(path)
    if not os.path.lexists(p):  # a dangling link is an error
        return 0
    text = _text(p).strip()
    if text not in ("0", "1"):
        raise FormatError(p, f"expected 0 or 1, found {text[:20]!r}", line=1)
    return int(text)


def read_pair_names(path: str | Path) -> tuple[str, str]:
    """Read the original file names of the two images of a pair.

    They are in line 2 of a CSV file with the header ``Image1,Image2``. If the file is missing, both names are
    empty, as in the kit.

    >>> read_pair_names("nowhere/pair.txt")
    ('', '')
    """
    p = Path(path)
    if not os.path.lexists(p):  # a dangling link is an error
        return "", ""
    lines = _text(p).splitlines()
    if len(lines) < 2 or lines[0].strip() != "Image1,Image2":
        raise FormatError(p, "expected the header Image1,Image2, then one line with two image names", line=1)
    names = [n.strip() for n in lines[1].split(",")]
    if len(names) != 2:
        raise FormatError(p, f"expected two image names, found {len(names)}", line=2)
    return names[0], names[1]


def read_corr(path: str | Path) -> NDArray[np.float64]:
    """Read manually annotated correspondences ``x1 y1 x2 y2``, float64 (n, 4).

    The coordinates are normalised by the image size; `corr_pixels` converts them to pixels. The tools of the
    kit do not read this file.
    """
    p = Path(path)
    rows: list[list[float]] = []
    for number, line in enumerate(_text(p).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            values = [float(f) for f in fields]
        except ValueError:
            raise FormatError(p, "expected four numbers", line=number) from None
        if len(values) != 4 or not np.isfinite(values).all():
            raise FormatError(p, f"expected four finite numbers, found {len(values)} fields", line=number)
        rows.append(values)
    return np.array(rows, np.float64).reshape(-1, 4)


def corr_pixels(
    corr: NDArray[np.float64], size1: tuple[int, int], size2: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Convert normalised correspondences to pixel positions (n, 2) in both images.

    The image sizes are (height, width). A stored coordinate c is a 1-based position divided by the image
    size, so the 0-based pixel is ``c * W - 1`` or ``c * H - 1``. The median residual to the ground-truth flow
    is then 0.06 to 0.15 px; without the -1 it is up to 2.2 px.

    >>> corr_pixels(np.array([[0.5, 0.5, 1.0, 1.0]]), (10, 20), (30, 40))
    (array([[9., 4.]]), array([[39., 29.]]))
    """
    (h1, w1), (h2, w2) = size1, size2
    return corr[:, :2] * [w1, h1] - 1, corr[:, 2:] * [w2, h2] - 1


@dataclass(frozen=True)
class ScoreRow:
    """Row of ``scores.csv``: one direction of an image pair, or a summary (``Average``, ``w/o flip``).

    `seg` is the segmentation score of the source image. `accuracy` has the flow accuracies T1 to T50 on the
    pixels of the source image. None means that no result exists, and NaN that the score is undefined.
    """

    row: str
    src: str
    ref: str
    seg: float | None
    flip: int
    accuracy: tuple[float | None, ...]


def format_scores(rows: Sequence[ScoreRow], *, use_prec: bool = False) -> str:
    """Format ``scores.csv`` as the C++ tool does: ``%.6f``, ``-nan`` for NaN, LF line ends, no quotes.

    None becomes an empty field. The C++ tool never writes empty fields; it counts missing results as 0.

    >>> text = format_scores([ScoreRow("a_1to2", "x.jpg", "y.jpg", 0.5, 0, (float("nan"),) * 50)])
    >>> text.splitlines()[1][:34]
    'a_1to2,x.jpg,y.jpg,0.500000,0,-nan'
    """
    seg = "SegPrec" if use_prec else "SegIUR"
    lines = [",".join(["Row", "Src", "Ref", seg, "Flip", *(f"T{t}" for t in THRESHOLDS)])]
    for r in rows:
        values = [_number(a) for a in r.accuracy]
        lines.append(",".join([r.row, r.src, r.ref, _number(r.seg), str(r.flip), *values]))
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return "-nan" if math.isnan(value) else f"{value:.6f}"


def write_scores(path: str | Path, rows: Sequence[ScoreRow], *, use_prec: bool = False) -> None:
    """Write rows to a ``scores.csv`` file in the format of `format_scores`."""
    write_text(path, format_scores(rows, use_prec=use_prec))
