# SPDX-License-Identifier: BSD-3-Clause
"""Options, splits, images and data of the three 2017 tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ErrorCollector, InputError, ProblemsError, UnknownNameError
from ...core.formatting import count_text
from ...core.records import Features, Item, Records, Unit
from ...core.scores import Score, scene_kind
from ...datasets.hpatches.dataset import HPatchesDataset
from ...datasets.hpatches.layout import LEVEL_IMAGES, NOISES
from ...datasets.hpatches.splits import WHOLE, excluded_note, known_splits, named_split, split_problems
from ...formats.hpatches.task_lists import Split, splits_file
from ...kernels import pair_distances, value_table
from ..base import BaseTask, BaseTaskData
from ..cases import Candidate, Cases, Floats, QueryCase
from ..options import Folder, TaskOptions
from .protocols import PROTOCOLS, hpatches_rules

COMPARISON = "reference"
LICENCE = "patches of HPatches: MIT; task files of hpatches-benchmark: BSD-style"
MAX_OPEN_FILES = 4096
"""Limit of memory-mapped images per comparison. Each mapped image keeps one file open."""
SPARE_FILES = 256


FAILED = "the descriptor of the query failed"


class HPatchesOptions(TaskOptions):
    """Options of all 2017 tasks."""

    split: str | None = None
    """Name of the split. The default is `full` for a complete dataset, else all sequences of the dataset."""

    tasks: Folder | None = None
    """Folder with task files and ``splits.json`` (directly or in ``splits``). Without files, lists are
    sampled."""


def chosen_split(data: HPatchesDataset, options: HPatchesOptions) -> tuple[Split, list[str]]:
    """Return the split to use and warnings about it.

    If the option names none, the split is `full` if the dataset has all its sequences, else every sequence of
    the dataset.
    """
    known = known_splits(data, None if options.tasks is None else splits_file(options.tasks))
    if options.split is not None:
        split = named_split(known, options.split)
        return split, excluded_note(data) if split.name == WHOLE else []
    full = known.get("full")
    if full is not None and data.lengths.keys() - data.open_lengths.keys() >= set(full.test):
        return full, []
    n = len(data.sequences)
    notes = [
        f"this is not the full release of HPatches; all of it is used, {count_text(n, 'sequence')}. "
        "Choose a subset with `split`"
    ]
    return known[WHOLE], notes + excluded_note(data)


Chosen = TypeVar("Chosen", bound=HPatchesOptions)


@dataclass(frozen=True)
class DatasetSplit:
    """A dataset with the split and images in use."""

    data: HPatchesDataset
    split: Split
    noises: tuple[str, ...]
    levels: int
    options: HPatchesOptions
    warnings: tuple[str, ...]

    @property
    def images(self) -> tuple[str, ...]:
        """Names of all images except the reference, sorted by noise level: e1 to e5, then h1 and so on."""
        return tuple(f"{NOISES[n]}{k}" for n in self.noises for k in range(1, self.levels + 1))

    @property
    def lengths(self) -> dict[str, int]:
        """Numbers of patches per sequence of the split, in split order."""
        return {s: self.data.count(s) for s in self.split.test}


def open_setting(
    task: str, data: Path, model: type[Chosen], options: Mapping[str, Any], problems: list[str]
) -> tuple[DatasetSplit, Chosen]:
    """Open a dataset with user options. Add the problems found to `problems` and raise all as one error."""
    checks = ErrorCollector()
    chosen = model.parse(task, options, checks)
    setting = checks.call(setting_of, data, chosen, problems)
    checks.raise_all()
    return setting, chosen


def setting_of(data: Path, options: HPatchesOptions, problems: list[str]) -> DatasetSplit:
    """Open a dataset with parsed options. Problems of the split are added to `problems`, not raised.

    The returned split excludes missing sequences, so that other checks can continue.
    """
    opened = HPatchesDataset(data)
    split, notes = chosen_split(opened, options)
    problems += split_problems(opened, split)
    there = tuple(s for s in split.test if s in opened.lengths)
    if not there:
        raise ProblemsError(f"dataset {data}", problems)
    levels = {n: _levels(opened, there, z) for n, z in NOISES.items()}
    noises = tuple(n for n, k in levels.items() if k)
    if not noises:
        problems.append(
            "no noise level has an image 1 in every sequence (e1, h1 or t1); add these images to the dataset"
        )
    count = min((levels[n] for n in noises), default=0)
    if noises and (count < LEVEL_IMAGES or len(noises) < len(NOISES)):
        notes.append(
            f"the dataset has {count} images for each noise level ({', '.join(noises)}); the release has "
            "5 for each of three levels"
        )
    return DatasetSplit(
        opened, Split(split.name, there, split.train), noises, count, options, (*opened.warnings, *notes)
    )


def _levels(data: HPatchesDataset, sequences: Sequence[str], letter: str) -> int:
    """Return how many consecutive images e1, e2, … all sequences have, at most five.

    `letter` is e, h or t.
    """
    for k in range(1, LEVEL_IMAGES + 1):
        if any(f"{letter}{k}" not in data.images(s) for s in sequences):
            return k - 1
    return LEVEL_IMAGES


def raise_problems(data: Path, problems: Sequence[str]) -> None:
    """Raise one error that lists all problems, if there are any."""
    if problems:
        raise ProblemsError(f"dataset {data}", problems)


def descriptor_rows(features: Features, key: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the descriptors (n, d) of an image and the mask of valid rows."""
    arrays = features.arrays(key)
    values = np.asarray(arrays["values"])
    valid = np.asarray(arrays["valid"], bool) if "valid" in arrays else np.ones(len(values), bool)
    return values, valid


