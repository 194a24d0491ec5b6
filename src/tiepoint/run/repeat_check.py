# SPDX-License-Identifier: BSD-3-Clause
"""Compute some items twice, to find methods whose features differ from call to call or from the cache."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from ..core.errors import DamagedError
from ..core.records import Arrays
from ..methods.base import Method, has_user_code
from ..methods.pairs.image_memo import MEMO
from ..store.feature_cache import content_hash
from ..store.stored_run import Manifest
from .cache_keys import record_key
from .context import DIFFERS, REPEATED, SAME, RunContext

SHARE = 0.01
"""Time limit for computing items again, as a share of the time for all features. The first item is exempt."""

RECHECK_S = 0.3
"""Time limit in seconds for computing cached items of user code again. The first item is exempt."""

ROUNDING = 1e-4
"""Largest difference that rounding may cause, as a share of the largest value."""

REPEATS = "items computed twice"
"""Name of the job that computes items again."""

Computed = tuple[Mapping[str, str], float]
"""Feature keys of the computed items, and the seconds for computing items again after the first one."""


def to_repeat(context: RunContext, missing: Mapping[str, str]) -> Mapping[str, str]:
    """Return the items that the repeat check may compute twice, with their feature keys.

    If the cache lacks items, return the missing ones. Otherwise return all items, unless an earlier run has
    checked one. The result is empty if the method needs no check, as for a built-in method that reads files.
    """
    if not _computes(context.method):
        return {}
    if missing:
        return missing
    headers = (context.features.meta(key) for key in context.feature_keys.values())
    is_known = any(meta is not None and REPEATED in meta for meta in headers)
    return {} if is_known else context.feature_keys


def _computes(method: Method) -> bool:
    config: Mapping[str, Any] = method.config
    while "base" in config:
        config = config["base"]
    return method.needs_payload or "class" in config


def repeat_items(context: RunContext, computed: Computed) -> dict[str, str]:
    """Compute items again. Return `SAME`, or `DIFFERS` if any bit differs, by item. Runs as a job.

    `computed` has the feature keys and a time budget in seconds. The cheapest item that has features comes
    first, then items in the order of their keys until the budget is used. An item that fails the second time
    differs.
    """
    keys, budget_s = computed
    headers = {item: meta for item, key in keys.items() if (meta := context.features.meta(key)) is not None}
    if not headers:
        return {}
    first = _cheap(headers)[0]
    rest = sorted(headers.keys() - {first}, key=lambda item: keys[item])
    found: dict[str, str] = {}
    for item in _affordable([first, *rest], headers, budget_s):
        again = _again(context, item)
        same = again is not None and content_hash(again) == headers[item]["content"]
        found[item] = SAME if same else DIFFERS
    return found


def _cheap(headers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the cheaper half of the items, cheapest first. Skip empty features unless all are empty."""
    filled = [i for i, meta in headers.items() if any(prod(shape) for shape in meta["arrays"].values())]
    by_cost = sorted(filled or headers, key=lambda item: float(headers[item].get("time_s", 0.0)))
    return by_cost[: (len(by_cost) + 1) // 2]


def _affordable(
    items: Sequence[str], headers: Mapping[str, Mapping[str, Any]], budget_s: float
) -> Iterator[str]:
    """Yield the first item, then further items until the next one would exceed the time budget."""
    started = time.perf_counter()
    for item in items:
        cost_s = float(headers[item].get("time_s", 0.0))
        if item != items[0] and time.perf_counter() - started + cost_s > budget_s:
            return
        yield item


def _again(context: RunContext, item: str) -> Arrays | None:
    """Return an item's features, computed again without memos. None if that fails."""
    payload = context.payload(item)
    with MEMO.bypassed():
        try:
            return context.method.extract(context.items[item], payload)
        except Exception:  # of the method: it returned features before
            return None


def irreproducible(context: RunContext) -> str | None:
    """Return why the cached features of user code must not be used. None if the code still computes them.

    No key contains everything that code can read, such as state of libraries. Therefore one cached item, and
    further items for at most `RECHECK_S`, are computed again before the cache is used. Each call picks them
    at random. Rounding is ignored, because it depends on threads and machines. Methods that are known not to
    be deterministic are not checked.
    """
    if not has_user_code(context.method.config):
        return None
    headers: dict[str, Mapping[str, Any]] = {}
    for item, key in context.feature_keys.items():
        with suppress(DamagedError):  # the run recomputes it
            meta = context.features.meta(key)
            if meta is not None and meta.get(REPEATED) == DIFFERS:
                return None
            if meta is not None:
                headers[item] = meta
    cheap = _cheap(headers)
    generator = random.Random()  # the global one belongs to the method
    chosen = generator.sample(cheap, len(cheap))
    chosen += generator.sample(sorted(headers.keys() - {*cheap}), len(headers) - len(cheap))
    for item in _affordable(chosen, headers, RECHECK_S):
        again = _again(context, item)
        with suppress(DamagedError):
            if again is None or not is_close(context.features.get(context.feature_keys[item]), again):
                return (
                    f"its code no longer computes the cached features of {item}: it reads something that the "
                    "cache key does not contain, or random numbers that the input does not seed"
                )
    return None


def computes_same(context: RunContext, argument: tuple[str, str]) -> bool:
    """Return whether this process computes the cached features of an item. Runs as a job."""
    item, key = argument
    again = _again(context, item)
    return again is not None and is_close(context.features.get(key), again)


def reproduces_records(context: RunContext, manifest: Manifest) -> bool:
    """Return whether user code still computes the records of a stored run whose features were removed.

    Checks the unit with the fewest items. Methods that are known not to be deterministic are not checked.
    """
    keys = context.feature_keys.values()
    if not has_user_code(context.method.config) or manifest.nondeterministic_items:
        return True
    if any(key in context.features for key in keys):  # `irreproducible` checked one
        return True
    unit = min(context.opened.units, key=lambda unit: len(unit.items))
    found = [_again(context, item) for item in unit.items]
    contents = [content_hash(arrays) for arrays in found if arrays is not None]
    return len(contents) == len(found) and all(
        record_key(context.task, context.opened, context.method, unit, comparison, contents) == key
        for comparison, key in manifest.units.get(unit.key, {}).items()
    )


def is_close(cached: Arrays, again: Arrays) -> bool:
    """Return whether arrays are equal up to rounding, in units of the largest value of each array.

    >>> one = {"values": np.float32([[1, 100]])}
    >>> [is_close(one, {"values": np.float32([[first, 100]])}) for first in (1.001, 2)]
    [True, False]
    """
    if cached.keys() != again.keys():
        return False
    for name, array in cached.items():
        other = np.asarray(again[name])
        if array.shape != other.shape or array.dtype != other.dtype:
            return False
        if array.dtype.kind != "f":
            same = np.array_equal(array, other)
        else:
            finite = np.isfinite(array)
            largest = float(np.max(np.abs(array[finite]), initial=0.0))
            same = np.allclose(array, other, rtol=0.0, atol=ROUNDING * largest, equal_nan=True)
        if not same:
            return False
    return True


def note_repeats(context: RunContext, found: Mapping[str, str]) -> None:
    """Note in the cached features of items whether the method reproduced them."""
    for item, outcome in found.items():
        context.features.amend(context.feature_keys[item], **{REPEATED: outcome})
