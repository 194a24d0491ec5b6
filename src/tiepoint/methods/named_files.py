# SPDX-License-Identifier: BSD-3-Clause
"""Find the files that string literals in source code name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.errors import InputError
from ..core.hashing import hash_file
from .object_state import NotHashable

_PARENTS = 3
"""Number of folders in which names are looked up: that of the source file and those above."""
_MAX_DEPTH = 4


def hash_literal_files(texts: Mapping[Path, Iterable[str]], folder: Path | None) -> dict[str, list[str]]:
    """Return the hashes of the files that string literals in source files name, by literal.

    Names are looked up in the current folder, in `folder`, in the folder of the source file and in two
    folders above it. They are also looked up in subfolders that another literal of the source file names, as
    in ``HERE / "weights" / "net.pt"``.
    """
    first = [Path.cwd(), *([folder] if folder is not None else [])]
    found: dict[str, dict[str, str]] = {}
    for file, own in texts.items():
        names = sorted({name for text in own for name in _names(text)})
        places = [os.path.realpath(place) for place in [*first, *file.resolve().parents[:_PARENTS]]]
        for name, path in _named(names, list(dict.fromkeys(places))):
            try:
                found.setdefault(name, {}).setdefault(path, hash_file(path))
            except InputError as e:
                raise NotHashable(name, str(e)) from e
    return {name: list(files.values()) for name, files in sorted(found.items())}


def _names(text: str) -> list[str]:
    """Return the file names that a literal may contain: the literal, and words of a shell command."""
    words = [word for word in text.split() if "." in word or "/" in word] if " " in text else []
    return [os.path.expanduser(name) for name in (text, *words) if name.strip("./\\") and "\0" not in name]


def _named(names: list[str], places: list[str]) -> list[tuple[str, str]]:
    """Return (name, path) of all files `names` in the folders `places`.

    Subfolders of `places` that `names` contains are searched as well.
    """
    files: dict[tuple[str, str], None] = {}
    known = set(places)
    for _ in range(_MAX_DEPTH):
        below = []
        for place in places:
            for name in names:
                path = os.path.join(place, name)
                try:
                    mode = os.stat(path).st_mode
                except (OSError, ValueError):
                    continue
                path = os.path.realpath(path)
                if stat.S_ISREG(mode):
                    files[name, path] = None
                elif stat.S_ISDIR(mode) and path not in known:
                    known.add(path)
                    below.append(path)
        places = below
    return list(files)
