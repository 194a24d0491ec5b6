# SPDX-License-Identifier: BSD-3-Clause
"""Records of a stored run under comparisons that it was not run under, from its cached features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..model.errors import InputError
from ..model.records import Records
from ..model.units import Features
from ..store.runs import StoredRun
from ..store.store import Store
from .context import Context
from .prepare import Progress, Request, prepare, silent


def further_records(
    store: Store, run: StoredRun, comparisons: Sequence[str], progress: Progress = silent
) -> dict[str, list[Records]]:
    """Records by comparison, one a unit; nothing is described again and nothing is stored.

    Raises:
        InputError: The method was made in a session, or the dataset or features are not there any more; the
            message says what to run.
    """
    known = run.manifest
    again = f"run {known.method.name} on {known.task} again, then ask once more"
    if known.method.spec is None:
        raise InputError(
            f"run {run.id} was made with an object of a session, so that its features cannot be found"
        )
    if not known.dataset.path or not Path(known.dataset.path).exists():
        raise InputError(f"the dataset of run {run.id} is not at {known.dataset.path} any more; {again}")
    data, protocols = Path(known.dataset.path), known.protocols
    request = Request(known.method.spec, known.task, data, protocols, known.options)
    prepared = prepare(request, store.root)
    if prepared.opened.data_hash != known.dataset.hash:
        raise InputError(f"the dataset at {known.dataset.path} has changed since run {run.id}; {again}")
    method, _ = prepared.fitted(store.root)
    context = Context(prepared.task, prepared.opened, method, store.features, store.records)
    keys = context.feature_keys
    missing = [item for item, key in keys.items() if store.features.meta(key) is None]
    if missing:
        raise InputError(
            f"the features of {len(missing)} of {len(keys)} items of run {run.id} are not in the store any "
            f"more, for example {missing[0]}; {again}"
        )
    features = Features(lambda item: store.features.get(keys[item]), method.distance, method.meta)
    units = prepared.opened.units
    made: dict[str, list[Records]] = {}
    for comparison in comparisons:
        made[comparison] = []
        for done, unit in enumerate(units):
            progress(f"from {comparison.partition('->')[0]} to exact", done, len(units))
            made[comparison].append(prepared.opened.compare(unit, features, comparison))
        progress(f"from {comparison.partition('->')[0]} to exact", len(units), len(units))
    return made
