# SPDX-License-Identifier: BSD-3-Clause
"""A resolved method: its name, its cache key and its `extract` function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..core.hashing import HashedFiles, hash_json
from ..core.records import Arrays, Item
from .opened_files import OpenedFiles


class MethodHooks(Protocol):
    """Optional attributes that a method object may define in addition to its interface (`core.plugins`).

    A user's class may define `name`, `distance`, `zero_rows_are_valid` and `config`. If it has ``lookup``, it
    may also define `item_key`. All other attributes are for built-in methods. User code receives an
    `ItemView` in place of an `Item`.
    """

    name: str
    """Name in tables. Default: the registered name or the class name."""
    distance: str
    """Distance between descriptors, one of `core.plugins.DISTANCES`. Default: ``l2``."""
    zero_rows_are_valid: bool
    """Whether a row of zeros is a valid descriptor. Otherwise a zero row counts as a failure."""
    config: Mapping[str, Any]
    """Values that determine the output: all parameters if built-in, additional values in user code."""
    revision: int
    """Built-in: incremented when the output changes, which invalidates cached features. Default: 1."""
    libraries: tuple[str, ...]
    """Built-in: imported libraries, identified by version. Default: NumPy."""
    identity: str
    """Built-in: name in cache keys if the class is not registered."""
    weight_hashes: Mapping[str, str]
    """Built-in: hashes of the weight files."""
    tiepoint_parts: Mapping[str, object]
    """Built-in: component objects by name. Their configs become part of this method's config."""
    rooted: bool
    """Built-in: whether descriptor values are already square-rooted, as in RootSIFT."""
    keypoint_set: Mapping[str, Any] | None
    """Built-in: name of the stored keypoint set that the method describes."""
    warnings: list[str]
    """Built-in: warnings about the method's input. `check_items` may append to them."""
    uncached_reason: str | None
    """Built-in: reason why features cannot be cached, for a method that contains user code."""
    constructor: Any
    """Built-in: user class whose constructor receives the parameters that this method does not accept."""
    given_keypoints: bool
    """Built-in: whether keypoints are read from a keypoint set or from files."""

    def item_key(self, item: Item) -> str:
        """Return a text that changes whenever the stored features of an item change, such as a file hash."""

    def lookup_item(self, item: Item) -> Any:
        """Return the stored features of an item.

        For patch methods, the call also passes the expected number of rows.
        """

    def has_item(self, item: Item) -> bool:
        """Return whether stored features exist for an item."""

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists all items without stored features."""

    def describe_stream(self, patches: Iterator[Any]) -> Iterator[Any]:
        """Describe the patches of many items, in batches that may span several items (built-in only).

        Yield one result for each array of `patches`, in order: the return value of ``describe``, or the
        exception it would raise. The method may read some arrays ahead.
        """

    def match_stream(self, pairs: Iterator[Any]) -> Iterator[Any]:
        """Match many image pairs in batches (built-in only).

        Yield what ``match`` returns for each pair, in order.
        """

    keep_images: bool
    """Built-in keypoint methods: whether pairs store the features of each image on disk. Default: False."""
    thread_safe: bool
    """Built-in: whether several threads may call an object at the same time. Default: False."""

    def describe_item(self, item: Item, image: Any, keypoints: Any) -> Any:
        """Describe the keypoints of an image; called in place of ``describe`` if a method needs the item.

        ``detect_item`` replaces ``detect`` and ``extract_item`` replaces ``extract`` in the same way.
        """


def no_item_key(item: Item) -> Sequence[Any]:
    """Return an empty item-dependent part of the cache key.

    For methods whose output depends only on the content of the item.
    """
    return ()


def method_key(config: Mapping[str, Any], of_item: Sequence[Any]) -> str:
    """Return the method part of the cache key of an item's features.

    `config` is the config of the method, and `of_item` is the part that depends on the item.

    >>> method_key({"a": 1}, []) == method_key({"a": 1}, ["hash of a file"])
    False
    """
    if "base" not in config:
        return hash_json([dict(config), *of_item])
    own = {k: v for k, v in config.items() if k != "base"}
    return hash_json([method_key(config["base"], of_item), own])


def has_user_code(config: Any) -> bool:
    """Return whether a config contains a class or a program from user code."""
    if isinstance(config, Mapping):
        own = {"class", "source"} <= config.keys() or {"program", "greeting"} <= config.keys()
        return own or any(map(has_user_code, config.values()))
    return isinstance(config, list) and any(map(has_user_code, config))


Finish = Callable[[], Arrays]
"""Function that checks one streamed result. It returns the arrays or raises the error of `Method.extract`."""


@dataclass(frozen=True)
class Method:
    """A method under test: what determines its output, and the functions that compute its features.

    * `spec`: the specification (``sift+rootsift``), or None for a Python object passed by the user.
    * `config`: plain JSON with everything that determines the output: parameters, revision or source, weight
      hashes, library versions, device. If that cannot be determined, `uncached_reason` gives the reason.
    * `features_config`: the config of the features alone, if `config` also has settings of a matcher.
    * `extract(item, payload)`: returns the features of one item. If `needs_payload` is False, the method
      reads stored features and receives no payload.
    * `stream`: takes many (item, payload) pairs and yields (item, `Finish`) in the same order, with the
      results of `extract`. Any thread may call a `Finish`.
    * `key(item)`: the method part of the cache key. `of_item(item)` is its item-dependent part.
    * `check(items)`: reports problems such as missing files before the run, and may add `notices`.
    * `has(item)`: whether stored features exist.
    * `notices`: messages for the user.
    * `keep_images`: whether pairs store the features of each image on disk, because they are costly and
      depend only on its pixels.
    * `files`: stamps (size and time) of the files whose content is part of `config`.
    * `opened`: records the files that user code opens in `extract`; None for built-in methods.
    * `thread_safe`: whether several threads may call `extract` at the same time.
    * `in_workers`: whether worker processes may run a method that has a `stream`.
    * `memory`: returns the peak memory of other processes that the method uses.
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
    keep_images: bool = False
    in_workers: bool = False
    memory: Callable[[], int | None] | None = None
    files: HashedFiles = field(default_factory=HashedFiles)
    opened: OpenedFiles | None = None
    features_config: Mapping[str, Any] | None = None

    def key(self, item: Item) -> str | None:
        """Return the method part of an item's cache key. None if features cannot be cached."""
        if self.uncached_reason:
            return None
        part = self.of_item(item)
        return method_key(self._keyed, part) if part else self._key

    @cached_property
    def _key(self) -> str:
        """Method part of the cache key if it is the same for every item. Computed once."""
        return method_key(self._keyed, ())

    @property
    def _keyed(self) -> Mapping[str, Any]:
        return self.config if self.features_config is None else self.features_config

    def unkeyed(self) -> list[str]:
        """Return the files, folders and servers that `extract` has used but the cache key does not cover."""
        return [] if self.opened is None else self.opened.outside(self.files)

    @property
    def notice(self) -> str | None:
        """Message for the user if features cannot be cached, else None."""
        why = self.uncached_reason
        return why and f"The features of {self.name} are not cached because {why}."
