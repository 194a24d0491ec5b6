# SPDX-License-Identifier: BSD-3-Clause
"""Compute the cache keys of features, records and fitted transforms.

Strings inside `hash_json` are part of the keys. Changing one of them invalidates every cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.hashing import hash_json
from ..core.records import Item, Unit
from ..methods.base import Method
from ..methods.transforms import FitRequest
from ..tasks.base import (
    Task,
    TaskData,
    comparison_version,
)
from ..tasks.capabilities import DependsOnMethod
from .request import RunRequest, plain_options

RECORD_FORMAT = 1
"""Version of the record columns. Increment it when the columns change; all records are then recomputed."""


def feature_key(method: Method, method_key: str | None, item: Item) -> str:
    """Return the cache key of an item's features.

    `method_key` is `Method.key` for the item, or a temporary key if the method has none. If failed rows are
    allowed, that setting is part of the key.
    """
    config: Mapping[str, Any] = method.config
    while "base" in config:
        config = config["base"]
    failed_rows = [] if config.get("on_bad", "error") == "error" else ["failed rows as they are"]
    return hash_json(["features", method_key, item.content, *failed_rows])


def record_key(
    task: Task, opened: TaskData, method: Method, unit: Unit, comparison: str, contents: Sequence[str]
) -> str:
    """Return the cache key of a unit's records. `contents` has the feature hashes of the unit's items."""
    parts = [RECORD_FORMAT, task.name, unit.definition, comparison, method.distance, list(contents)]
    version = comparison_version(task, comparison)
    facts = dict(opened.method_facts(method.meta, comparison)) if isinstance(opened, DependsOnMethod) else {}
    return hash_json(["records", *parts, *([version] if version > 1 else []), *([facts] if facts else [])])


def result_file_key(task: Task, unit: Unit, comparison: str, content: Mapping[str, str]) -> str:
    """Return the cache key of records read from result files. `content` has a hash for each file."""
    return hash_json(["results", task.name, unit.definition, comparison, dict(content)])


def imported_key(facts: Sequence[Any]) -> str:
    """Return the cache key of records that another tool computed. `facts` identifies the records."""
    return hash_json(["imported", *facts])


def fit_key(request: FitRequest, trained_on: Sequence[Sequence[str | None]]) -> str:
    """Return the cache key of a fitted transform.

    `trained_on` has the method key and the content hash of every training image.
    """
    return hash_json([request.name, request.revision, trained_on])


def temporary_fit_key(request_key: str, method: Method, fit_key: str) -> str:
    """Return the key of a fitted transform that is discarded at the end of the command."""
    return hash_json([request_key, method.family, dict(method.config), fit_key])


def temporary_method_key(request: RunRequest, method: Method) -> str:
    """Return a temporary key for a method without a key, valid until the command ends."""
    return hash_json([request_key(request), method.family, dict(method.config)])


def request_key(request: RunRequest) -> str:
    """Return the key of a request's method. Requests with equal key and family share one method object."""
    kind = type(request.method).__name__
    method = request.method if isinstance(request.method, str) else id(request.method)
    options = plain_options(request.method_options)
    return hash_json([[kind, method], str(request.data), str(request.fit_on), options])


def task_key(request: RunRequest) -> str:
    """Return the key of a request's task. Requests with equal keys share one opened task."""
    options = plain_options(request.options)
    return hash_json([request.task, str(request.data), options, list(request.protocols)])
