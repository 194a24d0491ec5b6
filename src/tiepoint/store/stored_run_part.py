# SPDX-License-Identifier: BSD-3-Clause
"""A run as it is kept: plain values, with its manifest and the columns of its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .stored_run import Manifest

STATUSES = ("done", "failed")

SCORE_COLUMNS = ("protocol", "metric", "group", "value", "n", "low", "high", "interval", "chance", "note")


@dataclass(frozen=True)
class StoredRun:
    """One method on one task, as it is kept. `status` is one of `STATUSES`; `error` says why a run failed.

    `manifest` holds everything else: method and dataset with their hashes, options, units with the keys
    of their records, versions, machine, times, warnings.
    """

    id: str
    task: str
    status: str
    manifest: Manifest
    scores: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    created_at: str = ""
    time_s: float | None = None
    keypoint_set: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        if self.status == "error":  # as older versions wrote it
            object.__setattr__(self, "status", "failed")
        if self.status not in STATUSES:
            raise ValueError(f"a run is {' or '.join(STATUSES)}, not {self.status!r}")

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.manifest.method.name

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.manifest.dataset.name
