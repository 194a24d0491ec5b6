# SPDX-License-Identifier: BSD-3-Clause
"""Content hashes: of bytes, arrays, files and plain configurations; random generators seeded by them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .errors import InputError
from .regular_files import read_content, regular_file_size

BLOCK = 1 << 20
"""Bytes that share a checksum."""
_SEAL = '"seal": "'
_END = len(_SEAL) + 16 + len('"}')


def block_sums(data: Any) -> list[str]:
    """Checksums of the blocks of a buffer, the last of which may be short; 16 hexadecimal digits each.

    >>> whole = bytes(range(256)) * 5000
    >>> len(block_sums(whole)), block_sums(whole) == block_sums(bytearray(whole))
    (2, True)
    >>> block_sums(whole)[0] == block_sums(whole.replace(b"a", b"b", 1))[0]
    False
    """
    flat = np.frombuffer(data, np.uint8).data
    return [xxhash.xxh3_64_hexdigest(flat[at : at + BLOCK]) for at in range(0, len(flat), BLOCK)]


def checksum(data: Any) -> str:
    """One checksum of a whole buffer.

    >>> checksum(b""), checksum(b"abc") == checksum(b"abd")
    ('2d06800538d394c2', False)
    """
    return xxhash.xxh3_64_hexdigest(np.frombuffer(data, np.uint8).data)


def add_checksum(plain: dict[str, Any], indent: int | None = None) -> str:
    """JSON of plain values whose last member is a checksum of all text before it.

    >>> add_checksum({"a": 1})
    '{"a": 1, "seal": "988a6fd20ef48257"}'
    """
    text = json.dumps({**plain, "seal": ""}, indent=indent, default=str)
    text = text[: text.rindex(_SEAL)]
    return f'{text}{_SEAL}{_seal(text.encode())}"}}'


def verify_checksum(data: bytes) -> dict[str, Any]:
    """Return the plain values of JSON that ends with its checksum.

    Raises:
        ValueError: Not a JSON object, or its checksum is missing or wrong.

    >>> verify_checksum(add_checksum({"a": 1}).encode())
    {'a': 1}
    >>> verify_checksum(add_checksum({"a": 1}).replace("1", "3", 1).encode())
    Traceback (most recent call last):
    ValueError: checksum mismatch
    """
    body, end = data[:-_END], data[-_END:]
    sealed = end.startswith(_SEAL.encode())
    if sealed and end != f'{_SEAL}{_seal(body)}"}}'.encode():
        raise ValueError("checksum mismatch")
    try:
        plain = json.loads(data)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e
    if not isinstance(plain, dict):
        raise ValueError("it is not a JSON object")
    if not sealed or plain.pop("seal", None) is None:
        raise ValueError("it has no checksum")
    return plain


def _seal(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()


_CHUNK = 1 << 22
SKIPPED = frozenset({"__pycache__", ".git"})
"""Folders below a folder that say nothing about what is in it."""
STORE = "tiepoint.sqlite"
"""A folder with this file is a store, which changes with every run."""


def hash_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of bytes, hexadecimal.

    >>> hash_bytes(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(data).hexdigest()


def hash_json(value: Any) -> str:
    """Hash of a plain value (dict, list, str, number, None), independent of key order.

    >>> hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hash_bytes(text.encode())


