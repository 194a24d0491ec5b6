# SPDX-License-Identifier: BSD-3-Clause
"""Compiling kernels when first wanted, and keeping the result on disk safely.

Numba's own cache looks at one source file and numbers the variants of a function. Both can go wrong here:
a change in a shared helper leaves its callers stale, and two processes that compile different variants at
the same time can swap them. So each variant gets its own file, named after the text of all compiled modules
and the signature; whoever writes it writes the same thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, njit, types
from numba.core.caching import IndexDataCacheFile


def _digest() -> str:
    text = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("_*.py")):
        text.update(path.read_bytes())
    return text.hexdigest()


# Taken at import, so that it describes the code in memory even if the files change later.
_SOURCES = _digest()


def matrix(dtype: Any) -> Any:
    """Signature of a C-ordered matrix that is only read, so that memory-mapped arrays need no other code."""
    return types.Array(dtype, 2, "C", readonly=True)


def compiled(signature: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function becomes `name(dtype, ...)`, which returns it compiled for these formats.

    `signature` makes the Numba signature from the Numba types of the formats.
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def variant(*formats: Any) -> Any:
            return _build(body, signature(*(from_dtype(np.dtype(f)) for f in formats)))

        variant.__doc__ = body.__doc__
        return variant

    return decorate


def _build(body: Callable[..., Any], kind: Any) -> Any:
    options = {"nogil": True, "error_model": "numpy"}
    try:
        found = njit(cache=True, **options)(body)
    except RuntimeError:  # no folder can be written: compile anew in each process
        found = njit(**options)(body)
    else:
        stamp = hashlib.sha256(f"{_SOURCES} {kind}".encode()).hexdigest()[:20]
        store = found._cache
        store._cache_file = IndexDataCacheFile(store.cache_path, f"tiepoint-{body.__name__}-{stamp}", stamp)
    found.compile(kind)
    found.disable_compile()
    return found
