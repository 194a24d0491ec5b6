# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions whose compiled code is kept on disk safely.

Numba numbers the variants of a function in its cache. Two processes that compile different variants at the
same time can take the same number, and a later process then runs one variant's code for the other. Here a
variant's file is named after all that its code depends on, and there is no index: whoever writes a file
writes the same thing.

Numba also looks at the file of a function alone. What that file takes from others, functions and constants,
is part of the code as well, so here a change in any of these files gives the code another name.

To load compiled code is to run it. A folder that others can write is not used, and a file that is not as it
was written is made anew.
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

check_threads("NUMBA_NUM_THREADS")  # Numba fails on it as soon as it is imported, in words of its own

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
"""Of the files; another one has other names."""
DIGEST = hashlib.sha256().digest_size
LEFT_S = 3600.0
"""A temporary file of compiled code that is so old is of a killed process."""

_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (.*)", re.MULTILINE)


class _NamedByContent(IndexDataCacheFile):  # type: ignore[misc]
    """Files that begin with the hash of the rest: one that does not fit is not looked at further."""

    def _name(self, key: Any) -> str:
        stamp = hashlib.sha256(repr((FORMAT, self._version, self._source_stamp, key)).encode()).hexdigest()[
            :20
        ]
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


class _Kept(CompileResultCacheImpl):  # type: ignore[misc]
    """Where code may be kept: the first folder that nobody else can write."""

    _locator_classes: ClassVar[list[Any]] = []


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, but a folder that is full or gone does not stop a run."""

    _impl_class = _Kept

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def _wary(locator: Any) -> Any:
    """A locator of Numba that passes over folders others can write."""

    class Wary(locator):  # type: ignore[misc]
        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            found = super().from_function(py_func, py_file)
            if found is None:
                return None
            folder = Path(found.get_cache_path())
            if is_trusted(folder, Path(py_file)):
                return found
            _tell(folder)
            return None

    return Wary


_Kept._locator_classes = [
    _wary(c) for c in (UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator)
]


@cache
def is_trusted(folder: Path, source: Path) -> bool:
    """Whether nobody else can put a file into a folder, or another folder in its place.

    Nobody but this user, the administrator and the owner of the source file, whose code is run in any case.
    """
    if not hasattr(os, "getuid"):
        return True  # Windows: who may write is not in the mode there
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
    """Whether this user, the administrator and `owner` alone can write a file or folder.

    Many systems give every user a group of the same number, with nobody else in it.
    """
    if not hasattr(os, "getuid"):
        return True
    own_group = facts.st_gid in (facts.st_uid, 0)
    open_to = stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP
    return facts.st_uid in (os.getuid(), 0, owner) and not facts.st_mode & open_to


@cache
def _tell(folder: Path) -> None:
    """Say once a command what is not used."""
    if multiprocessing.parent_process() is None:
        print(
            f"tiepoint: others can write {folder}: compiled code is not kept there; take that right away, or "
            "set NUMBA_CACHE_DIR to a folder of your own",
            file=sys.stderr,
        )


def _called(body: Any) -> set[Path]:
    """Files of a function, and of the compiled functions and intrinsics it calls."""
    found = {Path(body.__code__.co_filename)}
    for name in body.__code__.co_names:
        value = body.__globals__.get(name)
        called = getattr(value, "py_func", None) or getattr(value, "_defn", None)
        if called is not None and called is not body:
            found |= _called(called)
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """A file and all that it imports within its package, at the top of the file and directly or not."""
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
    """``numba.njit(cache=True, **options)`` with the safe cache; without one where no folder can be written.

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
        except RuntimeError:  # no source, or no folder of one's own to write to: compile in each process
            return found
        name = store._cache_file._index_name.removesuffix(".nbi")
        # Taken now, so that it describes the code in memory even if the files change later.
        store._cache_file = _NamedByContent(store.cache_path, name, _digest(frozenset(_called(body))))
        found._cache = store
        return found

    return decorate


def matrix(dtype: Any) -> Any:
    """Signature of a C-ordered matrix that is only read, so that memory-mapped arrays need no other code."""
    return types.Array(dtype, 2, "C", readonly=True)


def compiled_for(signature: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function becomes `name(dtype, ...)`, which returns it compiled for these formats.

    `signature` makes the Numba signature from the Numba types of the formats. Nothing is compiled, and no
    code loaded, before it is wanted; what then comes is compiled for this signature alone.

    >>> @compiled_for(lambda real: real(real))
    ... def half(x):
    ...     return x / 2
    >>> half(np.float64)(3.0)
    1.5
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        _digest(frozenset(_called(body)))  # kept for when a variant is made

        @cache
        def variant(*formats: Any) -> Any:
            found = cached_njit(nogil=True, error_model="numpy")(body)
            found.compile(signature(*(from_dtype(np.dtype(f)) for f in formats)))
            found.disable_compile()
            return found

        variant.__doc__ = body.__doc__
        return variant

    return decorate
