# SPDX-License-Identifier: BSD-3-Clause
"""Stored runs: manifest, run id and run file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..core.errors import StoreError
from ..core.hashing import add_checksum, hash_json, verify_checksum
from ..core.regular_files import read_content
from ..core.scores import ScoreRow
from .atomic_files import atomic_file
from .store import Store


class _Facts(BaseModel):
    """Part of a manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodFacts(_Facts):
    """Method of a run: `config` is all that determines its output, `meta` has further facts.

    `spec` is the method string, None for an object. `name_given` says that the user chose the name. `fitted`
    has an entry for every fitted transform.
    """

    name: str
    family: str
    spec: str | None = None
    distance: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    name_given: bool = False
    fitted: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = Field(default_factory=dict)


class DatasetFacts(_Facts):
    """Dataset of a run, with the hash of its content. `imported` marks results of another tool."""

    hash: str
    name: str
    path: str = ""
    items: int | None = None
    imported: bool = False


class MergedFacts(_Facts):
    """Hashes of the lists and datasets of the parts of a merged run."""

    lists: tuple[str, ...]
    data: tuple[str, ...]


class StoredUnits(Mapping[str, dict[str, str]]):
    """Record keys by unit and comparison, parsed from JSON on access: most readers need none.

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
        """Return units with their record keys."""
        return self._read().items()

    def values(self) -> Any:
        """Return the record keys of all units."""
        return self._read().values()


class Manifest(_Facts):
    """How the scores of a run were computed.

    `options` are the task options as given. `split` is the one in use, None if there is none or it is
    unknown. `lists` hashes the task's lists and ground truth. `units` has the record keys by unit and
    comparison, `values` the keys of scene values by protocol. `scoring` is the version of the scoring,
    `rules` the version of each protocol if it is not 1. `content` hashes features or scores that nothing else
    identifies.
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

    @property
    def is_imported(self) -> bool:
        """Whether the run has results of another tool."""
        return self.dataset.imported

    def plain(self) -> dict[str, Any]:
        """Return the manifest as plain values, as it is stored."""
        if isinstance(self.units, StoredUnits):
            return self.model_copy(update={"units": dict(self.units.items())}).model_dump()
        return self.model_dump()

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        """Read a stored manifest from JSON. Raises `StoreError` if it is corrupt."""
        try:
            return cls._from_text(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            reason = str(e).partition("\n")[0]
            raise StoreError(
                f"the database of the store is corrupt, a manifest cannot be read ({reason}); "
                "`store check` rebuilds the database from the run files"
            ) from e

    @classmethod
    def _from_text(cls, text: str) -> Manifest:
        found = json.loads(text)
        units = found.get("units")
        if not units:
            return cls.model_validate(found)
        made = cls.model_validate(found | {"units": {}})
        return made.model_copy(update={"units": StoredUnits(json.dumps(units))})


STATUSES = ("done", "failed")


@dataclass(frozen=True)
class StoredRun:
    """One method on one task. `status` is one of `STATUSES`; `error` is the reason of a failure."""

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
            raise ValueError(f"a run is {' or '.join(STATUSES)}, not {self.status!r}")

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
        """Advice on how to compute the run again."""
        work = f"import {self.method}" if self.manifest.is_imported else f"run {self.method} on {self.task}"
        return f"{work} again"


def run_id(manifest: Manifest) -> str:
    """Return the id of a run: a hash of method, task, data and lists, without the protocols.

    >>> method, dataset = MethodFacts(name="a", family="dense"), DatasetFacts(hash="0", name="d")
    >>> one = Manifest(task="t", method=method, dataset=dataset)
    >>> run_id(one) == run_id(one.model_copy(update={"protocols": ("exact",)}))
    True
    """
    method = manifest.method
    made_by = [method.config, method.distance] if manifest.content is None else manifest.content
    return hash_json([method.name, made_by, manifest.task, manifest.dataset.hash, manifest.lists])[:12]


def method_id(manifest: Manifest) -> str:
    """Return the id of a method: a hash of its name and all that determines its output."""
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
    """Return the path of a run file, which has all that the database has about the run."""
    return store.root / "runs" / f"{run_id}.json"


def read_run(path: Path) -> StoredRun:
    """Read a run file. Raises `StoreError` if it is not one."""
    try:
        plain = verify_checksum(read_content(path))
        scores, used = plain.get("scores", []), plain.get("keypoint_set")
        if not isinstance(scores, list) or not all(isinstance(s, dict) for s in scores):
            raise ValueError("its scores are not a list of objects")
        if used is not None and not (isinstance(used, dict) and used.get("id")):
            raise ValueError("its keypoint set is not an object with an id")
        rows = tuple(ScoreRow(**row) for row in scores)
        run = StoredRun(**plain | {"manifest": Manifest.model_validate(plain["manifest"]), "scores": rows})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise StoreError(f"{path} is not a run file: {e}") from e
    if run.id != path.stem:
        raise StoreError(f"{path} holds the run {run.id}; name it {run.id}.json or remove it")
    return run
