# SPDX-License-Identifier: BSD-3-Clause
"""What is known of published datasets without their files, and how much of one is at hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SHOWN = 20


@cache
def releases() -> dict[str, Any]:
    """Facts about releases by key: `title`, `unit`, and names, numbers or digests of their parts."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("releases.json").read_text())
    return found


@dataclass(frozen=True)
class Release:
    """How much of a published dataset a folder holds.

    `missing` names the parts that are not there, where their names are known. `notes` say what speaks for and
    against it being that release; `differs` is set where something in it is not what was published, `short`
    where parts that are there are not whole.
    """

    key: str
    have: int
    of: int
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    differs: bool = False
    short: bool = False
    part: str = ""

    @property
    def title(self) -> str:
        """What it is called."""
        return str(releases()[self.key]["title"]) + (f", {self.part}" if self.part else "")

    @property
    def whole(self) -> bool:
        """Whether all of it is there, as it was published."""
        return self.have >= self.of and not self.differs and not self.short

    def lines(self, *, shown: int = SHOWN) -> list[str]:
        """The release, what is missing and the notes, a line each; at most `shown` missing names."""
        unit = releases()[self.key]["unit"]
        if self.differs:
            head = f"not {self.title} as published: {self.have:,} of {self.of:,} {unit}, with differences"
        elif self.whole:
            head = f"{self.title}: whole, all {self.of:,} {unit}"
        else:
            head = f"{self.title}: a subset, {self.have:,} of {self.of:,} {unit}"
        found = [f"release: {head}"]
        if self.missing:
            names = ", ".join(self.missing[:shown])
            more = len(self.missing) - shown
            hidden = f" and {more} more (`missing` lists all)" if more > 0 else ""
            found.append(f"missing: {names}{hidden}")
        return [*found, *(f"note: {note}" for note in self.notes)]


def by_names(key: str, there: Collection[str], names: Iterable[str], **more: Any) -> Release:
    """A release whose parts have names.

    >>> by_names("evd", ["adam", "cat"], ["adam", "cat", "vin"]).lines()
    ['release: EVD: a subset, 2 of 3 pairs', 'missing: vin']
    """
    wanted = list(names)
    missing = tuple(n for n in wanted if n not in there)
    return Release(key, len(wanted) - len(missing), len(wanted), missing, **more)
