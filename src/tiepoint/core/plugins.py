# SPDX-License-Identifier: BSD-3-Clause
"""Registries of named objects with lazy imports and plug-ins, and interfaces of user methods."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .errors import InputError, UnknownNameError

if TYPE_CHECKING:  # shell completion imports this module: NumPy would triple its time
    from numpy.typing import NDArray

    Array = NDArray[Any]

PLUGGED = "plug-in"
"""Family of entries that other packages register."""


@dataclass(frozen=True)
class RegistryEntry:
    """Registry entry: a name, and the import target, summary and family of its object."""

    name: str
    target: str
    summary: str
    family: str
    needs: str | None = None
    package: str | None = None
    """Package that provides a plug-in; None for built-in entries."""
    install: str | None = None
    """Commands that install what the entry needs, if the package extra named by `needs` is not enough."""


class Registry:
    """Registry of one kind of object. Objects are imported on first use.

    >>> r = Registry("number")
    >>> r.add("pi", "math:pi", "3.14…", family="constant")
    >>> round(r.load("pi"), 2)
    3.14
    >>> r.load("pie")
    Traceback (most recent call last):
    tiepoint.core.errors.UnknownNameError: unknown number 'pie'; did you mean 'pi'? Known: pi
    """

    def __init__(self, what: str, *, group: str | None = None) -> None:
        self.what = what
        self.problems: list[str] = []
        """Messages about skipped plug-ins, each with the reason."""
        self._group = group
        self._entries: dict[str, RegistryEntry] = {}
        self._plugged = group is None

    def add(
        self,
        name: str,
        target: str,
        summary: str = "",
        *,
        family: str,
        needs: str | None = None,
        install: str | None = None,
    ) -> None:
        """Register `name`. Each name can be registered once."""
        key = self._key(name, family)
        if key in self._entries:
            raise InputError(f"{self.what} {key!r} is already registered; choose another name")
        self._entries[key] = RegistryEntry(name, target, summary, family, needs, install=install)

    def _key(self, name: str, family: str) -> str:
        """Return the key under which an entry is registered. Subclasses may include the family."""
        return name

    def _plug(self) -> None:
        if self._plugged or self._group is None:
            return
        self._plugged = True
        for point in entry_points(group=self._group):
            package = point.dist.name if point.dist is not None else None
            plug = RegistryEntry(point.name, point.value, f"from {point.value}", PLUGGED, package=package)
            known = self._entries.setdefault(self._key(point.name, PLUGGED), plug)
            if known.target != plug.target:
                self.problems.append(
                    f"the {self.what} {point.name!r} of {package or point.value} is skipped: its name is "
                    f"already used by {known.package or known.target}"
                )

    def __iter__(self) -> Iterator[RegistryEntry]:
        self._plug()
        return iter(sorted(self._entries.values(), key=lambda e: (e.family, e.name)))

    def __contains__(self, name: str) -> bool:
        self._plug()
        return name in self._entries

    def entry(self, name: str) -> RegistryEntry:
        """Return the entry of `name`. If it is unknown, raise an error that suggests similar names."""
        self._plug()
        if name not in self._entries:
            raise UnknownNameError(self.what, name, self._entries)
        return self._entries[name]

    def load(self, name: str) -> Any:
        """Import and return the registered object."""
        return self.load_entry(self.entry(name))

    def load_entry(self, entry: RegistryEntry) -> Any:
        """Import and return the object of an entry. The error about a broken plug-in names its package."""
        module, _, attribute = entry.target.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except Exception as e:
            if entry.family == PLUGGED:
                raise InputError(
                    f"the {self.what} {entry.name!r} of the package {entry.package or module!r} cannot be "
                    f"loaded ({type(e).__name__}: {e}); repair the package or uninstall it"
                ) from e
            if entry.needs is None or not isinstance(e, ModuleNotFoundError):
                raise
            needed = entry.install or f"pip install 'tiepoint[{entry.needs}]'"
            raise InputError(f"{self.what} {entry.name!r} needs the package {e.name!r}: {needed}") from e
        return found


@runtime_checkable
class PatchDescriptor(Protocol):
    """Interface of patch descriptors: map patches uint8 (n, s, s) to (n, d), or to (descriptors, valid)."""

    def describe(self, patches: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class PatchLookup(Protocol):
    """Interface of precomputed descriptors: returns the descriptors (n, d) of one patch image."""

    def lookup(self, sequence: str, image: str) -> Any: ...  # noqa: D102


@runtime_checkable
class Detector(Protocol):
    """Interface of keypoint detectors for uint8 images (h, w) or RGB images (h, w, 3)."""

    def detect(self, image: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class KeypointDescriptor(Protocol):
    """Interface of descriptors at given keypoints: returns (n, d), or (descriptors, valid mask)."""

    def describe(self, image: Array, keypoints: Any) -> Any: ...  # noqa: D102


@runtime_checkable
class FeatureExtractor(Protocol):
    """Interface of combined detectors and descriptors: returns (keypoints, descriptors[, valid])."""

    def extract(self, image: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class SparseMatcher(Protocol):
    """Interface of sparse matchers: returns index pairs int (m, 2), or (pairs, distances)."""

    def match(self, features1: Any, features2: Any) -> Any: ...  # noqa: D102


@runtime_checkable
class DenseMatcher(Protocol):
    """Interface of dense matchers: returns a flow float32 (h, w, 2), or (flow, mask[, confidence])."""

    def match(self, image1: Array, image2: Array) -> Any: ...  # noqa: D102


DISTANCES = ("l2", "l1", "hamming", "cosine", "masked_l1")


def distance_of(method: object) -> str:
    """Return the name of a method's distance, `l2` by default.

    >>> distance_of(object())
    'l2'
    """
    return str(getattr(method, "distance", "l2"))


def check_distance(distance: str, where: str) -> str:
    """Check the name of a distance and return it. Raise an error if it is unknown."""
    if distance not in DISTANCES:
        raise InputError(f"{where}: unknown distance {distance!r}; choose one of {', '.join(DISTANCES)}")
    return distance
