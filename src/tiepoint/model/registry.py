# SPDX-License-Identifier: BSD-3-Clause
"""One explicit registry: names to lazy ``module:attribute`` targets, entry points, did-you-mean."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from .errors import InputError, UnknownNameError


@dataclass(frozen=True)
class Entry:
    """A registered name: where its object is, one line about it, and what it is for (family)."""

    name: str
    target: str
    summary: str
    family: str
    needs: str | None = None


class Registry:
    """Names of one kind of thing. Objects are imported when asked for, not before.

    >>> r = Registry("number")
    >>> r.add("pi", "math:pi", "3.14…", family="constant")
    >>> round(r.load("pi"), 2)
    3.14
    >>> r.load("pie")
    Traceback (most recent call last):
    tiepoint.model.errors.UnknownNameError: unknown number 'pie'; did you mean 'pi'? Known: pi
    """

    def __init__(self, what: str, *, group: str | None = None) -> None:
        self.what = what
        self._group = group
        self._entries: dict[str, Entry] = {}
        self._plugged = group is None

    def add(self, name: str, target: str, summary: str, *, family: str, needs: str | None = None) -> None:
        """Register `name`; a name can be taken once."""
        if name in self._entries:
            raise InputError(f"{self.what} {name!r} is registered twice")
        self._entries[name] = Entry(name, target, summary, family, needs)

    def _plug(self) -> None:
        if self._plugged or self._group is None:
            return
        self._plugged = True
        for point in entry_points(group=self._group):
            if point.name not in self._entries:
                self.add(point.name, point.value, f"from {point.value}", family="plug-in")

    def __iter__(self) -> Iterator[Entry]:
        self._plug()
        return iter(sorted(self._entries.values(), key=lambda e: (e.family, e.name)))

    def __contains__(self, name: str) -> bool:
        self._plug()
        return name in self._entries

    def entry(self, name: str) -> Entry:
        """The entry of `name`, or an error that suggests near names."""
        self._plug()
        if name not in self._entries:
            raise UnknownNameError(self.what, name, self._entries)
        return self._entries[name]

    def load(self, name: str) -> Any:
        """Import and return the registered object."""
        entry = self.entry(name)
        module, _, attribute = entry.target.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as e:
            if entry.needs is None:
                raise
            raise InputError(
                f"{self.what} {name!r} needs the package {e.name!r}: pip install 'tiepoint[{entry.needs}]'"
            ) from e
        for part in attribute.split("."):
            found = getattr(found, part)
        return found
