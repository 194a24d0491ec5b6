# SPDX-License-Identifier: BSD-3-Clause
"""What is known of published datasets without their files, and how much of one is at hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...core.amounts import count_text
from ...core.errors import FormatError
from ...core.hashing import hash_array, hash_bytes
from ...formats.image.reader import SUFFIXES, read_image

MAX_MISSING_LISTED = 20
_DIGITS = 16


@cache
def _json(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return found


def releases() -> dict[str, Any]:
    """Facts about releases by key: `title`, `unit`, and names, numbers or digests of their parts."""
    return _json("releases.json")


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

    def lines(self, *, shown: int = MAX_MISSING_LISTED) -> list[str]:
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


def content_note(key: str, root: Path) -> tuple[str, ...]:
    """A note on how many files of a release have the content that is known of them; none without such files.

    Files are compared byte by byte, images that a copy may have in another format by their pixels. Everything
    is read now; remembered hashes are not trusted.
    """
    known = _json("contents.json").get(key, {})
    bases = [root, *(p for p in sorted(root.iterdir()) if p.is_dir())] if root.is_dir() else []
    same = 0
    other: list[str] = []
    for name, content in known.get("files", {}).items():
        path = next((b / name for b in bases if (b / name).is_file()), None)
        if path is not None:
            same, other = _counted(hash_bytes(path.read_bytes()), content, name, same, other)
    for name, content in known.get("pixels", {}).items():
        found = (b / f"{name}{s}" for b in bases for s in SUFFIXES)
        path = next((p for p in found if p.is_file()), None)
        if path is not None:
            same, other = _counted(_pixels(path), content, name, same, other)
    if not same and not other:
        return ()
    some = count_text(same + len(other), "file")
    note = f"content is known of {some} here, and {same} {'has' if same == 1 else 'have'} it"
    return (note + (f"; not {', '.join(other[:5])}{', …' * (len(other) > 5)}" if other else ""),)


def _counted(found: str, known: str, name: str, same: int, other: list[str]) -> tuple[int, list[str]]:
    return (same + 1, other) if found[:_DIGITS] == known else (same, [*other, name])


def _pixels(path: Path) -> str:
    try:
        return hash_array(read_image(path))
    except FormatError:
        return ""
