# SPDX-License-Identifier: BSD-3-Clause
"""Fit transforms on training sequences. Features and fitted transforms are cached in the store."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import DamagedError, InputError, join_errors
from ..core.formatting import count_text, first_few
from ..core.records import Arrays, Item
from ..methods.base import Method, has_user_code
from ..methods.transforms import PLAIN, FitRequest, FittedTransform, load_transform
from ..store.atomic_files import atomic_file
from ..store.feature_cache import FeatureCache
from ..tasks.base import TaskData
from ..tasks.capabilities import HasTrainingItems
from .cache_keys import feature_key, fit_key, temporary_fit_key
from .context import MAX_LISTED_PROBLEMS
from .repeat_check import is_close


class FolderTraining:
    """Training data for transforms: all sequences of a dataset."""

    def __init__(self, folder: Path) -> None:
        from ..datasets.hpatches.dataset import HPatchesDataset

        self.data = HPatchesDataset(folder)

    def read_item(self, key: str) -> Any:
        """Return the patches of an item."""
        return self.data.read(key)

    def training(self, images: str) -> list[Item]:
        """Return the reference images, or all images, of every sequence."""
        names = {s: ("ref",) if images == "ref" else self.data.images(s) for s in self.data.sequences}
        return [self.data.item(s, m) for s, own in names.items() for m in own]


@dataclass
class TransformFitter:
    """Callback with which the method resolver fits transforms. `log` has an entry for each transform.

    The cache key of a fitted transform covers the method, the content of every training image, the transform
    and its revision. If `fit_now` is False, the fitter only checks the input and returns a placeholder that
    is never applied. In that case, `opened` is None if the task could not be opened.

    For a method without a key, `fits` stores the fitted transforms until the command ends. Fitters of all
    tasks share `fits`.
    """

    opened: TaskData | None
    root: Path
    fit_on: Path | None = None
    fit_now: bool = True
    log: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    request_key: str = ""
    fits: dict[str, FittedTransform] = field(default_factory=dict)
    _folder: FolderTraining | None = None

    def to_fit_now(self) -> TransformFitter:
        """Return a copy of this fitter with `fit_now` set."""
        return replace(self, fit_now=True, log=[], notices=[])

    def __call__(self, method: Method, request: FitRequest) -> FittedTransform:
        """Return the fitted transform, from the store if available."""
        source = self._source()
        if source is None:
            return self._placeholder(request)
        if not isinstance(source, HasTrainingItems):
            raise InputError(
                "a transform is fitted on training sequences, but this task has no split with them; "
                "pass a dataset to fit it on with `fit_on`"
            )
        items = source.training(request.images)
        self._check(items)
        if method.check is not None:
            method.check(items)
        if not self.fit_now:
            return self._placeholder(request)
        keys = [method.key(item) for item in items]
        trained_on = [[key, item.content] for key, item in zip(keys, items, strict=True)]
        path = self.root / "transforms" / f"{fit_key(request, trained_on)}.npz"
        if has_user_code(method.config) and not self._still_computed(method, items, keys, source, path):
            keys = [None] * len(items)
        cached = all(key is not None for key in keys)
        temporary_key = temporary_fit_key(self.request_key, method, path.name)
        fitted = load_transform(path) if cached and path.is_file() else self.fits.get(temporary_key)
        if fitted is None:
            from ..kernels import one_blas_thread  # slow to import

            with one_blas_thread():  # the number of threads changes the last bits of products
                fitted = request.fit(self._values(method, items, keys, source))
            cached = cached and not method.unkeyed()
            if cached:
                save_transform(path, fitted)
            else:
                self.fits[temporary_key] = fitted
        sequences = list(dict.fromkeys(item.key.rpartition("/")[0] for item in items))
        entry = {"transform": request.name, "hash": fitted.hash, "images": request.images}
        file = {"file": f"transforms/{path.name}"} if cached else {}
        self.log.append({**entry, "sequences": sequences, **file})
        return fitted

    def _placeholder(self, request: FitRequest) -> FittedTransform:
        self.log.append({"transform": request.name})
        return FittedTransform(request.name, None, np.eye(1))

    def _source(self) -> TaskData | FolderTraining | None:
        if self.fit_on is None:
            return self.opened
        self._folder = self._folder or FolderTraining(self.fit_on)
        return self._folder

    def _check(self, items: Sequence[Item]) -> None:
        """Add a warning if the training data contains test images."""
        tested = set() if self.opened is None else {item.content for item in self.opened.items}
        shared = sorted({i.key.rpartition("/")[0] for i in items if i.content in tested})
        if shared:
            some = first_few(shared, 3, count=False)
            self.notices.append(
                "the transform is fitted on "
                f"{count_text(len(shared), 'sequence that is', 'sequences that are')} also tested ({some}), "
                "so its scores are too high"
            )

    def _still_computed(
        self,
        method: Method,
        items: Sequence[Item],
        keys: Sequence[str | None],
        source: TaskData | FolderTraining,
        path: Path,
    ) -> bool:
        """Return whether user code still computes the cached features that a transform is fitted on.

        If none is cached, return whether the transform is not cached either.
        """
        cache = FeatureCache(self.root / "features")
        cached = [
            (item, key)
            for item, own in zip(items, keys, strict=True)
            if own is not None and (key := feature_key(method, own, item)) in cache
        ]
        if not cached:
            return not path.is_file()
        item, key = random.choice(cached)
        again = method.extract(item, source.read_item(item.key) if method.needs_payload else None)
        try:
            if is_close(cache.get(key), again):
                return True
        except DamagedError:  # recomputed and reported later
            return True
        self.notices.append(
            f"{method.name} no longer computes its cached features of {item.key}; the transform was refitted"
        )
        return False

    def _values(
        self,
        method: Method,
        items: Sequence[Item],
        keys: Sequence[str | None],
        source: TaskData | FolderTraining,
    ) -> np.ndarray[Any, Any]:
        """Return the valid descriptors of all items, (n, d), in the order of the items."""
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
            raise join_errors(errors, f"training descriptors of {method.name}", shown=MAX_LISTED_PROBLEMS)
        return np.concatenate(parts)

    def _arrays(
        self,
        method: Method,
        item: Item,
        own: str | None,
        source: TaskData | FolderTraining,
        cache: FeatureCache,
    ) -> Arrays:
        """Return the features of an item. Use cached features if they are intact."""
        key = feature_key(method, own, item)
        if own is not None:
            try:
                if key in cache:
                    return cache.get(key)
            except DamagedError as e:
                cache.discard(key)
                self.notices.append(
                    f"the features of {item.key} were corrupt on disk and were recomputed ({e.problem})"
                )
        arrays = method.extract(item, source.read_item(item.key) if method.needs_payload else None)
        if own is not None and not method.unkeyed():
            cache.put(key, arrays, item=item.key, method=method.name, count=item.count)
        return arrays


def save_transform(path: Path, fitted: FittedTransform) -> None:
    """Write a fitted transform: arrays as files and all other attributes as JSON."""
    about = {name: getattr(fitted, name) for name in (*PLAIN, "hash")}
    arrays = {"matrix": fitted.matrix, "about": np.array(json.dumps(about))}
    if fitted.mean is not None:
        arrays["mean"] = fitted.mean
    with atomic_file(path) as temporary, temporary.open("wb") as f:
        np.savez(f, **arrays)  # type: ignore[arg-type]  # numpy's stub knows no keyword arrays here
