# SPDX-License-Identifier: BSD-3-Clause
"""Transforms fitted on training sequences: features through the cache, fits kept in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import DamagedError, InputError, join_errors
from ..core.formatting import count_text, first_few
from ..core.records import Arrays, Item
from ..methods.base import Method
from ..methods.transforms import PLAIN, FitRequest, FittedTransform, load_transform
from ..store.atomic_files import atomic_file
from ..store.feature_cache import FeatureCache
from ..tasks.base import TaskData
from ..tasks.capabilities import HasTrainingItems
from .cache_keys import feature_key, fit_key, temporary_fit_key
from .context import MAX_LISTED_PROBLEMS


class FolderTraining:
    """Another dataset to fit on: all its sequences."""

    def __init__(self, folder: Path) -> None:
        from ..datasets.hpatches.dataset import HPatchesDataset

        self.data = HPatchesDataset(folder)

    def read_item(self, key: str) -> Any:
        """Patches of an item."""
        return self.data.read(key)

    def training(self, images: str) -> list[Item]:
        """Images of every sequence."""
        names = {s: ("ref",) if images == "ref" else self.data.images(s) for s in self.data.sequences}
        return [self.data.item(s, m) for s, own in names.items() for m in own]


@dataclass
class TransformFitter:
    """Called by the resolver with (method so far, request); `log` says what was fitted on what.

    Fits are kept in the store's folder under what determines them: the method and the content of every
    training image, the transform and its revision. Where it is not in `fit_now`, it only looks
    whether all a fit needs is there, and gives a transform that is never applied; `opened` may then be None,
    for a task that could not be opened.

    Fits of a method that cannot be identified live as long as the command: in `made`, which its tasks share,
    under what the method is called there (`called`).
    """

    opened: TaskData | None
    root: Path
    fit_on: Path | None = None
    fit_now: bool = True
    log: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    called: str = ""
    made: dict[str, FittedTransform] = field(default_factory=dict)
    _folder: FolderTraining | None = None

    def to_fit_now(self) -> TransformFitter:
        """One that fits, with what this one has opened."""
        return replace(self, fit_now=True, log=[], notices=[])

    def __call__(self, method: Method, request: FitRequest) -> FittedTransform:
        """The fitted transform, from the store or made now."""
        source = self._source()
        if source is None:
            return self._planned(request)
        if not isinstance(source, HasTrainingItems):
            raise InputError(
                "a transform is fitted on training sequences, but this task has no split with such sequences; "
                "pass a dataset to fit it on with `fit_on`"
            )
        items = source.training(request.images)
        self._check(items)
        if method.check is not None:
            method.check(items)
        if not self.fit_now:
            return self._planned(request)
        keys = [method.key(item) for item in items]
        own = [[key, item.content] for key, item in zip(keys, items, strict=True)]
        path = self.root / "transforms" / f"{fit_key(request, own)}.npz"
        kept = all(key is not None for key in keys)
        passing = temporary_fit_key(self.called, method, path.name)
        made = load_transform(path) if kept and path.is_file() else self.made.get(passing)
        if made is None:
            from ..kernels import one_blas_thread  # slow to import

            with one_blas_thread():  # the number of threads changes the last bits of products
                made = request.fit(self._values(method, items, keys, source))
            if kept:
                save_transform(path, made)
            else:
                self.made[passing] = made
        sequences = list(dict.fromkeys(item.key.rpartition("/")[0] for item in items))
        entry = {"transform": request.name, "hash": made.hash, "images": request.images}
        kept_in = {"file": f"transforms/{path.name}"} if kept else {}
        self.log.append({**entry, "sequences": sequences, **kept_in})
        return made

    def _planned(self, request: FitRequest) -> FittedTransform:
        """Stands in for a fit; it is never applied."""
        self.log.append({"transform": request.name})
        return FittedTransform(request.name, None, np.eye(1))

    def _source(self) -> TaskData | FolderTraining | None:
        if self.fit_on is None:
            return self.opened
        self._folder = self._folder or FolderTraining(self.fit_on)
        return self._folder

    def _check(self, items: Sequence[Item]) -> None:
        """Say so where test images take part in the fit."""
        tested = set() if self.opened is None else {item.content for item in self.opened.items}
        shared = sorted({i.key.rpartition("/")[0] for i in items if i.content in tested})
        if shared:
            some = first_few(shared, 3, count=False)
            self.notices.append(
                "the transform is fitted on "
                f"{count_text(len(shared), 'sequence that is', 'sequences that are')} also tested ({some}), "
                "so its scores are too high"
            )

    def _values(
        self,
        method: Method,
        items: Sequence[Item],
        keys: Sequence[str | None],
        source: TaskData | FolderTraining,
    ) -> np.ndarray[Any, Any]:
        """Valid descriptors of all items, one below the other, in the order of the items."""
        cache = FeatureCache(self.root / "features")
        parts = []
        errors: list[InputError] = []
        for item, own in zip(items, keys, strict=True):
            try:
                arrays = self._arrays(method, item, own, source, cache)
            except InputError as e:
                errors.append(e)
                if method.needs_payload and len(errors) >= MAX_LISTED_PROBLEMS:
                    break
                continue
            values = np.asarray(arrays["values"])
            valid = arrays.get("valid")
            parts.append(values if valid is None else values[np.asarray(valid, bool)])
        if errors:
            raise join_errors(errors, f"{method.name}: training descriptors", shown=MAX_LISTED_PROBLEMS)
        return np.concatenate(parts)

    def _arrays(
        self,
        method: Method,
        item: Item,
        own: str | None,
        source: TaskData | FolderTraining,
        cache: FeatureCache,
    ) -> Arrays:
        """Features of an item, from the cache if it has them whole."""
        key = feature_key(method, own, item)
        if own is not None:
            try:
                if key in cache:
                    return cache.get(key)
            except DamagedError as e:
                cache.discard(key)
                self.notices.append(
                    f"the features of {item.key} were damaged on disk and have been made anew ({e.problem})"
                )
        arrays = method.extract(item, source.read_item(item.key) if method.needs_payload else None)
        if own is not None:
            cache.put(key, arrays, item=item.key, method=method.name, count=item.count)
        return arrays


def save_transform(path: Path, made: FittedTransform) -> None:
    """Write a fitted transform: its arrays and, as JSON text, the rest."""
    about = {name: getattr(made, name) for name in (*PLAIN, "hash")}
    arrays = {"matrix": made.matrix, "about": np.array(json.dumps(about))}
    if made.mean is not None:
        arrays["mean"] = made.mean
    with atomic_file(path) as temporary, temporary.open("wb") as f:
        np.savez(f, **arrays)  # type: ignore[arg-type]  # numpy's stub knows no keyword arrays here
