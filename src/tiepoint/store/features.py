# SPDX-License-Identifier: BSD-3-Clause
"""The feature cache: named arrays of one item in a content-addressed folder, memory-mapped on reading."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats.npy_map import map_npy
from ..model.errors import FormatError, StoreError
from ..model.hashing import hash_array, hash_json
from ..model.units import Arrays
from .atomic import atomic_folder


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

    def folder(self, key: str) -> Path:
        """Where the arrays of a key are."""
        return self.root / key[:2] / key

    def meta(self, key: str) -> dict[str, Any] | None:
        """Header of an entry (content hash, time, sizes), None if there is no entry."""
        path = f"{self.root}/{key[:2]}/{key}/meta.json"
        try:
            found = os.stat(path)
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            known = self._headers.get(key)
            if known is None or known[0] != stamp:
                with open(path, "rb") as file:
                    known = self._headers[key] = (stamp, json.loads(file.read()))
        except FileNotFoundError:
            return None
        return known[1]

    def __contains__(self, key: str) -> bool:
        return os.path.exists(f"{self.root}/{key[:2]}/{key}/meta.json")

    def failed(self, key: str) -> int:
        """How many descriptors of an entry are marked as failed."""
        meta = self.meta(key)
        if meta is None or not {"values", "valid"} <= set(meta["arrays"]):
            return 0
        known = self._failed.get(key)
        if known is None or known[0] is not meta:
            valid = np.asarray(self.get(key)["valid"], bool)
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
            (folder / "meta.json").write_text(json.dumps({"content": content, "arrays": shapes, **extra}))
        return content

    def get(self, key: str) -> Mapping[str, NDArray[Any]]:
        """The arrays of a key, memory-mapped read-only. A missing key is a KeyError.

        Those asked for last stay mapped, as many as files may well be open.
        """
        folder = f"{self.root}/{key[:2]}/{key}"
        meta = self.meta(key)
        if meta is None:
            raise KeyError(key)
        known = self._maps.get(key)
        if known is not None and known[0] is meta:
            return known[1]
        try:
            arrays = {name: map_npy(f"{folder}/{name}.npy") for name in meta["arrays"]}
        except (OSError, FormatError) as e:
            raise StoreError(
                f"cannot read features of {folder}: {e}; remove the folder and run again to make it anew"
            ) from e
        while len(self._maps) >= _most_mapped():
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
                del self._maps[next(iter(self._maps))]
        self._maps[key] = (meta, arrays)
        return arrays


@cache
def _most_mapped() -> int:
    """Entries that stay mapped; each array of them keeps a file open."""
    try:
        import resource
    except ImportError:
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2048 if limit == resource.RLIM_INFINITY else min(2048, max(1, limit // 8))
