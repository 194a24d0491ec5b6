# SPDX-License-Identifier: BSD-3-Clause
"""Names in an archive: where each may be written, and what is no part of a dataset."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

from ...core.errors import InputError
from ...core.formatting import path_part, printable

MAX_PATH_DEPTH = 16
_LEAVINGS = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", "Icon\r"})
"""What file managers leave in archives."""


class MemberPaths:
    """The places that the members of one archive take; no two take one, on no file system."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def file(self, name: str) -> PurePosixPath | None:
        """Where a file goes, below the folder; None for what file managers leave.

        Raises:
            InputError: The name leads outside, cannot be written on every system, or is taken, also by one
                that differs only in case or in how its letters are composed.
        """
        parts = self._parts(name)
        if not parts:
            return None
        place = "/".join(parts)
        key = _key(place)
        if key in self._files or key in self._folders:
            other = self._files.get(key) or self._folders[key]
            raise self._refused(name, f"another member has the place {printable(other)}")
        self._files[key] = place
        for end in range(1, len(parts)):
            self._folder("/".join(parts[:end]), name)
        return PurePosixPath(place)

    def folder(self, name: str) -> None:
        """Check the name of a folder; folders are made where files need them."""
        parts = self._parts(name.rstrip("/"))
        for end in range(1, len(parts) + 1):
            self._folder("/".join(parts[:end]), name)

    def _folder(self, place: str, name: str) -> None:
        key = _key(place)
        if key in self._files or self._folders.setdefault(key, place) != place:
            other = self._files.get(key) or self._folders[key]
            raise self._refused(name, f"another member has the place {printable(other)}")

    def _parts(self, name: str) -> list[str]:
        if name.startswith("/"):
            raise self._refused(name, "it is absolute")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if any(part in _LEAVINGS or part.startswith("._") for part in parts):
            return []
        if ".." in parts:
            raise self._refused(name, "it leads outside")
        if len(parts) > MAX_PATH_DEPTH:
            raise self._refused(name, f"it is more than {MAX_PATH_DEPTH} folders deep")
        try:
            return [path_part(part, "the part") for part in parts]
        except InputError as e:
            raise self._refused(name, str(e)) from e

    def _refused(self, name: str, why: str) -> InputError:
        short = name if len(name) <= 120 else name[:117] + "…"
        return InputError(f"{self.archive}: the member '{printable(short)}' is refused: {why}")


def _key(place: str) -> str:
    return unicodedata.normalize("NFC", place).casefold()
