# SPDX-License-Identifier: BSD-3-Clause
"""Cache keys of programs: hashes of the executable, its libraries and the files in its command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ...core.errors import InputError
from ...core.file_stamps import FileStamp, file_stamp
from ...core.hashing import hash_file, hash_folder, hash_json
from ...core.regular_files import is_file, is_folder
from ..source_files import sources_of
from .settings import ProgramSettings

LDD_S = 10.0
"""Time limit of ``ldd``, in seconds."""
_ELF = b"\x7fELF"


def fingerprint(settings: ProgramSettings) -> dict[str, Any]:
    """Return the part of a program's cache key that does not come from its greeting."""
    executable = settings.executable
    found: dict[str, Any] = {"command": list(settings.words), "executable": _hash(executable)}
    files = {}
    for word in (*settings.words[1:], *settings.env.values()):
        for name in _names(word):
            path = os.path.join(settings.folder or "", os.path.expanduser(name))
            if is_file(path):
                files[name] = _hash(path)
            elif is_folder(path):
                files[name] = hash_folder(path)
    binaries = [executable, *_interpreter(executable)]
    if len(binaries) > 1:
        found["interpreter"] = hash_file(binaries[1])
    libraries = {os.path.basename(lib): hash_file(lib) for b in binaries for lib in _libraries_of(b)}
    optional = {
        "files": files,
        "libraries": hash_json(libraries) if libraries else None,
        "environment": dict(settings.env),
        "folder": settings.folder,
        "revision": settings.revision,
    }
    return found | {key: value for key, value in optional.items() if value}


def _hash(path: str) -> str:
    """Return the hash of a file. That of a Python file includes the files it imports from its folder."""
    if path.endswith(".py"):
        try:
            return sources_of(path).hash
        except (InputError, SyntaxError, ValueError):  # the file is for another version of Python
            pass
    return hash_file(path)


def _names(word: str) -> Iterator[str]:
    """Yield the file names that a word of a command may contain: the word, and the part after ``=``.

    >>> list(_names("--weights=net.pt"))
    ['--weights=net.pt', 'net.pt']
    """
    for name in dict.fromkeys([word, word.partition("=")[2]]):
        if name.strip("./") and "\0" not in name:
            yield name


def _interpreter(executable: str) -> list[str]:
    """Return the command line of the interpreter that a script's first line names, split into words."""
    with open(executable, "rb") as file:
        first = file.readline(512)
    if not first.startswith(b"#!"):
        return []
    words = [w for w in first[2:].decode("utf-8", "replace").split() if w != "-S"]
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        words = [shutil.which(words[1]) or words[0]]
    return words[:1] if words and is_file(words[0]) else []


def _libraries_of(binary: str) -> tuple[str, ...]:
    with open(binary, "rb") as file:
        is_elf = file.read(4) == _ELF
    ldd = shutil.which("ldd") if is_elf else None
    return () if ldd is None else _linked(ldd, os.path.realpath(binary), file_stamp(os.stat(binary)))


@lru_cache(maxsize=64)
def _linked(ldd: str, binary: str, stamp: FileStamp) -> tuple[str, ...]:
    """Return the paths of the shared libraries of a binary, as ``ldd`` finds them."""
    try:
        listing = subprocess.run([ldd, binary], capture_output=True, text=True, timeout=LDD_S, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):  # a static binary, or another architecture
        return ()
    paths = [line.partition("=>")[2].partition("(")[0].strip() for line in listing.stdout.splitlines()]
    return tuple(sorted(path for path in paths if path and is_file(path)))
