# SPDX-License-Identifier: BSD-3-Clause
"""Safe on-disk cache of compiled Numba functions.

Numba numbers the compiled variants of a function in a cache index. Two processes that compile different
variants at the same time can use the same number, and a later process then runs the wrong code. This module
names the file of a variant by a hash of everything its code depends on, and needs no index.

Numba checks only the source file of a function. Here the hash also includes all files that the source file
imports from.

Loading a cache file executes its code. A cache folder that other users can write is therefore not used. If a
cache file is corrupt, its function is compiled again.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import multiprocessing
import os
import pickle
import re
import stat
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .processes import check_threads

check_threads("NUMBA_NUM_THREADS")  # otherwise Numba fails on import with an unclear message

from numba import from_dtype, njit, types  # noqa: E402
from numba.core.caching import (  # noqa: E402
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)

FORMAT = 2
"""Format version of the cache files. It is part of their names."""
DIGEST = hashlib.sha256().digest_size
LEFT_S = 3600.0
"""Minimum age, in seconds, at which a temporary file is assumed to belong to a killed process."""

_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (.*)", re.MULTILINE)


class _ContentNamedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Cache files that start with a hash of their content.

    A file is named by a hash of everything that its compiled code depends on.
    """

    def _name(self, key: Any) -> str:
        content = repr((FORMAT, self._version, self._source_stamp, key)).encode()
        stamp = hashlib.sha256(content).hexdigest()[:20]
        return f"{self._index_name.removesuffix('.nbi')}.{stamp}.nbc"

    def save(self, key: Any, data: Any) -> None:
        name = self._name(key)
        self._save_data(name, data)
        for left in Path(self._cache_path).glob(f"{glob.escape(name)}.tmp.*"):  # of killed processes
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > LEFT_S:
                    left.unlink()

    def load(self, key: Any) -> Any:
        path = Path(self._data_path(self._name(key)))
        try:
            if not _is_private(path.stat(), path.parent.stat().st_uid):
                return None
            data = path.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data[DIGEST:]).digest() != data[:DIGEST]:
            return None
        return pickle.loads(data[DIGEST:])

    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return hashlib.sha256(data).digest() + data


class _PrivateCache(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba cache in the first folder that no other user can write."""

    _locator_classes: ClassVar[list[Any]] = []


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba cache that ignores errors of a full disk or a missing folder."""

    _impl_class = _PrivateCache

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def _skip_shared(locator: Any) -> Any:
    """Return a Numba cache locator that skips folders which other users can write."""

    class PrivateLocator(locator):  # type: ignore[misc]
        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            found = super().from_function(py_func, py_file)
            if found is None:
                return None
            folder = Path(found.get_cache_path())
            if is_trusted(folder, Path(py_file)):
                return found
            _warn_once(folder)
            return None

    return PrivateLocator


_PrivateCache._locator_classes = [
    _skip_shared(c) for c in (UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator)
]


@cache
def is_trusted(folder: Path, source: Path) -> bool:
    """Return whether no other user can write into a folder or replace it.

    This user, root and the owner of the source file may have write permission. The code of that owner is
    executed in any case.
    """
    if not hasattr(os, "getuid"):
        return True  # on Windows, the mode does not show who may write
    try:
        owner = source.stat().st_uid
        place = folder.resolve()
        return _is_private(place.stat(), owner) and all(
            parent.stat().st_mode & stat.S_ISVTX or _is_private(parent.stat(), owner)
            for parent in place.parents
        )
    except OSError:
        return False


def _is_private(facts: os.stat_result, owner: int) -> bool:
    """Return whether only this user, root and `owner` can write a file or folder.

    Group write permission is accepted if the group is root or has the same number as the file's owner. Many
    systems give every user such a private group.
    """
    if not hasattr(os, "getuid"):
        return True
    own_group = facts.st_gid in (facts.st_uid, 0)
    open_to = stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP
    return facts.st_uid in (os.getuid(), 0, owner) and not facts.st_mode & open_to


@cache
def _warn_once(folder: Path) -> None:
    """Warn once per process about a cache folder that is not used."""
    if multiprocessing.parent_process() is None:
        print(
            f"tiepoint: {folder}: other users can write this folder, so compiled code is not cached there; "
            "remove that permission, or set NUMBA_CACHE_DIR to a private folder",
            file=sys.stderr,
        )


def _called(body: Any) -> set[Path]:
    """Return the source files of a function and of all compiled functions that it calls."""
    found = {Path(body.__code__.co_filename)}
    for name in body.__code__.co_names:
        value = body.__globals__.get(name)
        called = getattr(value, "py_func", None) or getattr(value, "_defn", None)
        if called is not None and called is not body:
            found |= _called(called)
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Return a file and all files of its package that it imports, directly or indirectly."""
    found, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file in found or not file.is_file():
            continue
        found.add(file)
        for dots, module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
            folder = file.parents[len(dots) - 1].joinpath(*module.split("."))
            parts = [n.split()[0] for n in names.strip("()").split(",") if n.strip()]
            todo += [folder.with_suffix(".py"), folder / "__init__.py", *(folder / f"{n}.py" for n in parts)]
    return frozenset(found)


@cache
def _digest(files: frozenset[Path]) -> str:
    text = hashlib.sha256()
    for path in sorted(frozenset().union(*(_imported(f) for f in files))):
        text.update(path.read_bytes())
    return text.hexdigest()


def cached_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit(**options)`` with the safe cache, or without a cache if no folder is writable.

    >>> @cached_njit()
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """

    def decorate(body: Callable[..., Any]) -> Any:
        found = njit(**options)(body)
        try:
            store = _Cache(body)
        except RuntimeError:  # no source, or no private folder: compile in each process
            return found
        name = store._cache_file._index_name.removesuffix(".nbi")
        # Hashed now, so that it describes the code in memory even if the files change later.
        store._cache_file = _ContentNamedFiles(store.cache_path, name, _digest(frozenset(_called(body))))
        found._cache = store
        return found

    return decorate


def matrix(dtype: Any) -> Any:
    """Return the Numba type of a read-only C-ordered matrix, which also fits memory-mapped arrays."""
    return types.Array(dtype, 2, "C", readonly=True)


def compiled_for(signature: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that calling it with dtypes returns the code compiled for these dtypes.

    `signature` builds the Numba signature from the Numba types. The first call with given dtypes compiles or
    loads the code for this signature only.

    >>> @compiled_for(lambda real: real(real))
    ... def half(x):
    ...     return x / 2
    >>> half(np.float64)(3.0)
    1.5
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        _digest(frozenset(_called(body)))  # of the source as imported

        @cache
        def variant(*formats: Any) -> Any:
            found = cached_njit(nogil=True, error_model="numpy")(body)
            found.compile(signature(*(from_dtype(np.dtype(f)) for f in formats)))
            found.disable_compile()
            return found

        variant.__doc__ = body.__doc__
        return variant

    return decorate
