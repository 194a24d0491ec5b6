# SPDX-License-Identifier: BSD-3-Clause
"""Read and write keypoint sets: folders with a JSON header and one keypoint table for all images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, UnknownNameError
from ...core.formatting import storable_text
from ...core.hashing import add_checksum, hash_array, hash_json, verify_checksum
from ...core.keypoints import COLUMNS, Keypoints
from ...core.regular_files import read_regular_file
from ..file_io import read_bytes
from ..npy import array_in

HEADER, TABLE, PAIRS = "set.json", "keypoints.npy", "pairs.npy"
VERSION = 1
_MAX_HEADER_BYTES = 1 << 27
_INTEGERS = [COLUMNS.index("octave"), COLUMNS.index("class_id")]
REPLACED = ".old-"
"""Name prefix of the old folder while a keypoint set is replaced."""
SETS = "keypoint_sets"
"""Name of the folder in a store that has one sub-folder per keypoint set."""


def sets_below(root: Path) -> dict[str, Path]:
    """Return the folders of a store's keypoint sets by name, sorted.

    >>> sets_below(Path("nowhere"))
    {}
    """
    found = {p.parent.name: p.parent for p in sorted((root / SETS).glob(f"*/{HEADER}"))}
    sets = {name: path for name, path in found.items() if not name.startswith(".")}
    # If the process was killed while it replaced a set, the old set has the prefix.
    replaced = {n.removeprefix(REPLACED): p for n, p in found.items() if n.startswith(REPLACED)}
    return dict(sorted((replaced | sets).items()))


@dataclass(frozen=True)
class KeypointSet:
    """Keypoints of every image of a dataset, by ``SCENE/IMAGE``, in a fixed order.

    `pairs` is None, or has one number per keypoint: keypoints with equal numbers, in another set or in other
    images of the scene, are the same physical point. `recipe` describes how the set was created (detector,
    border, limit per image, sources). `contents` has hashes of the image files.
    """

    name: str
    images: Mapping[str, Keypoints]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    pairs: Mapping[str, NDArray[np.int64]] | None = None
    contents: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, numbers in (self.pairs or {}).items():
            if len(numbers) != len(self.of(key)):
                raise InputError(
                    f"{self.name}: {key} has {len(self.of(key))} keypoints but {len(numbers)} pair numbers; "
                    "create the set again"
                )

    def of(self, key: str) -> Keypoints:
        """Return the keypoints of an image. Raise an error for an unknown image."""
        if key not in self.images:
            raise UnknownNameError(f"image of keypoint set {self.name!r}", key, list(self.images)[:10])
        return self.images[key]

    @property
    def total(self) -> int:
        """Number of keypoints in all images."""
        return sum(len(k) for k in self.images.values())

    @cached_property
    def id(self) -> str:
        """Hash of name, keypoints and pair numbers."""
        tables = {key: hash_array(k.to_array()) for key, k in self.images.items()}
        pairs = {key: hash_array(np.asarray(p, np.int64)) for key, p in (self.pairs or {}).items()}
        return hash_json([self.name, tables, pairs])

    def row(self) -> dict[str, Any]:
        """Return the set as a row of the store's table ``keypoint_sets``.

        Fields that do not apply are None.
        """
        r = self.recipe
        return {
            "id": self.id,
            "name": self.name,
            "generator_type": r.get("detector"),
            "generation_method": r.get("method"),
            "dataset_path": None if r.get("data") is None else storable_text(str(r["data"])),
            "max_features": r.get("max_features"),
            "boundary_filter_px": r.get("border_px"),
            "tolerance_px": r.get("tolerance_px"),
            "source_set_a_id": r.get("source_a"),
            "source_set_b_id": r.get("source_b"),
            "total_keypoints": self.total,
            "avg_keypoints_per_image": self.total / len(self.images) if self.images else None,
            "config": json.dumps(dict(r), sort_keys=True, default=str),
        }


def write_keypoint_set(folder: Path, keypoint_set: KeypointSet) -> None:
    """Write a keypoint set into an existing folder."""
    counts = {key: len(k) for key, k in keypoint_set.images.items()}
    header = {
        "version": VERSION,
        "name": keypoint_set.name,
        "id": keypoint_set.id,
        "columns": list(COLUMNS),
        "images": counts,
        "contents": dict(keypoint_set.contents),
        "paired": keypoint_set.pairs is not None,
        "recipe": dict(keypoint_set.recipe),
    }
    tables = [k.to_array() for k in keypoint_set.images.values()]
    np.save(folder / TABLE, np.concatenate([np.empty((0, len(COLUMNS))), *tables]))
    if keypoint_set.pairs is not None:
        numbers = [np.asarray(keypoint_set.pairs[key], np.int64) for key in keypoint_set.images]
        np.save(folder / PAIRS, np.concatenate([np.empty(0, np.int64), *numbers]))
    (folder / HEADER).write_text(add_checksum(header, indent=1), encoding="utf-8", newline="\n")


def read_keypoint_set(folder: str | Path) -> KeypointSet:
    """Read a keypoint set and check that its content matches the hash in the header."""
    root = Path(folder)
    if not (root / HEADER).is_file():
        raise InputError(
            f"{root}: not the folder of a keypoint set, because {HEADER} is missing; pass the folder of a set"
        )
    header = _header(root / HEADER)
    counts: dict[str, int] = header["images"]
    total = sum(counts.values())
    table = _array(root / TABLE)
    if table.shape != (total, len(COLUMNS)) or table.dtype != np.float64:
        raise FormatError(root / TABLE, f"is {table.dtype} {table.shape}, expected float64 with {total} rows")
    integers = table[:, _INTEGERS]
    if not (np.abs(integers) < 1 << 53).all() or not np.array_equal(integers, np.rint(integers)):
        raise FormatError(root / TABLE, "octaves and classes must be integers; create the set again")
    numbers = _array(root / PAIRS) if header["paired"] else None
    if numbers is not None and (numbers.shape != (total,) or numbers.dtype != np.int64):
        raise FormatError(root / PAIRS, f"is {numbers.dtype} {numbers.shape}, expected int64 ({total},)")
    starts = np.cumsum([0, *counts.values()])
    images = {
        key: Keypoints.from_array(table[a:b]) for key, a, b in zip(counts, starts, starts[1:], strict=False)
    }
    pairs = None
    if numbers is not None:
        pairs = {key: numbers[a:b] for key, a, b in zip(counts, starts, starts[1:], strict=False)}
    keypoint_set = KeypointSet(header["name"], images, header["recipe"], pairs, header["contents"])
    if keypoint_set.id != header["id"]:
        raise FormatError(root, "the keypoints do not match the header of the set; create the set again")
    return keypoint_set


def _array(path: Path) -> NDArray[Any]:
    return array_in(path, bytearray(read_regular_file(path)))


def _header(path: Path) -> dict[str, Any]:
    """Read the header of a keypoint set, and check the type of each value."""
    try:
        header = verify_checksum(read_bytes(path, most=_MAX_HEADER_BYTES))
    except ValueError as e:
        raise FormatError(path, f"the keypoint set is corrupt: {e}; create it again") from e
    kinds = {"name": str, "id": str, "images": dict, "contents": dict, "recipe": dict, "paired": bool}
    for key, kind in kinds.items():
        if not isinstance(header.get(key), kind):
            raise FormatError(
                path,
                f"the keypoint set is corrupt: {key} is missing or not a {kind.__name__}; create it again",
            )
    for image, count in header["images"].items():
        if not isinstance(count, int) or not 0 <= count < 1 << 40:
            raise FormatError(
                path,
                f"the keypoint set is corrupt: {image} has the invalid number of keypoints "
                f"{str(count)[:40]}; create it again",
            )
    return header
