# SPDX-License-Identifier: BSD-3-Clause
"""Results for one pair of the TSS kit: a folder with up to two flows and two masks."""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import Workspace
from ...core.errors import FormatError, InputError
from ..image.mask import read_mask, write_mask
from .flo import read_flo, write_flo

Arrays = Mapping[str, NDArray[Any]]
_FILES = {"flow1": "flow1.flo", "flow2": "flow2.flo", "mask1": "mask1.png", "mask2": "mask2.png"}


@dataclass(frozen=True)
class PairResult:
    """What a method made of a pair.

    `arrays` holds those of flow1, flow2 (h, w, 2) and mask1, mask2 (h, w) that there are. `problems` says
    of every file that is there but cannot be read why; `present` is False where there is no folder at all.
    """

    arrays: Arrays
    problems: tuple[str, ...] = ()
    present: bool = True
    _status: str = field(default="status", repr=False)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays only, for the feature cache: what is not an array goes as JSON into ``status``."""
        status = json.dumps({"present": self.present, "problems": list(self.problems)})
        return {**self.arrays, self._status: np.frombuffer(status.encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> PairResult:
        """The inverse of `to_arrays`; arrays without ``status`` come from a method and are complete.

        >>> made = PairResult({}, ("flow1.flo: truncated",)).to_arrays()
        >>> PairResult.from_arrays(made).problems
        ('flow1.flo: truncated',)
        """
        own = {name: np.array(arrays[name]) for name in _FILES if name in arrays}
        if "status" not in arrays:
            return cls(own)
        status = json.loads(bytes(np.asarray(arrays["status"])))
        return cls(own, tuple(status["problems"]), bool(status["present"]))


def read_pair_result(folder: str | Path, space: Workspace | None = None) -> PairResult:
    """Read the results of a pair. A missing file is left out, an unreadable one becomes a problem in words.

    With a `space` they are arrays of it.

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
    """Write flow1.flo, flow2.flo, mask1.png, mask2.png of a pair, those there are; makes the folder.

    >>> write_pair_result("x", {"values": np.zeros(3)})
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: nothing to write for x: no flow1, flow2, mask1 or mask2
    """
    if not any(name in arrays for name in _FILES):
        raise InputError(f"nothing to write for {folder}: no flow1, flow2, mask1 or mask2")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    for name, file in _FILES.items():
        if name in arrays:
            if name.startswith("flow"):
                write_flo(path / file, arrays[name])
            else:
                write_mask(path / file, np.asarray(arrays[name]))
