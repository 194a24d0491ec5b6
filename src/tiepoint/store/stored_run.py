# SPDX-License-Identifier: BSD-3-Clause
"""Stored runs: manifest, run id and run file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..core.errors import StoreError
from ..core.formatting import count_text
from ..core.hashing import add_checksum, hash_json, verify_checksum
from ..core.regular_files import read_content
from ..core.scores import CAUTION, NOT_DETERMINISTIC, ScoreRow
from .atomic_files import atomic_file
from .store import Store

CANARIES = frozenset({"constant", "random", "oracle"})
"""Reference methods for chance level and upper bound."""


class _Facts(BaseModel):
    """Base class of the parts of a manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodFacts(_Facts):
    """Method of a run. `config` determines the method's output; `meta` contains other properties.

    `spec` is the method string; None if the method was passed as an object. `name_given` is set if the user
    chose the name. `fitted` has one entry for each fitted transform.
    """

    name: str
    family: str
    spec: str | None = None
    distance: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    name_given: bool = False
    fitted: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = Field(default_factory=dict)

    @property
    def canary(self) -> str | None:
        """Reference method: `constant`, `random` or `oracle`. None for other methods."""
        method = re.split("[?@]", self.spec or self.name)[0]
        return method if method in CANARIES else None


class DatasetFacts(_Facts):
    """Dataset of a run, with its content hash. `imported` is set for results of another tool."""

    hash: str
    name: str
    path: str = ""
    items: int | None = None
    imported: bool = False


class SubsetStratum(_Facts):
    """Units of a subset in one stratum of `size` units, which has the share `weight` of the score.

    The units are in the order in which they were sampled. `probability` is their inclusion probability,
    `expected` the mean of their values over the references, `expected_mean` that of the complete stratum.
    """

    size: int
    weight: float
    units: tuple[str, ...]
    probability: tuple[float, ...]
    expected: tuple[float, ...]
    expected_mean: float


class SubsetFacts(_Facts):
    """Subset of a benchmark from which scores are estimated. `name` has a hash of units and probabilities.

    `references` has the run ids of the reference methods by name, `dataset` the hash of the complete dataset,
    `total` its number of units. The units were chosen by the score of `metric` and `group`. `scores` has all
    scores that the subset estimates.
    """

    name: str
    design: str
    n: int
    seed: int
    protocol: str
    metric: str
    group: str
    unit: str
    total: int
    dataset: str
    references: dict[str, str]
    strata: dict[str, SubsetStratum]
    scores: tuple[tuple[str, str], ...]

    @property
    def units(self) -> tuple[str, ...]:
        """Units of all strata."""
        return tuple(key for stratum in self.strata.values() for key in stratum.units)


class MergedFacts(_Facts):
    """Hashes of the pair lists and datasets of the runs that were merged into a run."""

    lists: tuple[str, ...]
    data: tuple[str, ...]


class StoredUnits(Mapping[str, dict[str, str]]):
    """Record keys by unit and comparison. The JSON is parsed on first access, because few readers need it.

    >>> units = StoredUnits('{"a": {"exact": "0"}}')
    >>> len(units), dict(units) == units, units["a"]
    (1, True, {'exact': '0'})
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def _read(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self._text)
        return found

    def __getitem__(self, unit: str) -> dict[str, str]:
        return self._read()[unit]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def items(self) -> Any:
        """Return (unit, record keys) pairs."""
        return self._read().items()

    def values(self) -> Any:
        """Return the record keys of all units."""
        return self._read().values()


class Manifest(_Facts):
    """Manifest of a run: the inputs and settings from which its scores were computed.

    `options` are the task options as passed by the user. `split` is the dataset split; None if the dataset
    has no split or the split is unknown. `lists` is a hash of the task's pair lists and ground truth. `units`
    contains the record keys by unit and comparison. `values` contains the keys of scene values by protocol.
    `scoring` is the version of the scoring code. `rules` contains the version of each protocol whose version
    is not 1. `content` is a hash of features or scores that no other field identifies.
    `nondeterministic_items` is the number of items whose features differed when the method computed them
    twice. `subset` describes a run on a subset of the units. The last two fields are stored only if they are
    set.
    """

    task: str
    method: MethodFacts
    dataset: DatasetFacts
    options: dict[str, Any] = Field(default_factory=dict)
    split: str | None = None
    scoring: int | None = None
    rules: dict[str, int] = Field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    lists: str = ""
    units: dict[str, dict[str, str]] = Field(default_factory=dict)
    values: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    machine: dict[str, Any] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    efficiency: dict[str, Any] = Field(default_factory=dict)
    merged: MergedFacts | None = None
    content: str | None = None
    nondeterministic_items: int = 0
    subset: SubsetFacts | None = None

    @property
    def is_imported(self) -> bool:
        """Whether the run was imported from the results of another tool."""
        return self.dataset.imported

    def plain(self) -> dict[str, Any]:
        """Return the manifest as the plain values that are stored."""
        plain = self
        if isinstance(self.units, StoredUnits):
            plain = self.model_copy(update={"units": dict(self.units.items())})
        rare = {"nondeterministic_items": self.nondeterministic_items, "subset": self.subset}
        return plain.model_dump(exclude={name for name, value in rare.items() if not value})

    @property
    def caution(self) -> str:
        """Caution about all scores of the run; empty if there is none."""
        if not self.nondeterministic_items:
            return ""
        count = count_text(self.nondeterministic_items, "item")
        name = self.method.name.replace(";", ",")  # notes are joined by semicolons
        return f"{name} {NOT_DETERMINISTIC} ({count} differed when computed twice)"

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        """Parse the JSON of a stored manifest. Raise `StoreError` if it is corrupt."""
        try:
            return cls._from_text(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            reason = str(e).partition("\n")[0]
            raise StoreError(
                f"the database of the store is corrupt: a manifest cannot be read ({reason}); "
                "`store check` rebuilds the database from the run files"
            ) from e

    @classmethod
    def _from_text(cls, text: str) -> Manifest:
        found = json.loads(text)
        units = found.pop("units", None)
        if not units:
            return cls.model_validate(found)
        made = cls.model_validate(found | {"units": {}})
        return made.model_copy(update={"units": StoredUnits(json.dumps(units))})


STATUSES = ("done", "failed")


@dataclass(frozen=True)
class StoredRun:
    """Stored run of one method on one task. `status` is one of `STATUSES`; `error` explains a failure."""

    id: str
    task: str
    status: str
    manifest: Manifest
    scores: Sequence[ScoreRow] = ()
    error: str | None = None
    created_at: str = ""
    time_s: float | None = None
    keypoint_set: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"the status of a run must be {' or '.join(STATUSES)}, found {self.status!r}")

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.manifest.method.name

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.manifest.dataset.name

    @property
    def rerun_hint(self) -> str:
        """Text that tells the user how to compute the run again."""
        work = f"import {self.method}" if self.manifest.is_imported else f"run {self.method} on {self.task}"
        return f"{work} again"


def with_caution(run: StoredRun) -> StoredRun:
    """Add the caution about a run to the notes of its scores, so that every table marks them."""
    if not run.manifest.caution:
        return run
    caution = CAUTION + run.manifest.caution
    others = ([p for p in (s.note or "").split("; ") if p and NOT_DETERMINISTIC not in p] for s in run.scores)
    scores = [
        replace(s, note="; ".join([*(own or []), caution])) for s, own in zip(run.scores, others, strict=True)
    ]
    return replace(run, scores=scores)


def protocols_of(run: StoredRun) -> list[str]:
    """Return the protocols of a run's scores, in the order of the scores."""
    return list(dict.fromkeys(s.protocol for s in run.scores))


