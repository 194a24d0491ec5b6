# SPDX-License-Identifier: BSD-3-Clause
"""Find datasets on this machine: in given folders, below ``TIEPOINT_DATA``, or installed by `data get`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .download.install import ENDING, read_record
from .validation.dataset import datasets_below, layout_name

VARIABLE = "TIEPOINT_DATA"


@dataclass(frozen=True)
class LocalDataset:
    """Dataset in a folder of this machine: its layout, and its published name if `data get` installed it."""

    path: Path
    layout: str
    published: str = ""


def data_folders() -> list[Path]:
    """Return the folders in the environment variable ``TIEPOINT_DATA``, separated as in ``PATH``."""
    given = os.environ.get(VARIABLE, "")
    return [Path(text).expanduser() for text in given.split(os.pathsep) if text]


def local_datasets(folders: Sequence[Path]) -> list[LocalDataset]:
    """Return the datasets in the given folders, up to two levels deep, sorted by path.

    The current folder may contain anything, so only datasets that `data get` installed are found there.
    """
    found: dict[Path, LocalDataset] = {}
    for path, layout in _candidates(folders):
        whole = Path(os.path.abspath(path))
        name = read_record(path).get("dataset")
        found.setdefault(whole, LocalDataset(path, layout, name if isinstance(name, str) else ""))
    return [found[path] for path in sorted(found)]


def _candidates(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        below = datasets_below(folder)
        own = layout_name(folder)
        # Some layouts are also detected in the folder above the dataset.
        if own is not None and own not in below.values():
            yield folder, own
        else:
            yield from below.items()
    for pattern in (f"*{ENDING}", f"*/*{ENDING}"):
        for record in sorted(Path().glob(pattern)):
            path = record.with_name(record.name.removesuffix(ENDING))
            layout = layout_name(path) if path.is_dir() else None
            if layout is not None:
                yield path, layout
