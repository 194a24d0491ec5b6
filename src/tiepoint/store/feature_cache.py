# SPDX-License-Identifier: BSD-3-Clause
"""Feature cache: one folder of named arrays per item, named by the cache key and memory-mapped.

The header of an entry, ``meta.json``, contains a checksum of itself and the checksums of every MiB of every
file. A process verifies the checksums when it first reads an entry.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import DamagedError, FormatError
from ..core.file_stamps import FileStamp, file_stamp
from ..core.hashing import add_checksum, block_sums, hash_array, hash_json, verify_checksum
from ..core.processes import cores
from ..core.records import Arrays
from ..core.regular_files import read_content
from ..formats.npy import array_in, map_file
from .atomic_files import atomic_file, atomic_folder, remove_atomically

_ELEMENTS_PER_THREAD = 1 << 23
"""Minimum number of array elements per hashing thread, so that each thread saves time."""


@dataclass(frozen=True)
class FeatureCache:
    """Feature arrays on disk by cache key. Entries are immutable: each key is written once.

    Headers and memory maps are reused until the header file changes.
    """

    root: Path
    _headers: dict[str, tuple[FileStamp, dict[str, Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _maps: dict[str, tuple[dict[str, Any], Mapping[str, NDArray[Any]]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _failed: dict[str, tuple[dict[str, Any], int]] = field(default_factory=dict, repr=False, compare=False)
    _verified: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def folder(self, key: str) -> Path:
        """Return the folder of an entry."""
        return self.root / key[:2] / key

    def meta(self, key: str) -> dict[str, Any] | None:
        """Return the header of an entry (content hash, time, shapes). None if the entry is missing.

        Raises:
            DamagedError: The header is corrupt.
        """
        path = f"{self.root}/{key[:2]}/{key}/meta.json"
        try:
            stamp = file_stamp(os.stat(path))
            known = self._headers.get(key)
            if known is None or known[0] != stamp:
                known = self._headers[key] = (stamp, _header(read_content(path)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as e:
            raise self._damaged(key, f"meta.json: {e}") from e
        return known[1]

    def _damaged(self, key: str, reason: str) -> DamagedError:
        return DamagedError(self.folder(key), "features of", reason)

    def __contains__(self, key: str) -> bool:
        return os.path.exists(f"{self.root}/{key[:2]}/{key}/meta.json")

    def failed_count(self, key: str) -> int:
        """Return the number of failed descriptors of an entry."""
        meta = self.meta(key)
        if meta is None or not {"values", "valid"} <= set(meta["arrays"]):
            return 0
        known = self._failed.get(key)
        if known is None or known[0] is not meta:
            valid = np.asarray(self._array(key, "valid", meta), bool)
            known = self._failed[key] = (meta, int(valid.size - np.count_nonzero(valid)))
        return known[1]

    def content(self, key: str) -> str | None:
        """Return the content hash of an entry. None if the entry is missing."""
        meta = self.meta(key)
        return None if meta is None else str(meta["content"])

    def put(self, key: str, arrays: Arrays, **extra: Any) -> str:
        """Write an entry and return its content hash."""
        content = content_hash(arrays)
        with atomic_folder(self.folder(key)) as folder:
            for name, array in arrays.items():
                np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
            shapes = {name: list(np.shape(array)) for name, array in arrays.items()}
            sums = {name: block_sums(map_file(folder / f"{name}.npy")) for name in arrays}
            header = {"content": content, "arrays": shapes, **extra, "sums": sums}
            (folder / "meta.json").write_text(add_checksum(header), encoding="utf-8", newline="\n")
        return content

    def amend(self, key: str, **extra: Any) -> None:
        """Add `extra` to the header of an entry. Do nothing if the entry is missing."""
        meta = self.meta(key)
        if meta is None:
            return
        folder = self.folder(key)
        with atomic_file(folder / "meta.json", beside=folder) as temporary:
            temporary.write_text(add_checksum({**meta, **extra}), encoding="utf-8", newline="\n")

    def get(self, key: str) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of an entry, memory-mapped read-only. Raise KeyError if the entry is missing.

        The most recently read entries stay mapped, up to the limit of open files.
        """
        meta = self.meta(key)
        if meta is None:
            raise KeyError(key)
        known = self._maps.get(key)
        if known is not None and known[0] is meta:
            return known[1]
        arrays = {name: self._array(key, name, meta) for name in meta["arrays"]}
        while len(self._maps) >= _max_mapped():
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
                del self._maps[next(iter(self._maps))]
        self._maps[key] = (meta, arrays)
        return arrays

    def _array(self, key: str, name: str, meta: dict[str, Any]) -> NDArray[Any]:
        """Return one array of an entry. The first call verifies the checksums of the array's file."""
        path = f"{self.root}/{key[:2]}/{key}/{name}.npy"
        try:
            content = map_file(path)
            if self._verified.get((key, name)) is not meta:
                if block_sums(content) != meta["sums"].get(name):
                    raise FormatError(path, "checksum mismatch")
                self._verified[key, name] = meta
            return array_in(path, content)
        except (OSError, FormatError) as e:
            reason = getattr(e, "reason", None) or getattr(e, "strerror", None) or str(e)
            raise self._damaged(key, f"{name}.npy: {reason}") from e

    def damaged_headers(self, keys: Collection[str]) -> dict[str, DamagedError]:
        """Return those of `keys` whose entry has a corrupt header or `valid` mask."""
        found: dict[str, DamagedError] = {}
        for key in keys:
            try:
                self.failed_count(key)
            except DamagedError as e:
                found[key] = e
        return found

    def find_damaged(self, keys: Collection[str]) -> dict[str, DamagedError]:
        """Return those of `keys` whose entry is corrupt. Entries are verified in parallel threads.

        If there are more entries than can stay mapped, return nothing. Each entry is then verified when it is
        read, because mapping all entries twice would take longer.
        """
        found: dict[str, DamagedError] = {}
        new = [key for key in keys if key not in self._maps]
        if len(new) > _max_mapped():
            return found

        def verify(part: list[str]) -> None:
            for key in part:
                try:
                    self.get(key)
                except DamagedError as e:
                    found[key] = e
                except KeyError:  # missing, or just removed
                    pass

        threads = min(cores(), len(new), 1 + sum(map(self._element_count, new)) // _ELEMENTS_PER_THREAD)
        if threads < 2:
            verify(new)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(verify, [new[i::threads] for i in range(threads)]))
        return found

    def _element_count(self, key: str) -> int:
        """Return the number of array elements of an entry; 0 if the entry is missing or corrupt."""
        try:
            shapes = (self.meta(key) or {"arrays": {}})["arrays"].values()
            return sum(math.prod(shape) for shape in shapes)
        except (DamagedError, TypeError):
            return 0

    def recomputed(self, keys: Collection[str], since_ns: int) -> dict[str, str]:
        """Return the reasons why entries of `keys` were recomputed after a given time."""
        found = {}
        since_ns -= 10_000_000  # clocks of file systems are coarse
        for key in keys:
            meta = self.meta(key)
            if meta is not None and "anew" in meta and self._headers[key][0][0] >= since_ns:
                found[key] = str(meta["anew"])
        return found

    def discard(self, key: str) -> None:
        """Remove an entry atomically, so that it is recomputed."""
        remove_atomically(self.folder(key))
        self._headers.pop(key, None)
        self._maps.pop(key, None)

    def verify(self, key: str) -> dict[str, Any]:
        """Compare the arrays of an entry with its content hash and return its header.

        Raises:
            DamagedError: The entry is missing, unreadable or corrupt.
        """
        fresh = FeatureCache(self.root)
        meta = fresh.meta(key)
        if meta is None:
            raise self._damaged(key, "it has no meta.json")
        if content_hash(fresh.get(key)) != meta["content"]:
            raise self._damaged(key, "the arrays do not match their content hash")
        return meta


def content_hash(arrays: Arrays) -> str:
    """Return the hash of named arrays: their names, types, shapes and bytes."""
    return hash_json({name: hash_array(np.asarray(array)) for name, array in sorted(arrays.items())})


def _header(data: bytes) -> dict[str, Any]:
    meta = verify_checksum(data)
    kinds = {"arrays": dict, "content": str, "sums": dict}
    if not all(isinstance(meta.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("the file is not the header of a cache entry")
    return meta


@cache
def _max_mapped() -> int:
    """Return the maximum number of entries that stay mapped. Each mapped array keeps one file open."""
    try:
        import resource
    except ImportError:
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2048 if limit == resource.RLIM_INFINITY else min(2048, max(1, limit // 8))