def max_mapped_images() -> int:
    """Return how many images may be memory-mapped at once. Each mapped image keeps one file open."""
    try:
        import resource
    except ImportError:
        return 1024 - SPARE_FILES
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        MAX_OPEN_FILES
        if limit == resource.RLIM_INFINITY
        else max(0, min(MAX_OPEN_FILES, limit - SPARE_FILES))
    )


def infinite_rows(values: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the invalid rows that contain infinity but no NaN.

    >>> rows = np.array([[0.0, np.inf], [np.nan, np.inf], [1, 1]])
    >>> infinite_rows(rows, np.array([False, False, True])).tolist()
    [True, False, False]
    """
    far = ~valid
    if far.any():
        failed = values[far]
        far[far] = np.isinf(failed).any(axis=1) & ~np.isnan(failed).any(axis=1)
    return far


def smallest_unsigned(values: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative integers in the smallest unsigned type that can represent them.

    >>> smallest_unsigned(np.array([0, 300])).dtype
    dtype('uint16')
    """
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def compact(distances: NDArray[np.float64]) -> NDArray[Any]:
    """Return the distances in single precision if that is lossless (integers), else unchanged.

    >>> compact(np.array([3.0, np.inf])).dtype, compact(np.array([0.1])).dtype
    (dtype('float32'), dtype('float64'))
    """
    with np.errstate(over="ignore"):
        single = distances.astype(np.float32)
    return single if np.array_equal(single, distances) else distances


def base_meta(task: str, scenes: Sequence[str], features: Features) -> dict[str, Any]:
    """Return the metadata that all records share. `squared` states that l2 distances are stored squared."""
    return {
        "task": task,
        "scenes": list(scenes),
        "kinds": [scene_kind(s) for s in scenes],
        "distance": features.distance,
        "squared": features.distance == "l2",
    }


class HPatchesTask(BaseTask):
    """Base class of the 2017 tasks. All protocols score the same records.

    `scoring` is the module `score` in the task's folder.
    """

    family = "patches"
    protocols = PROTOCOLS
    scoring: ModuleType

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, which all protocols share."""
        hpatches_rules(protocol)
        return COMPARISON

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol.

        Imported results can be scored only under their own protocol.
        """
        rules = hpatches_rules(protocol)
        imported: list[Score] | None = self.scoring.score_imported(records, protocol)
        return self.scoring.score(records, rules, protocol) if imported is None else imported

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the patches, queries or pairs of a sequence with their scores."""
        found: Cases | None = self.scoring.cases(records, scene)
        return found


Answer = Callable[[str, str, Features | None], QueryCase | None]
"""Function that recomputes a query or pair for pictures. Arguments: scene, key, features."""


class OpenHPatches(BaseTaskData):
    """Data of a 2017 task. `compare_one(unit, features)` computes the records of a unit.

    `content` is the source of the pair or query lists, None for matching. `answer` recomputes a query or
    pair. `side_by_side` states whether several threads may call `compare_one` at the same time.
    """

    def __init__(
        self,
        setting: DatasetSplit,
        units: Sequence[Unit],
        compare_one: Callable[[Unit, Features], Records],
        content: Any = None,
        *,
        answer: Answer,
        side_by_side: bool = False,
    ) -> None:
        self.thread_safe_compare = side_by_side
        self.setting = setting
        self._answer = answer
        self.content = content
        self._compare_one = compare_one
        keys = dict.fromkeys(key for u in units for key in u.items)
        self.items = setting.data.items(keys)
        self.units = units
        self.warnings = setting.warnings
        self.split = setting.split.name

    def read_item(self, key: str) -> NDArray[np.uint8]:
        """Return the patches of an item."""
        return self.setting.data.read(key)

    def replay_query(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """Recompute the query or pair of a sequence that a key of `Cases` names."""
        return self._answer(scene, key, features)

    def training(self, images: str) -> list[Item]:
        """Return images of the training sequences: reference images (`ref`) or all images (`all`).

        Raises:
            InputError: The split has no training sequences (illum, view and full have none).
            ProblemsError: The dataset lacks some of the training sequences.
        """
        split, data = self.setting.split, self.setting.data
        if not split.train:
            raise InputError(
                f"split {split.name!r} has no training sequences to fit a transform; use split a, b or c, "
                "or pass a dataset as `fit_on`"
            )
        raise_problems(
            Path(data.root or "."), [f"training: {p}" for p in data.missing(split.train, ("ref",))]
        )
        wanted = {s: ("ref",) if images == "ref" else data.images(s) for s in split.train}
        return [data.item(s, m) for s, names in wanted.items() for m in names]

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one unit."""
        if comparison != COMPARISON:
            raise UnknownNameError("comparison of HPatches", comparison, (COMPARISON,))
        return self._compare_one(unit, features)


def replay_pair(
    items: tuple[str, str],
    rows: tuple[int, int],
    pictures: Sequence[str],
    same: bool,
    features: Features | None,
) -> QueryCase:
    """Return a pair of patches as a query with one candidate.

    The candidate has a distance if there are features and both descriptors are valid.
    """
    distance: float | None = None
    if features is not None:
        (a, good_a), (b, good_b) = (descriptor_rows(features, item) for item in items)
        if good_a[rows[0]] and good_b[rows[1]]:
            distance = float(pair_distances(a, b, rows[:1], rows[1:], distance=features.distance)[0])
    other = Candidate(pictures[1], None, distance, same)
    note = "a pair of the same patch" if same else "a pair of different patches"
    return QueryCase(pictures[0], (other,), (other,) if same else (), None, note)


def distances_to(
    features: Features, item: str, row: int, places: Sequence[tuple[str, NDArray[Any] | None]]
) -> Floats:
    """Return the distances (squared for l2) from row `row` of `item` to the rows of other images.

    `places` lists the images with their row indices; None selects all rows. The distances are concatenated.
    They are infinite for failed descriptors.
    """
    values, valid = descriptor_rows(features, item)
    query = np.ascontiguousarray(values[row : row + 1])
    found = []
    for place, chosen in places:
        pool, usable = descriptor_rows(features, place)
        pool, usable = (pool, usable) if chosen is None else (pool[chosen], usable[chosen])
        own = np.full(len(pool), np.inf)
        if valid[row] and usable.any():
            rows = pool if usable.all() else pool[usable]
            own[usable] = value_table(query, np.ascontiguousarray(rows), distance=features.distance)[0]
        found.append(own)
    return np.concatenate(found) if found else np.empty(0)


def first_share(values: Floats, right: Sequence[int]) -> float:
    """Return the share of correct candidates among those at the smallest distance; 0 without candidates.

    `values` are the distances, `right` the indices of the correct candidates.
    """
    at = np.flatnonzero(np.isfinite(values) & (values == values.min(initial=np.inf)))
    return float(np.isin(at, list(right)).mean()) if len(at) else 0.0


def right_candidate(picture: str) -> Candidate:
    """Return a correct candidate without rank and distance."""
    return Candidate(picture, None, None, True)


def failure_note(values: Floats) -> str:
    """Return a note if all distances are infinite, because the query's descriptor failed; else ""."""
    return "" if np.isfinite(values).any() else FAILED
