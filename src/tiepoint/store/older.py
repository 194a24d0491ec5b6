# SPDX-License-Identifier: BSD-3-Clause
"""Runs and features of older versions: what they are called now, and what has to be made again.

Built-in methods were once known by their source. A run of one gets its present name, config and identity. Its
features get theirs when they are looked for, since only then the content of the images is known.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..core.hashing import hash_json
from ..core.records import Item
from ..methods.base import Method
from ..methods.legacy_keys import Outdated, migrated, new_config, old_keys
from ..methods.source_files import library_versions
from .feature_cache import FeatureCache
from .stored_run import StoredRun, run_id

Config = Mapping[str, Any]


def is_older(run: StoredRun) -> bool:
    """Whether an older version named the run, and this one can tell what it is called now."""
    return renewed(run) is not run


def renewed(run: StoredRun) -> StoredRun:
    """A run as this version would have named it; one that it wrote is given back.

    So is a run whose method cannot be told from its manifest (see `made_again`).
    """
    known = run.manifest
    if "values" in known.model_fields_set:  # every manifest has had them since
        return run
    plain = {**known.method.meta, **known.method.model_dump(exclude={"meta"})}
    method = migrated(plain, known.versions)
    if isinstance(method, str):
        return run
    now = {"config": method["config"], "name": method["name"]}
    made = known.model_copy(update={"method": known.method.model_copy(update=now), "values": {}})
    return replace(run, id=run_id(made), manifest=made)


def _by_source(config: Config) -> bool:
    """Whether a config is that of a method under the rules by which built-ins were known by their source."""
    while "base" in config:
        config = config["base"]
    return "class" in config and "revisions" not in config


def combined(stored: StoredRun, run: StoredRun) -> StoredRun:
    """One run of two that have one identity now: the newer, and what only the older has scores for."""
    if stored.status != run.status:
        return stored if stored.status == "done" else run
    first, last = sorted((stored, run), key=lambda r: r.created_at)
    own = {s["protocol"] for s in last.scores}
    a, b = first.manifest, last.manifest
    manifest = b.model_copy(
        update={
            "protocols": tuple(sorted({*a.protocols, *b.protocols})),
            "units": {u: {**a.units.get(u, {}), **b.units.get(u, {})} for u in {**a.units, **b.units}},
            "values": {**a.values, **b.values},
            "warnings": tuple(dict.fromkeys((*b.warnings, *a.warnings))),
        }
    )
    rows = [*(s for s in first.scores if s["protocol"] not in own), *last.scores]
    return replace(last, manifest=manifest, scores=rows)


def made_again(run: StoredRun) -> str | None:
    """Why features of a run cannot be used when it is run again, None if they can, as far as can be told.

    Whether a user's code has changed since is seen when it runs.
    """
    config = run.manifest.method.config
    if _by_source(config):
        try:
            config = new_config(config, run.manifest.versions)
        except Outdated as e:
            return str(e)
    named = [k for k, v in run.manifest.options.items() if ".py:" in str(v)]
    if named and is_older(run):
        return f"the option {named[0]} names user code, which is known by more than its file now"
    changed = dict.fromkeys(_changed_libraries(config))
    return ", ".join(changed) or None


def _changed_libraries(config: Config) -> Iterator[str]:
    stated = config.get("libraries", {})
    for name, version in stated.items():
        now = library_versions([name]).get(name)
        if now != version:
            yield f"{name} was {version}, and now is {now or 'not installed'}"
    for part in (config.get("base"), *config.get("parts", {}).values()):
        if part is not None:
            yield from _changed_libraries(part)


def take_over_features(cache: FeatureCache, method: Method, items: Mapping[str, Item]) -> None:
    """Rename features that an older version made; `items` are those wanted, by the key of their features."""
    for key, item in items.items():
        if key in cache:
            continue
        for own in old_keys(method.config, method.of_item(item)):
            old = cache.folder(hash_json(["features", own, item.content]))
            if old.is_dir():
                new = cache.folder(key)
                with contextlib.suppress(OSError):  # another process was faster
                    new.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(old, new)
