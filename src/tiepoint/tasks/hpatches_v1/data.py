# SPDX-License-Identifier: BSD-3-Clause
"""Options, definition files, images and data of the three 2016 tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file, hash_json
from ...core.records import Arrays, Features, Records, Unit
from ...core.scores import Score, scene_kind
from ...datasets.hpatches.dataset import HPatchesDataset
from ...formats.hpatches_v1.classification import has_label_column
from ...formats.hpatches_v1.definitions import find_benchmarks, result_folders
from ...formats.hpatches_v1.patch_ids import split_image
from ..base import BaseTask, BaseTaskData
from ..capabilities import CurvePoints
from ..cases import Cases, Floats, QueryCase
from ..options import Folder, Names, TaskOptions
from ..steps import StepTable, convention_tables
from .protocols import EXACT, PROTOCOLS, convention_steps, hpatches_v1_rules

COMPARISON = "reference"
GetArrays = Callable[[str], Arrays]
"""Function that returns the features of an item by its key."""


class BenchmarkOptions(TaskOptions):
    """Options of the three 2016 tasks."""

    tasks: Folder | None = None
    """Folder with the definition files. By default they are searched in the dataset."""

    benchmark: Names = ()
    """Names of definition files; ``*`` matches any part. The default is all files."""


def definition_files(data: Path, options: BenchmarkOptions, kind: str) -> list[Path]:
    """Return the `.benchmark` files to use, from the task folder if given, else from the dataset."""
    folder = options.tasks or data
    found: dict[str, Path] = {}
    for pattern in options.benchmark or ("*",):
        for path in find_benchmarks(folder, kind, pattern):
            found.setdefault(path.stem, path)
    return list(found.values())


def definition_hash(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of the files that define a benchmark. Skip missing files."""
    return hash_json({p.name: hash_file(p) for p in paths if p.is_file()})


def item_key(image: str) -> str:
    """Return the item key of an image named in a definition file.

    >>> item_key("v_wall.ref")
    'v_wall/ref'
    """
    return "/".join(split_image(image))


