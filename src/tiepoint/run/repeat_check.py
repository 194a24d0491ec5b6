# SPDX-License-Identifier: BSD-3-Clause
"""Compute some items twice, to find methods whose features differ from call to call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import prod
from typing import Any

from ..methods.base import Method
from ..methods.pairs.image_memo import MEMO
from ..store.feature_cache import content_hash
from .context import DIFFERS, REPEATED, SAME, RunContext

SHARE = 0.01
"""Largest share of the time for features that further items may take. One item is always computed again."""

REPEATS = "items computed twice"
"""Name of the job that computes items again."""

Computed = tuple[Mapping[str, str], float]
"""Feature keys of the items that were computed, and the seconds that further items may take."""


def to_repeat(context: RunContext, missing: Mapping[str, str]) -> Mapping[str, str]:
    """Return the items that the repeat check may compute twice, with their feature keys.

    These are the items that are missing from the cache. If none is missing and no earlier run has checked an
    item, these are all items. The result is empty if no check is needed, as for a built-in method that reads
    files.
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
    costs = {item: float(meta.get("time_s", 0.0)) for item, meta in headers.items()}
    filled = [i for i, meta in headers.items() if any(prod(shape) for shape in meta["arrays"].values())]
    first = min(filled or headers, key=lambda item: costs[item])
    rest = sorted(headers.keys() - {first}, key=lambda item: keys[item])
    found: dict[str, str] = {}
    started = time.perf_counter()
    with MEMO.bypassed():
        for item in [first, *rest]:
            if item != first and time.perf_counter() - started + costs[item] > budget_s:
                break
            found[item] = SAME if _content(context, item) == headers[item]["content"] else DIFFERS
    return found


def _content(context: RunContext, item: str) -> str | None:
    """Return the content hash of an item's features, computed again. None if that fails."""
    payload = context.payload(item)
    try:
        return content_hash(context.method.extract(context.items[item], payload))
    except Exception:  # of the method: it returned features before
        return None


def note_repeats(context: RunContext, found: Mapping[str, str]) -> None:
    """Note in the cached features of items whether the method reproduced them."""
    for item, outcome in found.items():
        context.features.amend(context.feature_keys[item], **{REPEATED: outcome})
