# SPDX-License-Identifier: BSD-3-Clause
"""HPatches 2016 matching: is the nearest target patch the right one, and do right matches come first?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.hpatches.strips import HPatchesDataset
from ...formats.hbench.benchmark import MatchingBenchmark, read_matching
from ...formats.hbench.labels import matching_truth
from ...formats.hbench.matching_results import Neighbours, read_matching_results, write_matching_results
from ...formats.text_file import read_lines
from ...model.curves import SceneCurves
from ...model.errors import InputError
from ...model.records import Records
from ...model.units import Features
from ..base import MetricInfo, TaskInfo
from ..hpatches.opened import LICENCE
from ..info import FIRST_PATCHES, HPATCHES, ap_of_matches
from . import matching_scores as scoring
from .matching_compare import MatchingTruth, compare, records_of_neighbours
from .opened import Definition, OpenV1, V1Task, checked_on_bad
from .protocols import printed_matching, rules_of

NAME = "hpatches-v1/matching"


class Matching(V1Task):
    """First neighbours of every reference patch in a target image, ranked by distance.

    Metrics: `ap` (over first neighbours), `ap_ratio` (ranked by the ratio of first and second distance),
    `success_rate` (share of right first neighbours), `map_query` (mean 1/rank of the right target).
    """

    name = NAME
    scoring = scoring
    info = TaskInfo(
        "HPatches 2016: is the nearest patch the correct one, and are correct matches ranked first?",
        ("ap", "all"),
        {
            "ap": ap_of_matches("distance"),
            "ap_ratio": ap_of_matches("first over second distance"),
            "success_rate": FIRST_PATCHES,
            "map_query": MetricInfo("mean over reference patches of 1/rank of the correct target patch"),
        },
        cite=(HPATCHES,),
        licence=LICENCE,
    )

    def definition(self, path: Path, data: HPatchesDataset) -> Definition:
        """Image pairs and the right target of every patch."""
        benchmark = read_matching(path, data.counts)
        labels = path.with_suffix(".labels")
        truth = _truth(benchmark, data.counts, labels if labels.is_file() else None)
        images = tuple(dict.fromkeys(name for pair in benchmark.pairs for name in pair))
        return Definition(path.stem, (path, labels), images, (benchmark, truth))

    def compare(self, definition: Definition, features: Features) -> Records:
        """First neighbours of every reference patch."""
        return compare(definition, features)

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Precision-recall points of every image pair under `exact`."""
        return scoring.curves(records, rules_of("exact"))

    def misses(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Wrong matches of a fixed sample of patches: (query, right answer, given answer)."""
        return scoring.misses(records)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Mean precision-recall curve of every benchmark under `exact`, scene by scene."""
        return scoring.scene_curves(records, rules_of("exact"))

    def records_from_results(self, folder: Path, opened: OpenV1, on_bad: str = "error") -> list[Records]:
        """Records of every benchmark from ``BENCHMARK.results`` files of another program in `folder`."""
        found, on_nan = [], checked_on_bad(on_bad)
        for d in opened.definitions.values():
            benchmark, truth = d.content
            path = Path(folder) / f"{d.name}.results"
            blocks = read_matching_results(path, benchmark, opened.data.counts, on_nan=on_nan)
            found.append(records_of_neighbours(d.name, benchmark, truth, blocks))
        return found

    def write_results(self, records: Records, folder: Path, opened: OpenV1 | None = None) -> Path:
        """Write ``BENCHMARK.results`` as the 2016 tool would: two neighbours, squared l2, ``%e``."""
        path = Path(folder) / f"{records.meta['benchmark']}.results"
        rules = rules_of("hbench-2016")
        d1, d2 = (printed_matching(records, records[c], rules) for c in ("d1", "d2"))
        pair = records["pair"]
        bounds = np.searchsorted(pair, np.arange(len(records.meta["pairs"]) + 1))
        blocks = []
        for i, (a, b) in enumerate(records.meta["pairs"]):
            own = slice(bounds[i], bounds[i + 1])
            if bounds[i + 1] - bounds[i] < 2:
                raise InputError(f"{a},{b} has one patch, and a 2016 results file needs two neighbours")
            index = np.stack([records["index"][own], records["index2"][own]]).astype(np.int64)
            blocks.append(Neighbours(a, b, index, np.stack([d1[own], d2[own]])))
        write_matching_results(path, blocks)
        return path


def _truth(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: Path | None
) -> list[MatchingTruth]:
    """Right target of every reference patch; where it is not its own index, also the first line of labels."""
    target = matching_truth(benchmark, counts, labels)
    if labels is None or all(np.array_equal(t, np.arange(len(t))) for t in target):
        return [MatchingTruth(t, None) for t in target]
    lines = read_lines(labels)
    first = [np.array(lines[3 * i + 1].split(","), np.float64).astype(np.int64) for i in range(len(target))]
    return [MatchingTruth(t, f) for t, f in zip(target, first, strict=True)]


TASK = Matching()
