# SPDX-License-Identifier: BSD-3-Clause
"""A method made ready to run: what it is called, what determines its output, how to apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..core.hashing import hash_json
from ..core.records import Arrays, Item


class MethodHooks(Protocol):
    """What an object under test may have besides its edge (`model.edges`); each is looked for by name.

    A user's class may have the first three, `config`, and `item_key` beside its ``lookup``; the rest is for
    methods of this package.
    """

    name: str
    """What tables call it; the class name, or the name it is registered by, where it is missing."""
    distance: str
    """How its descriptors are compared: one of `model.edges.DISTANCES`; ``l2`` where it is missing."""
    zero_rows_are_valid: bool
    """Whether a row of zeros is a true descriptor; otherwise it is a failure."""
    config: Mapping[str, Any]
    """Of a user's object: something more that decides its output. Of ours: all its parameters."""
    revision: int
    """Of ours: raised when its output changes, so that features are made anew. 1 where it is missing."""
    libraries: tuple[str, ...]
    """Of ours: what it imports, known by version. NumPy where it is missing."""
    identity: str
    """Of ours: what it is called in keys where it is not registered."""
    weight_hashes: Mapping[str, str]
    """Of ours: hashes of the files that its weights come from."""
    tiepoint_parts: Mapping[str, object]
    """Of ours: the objects it is made of; their configs are part of its own."""
    rooted: bool
    """Of ours: whether values are square roots already."""
    keypoint_set: Mapping[str, Any] | None
    """Of ours: the stored keypoint set that it describes."""
    warnings: list[str]
    """Of ours: what the user should know about its input; `check_items` may fill it."""
    uncached_reason: str | None
    """Of ours: why its features cannot be kept, where it holds code of a user that says so."""
    given_keypoints: bool
    """Of ours: whether its keypoints were there before the run, in a set or in files."""

    def item_key(self, item: Item) -> str:
        """Changes with what is looked up for an item: a hash of its file."""

    def lookup_item(self, item: Item) -> Any:
        """What is known about an item without its payload; patch methods are also given the row count."""

    def has_item(self, item: Item) -> bool:
        """Whether there is anything to look up for an item."""

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise all that would be missing, as one error."""

    def describe_stream(self, patches: Iterator[Any]) -> Iterator[Any]:
        """Of ours: ``describe`` for the patches of many items, in batches that cross their borders.

        One result for each array that is taken from `patches`, in order: what ``describe`` would return, or
        the exception it would raise. It may take some arrays ahead of the results it gives.
        """

    thread_safe: bool
    """Of ours: whether an object may be called from several threads at once. Not so where it is missing."""

    def describe_item(self, item: Item, image: Any, keypoints: Any) -> Any:
        """As ``describe``, knowing which image it is; likewise ``detect_item`` and ``extract_item``."""


def no_item_key(item: Item) -> Sequence[Any]:
    """The part of a key that a method has from an item which it knows by its content alone."""
    return ()


def method_key(config: Mapping[str, Any], of_item: Sequence[Any]) -> str:
    """What identifies the features of an item, besides the item's content.

    >>> method_key({"a": 1}, []) == method_key({"a": 1}, ["hash of a file"])
    False
    """
    if "base" not in config:
        return hash_json([dict(config), *of_item])
    own = {k: v for k, v in config.items() if k != "base"}
    return hash_json([method_key(config["base"], of_item), own])


Finish = Callable[[], Arrays]
"""Checks what a stream gave for an item and makes its arrays; raises what `Method.extract` would."""


@dataclass(frozen=True)
class Method:
    """One method under test.

    `spec` is how it was named (``sift+rootsift``), None for an object made in a session. `config` is plain
    JSON and holds all that determines the output: parameters, revision or source, weight hashes, library
    versions, device; where not all of that can be told, `uncached_reason` says why. `extract(item, payload)`
    returns the features of one item; `key(item)` is what identifies them besides the item's content,
    `of_item(item)` the part of it that depends on the item. A method that looks features up (`reads_payload`
    False) is not given the item's payload. `check(items)`, where there is one, finds before any work what
    would fail later (missing files) and reports all of it at once; `has(item)` says whether there is anything
    to look up for an item. `told` has sentences for the user, some of which are only found by `check`.

    `stream`, where there is one, describes many items at once: it takes (item, payload) and yields (item,
    `Finish`) in the same order, equal to what `extract` gives. Its results may be finished in any thread.
    `extract` is called from one thread at a time unless the method is `thread_safe`.
    """

    name: str
    family: str
    distance: str
    config: Mapping[str, Any]
    extract: Callable[[Item, Any], Arrays]
    of_item: Callable[[Item], Sequence[Any]] = no_item_key
    spec: str | None = None
    reads_payload: bool = True
    meta: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Sequence[Item]], None] | None = None
    has: Callable[[Item], bool] | None = None
    uncached_reason: str | None = None
    told: Sequence[str] = ()
    stream: Callable[[Iterator[tuple[Item, Any]]], Iterator[tuple[Item, Finish]]] | None = None
    thread_safe: bool = False

    def key(self, item: Item) -> str | None:
        """What identifies the features of an item, besides its content; None where they cannot be kept."""
        if self.uncached_reason:
            return None
        part = self.of_item(item)
        return method_key(self.config, part) if part else self._key

    @cached_property
    def _key(self) -> str:
        """The key of items that have nothing of their own in it, which most methods have in thousands."""
        return method_key(self.config, ())

    @property
    def notice(self) -> str | None:
        """A sentence for the user where features cannot be kept, None where they can."""
        why = self.uncached_reason
        return why and f"The features of {self.name} are not cached because {why}."
