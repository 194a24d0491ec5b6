# SPDX-License-Identifier: BSD-3-Clause
"""Records of a stored run under comparisons that it was not run under, from its cached features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.records import Arrays, Features, Records
from ..core.regular_files import exists, is_file
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
    """Records by comparison, one a unit; nothing is described again and nothing is stored.

    Raises:
        InputError: The method was made in a session, or the dataset or features are not there any more; the
            message says what to run.
    """
    again = reopen(run, store.root)
    again.check_features(again.context.feature_keys)
    features, opened = again.features, again.context.opened
    units = opened.units
    made: dict[str, list[Records]] = {}
    for comparison in comparisons:
        made[comparison] = []
        for done, unit in enumerate(units):
            progress(f"from {comparison.partition('->')[0]} to exact", done, len(units))
            made[comparison].append(opened.compare(unit, features, comparison))
        progress(f"from {comparison.partition('->')[0]} to exact", len(units), len(units))
    return made


@dataclass(frozen=True)
class ReopenedRun:
    """A stored run with its dataset and method at hand once more, so that its cached features are found."""

    run: StoredRun
    context: RunContext

    @property
    def features(self) -> Features:
        """What the method made of each item; an item whose features are gone is an error."""
        method = self.context.method

        def arrays(item: str) -> Arrays:
            self.check_features([item])
            return self.context.features.get(self.context.feature_keys[item])

        return Features(arrays, method.distance, method.meta)

    def check_features(self, items: Iterable[str]) -> None:
        """Refuse items whose features are not in the store any more."""
        keys, names = self.context.feature_keys, list(items)
        missing = [name for name in names if keys[name] not in self.context.features]
        if missing:
            what = f"{len(missing)} of {len(names)} items" if len(names) > 1 else missing[0]
            example = f", for example {missing[0]}" if len(names) > 1 else ""
            raise InputError(
                f"the features of {what} of run {self.run.id} are not in the store any more{example}; "
                f"{_again(self.run)}"
            )


def reopen(run: StoredRun, root: Path) -> ReopenedRun:
    """A stored run opened again to be looked at; nothing is computed and nothing written.

    Raises:
        InputError: The method was made in a session, or the dataset is not there any more or has changed;
            the message says what to run.
    """
    known = run.manifest
    if known.method.spec is None:
        raise InputError(
            f"run {run.id} was made with an object of a session, so that its features cannot be found"
        )
    if not known.dataset.path or not exists(known.dataset.path):
        raise InputError(
            f"the dataset of run {run.id} is not at {known.dataset.path} any more; {_again(run)}"
        )
    data, protocols = Path(known.dataset.path), known.protocols
    request = RunRequest(
        known.method.spec, known.task, data, protocols, known.options, requested_options(known.method.config)
    )
    prepared = prepare_run(request, root)
    if prepared.opened.data_hash != known.dataset.hash:
        images = [i.name for item in prepared.opened.items for i in item.images]
        gone = next((n for n in images if Path(n).is_absolute() and not is_file(n)), None)
        what = f"the dataset at {known.dataset.path} has changed since run {run.id}"
        raise InputError(f"{what}{f': {gone} is not there any more' if gone else ''}; {_again(run)}")
    method, _ = prepared.fitted(root)
    caches = FeatureCache(root / "features"), RecordStore(root / "records")
    return ReopenedRun(run, RunContext(prepared.task, prepared.opened, method, *caches))


def requested_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a method was asked for besides its spec, as the config of its innermost part says.

    >>> requested_options({"base": {"method": "patches/sift", "on_bad": "miss"}, "transform": "rootsift"})
    {'on_bad': 'miss'}
    """
    while "base" in config:
        config = config["base"]
    return {name: config[name] for name in ("on_bad", "device") if name in config}


def _again(run: StoredRun) -> str:
    return f"run {run.manifest.method.name} on {run.manifest.task} again, then ask once more"
