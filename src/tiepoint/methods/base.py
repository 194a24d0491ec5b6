# SPDX-License-Identifier: BSD-3-Clause
"""A method made ready to run: what it is called, what determines its output, how to apply it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model.units import Arrays, Item


@dataclass(frozen=True)
class Method:
    """One method under test.

    `spec` is how it was named (``sift+rootsift``), None for an object made in a session. `config` is plain
    JSON and holds all that determines the output: parameters, source hash, weight hashes, library
    versions, device. `extract(item, payload)` returns the features of one item; `key(item)` is what
    identifies them besides the item's content (None: not cacheable between processes). A method that looks
    features up (`reads_payload` False) is not given the item's payload. `check(items)`, where there is one,
    finds before any work what would fail later (missing files) and reports all of it at once; `has(item)`
    says whether there is anything to look up for an item.
    """

    name: str
    family: str
    distance: str
    config: Mapping[str, Any]
    extract: Callable[[Item, Any], Arrays]
    key: Callable[[Item], str | None]
    spec: str | None = None
    reads_payload: bool = True
    bytes_per_item: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Sequence[Item]], None] | None = None
    has: Callable[[Item], bool] | None = None
