# SPDX-License-Identifier: BSD-3-Clause
"""The feature cache: named arrays of one item in a content-addressed folder, memory-mapped on reading.

The header of an entry, ``meta.json``, is sealed and has a checksum for every MiB of every file; they are
verified when an entry is first looked at in a process.
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
from ..core.hashing import add_checksum, block_sums, hash_array, hash_json, verify_checksum
from ..core.processes import cores
from ..core.records import Arrays
from ..core.regular_files import read_content
from ..formats.npy import array_in, map_file
from .atomic_files import atomic_folder, remove_atomically

_NUMBERS_A_THREAD = 1 << 23
"""Numbers whose checksums take longer than another thread does to start."""


@dataclass(frozen=True)
class FeatureCache:
    """Arrays by key under a folder. Entries are immutable; a key is written once.

    Headers that were read and maps that were made are remembered while the header's file stays the same.
    """

    root: Path
    _headers: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _maps: dict[str, tuple[dict[str, Any], Mapping[str, NDArray[Any]]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _failed: dict[str, tuple[dict[str, Any], int]] = field(default_factory=dict, repr=False, compare=False)
    _whole: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def folder(self, key: str) -> Path:
        """Where the arrays of a key are."""
        return self.root / key[:2] / key

    def meta(self, key: str) -> dict[str, Any] | None:
        """Header of an entry (content hash, time, sizes), None if there is no entry.

        Raises:
            DamagedError: the header is not what was written.
        """
        path = f"{self.root}/{key[:2]}/{key}/meta.json"
        try:
            found = os.stat(path)
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
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
        """How many descriptors of an entry are marked as failed."""
        meta = self.meta(key)
        if meta is None or not {"values", "valid"} <= set(meta["arrays"]):
            return 0
        known = self._failed.get(key)
        if known is None or known[0] is not meta:
            valid = np.asarray(self._array(key, "valid", meta), bool)
            known = self._failed[key] = (meta, int(valid.size - np.count_nonzero(valid)))
        return known[1]

    def content(self, key: str) -> str | None:
        """Content hash of the arrays of a key, None if there is no entry."""
        meta = self.meta(key)
        return None if meta is None else str(meta["content"])

    def put(self, key: str, arrays: Arrays, **extra: Any) -> str:
        """Write arrays under a key; returns their content hash."""
        contents = {name: hash_array(np.asarray(array)) for name, array in sorted(arrays.items())}
        content = hash_json(contents)
        with atomic_folder(self.folder(key)) as folder:
            for name, array in arrays.items():
                np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
            shapes = {name: list(np.shape(array)) for name, array in arrays.items()}
            sums = {name: block_sums(map_file(folder / f"{name}.npy")) for name in arrays}
            header = {"content": content, "arrays": shapes, **extra, "sums": sums}
            (folder / "meta.json").write_text(add_checksum(header), encoding="utf-8", newline="\n")
        return content

    def get(self, key: str) -> Mapping[str, NDArray[Any]]:
        """The arrays of a key, memory-mapped read-only. A missing key is a KeyError.

        Those asked for last stay mapped, as many as files may well be open.
        """
        meta = self.meta(key)
        if meta is None:
            raise KeyError(key)
        known = self._maps.get(key)
        if known is not None and known[0] is meta:
            return known[1]
        arrays = {name: self._array(key, name, meta) for name in meta["arrays"]}
        while len(self._maps) >= _most_mapped():
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
                del self._maps[next(iter(self._maps))]
        self._maps[key] = (meta, arrays)
        return arrays

    def _array(self, key: str, name: str, meta: dict[str, Any]) -> NDArray[Any]:
        """An array of an entry; the first time it is asked for, its file is held against its checksums."""
        path = f"{self.root}/{key[:2]}/{key}/{name}.npy"
        try:
            content = map_file(path)
            if self._whole.get((key, name)) is not meta:
                if block_sums(content) != meta["sums"].get(name):
                    raise FormatError(path, "its content does not have its checksums")
                self._whole[key, name] = meta
            return array_in(path, content)
        except (OSError, FormatError) as e:
            reason = getattr(e, "reason", None) or getattr(e, "strerror", None) or str(e)
            raise self._damaged(key, f"{name}.npy: {reason}") from e

    def damaged_headers(self, keys: Collection[str]) -> dict[str, DamagedError]:
        """Entries among those of `keys` whose header, or marks of failures, are not what was written."""
        found: dict[str, DamagedError] = {}
        for key in keys:
            try:
                self.failed_count(key)
            except DamagedError as e:
                found[key] = e
        return found

    def find_damaged(self, keys: Collection[str]) -> dict[str, DamagedError]:
        """Entries among those of `keys` that are not what was written, looked at in several threads.

        More than can stay mapped are left to whoever reads them: mapping them twice takes longer.
        """
        found: dict[str, DamagedError] = {}
        new = [key for key in keys if key not in self._maps]
        if len(new) > _most_mapped():
            return found

        def look(part: list[str]) -> None:
            for key in part:
                try:
                    self.get(key)
                except DamagedError as e:
                    found[key] = e
                except KeyError:  # none, or removed meanwhile
                    pass

        threads = min(cores(), len(new), 1 + sum(map(self._numbers, new)) // _NUMBERS_A_THREAD)
        if threads < 2:
            look(new)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(look, [new[i::threads] for i in range(threads)]))
        return found

    def _numbers(self, key: str) -> int:
        """How many numbers an entry has, by its header; 0 for one that is missing or damaged."""
        try:
            shapes = (self.meta(key) or {"arrays": {}})["arrays"].values()
            return sum(math.prod(shape) for shape in shapes)
        except (DamagedError, TypeError):
            return 0

    def recomputed(self, keys: Collection[str], since_ns: int) -> dict[str, str]:
        """What was wrong with entries that were damaged and have been made anew since a time."""
        found = {}
        since_ns -= 10_000_000  # clocks of file systems are coarse
        for key in keys:
            meta = self.meta(key)
            if meta is not None and "anew" in meta and self._headers[key][0][0] >= since_ns:
                found[key] = str(meta["anew"])
        return found

    def discard(self, key: str) -> None:
        """Remove an entry, so that it is made anew; no reader sees half of it."""
        remove_atomically(self.folder(key))
        self._headers.pop(key, None)
        self._maps.pop(key, None)

    def verify(self, key: str) -> dict[str, Any]:
        """Hash all arrays of an entry and hold them against its content hash; returns its header.

        Raises:
            DamagedError: it is missing, cannot be read, or does not have its hash.
        """
        fresh = FeatureCache(self.root)
        meta = fresh.meta(key)
        if meta is None:
            raise self._damaged(key, "it has no meta.json")
        contents = {name: hash_array(array) for name, array in sorted(fresh.get(key).items())}
        if hash_json(contents) != meta["content"]:
            raise self._damaged(key, "its arrays do not have their hash")
        return meta


def _header(data: bytes) -> dict[str, Any]:
    meta = verify_checksum(data)
    kinds = {"arrays": dict, "content": str, "sums": dict}
    if not all(isinstance(meta.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("it is not the header of an entry")
    return meta


@cache
def _most_mapped() -> int:
    """Entries that stay mapped; each array of them keeps a file open."""
    try:
        import resource
    except ImportError:
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2048 if limit == resource.RLIM_INFINITY else min(2048, max(1, limit // 8))
