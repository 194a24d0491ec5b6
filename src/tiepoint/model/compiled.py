# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions whose compiled code is kept on disk safely.

Numba numbers the variants of a function in its cache. Two processes that compile different variants at the
same time can take the same number, and a later process then runs one variant's code for the other. Here a
variant's file is named after its signature: whoever writes it writes the same thing.

Numba also looks at the file of a function alone. Compiled functions of other files that it calls are part of
its code, so here a change in any of these files makes it anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile


class _NamedBySignature(IndexDataCacheFile):  # type: ignore[misc]
    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        stamp = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        name = f"{self._index_name.removesuffix('.nbi')}.{stamp}.nbc"
        self._save_data(name, data)
        if overloads.get(key) != name:
            overloads[key] = name
            self._save_index(overloads)


def _files(body: Any) -> set[str]:
    """Source files of a function and of all compiled functions it calls."""
    found = {body.__code__.co_filename}
    for name in body.__code__.co_names:
        called = getattr(body.__globals__.get(name), "py_func", None)
        if called is not None and called is not body:
            found |= _files(called)
    return found


@cache
def _digest(files: tuple[str, ...]) -> str:
    text = hashlib.sha256()
    for name in files:
        path = Path(name)
        text.update(path.read_bytes() if path.is_file() else name.encode())
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
        before = store._cache_file
        stamp = (before._source_stamp, _digest(tuple(sorted(_files(body)))))
        store._cache_file = _NamedBySignature(
            store.cache_path, before._index_name.removesuffix(".nbi"), stamp
        )
        return found

    return decorate
