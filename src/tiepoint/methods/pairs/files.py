# SPDX-License-Identifier: BSD-3-Clause
"""``files:DIR`` for tasks on pairs: matches that another program wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...formats.matches.own import file_name, read_matches
from ...model.errors import InputError, ProblemsError
from ...model.hashing import hash_file
from ...model.units import Arrays, Item


class MatchFiles:
    """Matches by pair, ``DIR/NAME.npz``, slashes in names replaced by ``-``."""

    def __init__(self, path: str) -> None:
        self.root = Path(path).expanduser()
        if not self.root.is_dir():
            raise InputError(f"files:{path}: no such folder; expected matches as DIR/PAIR.npz")
        self.name = f"files:{self.root.name}"
        self.config: dict[str, Any] = {}

    def _file(self, item: Item) -> Path:
        return self.root / file_name(item.key)

    def check_items(self, items: Sequence[Item]) -> None:
        """All pairs without a file, at once."""
        absent = [
            f"{item.key}: {file_name(item.key)} is missing" for item in items if not self.has_item(item)
        ]
        if absent:
            raise ProblemsError(f"matches in {self.root}", absent)

    def has_item(self, item: Item) -> bool:
        """Whether there is a file of a pair."""
        return self._file(item).is_file()

    def item_key(self, item: Item) -> str:
        """Hash of the file of a pair."""
        return hash_file(self._file(item))

    def lookup_item(self, item: Item) -> Arrays:
        """The matches of a pair."""
        return read_matches(self._file(item))


def family_of_folder(path: str) -> str:
    """``pairs`` for a folder of matches, ``keypoints`` for one of features of images."""
    return "pairs"
