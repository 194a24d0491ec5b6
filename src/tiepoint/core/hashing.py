# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of bytes, arrays, files and plain values; checksums; random generators seeded by a hash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .errors import InputError
from .file_stamps import FileStamp, file_stamp, has_reliable_ctime, is_settled
from .regular_files import read_content, regular_file_size

BLOCK = 1 << 20
"""Size in bytes of a block with its own checksum."""
_SEAL = '"seal": "'
_END = len(_SEAL) + 16 + len('"}')


def block_sums(data: Any) -> list[str]:
    """Return the checksum of each block of a buffer as 16 hexadecimal digits.

    >>> whole = bytes(range(256)) * 5000
    >>> len(block_sums(whole)), block_sums(whole) == block_sums(bytearray(whole))
    (2, True)
    >>> block_sums(whole)[0] == block_sums(whole.replace(b"a", b"b", 1))[0]
    False
    """
    flat = np.frombuffer(data, np.uint8).data
    return [xxhash.xxh3_64_hexdigest(flat[at : at + BLOCK]) for at in range(0, len(flat), BLOCK)]


def checksum(data: Any) -> str:
    """Return the checksum of a buffer as 16 hexadecimal digits.

    >>> checksum(b""), checksum(b"abc") == checksum(b"abd")
    ('2d06800538d394c2', False)
    """
    return xxhash.xxh3_64_hexdigest(np.frombuffer(data, np.uint8).data)


def add_checksum(plain: dict[str, Any], indent: int | None = None) -> str:
    """Return plain values as JSON text. Its last member is a checksum of the preceding text.

    >>> add_checksum({"a": 1})
    '{"a": 1, "seal": "988a6fd20ef48257"}'
    """
    text = json.dumps({**plain, "seal": ""}, indent=indent, default=str)
    text = text[: text.rindex(_SEAL)]
    return f'{text}{_SEAL}{_seal(text.encode())}"}}'


def verify_checksum(data: bytes) -> dict[str, Any]:
    """Parse JSON text that ends with its checksum, and return the plain values.

    Raises:
        ValueError: The text is not a JSON object, or its checksum is missing or wrong.

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
"""Folders that `hash_folder` skips."""
STORE = "tiepoint.sqlite"
"""File that marks a folder as a store. `hash_folder` skips stores because every run changes them."""


def hash_bytes(data: bytes | memoryview) -> str:
    """Return the SHA-256 of bytes as hexadecimal text.

    >>> hash_bytes(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(data).hexdigest()


def hash_json(value: Any) -> str:
    """Return the hash of a plain value (dict, list, str, number, None), independent of key order.

    >>> hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hash_bytes(text.encode())


def hash_array(array: np.ndarray[Any, Any]) -> str:
    """Return a hash of the dtype, shape and content of an array.

    >>> hash_array(np.zeros(3)) == hash_array(np.zeros((3, 1)))
    False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    content = np.ascontiguousarray(array)
    digest.update(content.tobytes() if array.dtype.kind in "mM" else content.data)  # dates have no buffer
    return digest.hexdigest()


_memo: dict[tuple[str, FileStamp], str] = {}


class HashedFiles(dict[str, FileStamp]):
    """Stamps of hashed files, by path. `folders` has the hashed folders."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: set[str] = set()


_watches: list[HashedFiles] = []


@contextlib.contextmanager
def watch_hashed_files() -> Iterator[HashedFiles]:
    """Collect the stamps of the files that are hashed inside the block, by path."""
    _watches.append(HashedFiles())
    try:
        yield _watches[-1]
    finally:
        _watches.pop()


def hash_file(path: str | Path, *, reread: bool = False) -> str:
    """Return the SHA-256 of a file, memoised by its path and stamp.

    A file that changed in the last two seconds is not memoised. On a file system without reliable ctime the
    memo is not used. `reread` ignores the memo, to detect corruption that leaves the stamp unchanged. Raise
    `InputError` if the file is missing or unreadable.
    """
    p = os.fspath(path)
    for seen in _watches:
        with contextlib.suppress(OSError):  # the reader below reports it
            seen[p] = file_stamp(os.stat(p))
    known = None if reread else cached_file_hash(p)
    if known is not None:
        return known
    try:
        regular_file_size(p)
        digest = hashlib.sha256()
        with open(p, "rb") as f:
            stamp = file_stamp(os.fstat(f.fileno()))
            settled = is_settled(stamp)
            while chunk := f.read(_CHUNK):
                digest.update(chunk)
        if settled:
            _memo[_resolved(p), stamp] = digest.hexdigest()
        return digest.hexdigest()
    except OSError as e:
        raise InputError(f"cannot read {p}: {e.strerror or e}") from e


def cached_file_hash(path: str | Path) -> str | None:
    """Return the memoised hash of a file. None if it is not memoised or the file may have changed."""
    p = os.fspath(path)
    try:
        stamp = file_stamp(os.stat(p))
    except OSError:
        return None
    return _memo.get((_resolved(p), stamp)) if has_reliable_ctime(stamp) else None


def hash_files(paths: Sequence[str | Path], threads: int) -> None:
    """Hash files in parallel threads and memoise the hashes. Skip unreadable files.

    Each thread reads large blocks. With small blocks the threads would mostly wait for each other.
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


def _resolved(path: str) -> str:
    """Return the path with links resolved. Each folder is resolved once, because many files share it."""
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
    """Return a hash of the names and contents of all files below a folder.

    Stores and files named in `SKIPPED` are ignored.

    If the folder has more than `most_files` files or `most_bytes` bytes, file sizes, modification times and
    status change times are hashed instead of the contents.
    """
    root = Path(path)
    for seen in _watches:
        seen.folders.add(os.fspath(path))
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
            hash_file(file) if read else [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns],
        ]
        for file, stat in found
        if Path(file).is_file()
    ]
    return hash_json(sorted(rows))


