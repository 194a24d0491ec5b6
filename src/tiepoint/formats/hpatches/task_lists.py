# SPDX-License-Identifier: BSD-3-Clause
"""`splits.json` of HPatches v2: named lists of test sequences, some with train sequences.

The order of the test list matters: the official pairs were drawn from it by position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import FormatError, InputError
from ...core.formatting import path_part
from ..file_io import write_bytes
from ..json_yaml import read_json


@dataclass(frozen=True)
class Split:
    """A named list of test sequences; `train` is None where a split defines none."""

    name: str
    test: tuple[str, ...]
    train: tuple[str, ...] | None = None


def splits_file(folder: str | Path) -> Path | None:
    """The ``splits.json`` of a folder of task files, None where it has none.

    It is in the folder itself, or in ``splits`` below it, where the published tool keeps it. With both, it is
    the first.
    """
    places = (Path(folder) / "splits.json", Path(folder) / "splits" / "splits.json")
    return next((path for path in places if path.is_file()), None)


def read_splits(path: str | Path) -> dict[str, Split]:
    """Read splits by name.

    Raises:
        FormatError: Not JSON, an unknown key, a list that is not of distinct names, an empty test list.
    """
    raw = read_json(path)
    if not isinstance(raw, dict) or not raw:
        raise FormatError(path, "expected an object of splits by name")
    return {str(name): _split(path, str(name), value) for name, value in raw.items()}


def _split(path: str | Path, name: str, value: Any) -> Split:
    try:
        path_part(name, "the split")
    except InputError as e:
        raise FormatError(path, str(e)) from e
    if not isinstance(value, dict) or "test" not in value:
        raise FormatError(path, f"split {name!r}: expected an object with the list 'test'")
    unknown = sorted(set(value) - {"name", "test", "train"})
    if unknown:
        raise FormatError(path, f"split {name!r}: unknown key {unknown[0]!r}; known are name, test, train")
    if value.get("name", name) != name:
        raise FormatError(path, f"split {name!r}: its 'name' is {value['name']!r}")
    lists = {}
    for key in ("test", "train"):
        names = value.get(key)
        if names is None:
            continue
        if not isinstance(names, list) or not all(isinstance(s, str) and s for s in names):
            raise FormatError(path, f"split {name!r}: {key!r} must be a list of sequence names")
        twice = sorted({s for s in names if names.count(s) > 1})
        if twice:
            raise FormatError(path, f"split {name!r}: {key!r} names {twice[0]!r} twice")
        lists[key] = tuple(names)
    if not lists.get("test"):
        raise FormatError(path, f"split {name!r}: the test list is empty")
    return Split(name, lists["test"], lists.get("train"))


def write_splits(path: str | Path, splits: Mapping[str, Split]) -> None:
    """Write splits in the published form: one line, keys test, train (where there is one), name."""
    plain: dict[str, dict[str, Any]] = {}
    for key, split in splits.items():
        plain[key] = {"test": list(split.test)}
        if split.train is not None:
            plain[key]["train"] = list(split.train)
        plain[key]["name"] = split.name
    write_bytes(path, (json.dumps(plain).encode(),))