def with_protocols_of(run: StoredRun, other: StoredRun) -> StoredRun:
    """Return a run, with scores added from `other` (same id) under protocols that the run lacks."""
    own = set(protocols_of(run))
    rows = [*(s for s in other.scores if s.protocol not in own), *run.scores]
    before, now = other.manifest, run.manifest
    units = {
        unit: {**before.units.get(unit, {}), **now.units.get(unit, {})}
        for unit in dict.fromkeys([*before.units, *now.units])
    }
    manifest = now.model_copy(
        update={
            "protocols": tuple(sorted({r.protocol for r in rows})),
            "values": {**before.values, **now.values},
            "rules": {p: n for p, n in before.rules.items() if p not in own} | now.rules,
            "units": units,
            "nondeterministic_items": max(before.nondeterministic_items, now.nondeterministic_items),
        }
    )
    keypoint_set = run.keypoint_set or other.keypoint_set
    return replace(run, manifest=manifest, scores=rows, keypoint_set=keypoint_set)


def run_id(manifest: Manifest) -> str:
    """Return the id of a run: a hash of method, task, dataset and pair lists, without the protocols.

    >>> method, dataset = MethodFacts(name="a", family="dense"), DatasetFacts(hash="0", name="d")
    >>> one = Manifest(task="t", method=method, dataset=dataset)
    >>> run_id(one) == run_id(one.model_copy(update={"protocols": ("exact",)}))
    True
    """
    method = manifest.method
    made_by = [method.config, method.distance] if manifest.content is None else manifest.content
    return hash_json([method.name, made_by, manifest.task, manifest.dataset.hash, manifest.lists])[:12]


def method_id(manifest: Manifest) -> str:
    """Return the id of a method: a hash of its name and of everything that determines its output."""
    m = manifest.method
    return hash_json([m.name, m.family, m.config])


def write_run_file(store: Store, run: StoredRun) -> None:
    """Write the file of a run."""
    plain = {
        "id": run.id,
        "task": run.task,
        "status": run.status,
        "manifest": run.manifest.plain(),
        "scores": [s.to_dict() for s in run.scores],
        "error": run.error,
        "created_at": run.created_at,
        "time_s": run.time_s,
        "keypoint_set": None if run.keypoint_set is None else dict(run.keypoint_set),
    }
    with atomic_file(run_file(store, run.id)) as temporary:
        temporary.write_text(add_checksum(plain, indent=1), encoding="utf-8", newline="\n")


def run_file(store: Store, run_id: str) -> Path:
    """Return the path of a run file. The file contains everything the database stores about the run."""
    return store.root / "runs" / f"{run_id}.json"


def read_run(path: Path) -> StoredRun:
    """Read a run file. Raise `StoreError` if the file is missing or is not a run file."""
    try:
        plain = verify_checksum(read_content(path))
        scores, used = plain.get("scores", []), plain.get("keypoint_set")
        if not isinstance(scores, list) or not all(isinstance(s, dict) for s in scores):
            raise ValueError("the scores are not a list of objects")
        if used is not None and not (isinstance(used, dict) and used.get("id")):
            raise ValueError("the keypoint set is not an object with an id")
        rows = tuple(ScoreRow(**row) for row in scores)
        run = StoredRun(**plain | {"manifest": Manifest.model_validate(plain["manifest"]), "scores": rows})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise StoreError(f"{path} is not a run file: {e}") from e
    if run.id != path.stem:
        raise StoreError(f"{path} contains the run {run.id}; rename the file to {run.id}.json or remove it")
    return run