def load_memo(path: Path) -> None:
    """Load the file hashes that an earlier process saved. Ignore a corrupt file."""
    for key, digest in _saved_hashes(path):
        _memo.setdefault(key, digest)


def unchanged_file_hashes(path: Path) -> list[tuple[Path, str]]:
    """Return the latest saved hash of each file whose size, modification time and inode have not changed."""
    latest = {name: (stamp, digest) for (name, stamp), digest in sorted(_saved_hashes(path), key=_ctime)}
    found = []
    for name, (stamp, digest) in latest.items():
        with contextlib.suppress(OSError):
            if file_stamp(os.stat(name))[:4] == stamp[:4]:
                found.append((Path(name), digest))
    return found


def _ctime(row: tuple[tuple[str, FileStamp], str]) -> int:
    return row[0][1][4]


def _saved_hashes(path: Path) -> list[tuple[tuple[str, FileStamp], str]]:
    try:
        rows = verify_checksum(read_content(path))["files"]
        return [
            ((name, (device, inode, size, mtime_ns, ctime_ns)), digest)
            for name, device, inode, size, mtime_ns, ctime_ns, digest in rows
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def save_memo(path: Path, atomic_file: Callable[[Path], contextlib.AbstractContextManager[Path]]) -> None:
    """Save the memoised hashes of files over 64 KiB. Smaller files are as fast to hash again."""
    rows = sorted((name, *stamp, digest) for (name, stamp), digest in _memo.items() if stamp[2] > 65536)
    text = add_checksum({"files": rows})
    with contextlib.suppress(OSError, ValueError):
        if read_content(path) == text.encode():
            return
    if rows:
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def seeded_generator(seed: int, *names: str) -> np.random.Generator:
    """Return a PCG64 generator seeded by a hash of `seed` and `names`.

    For example, the names may be ("cut", "v_wall", "hard"). The random numbers do not depend on other calls,
    their order or the number of workers.

    >>> seeded_generator(0, "a").integers(1000) == seeded_generator(0, "a").integers(1000)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(int(hash_json([seed, *names]), 16)))


def raw_stream(count: int, *names: str | int) -> NDArray[np.uint64]:
    """Return `count` raw 64-bit random numbers of the generator that is seeded by these names.

    >>> bool((raw_stream(3, 0, "a") == raw_stream(3, 0, "a")).all())
    True
    """
    generator = np.random.PCG64(int(hash_json(list(names)), 16))
    return np.asarray(generator.random_raw(count), np.uint64).reshape(count)


def permutation(n: int, *names: str | int) -> NDArray[np.int64]:
    """Return a random permutation of 0 … n-1, seeded by the given names.

    >>> sorted(permutation(5, "x").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_stream(n, *names), kind="stable").astype(np.int64)


def splitmix64(seed: int, count: int) -> NDArray[np.uint64]:
    """Return the SplitMix64 outputs of the states seed … seed + count - 1 (modulo 2^64), uint64 (count,).

    >>> splitmix64(0, 2).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(count, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
