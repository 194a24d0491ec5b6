# SPDX-License-Identifier: BSD-3-Clause
"""Stored races: one file per race, with its units, its claims and the records that it used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..core.errors import StoreError
from ..core.hashing import add_checksum, hash_json, verify_checksum
from ..core.regular_files import read_content
from .atomic_files import atomic_file
from .stored_run import DatasetFacts

FOLDER = "races"
VERSION = 1
"""Version of the rules of a race: order, bets, claims. Increment it when they change."""


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RacedMethod(_Facts):
    """A method of a race: its name, the id that its run has, and the method string, if any."""

    name: str
    run: str
    spec: str | None = None


class RaceQuestion(_Facts):
    """Question of a race: its methods, units and score, and what the answer is about.

    `weights` is a hash of the units and their weights. `units` is the number of steps of a complete race, and
    `unit` is the name of such a step. `strata` is the number of strata of the score.
    """

    task: str
    protocol: str
    metric: str
    group: str
    about: str
    goal: str
    baseline: str | None
    methods: tuple[RacedMethod, ...]
    dataset: DatasetFacts
    options: dict[str, Any]
    split: str | None
    weights: str
    units: int
    unit: str
    strata: int
    stratum: str

    @property
    def key(self) -> str:
        """Hash of the question. Races with other seeds or error probabilities answer the same question."""
        runs = sorted(m.run for m in self.methods)
        baseline = next((m.run for m in self.methods if m.name == self.baseline), None)
        named = [self.task, self.protocol, self.metric, self.group, self.about, self.goal, baseline]
        return hash_json(["race", VERSION, *named, runs, self.weights])


class RaceClaim(_Facts):
    """Claim of a race that `better` is ahead of `worse`, made after `step` steps.

    `evidence` is the adjusted evidence. It is None if the difference is certain without a test. `low` and
    `high` are the confidence set of the difference. `mean` is the plain mean of the raced differences, which
    exaggerates the difference.
    """

    better: str
    worse: str
    step: int
    evidence: float | None
    low: float
    high: float
    mean: float


class OpenPair(_Facts):
    """A pair of methods without a claim, with the confidence set of first minus second.

    `level` is set if all units were used and the methods have the same score.
    """

    first: str
    second: str
    low: float
    high: float
    level: bool = False


class RaceSets(_Facts):
    """Confidence sequence of the difference first - second of two methods: (steps, low, high)."""

    first: str
    second: str
    sets: tuple[tuple[int, float, float], ...]


class StoredRace(_Facts):
    """A race. `ended` is None while it runs or if it was interrupted.

    Otherwise it is `decided`, `limit` (stopped by the user's limit), `complete` (all units used without
    reaching the goal) or `exhausted` (about scenes: no scene left to draw).

    `drawn` has the steps in order, `values` the value of each method by step, `records` the record keys by
    method and unit. Values are oriented: 1 is best. `replayed` is set for races of stored runs.
    """

    id: str
    question: RaceQuestion
    alpha: float
    seed: int
    ended: str | None
    steps: int
    evaluations: dict[str, int]
    claims: tuple[RaceClaim, ...]
    open_pairs: tuple[OpenPair, ...]
    sequences: tuple[RaceSets, ...]
    drawn: tuple[str, ...]
    values: dict[str, tuple[float, ...]]
    records: dict[str, dict[str, str]]
    note: str = ""
    warnings: tuple[str, ...] = ()
    full: dict[str, float] | None = None
    replayed: bool = False
    version: int = VERSION
    created_at: str = ""

    @property
    def record_keys(self) -> set[str]:
        """Keys of all records that the race used."""
        return {key for by in self.records.values() for key in by.values()}


def race_id(question: RaceQuestion, alpha: float, seed: int, replayed: bool = False) -> str:
    """Return the id of a race."""
    return hash_json([question.key, alpha, seed, replayed])[:12]


def race_file(root: Path, name: str) -> Path:
    """Return the path of the file of a race."""
    return root / FOLDER / f"{name}.json"


def write_race(root: Path, race: StoredRace) -> None:
    """Write the file of a race."""
    with atomic_file(race_file(root, race.id)) as temporary:
        temporary.write_text(add_checksum(race.model_dump(), indent=None), encoding="utf-8", newline="\n")


def read_race(path: Path) -> StoredRace:
    """Read the file of a race. Raise `StoreError` if it is missing, corrupt or not a race."""
    try:
        plain = verify_checksum(read_content(path))
        race = StoredRace.model_validate(plain)
    except (OSError, ValueError, TypeError) as e:
        reason = str(e).partition("\n")[0]
        raise StoreError(f"{path} is not a race: {reason}; remove it and race again") from e
    if race.id != path.stem:
        raise StoreError(
            f"{path} contains the race {race.id}; rename the file to {race.id}.json or remove it"
        )
    return race


def race_paths(root: Path) -> list[Path]:
    """Return the paths of all race files."""
    return sorted((root / FOLDER).glob("*.json"))


def load_races(root: Path) -> Iterator[StoredRace]:
    """Yield all readable races of a store, oldest first. `store check` reports the others."""
    found = []
    for path in race_paths(root):
        try:
            found.append(read_race(path))
        except StoreError:
            continue
    yield from sorted(found, key=lambda race: (race.created_at, race.id))


def same_question(root: Path, question: RaceQuestion, besides: str) -> list[StoredRace]:
    """Return the finished races of a question, except the one with id `besides`."""
    return [r for r in load_races(root) if r.question.key == question.key and r.id != besides and r.ended]


def weights_hash(weights: Mapping[str, float]) -> str:
    """Return a hash of the list of units and weights.

    >>> weights_hash({"a": 0.5, "b": 0.5}) == weights_hash({"b": 0.5, "a": 0.5})
    True
    """
    return hash_json([[key, weights[key].hex()] for key in sorted(weights)])


def find_race(root: Path, text: str) -> StoredRace | None:
    """Return the race whose id starts with `text`. None unless exactly one race matches."""
    paths: Sequence[Path] = [p for p in race_paths(root) if p.stem.startswith(text)]
    return read_race(paths[0]) if len(paths) == 1 and len(text) >= 4 else None
