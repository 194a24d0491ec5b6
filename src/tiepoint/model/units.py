# SPDX-License-Identifier: BSD-3-Clause
"""What a run is cut into: items a method is applied to, and units of comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from .records import Records
from .scores import Score

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays of one item's features, e.g. ``values`` and ``valid``; often memory-mapped."""


@dataclass(frozen=True)
class Item:
    """One thing a method is run on: a patch-image, an image, a pair of images.

    `key` is unique in the dataset (``v_wall/ref``); `content` hashes what the method sees; `count` is the
    number of rows expected (patches), None where the method decides.
    """

    key: str
    content: str
    count: int | None = None


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


class OpenTask(Protocol):
    """A task bound to its data and options. Opening checks everything that can be checked early."""

    @property
    def items(self) -> Sequence[Item]:
        """What the method must be run on."""

    @property
    def units(self) -> Sequence[Unit]:
        """The independent pieces of the comparison."""

    @property
    def data_hash(self) -> str:
        """Content hash of the dataset."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the user should know about this data."""

    def read(self, item: str) -> Any:
        """What the method is given for an item: patches, an image, a pair of images."""

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """The records of one unit."""


class Task(Protocol):
    """A published question with its data, ground truth and scores."""

    name: str
    family: str
    protocols: tuple[str, ...]

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenTask:
        """Bind to data; unknown options and bad data are errors, all listed at once."""

    def comparison(self, protocol: str) -> str:
        """Name of the comparison a protocol scores; protocols with the same name share records."""

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol, from records alone (no dataset needed)."""
