# SPDX-License-Identifier: BSD-3-Clause
"""Patch methods made ready to run: a describer or a lookup becomes `extract(item, patches)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...model.errors import InputError, TiepointError, UnitError
from ...model.units import Arrays, Item
from ..checks import check_descriptors

Extract = Callable[[Item, Any], Arrays]


def bind_patches(thing: Any, *, name: str, distance: str, on_bad: str) -> Extract:
    """The `extract` of a patch method.

    `thing` has one of ``describe(patches)``, ``lookup(sequence, image)`` (a features provider, which knows
    which patches it is asked for) or, inside this package, ``lookup_item(item, rows)``.
    """
    call = _caller(thing, name)
    zero_rows_are_valid = bool(getattr(thing, "zero_rows_are_valid", False))
    seen: dict[str, int] = {}

    def extract(item: Item, payload: Any) -> Arrays:
        rows = item.count if item.count is not None else len(payload)
        try:
            returned = call(item, rows, payload)
        except TiepointError:
            raise
        except Exception as e:
            raise UnitError(f"{name} failed on {item.key}: {type(e).__name__}: {e}") from e
        arrays = check_descriptors(
            returned,
            rows=rows,
            distance=distance,
            where=f"{name} on {item.key}",
            on_bad=on_bad,
            zero_rows_are_valid=zero_rows_are_valid,
            keep_nan=True,
        )
        first, dimension = next(iter(seen.items()), (item.key, arrays["values"].shape[1]))
        seen.setdefault(first, dimension)
        if arrays["values"].shape[1] != dimension:
            raise InputError(
                f"{name}: {item.key} has {arrays['values'].shape[1]} columns and {first} has {dimension}; "
                "all descriptors need the same dimension"
            )
        return arrays

    return extract


def _caller(thing: Any, name: str) -> Callable[[Item, int, Any], Any]:
    if hasattr(thing, "lookup_item"):
        return lambda item, rows, payload: thing.lookup_item(item, rows)
    if hasattr(thing, "lookup"):
        return lambda item, rows, payload: thing.lookup(*_sequence_and_image(item))
    if hasattr(thing, "describe"):
        return lambda item, rows, payload: thing.describe(_patches(payload, item))
    raise InputError(
        f"method {name!r} has neither describe(patches) nor lookup(sequence, image); add one of them"
    )


def _sequence_and_image(item: Item) -> tuple[str, str]:
    sequence, _, image = item.key.rpartition("/")
    return sequence, image


def _patches(payload: Any, item: Item) -> Any:
    patches = np.asarray(payload)
    if patches.ndim != 3 or patches.dtype != np.uint8 or patches.shape[1] != patches.shape[2]:
        raise InputError(
            f"{item.key}: patches must be uint8 (n, side, side), found {patches.dtype} {patches.shape}"
        )
    return patches