def concatenated_rows(
    features: Features, images: Sequence[str]
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """Concatenate descriptors of images: values (n, d), valid (n,), first row of each image (k + 1,)."""
    parts: list[NDArray[Any]] = []
    masks: list[NDArray[np.bool_]] = []
    for name in images:
        arrays = features.arrays(item_key(name))
        values = np.asarray(arrays["values"])
        if parts and values.shape[1:] != parts[0].shape[1:]:
            raise InputError(
                f"{name} has descriptors of {values.shape[1]} columns, but {images[0]} has "
                f"{parts[0].shape[1]}; use descriptors of one length"
            )
        parts.append(values)
        masks.append(np.asarray(arrays["valid"], bool) if "valid" in arrays else np.ones(len(values), bool))
    starts = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    values = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return values, masks[0] if len(masks) == 1 else np.concatenate(masks), starts


@dataclass(frozen=True)
class Definition:
    """A benchmark: its name, files, images in a fixed order, and pairs, labels or queries (`content`)."""

    name: str
    files: tuple[Path, ...]
    images: tuple[str, ...]
    content: Any


SHIFT = 1 << 32


def parse_case_key(key: str) -> tuple[int, int]:
    """Split the key of a case into the index of its benchmark, in name order, and the row.

    >>> parse_case_key(str(SHIFT + 5))
    (1, 5)
    """
    return divmod(int(key), SHIFT)


class OpenHPatchesV1(BaseTaskData):
    """Data of a 2016 task. Each benchmark is one unit."""

    def __init__(
        self,
        task: V1Task,
        data: HPatchesDataset,
        definitions: Sequence[Definition],
        options: BenchmarkOptions,
    ) -> None:
        self.task, self.data, self.options = task, data, options
        self.definitions = {d.name: d for d in definitions}
        self.items = data.items(dict.fromkeys(item_key(name) for d in definitions for name in d.images))
        self.units = [
            Unit(d.name, tuple(item_key(n) for n in d.images), definition_hash(d.files)) for d in definitions
        ]
        self.warnings = data.warnings

    def read_item(self, key: str) -> NDArray[np.uint8]:
        """Read the patches of an item."""
        return self.data.read(key)

    def replay_query(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """Recompute the query or pair of a sequence that a key of `Cases` names."""
        number, row = parse_case_key(key)
        definition = self.definitions[sorted(self.definitions)[number]]
        case: QueryCase = self.task.scoring.replay(definition.content, row, features)
        return case

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one benchmark."""
        if comparison != COMPARISON:
            raise UnknownNameError("comparison of HPatches v1", comparison, (COMPARISON,))
        return self.task.compare(self.definitions[unit.key], features)


def base_meta(task: str, benchmark: str, scenes: Sequence[str], features: Features | None) -> dict[str, Any]:
    """Return the metadata that all records share: their source and their distance.

    `squared` states that l2 distances are stored squared. The squared value decides order and ties.
    """
    direct = features is not None
    distance = features.distance if features is not None else "given"
    return {
        "task": task,
        "benchmark": benchmark,
        "scenes": list(scenes),
        "kinds": [scene_kind(s) for s in scenes],
        "distance": distance,
        "squared": distance == "l2",
        "source": "direct" if direct else "results",
    }


class V1Task(BaseTask):
    """Base class of the 2016 tasks. `scoring` is the module `score` in the task's folder."""

    scoring: ModuleType
    family = "patches"
    protocols = PROTOCOLS
    options: type[BenchmarkOptions] = BenchmarkOptions
    result_forms = ("final", "document")

    @property
    def role(self) -> str:
        """Last part of the task name, which also occurs in the names of folders and benchmark files."""
        return self.name.split("/")[-1]

    def dataset(self, data: Path, benchmarks: Sequence[Path]) -> HPatchesDataset:
        """Open the dataset to which these `.benchmark` files belong."""
        return HPatchesDataset(data)

    def definition(self, path: Path, data: HPatchesDataset) -> Definition:
        """Read one `.benchmark` file."""
        raise NotImplementedError

    def compare(self, definition: Definition, features: Features) -> Records:
        """Compute the result records of a benchmark."""
        raise NotImplementedError

    def read_results(
        self, definition: Definition, folder: Path, opened: OpenHPatchesV1, on_nan: str
    ) -> Records:
        """Read the records of one benchmark from result files of another program."""
        raise NotImplementedError

    def write_benchmark(
        self,
        records: Records,
        folder: Path,
        opened: Any = None,
        arrays: GetArrays | None = None,
        form: str = "final",
    ) -> Path:
        """Write the result file of one benchmark into `folder` and return its path.

        `arrays` returns the features of an item. `form` is the layout of the file.
        """
        raise NotImplementedError

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenHPatchesV1:
        """Open a folder in the HPatches layout and its `.benchmark` files."""
        chosen = self.options.parse(self.name, options)
        files = definition_files(Path(data), chosen, self.role)
        dataset = self.dataset(Path(data), files)
        return OpenHPatchesV1(self, dataset, [self.definition(path, dataset) for path in files], chosen)

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, which both protocols share."""
        hpatches_v1_rules(protocol)
        return COMPARISON

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol."""
        found: list[Score] = self.scoring.score(records, hpatches_v1_rules(protocol), protocol)
        return found

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the mean scores over benchmarks as the rules change from `hbench-2016` to `exact`."""
        steps = convention_steps(self.role)
        return convention_tables(records, self.scoring.METRICS, steps, self.scoring.score)

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the queries or pairs of a sequence with their scores, benchmark by benchmark."""
        found: Cases | None = self.scoring.cases(records, scene)
        return found

    def curves(self, records: Sequence[Records]) -> Iterator[CurvePoints]:
        """Compute the ROC and precision-recall curves of every benchmark under `exact`."""
        points: Iterator[CurvePoints] = self.scoring.curves(records, EXACT)
        return points

    def missing_results(self, definition: Definition, folder: Path) -> list[str]:
        """Return the names of the result files of a benchmark that a folder lacks."""
        name = f"{definition.name}.results"
        return [] if (folder / name).is_file() else [name]

    def result_folders(self, results: Path, opened: OpenHPatchesV1) -> dict[str, Path]:
        """Return the folders that contain `.results` files, by descriptor name."""
        return result_folders(results, self.role)

    def result_hashes(self, folder: Path, records: Sequence[Records]) -> dict[str, str]:
        """Return the hash of each `.results` file of a folder."""
        return {p.name: hash_file(p) for p in sorted(folder.glob("*.results"))}

    def records_from_results(
        self, folder: Path, opened: OpenHPatchesV1, on_bad: str = "error"
    ) -> list[Records]:
        """Read the records of every benchmark from `.results` files in `folder`.

        Raises:
            InputError: Result files of some benchmarks are missing. The message lists the files.
        """
        if on_bad not in ("error", "miss"):
            raise UnknownNameError("value of on_bad", on_bad, ("error", "miss"))
        definitions = list(opened.definitions.values())
        lacking = {d.name: found for d in definitions if (found := self.missing_results(d, Path(folder)))}
        if lacking and len(definitions) > 1:
            lines = [f"  - {name}: {', '.join(files)}" for name, files in lacking.items()]
            complete = [f'`benchmark="{d.name}"`' for d in definitions if d.name not in lacking]
            head = f"{folder}: result files of {len(lacking)} of {len(definitions)} benchmarks are missing"
            end = [f"Complete benchmarks can be scored alone: {', '.join(complete)}"] if complete else []
            raise InputError("\n".join([head, *lines, *end]))
        return [self.read_results(d, Path(folder), opened, on_bad) for d in definitions]

    def results_form(self, opened: OpenHPatchesV1) -> str:
        """Return the result layout: `document` if the suite's pair lists have labels, else `final`."""
        own = next(iter(opened.definitions.values())).files[0].parent
        lists = (p for folder in (own, own.parent / "classification") for p in sorted(folder.glob("*.pairs")))
        first = next(lists, None)
        return "document" if first is not None and has_label_column(first) else "final"

    def write_results(
        self,
        folder: Path,
        opened: OpenHPatchesV1,
        records: Mapping[str, Mapping[str, Records]],
        arrays: GetArrays,
        protocols: Sequence[str],
        form: str,
    ) -> Iterator[Path]:
        """Write ``BENCHMARK.results`` of every benchmark and yield the paths.

        The form `final` adds a folder named after the task.
        """
        if form == "final":
            folder = folder / self.role
            folder.mkdir(parents=True, exist_ok=True)
        for by in records.values():
            yield self.write_benchmark(by[COMPARISON], folder, opened, arrays, form)


Part = tuple[NDArray[np.int64], Floats, Floats | None]
"""Scored queries or pairs of one benchmark: rows, scores and confidences."""


def benchmark_cases(
    records: Sequence[Records],
    scene: str,
    part: Callable[[Records, int], Part],
    words: Callable[[Records, int], str],
) -> Cases | None:
    """Return the queries or pairs of a scene from all benchmarks that contain it, concatenated.

    `part` returns those of one benchmark for a scene index, `words` the description of a row.
    """
    named = sorted(records, key=lambda r: str(r.meta["benchmark"]))
    found: list[tuple[int, Part]] = []
    for number, r in enumerate(named):
        if scene in r.meta["scenes"]:
            found.append((number, part(r, r.meta["scenes"].index(scene))))
    if not found:
        return None
    keys = np.concatenate([number * SHIFT + rows for number, (rows, _, _) in found])
    score = np.concatenate([value for _, (_, value, _) in found])
    sure = [c for _, (_, _, c) in found if c is not None]

    def label(key: str) -> str:
        number, row = parse_case_key(key)
        return f"{words(named[number], row)}, {named[number].meta['benchmark']}"

    return Cases(keys, score, np.concatenate(sure) if len(sure) == len(found) else None, label)
