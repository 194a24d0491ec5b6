# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches-v1/classification` (2016): separate corresponding from other patch pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.formatting import path_below
from ....core.records import Features, Records
from ....datasets.hpatches.dataset import LENGTHS_FILE, HPatchesDataset
from ....formats.hpatches_v1.classification import (
    LabelledPairs,
    lengths_in_lists,
    load_classification,
    missing_results,
    read_classification_results,
    write_classification_results,
)
from ....formats.hpatches_v1.patch_ids import sequence_codes
from ....kernels import pair_distances
from ...base import MetricInfo, TaskInfo
from ...hpatches.data import LICENCE
from ...info import AP_OF_PAIRS, AUC_OF_PAIRS, FPR_OF_PAIRS, HPATCHES, POOLED_LIST
from ..data import COMPARISON, Definition, GetArrays, OpenHPatchesV1, V1Task, base_meta, concatenated_rows
from ..protocols import PROTOCOLS, hpatches_v1_rules, printed_classification
from . import score as scoring

NAME = "hpatches-v1/classification"


class HPatchesV1Classification(V1Task):
    """Task `hpatches-v1/classification`: rank positive and negative pairs of patches by descriptor distance.

    Metrics: `auc`, `ap` and `fpr95`. Each is computed on the imbalanced list (all pairs) and on the balanced
    list (all positives and equally many negatives from the start of the list).
    """

    name = NAME
    scoring = scoring
    info = TaskInfo(
        "HPatches 2016: does the distance separate pairs of the same patch from other pairs?",
        ("ap", "all"),
        {
            "ap": MetricInfo(f"{AP_OF_PAIRS}, on the full list"),
            "auc": MetricInfo(f"{AUC_OF_PAIRS}, on the balanced list"),
            "fpr95": MetricInfo(f"{FPR_OF_PAIRS}, on the balanced list", better="lower"),
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        title="HPatches 2016 classification",
        replacements={("auc", "all"): ("auc", "balance=balanced")},
        not_raceable=POOLED_LIST,
    )

    def dataset(self, data: Path, benchmarks: Sequence[Path]) -> HPatchesDataset:
        """Open the dataset. Without image and lengths files, read the numbers of patches from pair lists."""
        if data.is_dir() and not any(data.glob("*/*.png")) and not (data / LENGTHS_FILE).is_file():
            dataset = HPatchesDataset.from_lengths(*lengths_in_lists(benchmarks))
            dataset.root = data
            return dataset
        return super().dataset(data, benchmarks)

    def definition(self, path: Path, data: HPatchesDataset) -> Definition:
        """Return the labelled pairs of patches of a benchmark."""
        pairs = load_classification(path, data.counts)
        files = (path, path.with_suffix(".labels"), *(path.parent / f"{p}.pairs" for p in pairs.parts))
        used = np.unique(np.concatenate([pairs.pairs.image_a, pairs.pairs.image_b]))
        return Definition(path.stem, files, tuple(pairs.pairs.images[i] for i in used), pairs)

    def compare(self, definition: Definition, features: Features) -> Records:
        """Compute the distances of all pairs of a benchmark, in file order."""
        return compare(definition, features)

    def missing_results(self, definition: Definition, folder: Path) -> list[str]:
        """Return the missing result files of the pair lists; empty if one file covers the whole benchmark."""
        return missing_results(folder, definition.content)

    def read_results(
        self, definition: Definition, folder: Path, opened: OpenHPatchesV1, on_nan: str
    ) -> Records:
        """Read a benchmark's distances from its result file, or from the files of its pair lists."""
        pairs: LabelledPairs = definition.content
        scenes, _ = sequence_codes(pairs.pairs.images)
        distances = read_classification_results(folder, pairs, on_nan=on_nan)
        return _records(pairs, distances, base_meta(NAME, definition.name, scenes, None))

    def write_benchmark(
        self,
        records: Records,
        folder: Path,
        opened: OpenHPatchesV1 | None = None,
        arrays: GetArrays | None = None,
        form: str = "final",
    ) -> Path:
        """Write ``BENCHMARK.results`` as the 2016 tool does: squared l2, six decimals."""
        path = path_below(folder, records.meta["benchmark"], what="the benchmark", ending=".results")
        write_classification_results(path, _printed(records))
        return path

    def write_results(
        self,
        folder: Path,
        opened: OpenHPatchesV1,
        records: Mapping[str, Mapping[str, Records]],
        arrays: GetArrays,
        protocols: Sequence[str],
        form: str,
    ) -> Iterator[Path]:
        """Write the result files of every benchmark and yield their paths.

        The form `document` has one file per `.pairs` list, with distances and labels.
        """
        if form == "final":
            return super().write_results(folder, opened, records, arrays, protocols, form)
        made = ((opened.definitions[unit].content, by[COMPARISON]) for unit, by in records.items())
        return _write_lists(folder, made)


def compare(definition: Definition, features: Features) -> Records:
    """Compute the distances of all pairs of a benchmark, in file order."""
    pairs: LabelledPairs = definition.content
    values, valid, starts = concatenated_rows(features, definition.images)
    place = {name: i for i, name in enumerate(definition.images)}
    first = np.array([starts[place[name]] if name in place else 0 for name in pairs.pairs.images], np.int64)
    a = first[pairs.pairs.image_a] + pairs.pairs.index_a
    b = first[pairs.pairs.image_b] + pairs.pairs.index_b
    good = valid[a] & valid[b]
    distances = np.full(len(a), np.inf)
    squared = features.distance == "l2"
    distances[good] = pair_distances(
        values, values, a[good], b[good], distance=features.distance, squared=squared
    )
    scenes, _ = sequence_codes(pairs.pairs.images)
    return _records(pairs, distances, base_meta(NAME, definition.name, scenes, features))


def _records(pairs: LabelledPairs, distances: Any, meta: dict[str, Any]) -> Records:
    _, code = sequence_codes(pairs.pairs.images)
    columns = {
        "distance": np.asarray(distances, np.float64),
        "label": np.asarray(pairs.labels, bool),
        "scene_a": code[pairs.pairs.image_a].astype(np.int16),
        "scene_b": code[pairs.pairs.image_b].astype(np.int16),
    }
    return Records("pair", columns, meta)


def _printed(records: Records) -> NDArray[np.float64]:
    """Return the distances of a classification benchmark as the 2016 tool would print them."""
    return printed_classification(records, records["distance"], hpatches_v1_rules(PROTOCOLS[1]))


def _write_lists(folder: Path, made: Iterable[tuple[LabelledPairs, Records]]) -> Iterator[Path]:
    """Write ``LIST.results`` of every `.pairs` list once, with one distance and label per line."""
    written: set[str] = set()
    for pairs, records in made:
        distances = _printed(records)
        for name, rows in pairs.slices().items():
            if name not in written:
                written.add(name)
                path = path_below(folder, name, what="the list", ending=".results")
                write_classification_results(path, distances[rows], pairs.labels[rows])
                yield path


TASK = HPatchesV1Classification()
