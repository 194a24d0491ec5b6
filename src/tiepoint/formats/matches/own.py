# SPDX-License-Identifier: BSD-3-Clause
"""Our own file of the matches of one pair: an ``.npz`` of plain arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError
from ...model.units import Arrays

NAMES = ("points0", "points1", "confidence", "keypoints0", "keypoints1", "flow", "flow_confidence", "answers")
"""Arrays that are read, as features of a pair have them."""


def read_npz(path: str | Path) -> dict[str, NDArray[np.generic]]:
    """All arrays of an ``.npz``; one that would need a pickle to be run is a `FormatError`."""
    try:
        with np.load(path, allow_pickle=False) as found:
            if not hasattr(found, "files"):
                raise FormatError(path, "is one array, not an .npz of named arrays")
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise FormatError(path, "the file is missing") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError) as e:
        if "pickle" in str(e).lower():
            raise FormatError(
                path,
                "holds pickled objects, which could run code and are not read; save plain arrays instead",
            ) from e
        raise FormatError(path, f"is not a readable .npz of arrays ({e})") from e


def read_matches(path: str | Path) -> Arrays:
    """Features of a pair from our ``.npz``: `points0` and `points1` (n, 2), or `flow`, or `answers`."""
    arrays = {name: a for name, a in read_npz(path).items() if name in NAMES}
    if not ({"points0", "points1"} <= set(arrays) or {"flow", "answers"} & set(arrays)):
        raise FormatError(path, "has no points0 and points1 (n, 2), no flow (h, w, 2) and no answers (q, 2)")
    return arrays


def write_matches(path: str | Path, arrays: Arrays) -> None:
    """Write the features of a pair, so that `read_matches` gives them back bit for bit."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {name: np.asarray(arrays[name]) for name in NAMES if name in arrays}
    np.savez(path, **kept)


def file_name(pair: str) -> str:
    """The file of a pair: slashes of its name are ``-``.

    >>> file_name("WGABS/kremlin")
    'WGABS-kremlin.npz'
    """
    return pair.replace("/", "-") + ".npz"
