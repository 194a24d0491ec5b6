# SPDX-License-Identifier: BSD-3-Clause
"""A resolved method: its name, its cache key and its `extract` function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..core.hashing import hash_json
from ..core.records import Arrays, Item


class MethodHooks(Protocol):
    """Optional attributes of an object under test besides its interface (`core.plugins`), found by name.

    A user's class may have the first three, `config`, and `item_key` beside its ``lookup``. The rest is for
    built-in methods. User code receives an `ItemView` in place of an `Item`.
    """

    name: str
    """Name in tables. Default: the registered name or the class name."""
    distance: str
    """Distance between descriptors, one of `core.plugins.DISTANCES`. Default: ``l2``."""
    zero_rows_are_valid: bool
    """Whether a row of zeros is a valid descriptor. Otherwise it is a failure."""
    config: Mapping[str, Any]
    """User code: additional values that determine the output. Built-in: all parameters."""
    revision: int
    """Built-in: incremented when the output changes, which invalidates cached features. Default: 1."""
    libraries: tuple[str, ...]
    """Built-in: imported libraries, identified by version. Default: NumPy."""
    identity: str
    """Built-in: name in cache keys if the class is not registered."""
    weight_hashes: Mapping[str, str]
    """Built-in: hashes of the weight files."""
    tiepoint_parts: Mapping[str, object]
    """Built-in: component objects; their configs become part of the config."""
    rooted: bool
    """Built-in: whether values are already square roots."""
    keypoint_set: Mapping[str, Any] | None
    """Built-in: the stored keypoint set that it describes."""
    warnings: list[str]
    """Built-in: warnings about its input; `check_items` may add some."""
    uncached_reason: str | None
    """Built-in: why features cannot be cached, if it contains user code that prevents it."""
    given_keypoints: bool
    """Built-in: whether keypoints come from a set or from files."""

    def item_key(self, item: Item) -> str:
        """Return a text that changes with what is looked up for an item, such as the hash of its file."""

    def lookup_item(self, item: Item) -> Any:
        """Look up the features of an item without its payload. Patch methods also receive the row count."""

    def has_item(self, item: Item) -> bool:
        """Return whether there are features to look up for an item."""

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists all missing items."""

    def describe_stream(self, patches: Iterator[Any]) -> Iterator[Any]:
        """Describe the patches of many items in batches that cross item boundaries (built-in only).

        Yield one result for each array of `patches`, in order: the return value of ``describe``, or the
        exception it would raise. The stream may read some arrays ahead.
        """

    thread_safe: bool
    """Built-in: whether several threads may call an object at the same time. Default: False."""

    def describe_item(self, item: Item, image: Any, keypoints: Any) -> Any:
        """Describe keypoints of a known image. ``detect_item`` and ``extract_item`` are alike."""


def no_item_key(item: Item) -> Sequence[Any]:
    """Return an empty key part, for methods that know an item by its content alone."""
    return ()


def method_key(config: Mapping[str, Any], of_item: Sequence[Any]) -> str:
    """Return the method part of the cache key of an item's features.

    >>> method_key({"a": 1}, []) == method_key({"a": 1}, ["hash of a file"])
    False
    """
    if "base" not in config:
        return hash_json([dict(config), *of_item])
    own = {k: v for k, v in config.items() if k != "base"}
    return hash_json([method_key(config["base"], of_item), own])


Finish = Callable[[], Arrays]
"""Checks the output of a stream for one item and returns its arrays; raises what `Method.extract` would."""


@dataclass(frozen=True)
class Method:
    """A method under test.

    `spec` is its specification (``sift+rootsift``), None for an object created in a session. `config` is
    plain JSON and holds everything that determines the output: parameters, revision or source, weight hashes,
    library versions, device. If that is not possible, `uncached_reason` gives the reason. `extract(item,
    payload)` returns the features of one item. `key(item)` identifies them besides the item's content;
    `of_item(item)` is the part that depends on the item. A method that looks features up (`needs_payload`
    False) receives no payload. `check(items)` reports all problems that would occur later, such as missing
    files. `has(item)` returns whether there is anything to look up. `notices` are messages for the user, some
    of which only `check` finds.

    `stream` describes many items: it takes (item, payload) and yields (item, `Finish`) in the same order,
    equal to the results of `extract`. Results may be finished in any thread. `extract` is called from one
    thread at a time unless the method is `thread_safe`.
    """

    name: str
    family: str
    distance: str
    config: Mapping[str, Any]
    extract: Callable[[Item, Any], Arrays]
    of_item: Callable[[Item], Sequence[Any]] = no_item_key
    spec: str | None = None
    needs_payload: bool = True
    meta: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Sequence[Item]], None] | None = None
    has: Callable[[Item], bool] | None = None
    uncached_reason: str | None = None
    notices: Sequence[str] = ()
    stream: Callable[[Iterator[tuple[Item, Any]]], Iterator[tuple[Item, Finish]]] | None = None
    thread_safe: bool = False

    def key(self, item: Item) -> str | None:
        """Return the method part of an item's cache key. None if features cannot be cached."""
        if self.uncached_reason:
            return None
        part = self.of_item(item)
        return method_key(self.config, part) if part else self._key

    @cached_property
    def _key(self) -> str:
        """The key of items that add nothing to it, computed once for all of them."""
        return method_key(self.config, ())

    @property
    def notice(self) -> str | None:
        """Message for the user if features cannot be cached, else None."""
        why = self.uncached_reason
        return why and f"The features of {self.name} are not cached because {why}."