def hash_array(array: np.ndarray[Any, Any]) -> str:
    """Hash of dtype, shape and content of an array.

    >>> hash_array(np.zeros(3)) == hash_array(np.zeros((3, 1)))
    False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


_memo: dict[tuple[str, int, int, int], str] = {}


def hash_file(path: str | Path, *, anew: bool = False) -> str:
    """SHA-256 of a file, remembered in this process by (path, size, mtime, inode).

    Whoever looks for damage reads the file `anew`: a disk that flips a bit leaves its time as it is. A
    missing or unreadable file is an `InputError`.
    """
    p = os.fspath(path)
    try:
        key = _stamp(p)
        if anew or key not in _memo:
            regular_file_size(p)
            digest = hashlib.sha256()
            with open(p, "rb") as f:
                while chunk := f.read(_CHUNK):
                    digest.update(chunk)
            _memo[key] = digest.hexdigest()
        return _memo[key]
    except OSError as e:
        raise InputError(f"cannot read {p}: {e.strerror or e}") from e


def cached_file_hash(path: str | Path) -> str | None:
    """The hash of a file where it is known, else None."""
    try:
        return _memo.get(_stamp(os.fspath(path)))
    except OSError:
        return None


def hash_files(paths: Sequence[str | Path], threads: int) -> None:
    """Hash files in several threads, to be remembered; what cannot be read is left for whoever asks for it.

    Threads take large parts: small ones would wait for each other longer than hashing takes.
    """
    if not paths:
        return

    def several(own: Sequence[str | Path]) -> None:
        for path in own:
            with contextlib.suppress(InputError):
                hash_file(path)

    size = -(-len(paths) // (4 * threads))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(several, [paths[i : i + size] for i in range(0, len(paths), size)]))


def _stamp(path: str) -> tuple[str, int, int, int]:
    found = os.stat(path)
    return _resolved(path), found.st_size, found.st_mtime_ns, found.st_ino


def _resolved(path: str) -> str:
    """The path without links; its folders are looked up once, as thousands of files share them."""
    if os.path.islink(path):
        return os.path.realpath(path)
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(_real_folder(folder if folder.startswith("/") else os.path.abspath(folder)), name)


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def hash_folder(path: str | Path, *, most_files: int = 10_000, most_bytes: int = 1 << 30) -> str:
    """Hash of the names and contents of all files below a folder, `SKIPPED` folders and stores left out.

    A folder with more than `most_files` files or `most_bytes` bytes is not read: names, sizes and times of
    modification stand for the contents.
    """
    root = Path(path)
    found: list[tuple[str, os.stat_result]] = []
    for folder, folders, names in os.walk(root):
        if STORE in names:
            folders[:] = names[:] = []
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in names:
            with contextlib.suppress(OSError):  # a broken link has no content
                found.append((os.path.join(folder, name), os.stat(os.path.join(folder, name))))
    read = len(found) <= most_files and sum(stat.st_size for _, stat in found) <= most_bytes
    rows = [
        [
            Path(file).relative_to(root).as_posix(),
            hash_file(file) if read else [stat.st_size, stat.st_mtime_ns],
        ]
        for file, stat in found
        if Path(file).is_file()
    ]
    return hash_json(sorted(rows))


def load_memo(path: Path) -> None:
    """Take over remembered hashes from a file of an earlier process; a damaged file is ignored."""
    for stamp, digest in _remembered_in(path):
        _memo.setdefault(stamp, digest)


def unchanged_file_hashes(path: Path) -> list[tuple[Path, str]]:
    """Files that are as large, old and where they were when they were hashed, with the hash kept of them."""
    found = []
    for stamp, digest in _remembered_in(path):
        with contextlib.suppress(OSError):
            if _stamp(stamp[0]) == stamp:
                found.append((Path(stamp[0]), digest))
    return found


def _remembered_in(path: Path) -> list[tuple[tuple[str, int, int, int], str]]:
    try:
        rows = verify_checksum(read_content(path))["files"]
        return [((name, size, mtime_ns, inode), digest) for name, size, mtime_ns, inode, digest in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def save_memo(path: Path, atomic_file: Callable[[Path], contextlib.AbstractContextManager[Path]]) -> None:
    """Write the remembered hashes, those of files over 64 KiB only (smaller ones are read as fast)."""
    rows = sorted((*key, digest) for key, digest in _memo.items() if key[1] > 65536)
    text = add_checksum({"files": rows})
    with contextlib.suppress(OSError, ValueError):
        if read_content(path) == text.encode():
            return
    if rows:
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def seeded_generator(seed: int, *names: str) -> np.random.Generator:
    """A PCG64 generator seeded by the hash of a seed and names, e.g. (0, "cut", "v_wall", "hard", "3").

    What is drawn for one name does not depend on which others are drawn, in which order, or how many work.

    >>> seeded_generator(0, "a").integers(1000) == seeded_generator(0, "a").integers(1000)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(int(hash_json([seed, *names]), 16)))


def raw_stream(count: int, *names: str | int) -> NDArray[np.uint64]:
    """`count` raw outputs of the stream of these names.

    >>> bool((raw_stream(3, 0, "a") == raw_stream(3, 0, "a")).all())
    True
    """
    generator = np.random.PCG64(int(hash_json(list(names)), 16))
    return np.asarray(generator.random_raw(count), np.uint64).reshape(count)


def permutation(n: int, *names: str | int) -> NDArray[np.int64]:
    """A random order of 0 … n-1.

    >>> sorted(permutation(5, "x").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_stream(n, *names), kind="stable").astype(np.int64)
