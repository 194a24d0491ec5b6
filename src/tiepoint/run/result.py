# SPDX-License-Identifier: BSD-3-Clause
"""The public class `Run`: scores and records as data frames, and a printed table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, close_names
from ..core.records import Records
from ..core.scores import Score, ScoreRow
from ..store.record_files import RecordStore
from ..store.scene_values import Table, ValueStore
from ..store.store import Store
from ..store.stored_run import Manifest, StoredRun
from ..tasks import stored_task
from ..tasks.base import Task
from ..tasks.capabilities import HasLeadMetric

if TYPE_CHECKING:
    import pandas as pd

    from ..metrics.experiment import ExperimentMetrics

SCORE_ORDER = ("method", "task", "protocol", "metric", "group", "value", "n", "low", "high")

Tables = Mapping[tuple[str, str], Table]
"""Scene values, or bins of a pooled score, by metric and group."""


def stored_tables(scores: Sequence[Score]) -> Tables:
    """Return scene values by metric and group. Scores without scene values are skipped."""
    found = {(s.metric, s.group): s.scenes if s.scenes is not None else s.pooled for s in scores}
    return {place: table for place, table in found.items() if table is not None}


class StoredTables(Mapping[str, Tables]):
    """Scene values by protocol, read on access. `get` reads the values of a key."""

    def __init__(
        self, keys: Mapping[str, str], store: ValueStore, get: Callable[[str], Tables] | None = None
    ) -> None:
        self._keys, self._get = dict(keys), get or cache(store.get)

    def __getitem__(self, protocol: str) -> Tables:
        return self._get(self._keys[protocol])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class StoredRecords(Mapping[str, Mapping[str, Records]]):
    """Records by unit and comparison, read from their files on first access."""

    def __init__(self, units: Mapping[str, Mapping[str, str]], records: RecordStore) -> None:
        self._units, self._records = units, records
        self._read: dict[str, Mapping[str, Records]] = {}

    def __getitem__(self, unit: str) -> Mapping[str, Records]:
        if unit not in self._read:
            self._read[unit] = {c: self._records.get(key) for c, key in self._units[unit].items()}
        return self._read[unit]

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)


def lead_metric(task: Task, options: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the main metric of a task under these options, and its description. None if there is none."""
    return task.lead_metric(options) if isinstance(task, HasLeadMetric) else None


