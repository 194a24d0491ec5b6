# SPDX-License-Identifier: BSD-3-Clause
"""HPatches 2016 matching: is the nearest target patch the right one, and do right matches come first?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....core.formatting import path_below
from ....core.records import Features, Records
from ....core.scores import SceneCurves
from ....datasets.hpatches.dataset import HPatchesDataset
from ....formats.file_io import lines_of
from ....formats.hpatches_v1.definitions import MatchingBenchmark, read_matching, without_comments
from ....formats.hpatches_v1.matching import matching_truth, read_matching_results
from ...base import MetricInfo, TaskInfo
from ...cases import Cases, QueryCase
from ...hpatches.data import LICENCE
from ...info import FIRST_PATCHES, HPATCHES, ap_of_matches
from ..cases import matching_cases, replay_match
from ..data import WRITTEN, Definition, GetArrays, HPatchesV1MatchingOptions, OpenHPatchesV1, V1Task
from ..protocols import hpatches_v1_rules
from ..result_files import write_neighbours
from . import score as scoring
from .matching_compare import MatchingTruth, compare, records_of_neighbours

NAME = "hpatches-v1/matching"


class HPatchesV1Matching(V1Task):
    """First neighbours of every reference patch in a target image, ranked by distance.

    Metrics: `ap` (over first neighbours), `ap_ratio` (ranked by the ratio of first and second distance),
    `success_rate` (share of right first neighbours), `map_query` (mean 1/rank of the right target).
    """

    name = NAME
    scoring = scoring
    options = HPatchesV1MatchingOptions
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
        title="HPatches 2016 matching",
        writing_options=("neighbours",),
        printing_options=("mean_over",),
    )

    def lead_metric(self, options: Mapping[str, Any]) -> tuple[str, str] | None:
        """`map_query` where the mean over reference patches is asked for."""
        if self.options.parse(self.name, options).mean_over != "reference_patches":
            return None
        return "map_query", (
            "map_query is the final number of the document: the mean over all reference patches of the "
            "average precision of their ranked lists."
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

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Reference patches in every image."""
        return matching_cases(records, scene)

    def answer(self, definition: Definition, row: int, features: Features | None) -> QueryCase:
        """A reference patch among those of the other image."""
        return replay_match(definition.content, row, features)

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Precision-recall points of every image pair under `exact`."""
        return scoring.curves(records, hpatches_v1_rules("exact"))

    def wrong_answers(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Wrong matches of a fixed sample of patches: (query, right answer, given answer)."""
        return scoring.wrong_answers(records)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Mean precision-recall curve of every benchmark under `exact`, scene by scene."""
        return scoring.scene_curves(records, hpatches_v1_rules("exact"))

    def read_results(
        self, definition: Definition, folder: Path, opened: OpenHPatchesV1, on_nan: str
    ) -> Records:
        """Neighbours from ``BENCHMARK.results``."""
        benchmark, truth = definition.content
        path = folder / f"{definition.name}.results"
        blocks = read_matching_results(path, benchmark, opened.data.counts, on_nan=on_nan)
        return records_of_neighbours(definition.name, benchmark, truth, blocks)

    def write_benchmark(
        self,
        records: Records,
        folder: Path,
        opened: OpenHPatchesV1 | None = None,
        arrays: GetArrays | None = None,
    ) -> Path:
        """Write ``BENCHMARK.results`` as the 2016 tool would: two neighbours, squared l2, ``%e``.

        The option `neighbours` of the open task asks for another number of them. More than two are not in the
        records and are looked for again, in the features that `arrays` gives.
        """
        path = path_below(folder, records.meta["benchmark"], what="the benchmark", ending=".results")
        wanted = getattr(opened and opened.options, "neighbours", WRITTEN)
        write_neighbours(path, records, arrays, wanted)
        return path


def _truth(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: Path | None
) -> list[MatchingTruth]:
    """Right target of every reference patch; where it is not its own index, also the first line of labels."""
    target = matching_truth(benchmark, counts, labels)
    if labels is None or all(np.array_equal(t, np.arange(len(t))) for t in target):
        return [MatchingTruth(t, None) for t in target]
    with without_comments(labels) as data:
        lines = lines_of(data, labels)
    first = [np.array(lines[3 * i + 1].split(","), np.float64).astype(np.int64) for i in range(len(target))]
    return [MatchingTruth(t, f) for t, f in zip(target, first, strict=True)]


TASK = HPatchesV1Matching()
