# SPDX-License-Identifier: BSD-3-Clause
"""What a run is cut into: items a method is applied to, and units of comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays of one item's features, e.g. ``values`` and ``valid``; often memory-mapped."""


class ImageFacts(NamedTuple):
    """An image of an item: its name or path, with slashes, and (width, height) where it is known."""

    name: str
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Item:
    """One thing a method is run on: a patch-image, an image, a pair of images.

    `key` is unique in the dataset (``v_wall/ref``); `content` hashes what the method sees; `count` is the
    number of rows expected (patches), None where the method decides. A pair of images names its `images`, by
    which files are looked up, and `truth`, a hash of what an oracle would be told.
    """

    key: str
    content: str
    count: int | None = None
    images: tuple[ImageFacts, ...] = ()
    truth: str = ""


@dataclass(frozen=True)
class Unit:
    """One independent piece of a comparison; `definition` hashes its lists and ground truth."""

    key: str
    items: tuple[str, ...]
    definition: str


@dataclass(frozen=True)
class Features:
    """The features of a method as a task sees them: arrays by item key, and the distance to use."""

    arrays: Callable[[str], Arrays]
    distance: str = "l2"
    meta: Mapping[str, Any] = field(default_factory=dict)
