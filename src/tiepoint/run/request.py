# SPDX-License-Identifier: BSD-3-Clause
"""A request to evaluate a method on a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunRequest:
    """A request to evaluate one method on one task.

    `method` is a spec string or an object. `options` go to the task, `method_options` to the resolver.
    Transforms are fitted on the dataset `fit_on`, or on the split's training sequences if it is None. `name`
    replaces the method's name, and `meta` is added to the method's entry in the manifest. If `on_cluster` is
    set, the devices of the worker machines are unknown to this process. `time` measures the method's times
    and memory, on at most `timed_items` items that are evenly spaced (None for all).
    """

    method: Any
    task: str
    data: Path
    protocols: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    method_options: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    fit_on: Path | None = None
    name: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    on_cluster: bool = False
    time: bool = False
    timed_items: int | None = None


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options to plain values. Skip options that are None."""
    return {k: (str(v) if isinstance(v, Path) else v) for k, v in options.items() if v is not None}
