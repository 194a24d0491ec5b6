# SPDX-License-Identifier: BSD-3-Clause
"""Records (the result of a comparison), items, units and features."""

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

    `kind` is `rank` (per relevant item or query: reference distance and counts), `pair` (distances in
    the order of the task list) or `pixel` (counts per threshold). A column is (n,) or (n, k). `meta`
    holds plain JSON values: unit keys, scene, group, exclusions with their reasons.
    """

    kind: str
    columns: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"records are of kind {KINDS}, not {self.kind!r}")
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    def __len__(self) -> int:
        return next((len(c) for c in self.columns.values()), 0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return int(sum(np.asarray(c).nbytes for c in self.columns.values()))


Arrays = Mapping[str, NDArray[Any]]
"""Named arrays of one item's features, e.g. ``values`` and ``valid``; often memory-mapped."""


class ImageFacts(NamedTuple):
    """Image of an item: its name or path, with slashes, and (width, height) if known."""

    name: str
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Item:
    """Input of a method: a patch-image, an image or a pair of images.

    `key` is unique in the dataset (``v_wall/ref``); `content` hashes what the method sees; `count` is the
    number of rows expected (patches), None where the method decides. A pair of images names its `images`, by
    which files are looked up. `truth_hash` hashes the ground truth of a pair, for the key of its oracle.
    """

    key: str
    content: str
    count: int | None = None
    images: tuple[ImageFacts, ...] = ()
    truth_hash: str = ""


@dataclass(frozen=True)
class ItemView:
    """What user code may know about an `Item`."""

    key: str
    images: tuple[ImageFacts, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class Unit:
    """Independent part of a comparison; `definition` hashes its lists and ground truth."""

    key: str
    items: tuple[str, ...]
    definition: str


@dataclass(frozen=True)
class Features:
    """Features of a method as a task sees them: arrays by item key, and the distance."""

    arrays: Callable[[str], Arrays]
    distance: str = "l2"
    meta: Mapping[str, Any] = field(default_factory=dict)