@dataclass(frozen=True)
class Run:
    """Result of one method on one task.

    `scores` and `records` are pandas frames. `manifest` describes how the scores were computed. `values` has
    the scene values of the scores, by protocol. `protocols` selects the visible scores; None shows all stored
    protocols. `lead` is the main metric, listed first, and its description. `root` is the store folder with
    the features. `load_single_scores` reads the scores of single scenes and pairs if `stored` does not have
    them. It is None otherwise.
    """

    stored: StoredRun
    unit_records: Mapping[str, Mapping[str, Records]] = field(default_factory=dict, repr=False)
    warnings: Sequence[str] = ()
    values: Mapping[str, Tables] = field(default_factory=dict, repr=False)
    lead: tuple[str, str] | None = None
    root: Path | None = field(default=None, repr=False)
    load_single_scores: Callable[[], Sequence[ScoreRow]] | None = field(default=None, repr=False)
    protocols: tuple[str, ...] | None = None

    @classmethod
    def from_stored(
        cls,
        stored: StoredRun,
        store: Store,
        records: Mapping[str, Mapping[str, Records]],
        protocols: Sequence[str],
        lead: tuple[str, str] | None = None,
    ) -> Run:
        """Return a stored run with its scores under these protocols. Scene values are read on access."""
        values = StoredTables(stored.manifest.values, store.values)
        warnings = stored.manifest.warnings
        return cls(stored, records, warnings, values, lead, store.root, protocols=tuple(protocols))

    @cached_property
    def score_rows(self) -> Sequence[ScoreRow]:
        """Scores in the order of `protocols`. Scores of the main metric come first."""
        if self.protocols is None:
            return self.stored.scores
        order = {protocol: i for i, protocol in enumerate(self.protocols)}
        rows = (s for s in self.stored.scores if s.protocol in order)
        lead = None if self.lead is None else self.lead[0]
        return sorted(rows, key=lambda s: (order[s.protocol], lead is not None and s.metric != lead))

    @property
    def id(self) -> str:
        """Id of the run: a hash of method, task, data and options."""
        return self.stored.id

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.stored.method

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.stored.task

    @property
    def created_at(self) -> str:
        """Time at which the run finished."""
        return self.stored.created_at

    @property
    def manifest(self) -> Manifest:
        """Manifest: config, hashes, versions, machine and times behind the numbers."""
        return self.stored.manifest

    def rows(self) -> list[dict[str, Any]]:
        """Return the scores as the dicts that ``--json`` prints. Key `run` distinguishes runs of a method."""
        base, last = {"method": self.method, "task": self.task}, {"run": self.id}
        return [base | {k: getattr(s, k) for k in SCORE_ORDER[2:]} | last for s in self.score_rows]

    @property
    def scores(self) -> pd.DataFrame:
        """Tidy scores: method, task, protocol, metric, group, value, n, low, high, interval, chance, note.

        A pandas frame that prints each value with its interval.
        """
        from .score_frame import ScoreFrame

        extra = ("interval", "chance", "note")
        rows = [
            row | {k: getattr(s, k) for k in extra}
            for row, s in zip(self.rows(), self.score_rows, strict=True)
        ]
        return ScoreFrame(rows, columns=[*SCORE_ORDER, *extra])

    def value(self, metric: str, group: str = "all", protocol: str | None = None) -> float:
        """Return one score by metric or metric alias. A `KeyError` lists the existing scores.

        The default protocol is `exact`, or the only protocol of the run.
        """
        found = {(s.metric, s.group, s.protocol): s.value for s in self.score_rows}
        if protocol is None:
            protocols = {s.protocol for s in self.score_rows}
            protocol = protocols.pop() if len(protocols) == 1 else "exact"
        for name in (metric, stored_task(self.task).info.other_names.get(metric, metric)):
            if (name, group, protocol) in found:
                value = found[name, group, protocol]
                return float("nan") if value is None else float(value)
        there = {f"{m} of {g} under {p}" for m, g, p in found}
        near, others = close_names(f"{metric} of {group} under {protocol}", there)
        known = "; ".join((near + others)[:20])
        raise KeyError(f"no score {metric!r} for {group!r} under {protocol!r}; available: {known}")

    def plot(self, kind: str = "scores", **how: Any) -> Any:
        """Draw a figure of this run in the style of the report. ``out="fig.pdf"`` writes it to a file.

        See `tiepoint.report.figures.plot.plot` for the kinds and the options `protocol`, `group`, `names`,
        `out`, `columns`, `width`.
        """
        # By name, because the layer `report` is above `run`.
        return import_module("tiepoint.report.figures.plot").plot(kind, self, **how)

    def to_metrics(self) -> ExperimentMetrics:
        """Return the metrics object of DescriptorWorkbench, with values by query, image and scene.

        Raises:
            InputError: The run is not a run of `keypoints/ranking` under the protocol `workbench`.
        """
        from ..tasks.keypoints.ranking.score import experiment_metrics

        comparison = "workbench"
        records = [by[comparison] for by in self.unit_records.values() if comparison in by]
        if self.task != "keypoints/ranking" or not records:
            raise InputError(
                f"run {self.id} has no records of keypoints/ranking under workbench; "
                'evaluate with `task="keypoints/ranking", protocol="workbench"`'
            )
        metrics = experiment_metrics(records)
        metrics.processing_time_ms = self.value("processing_time_ms", protocol="workbench")
        return metrics

    @property
    def records(self) -> pd.DataFrame:
        """All records in one frame, with the unit of each row. Array-valued columns become lists."""
        import pandas as pd

        frames = []
        for unit, by_comparison in self.unit_records.items():
            for comparison, records in by_comparison.items():
                columns = {n: c if c.ndim == 1 else list(c) for n, c in records.columns.items()}
                frame = pd.DataFrame(columns)
                frame.insert(0, "comparison", comparison)
                frame.insert(0, "unit", unit)
                frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def __repr__(self) -> str:
        return f"<run {self.id}: {self.method} on {self.task}>"

    def __str__(self) -> str:
        lines = [f"{self.method} on {self.task} ({self.stored.status}, run {self.id})"]
        for s in self.score_rows:
            if s.group.startswith("scene=") or ",scene=" in s.group:
                continue
            value = "–" if s.value is None else f"{s.value:.4f}"
            interval = "" if s.low is None or s.high is None else f"  [{s.low:.4f}, {s.high:.4f}]"
            lines.append(f"  {s.protocol:<16} {s.metric:<14} {s.group:<36} {value}{interval}")
        return "\n".join(lines)
