# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions whose compiled code is kept on disk safely.

Numba numbers the variants of a function in its cache. Two processes that compile different variants at the
same time can take the same number, and a later process then runs one variant's code for the other. Here a
variant's file is named after all that its code depends on, and there is no index: whoever writes a file
writes the same thing.

Numba also looks at the file of a function alone. What that file takes from others, functions and constants,
is part of the code as well, so here a change in any of these files gives the code another name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, njit, types
from numba.core.caching import IndexDataCacheFile

_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (.*)", re.MULTILINE)


class _NamedByContent(IndexDataCacheFile):  # type: ignore[misc]
    def _name(self, key: Any) -> str:
        stamp = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode()).hexdigest()[:20]
        return f"{self._index_name.removesuffix('.nbi')}.{stamp}.nbc"

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), data)

    def load(self, key: Any) -> Any:
        try:
            return self._load_data(self._name(key))
        except OSError:
            return None


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
        try:
            found = njit(cache=True, **options)(body)
        except RuntimeError:  # no locator for the source, or nowhere to write: compile in each process
            return njit(**options)(body)
        store = found._cache
        name = store._cache_file._index_name.removesuffix(".nbi")
        # Taken now, so that it describes the code in memory even if the files change later.
        store._cache_file = _NamedByContent(store.cache_path, name, _digest(frozenset(_called(body))))
        return found

    return decorate


def matrix(dtype: Any) -> Any:
    """Signature of a C-ordered matrix that is only read, so that memory-mapped arrays need no other code."""
    return types.Array(dtype, 2, "C", readonly=True)


def compiled(signature: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function becomes `name(dtype, ...)`, which returns it compiled for these formats.

    `signature` makes the Numba signature from the Numba types of the formats. Nothing is compiled, and no
    code loaded, before it is wanted; what then comes is compiled for this signature alone.

    >>> @compiled(lambda real: real(real))
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
