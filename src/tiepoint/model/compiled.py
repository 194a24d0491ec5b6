# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions whose compiled code is kept on disk safely.

Numba numbers the variants of a function in its cache. Two processes that compile different variants at the
same time can take the same number, and a later process then runs one variant's code for the other. Here a
variant's file is named after its signature: whoever writes it writes the same thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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
        store._cache_file = _NamedBySignature(
            store.cache_path, before._index_name.removesuffix(".nbi"), before._source_stamp
        )
        return found

    return decorate
