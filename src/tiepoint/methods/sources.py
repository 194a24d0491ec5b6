# SPDX-License-Identifier: BSD-3-Clause
"""What code a method is made of: its source files and the versions of the libraries they import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..model.errors import InputError
from ..model.hashing import hash_bytes, hash_json

_DISTRIBUTIONS = {
    "PIL": ("pillow",),
    "cv2": (
        "opencv-contrib-python-headless",
        "opencv-contrib-python",
        "opencv-python-headless",
        "opencv-python",
    ),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn",),
}


def source_closure(path: Path) -> list[Path]:
    """The file and the files beside it that it imports, directly or not, sorted by path.

    Only siblings count (``import helper`` with ``helper.py`` in the same folder, ``from .helper import …``):
    what lies elsewhere is a library, known by its version.
    """
    seen: set[Path] = set()
    waiting = [Path(path).resolve()]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name, level in _imports(file):
            if level <= 1:
                top = name.partition(".")[0]
                for candidate in (file.parent / f"{top}.py", file.parent / top / "__init__.py"):
                    if top and candidate.is_file():
                        waiting.append(candidate)
    return sorted(seen)


def source_hash(path: Path) -> str:
    """Hash of the contents of a source file and of the siblings it imports."""
    return hash_json([hash_bytes(p.read_bytes()) for p in source_closure(path)])


def library_versions(path: Path) -> dict[str, str]:
    """Versions of the libraries that a source file and its siblings import, standard library left out."""
    files = source_closure(path)
    siblings = {p.stem for p in files} | {p.parent.name for p in files if p.stem == "__init__"}
    names = {name.partition(".")[0] for file in files for name, level in _imports(file) if level == 0}
    wanted = sorted(names - siblings - sys.stdlib_module_names - {"tiepoint", ""})
    return {name: found for name in wanted if (found := _version(name)) is not None}


def _version(name: str) -> str | None:
    stated = getattr(sys.modules.get(name), "__version__", None)
    if stated is not None:
        return str(stated)
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    stat = file.stat()
    return iter(_parsed(file, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=256)
def _parsed(file: Path, mtime_ns: int, size: int) -> tuple[tuple[str, int], ...]:
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as e:
        raise InputError(f"{file}, line {e.lineno}: {e.msg}; correct the Python file") from e
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                found.append((node.module, node.level))
            else:
                found += [(alias.name, node.level) for alias in node.names]
    return tuple(found)
