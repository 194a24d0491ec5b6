# SPDX-License-Identifier: BSD-3-Clause
"""Data types that tasks and methods exchange: items, features, units and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

KINDS = ("rank", "pair", "pixel")


@dataclass(frozen=True)
class Records:
    """Records of one unit: named columns of equal length and a header.

    `kind` is `rank` (reference distance and rank counts per relevant item or query), `pair` (distances in the
    order of the task's pair list) or `pixel` (counts per threshold). A column has shape (n,) or (n, k).
    `meta` contains plain JSON values: unit keys, scene, group, and exclusions with their reasons.
    """

    kind: str
    columns: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"the kind of records must be one of {KINDS}, found {self.kind!r}")
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"record columns must have equal lengths, found {lengths}")

    def __len__(self) -> int:
        return next((len(c) for c in self.columns.values()), 0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @property
    def size_bytes(self) -> int:
        """Memory size of all columns in bytes."""
        return int(sum(np.asarray(c).nbytes for c in self.columns.values()))


Arrays = Mapping[str, NDArray[Any]]
"""Named feature arrays of one item, e.g. ``values`` and ``valid``. They are often memory-mapped."""


class ImageFacts(NamedTuple):
    """Name or path of an item's image, with forward slashes, and its (width, height) if known."""

    name: str
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Item:
    """Input of a method: a patch image, an image or a pair of images.

    `key` is unique in the dataset (``v_wall/ref``). `content` is a hash of the data that the method receives.
    `count` is the expected number of descriptors (patches); None if the method decides. For a pair of images,
    `images` gives the image names, which are used to look up files. `truth_hash` is a hash of the ground
    truth of a pair; it is part of the cache key of the oracle method.
    """

    key: str
    content: str
    count: int | None = None
    images: tuple[ImageFacts, ...] = ()
    truth_hash: str = ""


@dataclass(frozen=True)
class ItemView:
    """Read-only view of an `Item` that is passed to user code."""

    key: str
    images: tuple[ImageFacts, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class Unit:
    """Independent part of a task's comparison: its key, the keys of its items, and a hash.

    A unit is for example an image pair or a scene. `definition` is a hash of its pair lists and ground truth.
    """

    key: str
    items: tuple[str, ...]
    definition: str


@dataclass(frozen=True)
class Features:
    """Features of one method that a task compares.

    `arrays` returns the arrays of an item by its key. `distance` is the name of the descriptor distance.
    """

    arrays: Callable[[str], Arrays]
    distance: str = "l2"
    meta: Mapping[str, Any] = field(default_factory=dict)
