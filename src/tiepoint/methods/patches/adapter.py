# SPDX-License-Identifier: BSD-3-Clause
"""Adapter for patch methods: build `extract(item, patches)` from a user's or built-in object."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import InputError, TiepointError
from ...core.records import Arrays, Item
from ..base import Finish
from ..output_checks import check_descriptors
from ..user_code import copy_for_user, is_builtin_class, is_user_code, user_failure, view_for_user
from .declared_input import PatchForm, declared_form


class PatchExtract:
    """The `extract` of a patch method, and its `stream` if a built-in object has `describe_stream`.

    `form` is the form of the patches that user code receives.
    """

    def __init__(self, thing: Any, name: str, distance: str, on_bad: str) -> None:
        self.form = declared_form(thing, name) if _is_called_with_patches(thing) else PatchForm()
        self._call = _caller(thing, name, self.form)
        streams = is_builtin_class(type(thing)) and hasattr(thing, "describe_stream")
        self.stream = partial(self._stream, thing.describe_stream) if streams else None
        self.name, self._distance, self._on_bad = name, distance, on_bad
        self._zero_rows_are_valid = bool(getattr(thing, "zero_rows_are_valid", False))
        self._seen: dict[str, int] = {}

    def __call__(self, item: Item, payload: Any) -> Arrays:
        """Return the features of one item."""
        rows = _rows(item, payload)
        try:
            returned = self._call(item, rows, payload)
        except (Exception, SystemExit) as e:
            returned = e
        return self._finish(item, rows, returned)

    def _stream(self, describe: Any, payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        taken: deque[tuple[Item, int]] = deque()

        def patches() -> Iterator[Any]:
            for item, payload in payloads:
                given = _patches(payload, item)
                taken.append((item, _rows(item, payload)))
                yield given

        for returned in describe(patches()):
            item, rows = taken.popleft()
            yield item, partial(self._finish, item, rows, returned)

    def _finish(self, item: Item, rows: int, returned: Any) -> Arrays:
        if isinstance(returned, TiepointError):
            raise returned
        if isinstance(returned, BaseException):
            raise user_failure(f"{self.name} failed on {item.key}", returned) from returned
        arrays = check_descriptors(
            returned,
            rows=rows,
            distance=self._distance,
            where=f"{self.name} on {item.key}",
            on_bad=self._on_bad,
            zero_rows_are_valid=self._zero_rows_are_valid,
            keep_nan=True,
        )
        found = arrays["values"].shape[1]
        first, dimension = next(iter(self._seen.items()), (item.key, found))
        self._seen.setdefault(first, dimension)
        if found != dimension:
            raise InputError(
                f"{self.name}: {item.key} has {found} columns and {first} has {dimension}; "
                "all descriptors need the same dimension"
            )
        return arrays


def bind_patches(thing: Any, *, name: str, distance: str, on_bad: str) -> PatchExtract:
    """Return the `extract` of a patch method.

    `thing` has ``describe(patches)``, which computes descriptors, or ``lookup(sequence, image)``, which
    returns the stored descriptors of an image. Built-in methods may have ``lookup_item(item, rows)`` instead.
    """
    return PatchExtract(thing, name, distance, on_bad)


def _rows(item: Item, payload: Any) -> int:
    return item.count if item.count is not None else len(payload)


def _is_called_with_patches(thing: Any) -> bool:
    """Return whether user code receives patches, because it has neither ``lookup`` nor ``lookup_item``."""
    return is_user_code(thing) and not (hasattr(thing, "lookup_item") or hasattr(thing, "lookup"))


def _caller(thing: Any, name: str, form: PatchForm) -> Callable[[Item, int, Any], Any]:
    if hasattr(thing, "lookup_item"):
        return lambda item, rows, payload: thing.lookup_item(view_for_user(thing, item), rows)
    if hasattr(thing, "lookup"):
        return lambda item, rows, payload: thing.lookup(*_sequence_and_image(item))
    if hasattr(thing, "describe"):
        return lambda item, rows, payload: thing.describe(
            form.convert(copy_for_user(thing, _patches(payload, item)))
        )
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
            f"{item.key}: patches are {patches.dtype} {patches.shape}; pass uint8 (n, side, side)"
        )
    return patches
