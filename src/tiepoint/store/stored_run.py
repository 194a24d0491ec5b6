# SPDX-License-Identifier: BSD-3-Clause
"""The manifest: what a run says about itself. One model for every way a run comes into being."""

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
    """A part of a manifest; a field that it does not know is a mistake of the code that makes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodFacts(_Facts):
    """The method: `config` is all that determines its output, `meta` what else is worth knowing.

    `spec` is how it was asked for, None where that was no text. `name_given` says that the user chose the
    name. `fitted` has an entry for every fitted transform.
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
    """The dataset, by the hash of its content. `imported` marks finished numbers of another tool."""

    hash: str
    name: str
    path: str = ""
    items: int | None = None
    imported: bool = False


class MergedFacts(_Facts):
    """Hashes of the lists and of the datasets that a merged run was put together from."""

    lists: tuple[str, ...]
    data: tuple[str, ...]


class StoredUnits(Mapping[str, dict[str, str]]):
    """Keys of records by unit and comparison as JSON, read when looked at: most readers of runs never do.

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
        """Units with their keys, read once."""
        return self._read().items()

    def values(self) -> Any:
        """Keys of all units, read once."""
        return self._read().values()


class Manifest(_Facts):
    """How the numbers of a run were made.

    `options` are the task's as they were given; `split` is the one in use, None where the task has none or
    it is not known. `lists` hashes the task's lists and ground truth. `units` has the keys of the records by
    unit and comparison, `values` those of the scene values by protocol. `scoring` is the number of the rules
    that made the scores, `rules` that of the rules of comparing by protocol, where it is not 1. `content`
    hashes the features or numbers themselves, where nothing else identifies them.
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
        """Whether the run holds finished numbers of another tool."""
        return self.dataset.imported

    def plain(self) -> dict[str, Any]:
        """The manifest as plain values, the form it is stored in."""
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
                f"the database of the store is damaged, a manifest in it cannot be read ({reason}); "
                "`store check` makes the database again from the files of the runs"
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
    """One method on one task, as it is kept. `status` is one of `STATUSES`; `error` says why a run failed.

    `manifest` holds everything else: method and dataset with their hashes, options, units with the keys
    of their records, versions, machine, times, warnings.
    """

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


def run_id(manifest: Manifest) -> str:
    """Id of the run: the method, the task, the data and the lists; never the protocols.

    >>> from .manifest import DatasetFacts, MethodFacts
    >>> method, dataset = MethodFacts(name="a", family="dense"), DatasetFacts(hash="0", name="d")
    >>> one = Manifest(task="t", method=method, dataset=dataset)
    >>> run_id(one) == run_id(one.model_copy(update={"protocols": ("exact",)}))
    True
    """
    method = manifest.method
    made_by = [method.config, method.distance] if manifest.content is None else manifest.content
    return hash_json([method.name, made_by, manifest.task, manifest.dataset.hash, manifest.lists])[:12]


def method_id(manifest: Manifest) -> str:
    """Identity of a method: name and everything that determines its output."""
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
    """The file of a run; it holds everything the database says about it."""
    return store.root / "runs" / f"{run_id}.json"


def read_run(path: Path) -> StoredRun:
    """A run from its file; one that is not a run file is a `StoreError`."""
    try:
        plain = verify_checksum(read_content(path))
        scores, used = plain.get("scores", []), plain.get("keypoint_set")
        if not isinstance(scores, list) or not all(isinstance(s, dict) for s in scores):
            raise ValueError("its scores are no list of objects")
        if used is not None and not (isinstance(used, dict) and used.get("id")):
            raise ValueError("its keypoint set is no object with an id")
        rows = tuple(ScoreRow(**row) for row in scores)
        return StoredRun(**plain | {"manifest": Manifest.model_validate(plain["manifest"]), "scores": rows})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise StoreError(f"{path} is not a run file: {e}") from e
