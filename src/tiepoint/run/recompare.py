# SPDX-License-Identifier: BSD-3-Clause
"""Compute records of a stored run for additional comparisons from its cached features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.records import Arrays, Features, Records
from ..core.regular_files import exists, is_file
from ..methods.spec import EXEC
from ..store.feature_cache import FeatureCache
from ..store.record_files import RecordStore
from ..store.store import Store
from ..store.stored_run import StoredRun
from .context import Progress, RunContext, no_progress
from .preparation import prepare_run
from .request import RunRequest


def extra_records(
    store: Store, run: StoredRun, comparisons: Sequence[str], progress: Progress = no_progress
) -> dict[str, list[Records]]:
    """Return the records of all units by comparison. Compute no features and store nothing.

    Raises:
        InputError: The method is an object without a spec, or the dataset or features are missing; the
            message says what to run.
    """
    reopened = reopen(run, store.root)
    reopened.check_features(reopened.context.feature_keys)
    features, opened = reopened.features, reopened.context.opened
    units = opened.units
    found: dict[str, list[Records]] = {}
    for comparison in comparisons:
        found[comparison] = []
        for done, unit in enumerate(units):
            progress(f"from {comparison.partition('->')[0]} to exact", done, len(units))
            found[comparison].append(opened.compare(unit, features, comparison))
        progress(f"from {comparison.partition('->')[0]} to exact", len(units), len(units))
    return found


@dataclass(frozen=True)
class ReopenedRun:
    """A stored run with its open dataset and its method, to read its cached features."""

    run: StoredRun
    context: RunContext

    @property
    def features(self) -> Features:
        """Cached features by item. Reading missing features raises an `InputError`."""
        method = self.context.method

        def arrays(item: str) -> Arrays:
            self.check_features([item])
            return self.context.features.get(self.context.feature_keys[item])

        return Features(arrays, method.distance, method.meta)

    def check_features(self, items: Iterable[str]) -> None:
        """Raise an `InputError` if features of these items are missing."""
        keys, names = self.context.feature_keys, list(items)
        missing = [name for name in names if keys[name] not in self.context.features]
        if missing:
            what = f"{len(missing)} of {len(names)} items" if len(names) > 1 else missing[0]
            example = f", for example {missing[0]}" if len(names) > 1 else ""
            raise InputError(
                f"the features of {what} of run {self.run.id} are missing in the store{example}; "
                f"{_rerun(self.run)}"
            )


def reopen(run: StoredRun, root: Path) -> ReopenedRun:
    """Open the dataset and the method of a stored run. Compute and write nothing.

    Raises:
        InputError: The method is an object without a spec, or the dataset is missing or has changed; the
            message says what to run.
    """
    known = run.manifest
    if known.method.spec is None:
        raise InputError(
            f"run {run.id} used a Python object as method, so its features cannot be found; run a "
            "method by its name"
        )
    if not known.dataset.path or not exists(known.dataset.path):
        raise InputError(f"the dataset of run {run.id} is missing at {known.dataset.path}; {_rerun(run)}")
    data, protocols = Path(known.dataset.path), known.protocols
    request = RunRequest(
        known.method.spec, known.task, data, protocols, known.options, requested_options(known.method.config)
    )
    prepared = prepare_run(request, root)
    if prepared.opened.data_hash != known.dataset.hash:
        images = [i.name for item in prepared.opened.items for i in item.images]
        gone = next((n for n in images if Path(n).is_absolute() and not is_file(n)), None)
        missing = f": {gone} is missing" if gone else ""
        raise InputError(
            f"the dataset at {known.dataset.path} has changed since run {run.id}{missing}; {_rerun(run)}"
        )
    method, _ = prepared.fit_transforms(root)
    caches = FeatureCache(root / "features"), RecordStore(root / "records")
    return ReopenedRun(run, RunContext(prepared.task, prepared.opened, method, *caches))


def requested_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a method that are not part of its specification: `on_bad`, `device`, `program`.

    >>> requested_options({"base": {"method": "patches/sift", "on_bad": "miss"}, "transform": "rootsift"})
    {'on_bad': 'miss'}
    """
    matching = {k: config[k] for k in ("matcher", "ratio") if isinstance(config.get(k), str | float)}
    while "base" in config:
        config = config["base"]
    found = {name: config[name] for name in ("on_bad", "device") if name in config}
    if config.get("method") != EXEC[:-1]:
        return found
    known = config["params"]["program"]
    program = {f"env.{name}": value for name, value in known.get("environment", {}).items()}
    program |= {name: known[name] for name in ("folder", "revision") if name in known}
    return found | {"device": config["params"]["device"], "program": program | matching}


def _rerun(run: StoredRun) -> str:
    return f"rerun {run.manifest.method.name} on {run.manifest.task} first"
