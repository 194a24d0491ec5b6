# SPDX-License-Identifier: BSD-3-Clause
"""What one job needs: the open task, the method, the caches. A recipe of it can travel to a worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..methods.base import Method
from ..model.errors import InputError
from ..model.hashing import hash_json
from ..model.units import Arrays, Features, Item, Unit
from ..store.features import FeatureCache
from ..store.records import RecordStore
from ..tasks.base import OpenTask, Task

RECORD_FORMAT = 1
"""Raised when a comparison changes what it writes: old records are then made anew."""

SHOWN = 20
"""Problems of a method's features that are listed; a method that computes is stopped after so many."""


@dataclass(frozen=True)
class FeatureSummary:
    """Features of a method on all items: seconds it took, descriptors there are, and how many failed."""

    time_s: float
    total: int
    failed: int


@dataclass(frozen=True)
class Context:
    """One method on one task, ready to work on items and units."""

    task: Task
    opened: OpenTask
    method: Method
    features: FeatureCache
    records: RecordStore
    ephemeral: str | None = None
    _items: dict[str, Item] = field(default_factory=dict)

    def item(self, key: str) -> Item:
        """The item of a key."""
        if not self._items:
            self._items.update({item.key: item for item in self.opened.items})
        return self._items[key]

    def feature_key(self, item: Item) -> str:
        """Cache key of the features of an item: what the method is and what it sees."""
        own = self.method.key(item) if self.ephemeral is None else f"{self.ephemeral}:{item.key}"
        return hash_json(["features", own, item.content])

    def extract(self, key: str, feature_key: str) -> float:
        """Make the features of an item and cache them under a key; returns the seconds the method took."""
        item = self.item(key)
        payload = self.opened.read(key) if self.method.reads_payload else None
        started = time.perf_counter()
        arrays = self.method.extract(item, payload)
        seconds = time.perf_counter() - started
        values = arrays.get("values")
        count = item.count if values is None else len(values)
        self.features.put(feature_key, arrays, item=key, method=self.method.name, time_s=seconds, count=count)
        return seconds

    def arrays(self, key: str) -> Arrays:
        """Cached features of an item."""
        return self.features.get(self.feature_key(self.item(key)))

    def summary(self) -> FeatureSummary:
        """Time, number and failures of the features of all items, from the headers of the cache."""
        seconds, total, failed = 0.0, 0, 0
        for item in self.opened.items:
            key = self.feature_key(item)
            meta = self.features.meta(key)
            if meta is None:
                continue
            seconds += float(meta.get("time_s", 0.0))
            shapes = meta["arrays"]
            total += int(shapes["values"][0]) if "values" in shapes else 0
            if "values" in shapes and "valid" in shapes:
                valid = np.asarray(self.features.get(key)["valid"], bool)
                failed += int(valid.size - np.count_nonzero(valid))
        return FeatureSummary(seconds, total, failed)

    def record_key(self, unit: Unit, comparison: str) -> str:
        """Key of the records of a unit: content of its features, its definition, the comparison."""
        contents = []
        for key in unit.items:
            content = self.features.content(self.feature_key(self.item(key)))
            if content is None:
                raise InputError(f"features of {key} are missing from the cache; run again to make them")
            contents.append(content)
        parts = [RECORD_FORMAT, self.task.name, unit.definition, comparison, self.method.distance, contents]
        return hash_json(["records", *parts])

    def compare(self, unit: Unit, comparison: str) -> str:
        """Make and store the records of a unit; returns their key."""
        key = self.record_key(unit, comparison)
        if key not in self.records:
            features = Features(self.arrays, self.method.distance, self.method.meta)
            self.records.put(key, self.opened.compare(unit, features, comparison))
        return key


@dataclass(frozen=True)
class Recipe:
    """How to make a `Context` again in another process: plain values only."""

    task: str
    data: str
    options: Mapping[str, Any]
    method: str
    method_options: Mapping[str, Any]
    root: str
    threads: int
    fit_on: str | None = None

    def build(self) -> Context:
        """The context, with the number of threads its share of the cores allows."""
        from ..methods.resolve import resolve
        from ..tasks import TASKS
        from .fitting import Fitting

        limit_threads(self.threads)
        task: Task = TASKS.load(self.task)
        opened = task.open(Path(self.data), self.options)
        root = Path(self.root)
        fit = Fitting(opened, root, fit_on=None if self.fit_on is None else Path(self.fit_on))
        method = resolve(self.method, family=task.family, fit=fit, **self.method_options)
        return Context(task, opened, method, FeatureCache(root / "features"), RecordStore(root / "records"))


def limit_threads(threads: int) -> None:
    """Use at most this many threads in compiled kernels; results do not depend on it."""
    import numba

    numba.set_num_threads(max(1, min(threads, numba.config.NUMBA_NUM_THREADS)))


def finite_or_none(value: float | np.floating[Any] | None) -> float | None:
    """Plain float, None for NaN and infinities: the store has NULL, not sentinels.

    >>> finite_or_none(float("nan")) is None, finite_or_none(0.5)
    (True, 0.5)
    """
    if value is None or not np.isfinite(value):
        return None
    return float(value)
