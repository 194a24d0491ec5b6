# SPDX-License-Identifier: BSD-3-Clause
"""Files of releases whose content is known: no release publishes hashes of its files, some are at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...formats.image.read import SUFFIXES, read_image
from ...model.errors import FormatError
from ...model.hashing import hash_array, hash_bytes

_DIGITS = 16


@cache
def _known() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("contents.json").read_text())
    return found


def compared(key: str, root: Path) -> tuple[str, ...]:
    """A note on how many files of a release have the content that is known of them; none without such files.

    Files are compared byte by byte, images that a copy may have in another format by their pixels. Everything
    is read now; remembered hashes are not trusted.
    """
    known = _known().get(key, {})
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
    note = f"content is known of {same + len(other)} files here, and {same} have it"
    return (note + (f"; not {', '.join(other[:5])}{', …' * (len(other) > 5)}" if other else ""),)


def _counted(found: str, known: str, name: str, same: int, other: list[str]) -> tuple[int, list[str]]:
    return (same + 1, other) if found[:_DIGITS] == known else (same, [*other, name])


def _pixels(path: Path) -> str:
    try:
        return hash_array(read_image(path))
    except FormatError:
        return ""
