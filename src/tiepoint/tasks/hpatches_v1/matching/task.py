# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches-v1/matching` (2016): correctness and ranking of nearest-neighbour patch matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator

from ....core.errors import InputError
from ....core.formatting import path_below
from ....core.records import Features, Records
from ....core.scores import SceneCurves
from ....datasets.hpatches.dataset import HPatchesDataset
from ....formats.file_io import lines_of
from ....formats.hpatches_v1.definitions import MatchingBenchmark, read_matching, without_comments
from ....formats.hpatches_v1.matching import (
    NeighbourList,
    matching_truth,
    read_matching_results,
    write_matching_results,
)
from ...base import MetricInfo, TaskInfo
from ...hpatches.data import LICENCE
from ...info import FIRST_PATCHES, HPATCHES, ap_of_matches
from ..data import BenchmarkOptions, Definition, GetArrays, OpenHPatchesV1, V1Task
from ..protocols import EXACT, as_distance, hpatches_v1_rules, printed_matching
from . import score as scoring
from .compare import MatchingTruth, compare, listed_neighbours, records_of_neighbours

NAME = "hpatches-v1/matching"


WRITTEN = 2
"""Number of neighbours in a matching results file of the 2016 tool."""


def _neighbours(value: Any) -> Any:
    """Parse a number of neighbours (at least 1) or ``all``. None means the default of the file's layout."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 19 else value
    if number in (None, "all") or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    raise ValueError(f"neighbours: found {value!r}; pass a positive integer or all")


class HPatchesV1MatchingOptions(BenchmarkOptions):
    """Options of the 2016 matching task."""

    mean_over: Literal["image_pairs", "reference_patches"] = "image_pairs"
    """Score that is printed first: `ap`, the mean over image pairs of the 2016 program, or `map_query`, the
    mean over reference patches of its document. The option does not change any score.
    """

    neighbours: Annotated[int | Literal["all"] | None, BeforeValidator(_neighbours)] = None
    """Number of neighbours in a written results file, or ``all``. The default is 2 in the form `final` and
    ``all`` in the form `document`. A file with all neighbours reproduces every score of the run, including
    `map_query`."""


class HPatchesV1Matching(V1Task):
    """Task `hpatches-v1/matching`: match reference patches to a target image and rank them by distance.

    Metrics: `ap` (over nearest neighbours), `ap_ratio` (ranked by the ratio of first to second distance),
    `success_rate` (share of correct nearest neighbours) and `map_query` (mean of 1/rank of the correct
    target).
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
        """Return `map_query` and its description if the option requests the mean over reference patches."""
        if self.options.parse(self.name, options).mean_over != "reference_patches":
            return None
        return "map_query", (
            "map_query is the final number of the document: the mean over all reference patches of the "
            "average precision of their ranked lists."
        )

    def definition(self, path: Path, data: HPatchesDataset) -> Definition:
        """Return the image pairs of a benchmark and the correct target of every patch."""
        benchmark = read_matching(path, data.counts)
        labels = path.with_suffix(".labels")
        truth = _truth(benchmark, data.counts, labels if labels.is_file() else None)
        images = tuple(dict.fromkeys(name for pair in benchmark.pairs for name in pair))
        return Definition(path.stem, (path, labels), images, (benchmark, truth))

    def compare(self, definition: Definition, features: Features) -> Records:
        """Find the nearest neighbours of every reference patch."""
        return compare(definition, features)

    def wrong_answers(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Return wrong matches of a fixed sample of patches: (query, correct answer, method's answer)."""
        return scoring.wrong_answers(records)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Compute the mean precision-recall curve of every scene and benchmark under `exact`."""
        return scoring.scene_curves(records, EXACT)

    def read_results(
        self, definition: Definition, folder: Path, opened: OpenHPatchesV1, on_nan: str
    ) -> Records:
        """Read the neighbours of a benchmark from ``BENCHMARK.results``."""
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
        form: str = "final",
    ) -> Path:
        """Write ``BENCHMARK.results`` as the 2016 tool does: two neighbours, squared l2, ``%e``.

        The form `document` has all neighbours. The option `neighbours` sets another number. Records contain
        two neighbours; more are found in the features that `arrays` returns.
        """
        path = path_below(folder, records.meta["benchmark"], what="the benchmark", ending=".results")
        wanted = getattr(opened and opened.options, "neighbours", None)
        _write_neighbours(path, records, arrays, wanted or ("all" if form == "document" else WRITTEN))
        return path


def _truth(
    benchmark: MatchingBenchmark, counts: Mapping[str, int], labels: Path | None
) -> list[MatchingTruth]:
    """Return the `MatchingTruth` of each image pair, from the labels file if there is one."""
    target = matching_truth(benchmark, counts, labels)
    if labels is None or all(np.array_equal(t, np.arange(len(t))) for t in target):
        return [MatchingTruth(t, None) for t in target]
    with without_comments(labels) as data:
        lines = lines_of(data, labels)
    first = [np.array(lines[3 * i + 1].split(","), np.float64).astype(np.int64) for i in range(len(target))]
    return [MatchingTruth(t, f) for t, f in zip(target, first, strict=True)]


def _write_neighbours(path: Path, records: Records, arrays: GetArrays | None, wanted: int | str) -> None:
    """Write the nearest neighbours of every reference patch, at most `wanted`.

    Records contain two neighbours; more are found in the features that `arrays` returns.
    """
    if wanted != "all" and int(wanted) <= WRITTEN:
        write_matching_results(path, _recorded(records, int(wanted)))
        return
    if arrays is None:
        raise InputError("neighbours: writing more than two needs the features of the run; pass `arrays`")
    write_matching_results(path, _found_again(records, arrays, None if wanted == "all" else int(wanted)))


def _recorded(records: Records, wanted: int) -> Iterator[NeighbourList]:
    """Yield the first one or two neighbours of each image pair from the records."""
    rules = hpatches_v1_rules("hbench-2016")
    d1, d2 = (printed_matching(records, records[c], rules) for c in ("d1", "d2"))
    bounds = np.searchsorted(records["pair"], np.arange(len(records.meta["pairs"]) + 1))
    for i, (a, b) in enumerate(records.meta["pairs"]):
        own = slice(bounds[i], bounds[i + 1])
        index = np.stack([records["index"][own], records["index2"][own]]).astype(np.int64)
        k = min(wanted, int(bounds[i + 1] - bounds[i]))
        yield NeighbourList(a, b, index[:k], np.stack([d1[own], d2[own]])[:k])


def _found_again(records: Records, arrays: GetArrays, wanted: int | None) -> Iterator[NeighbourList]:
    """Yield the requested number of neighbours of each image pair, found in the features; all if None."""
    rules = hpatches_v1_rules("hbench-2016")
    features = Features(arrays, str(records.meta["distance"]))
    for a, b in records.meta["pairs"]:
        index, distance = listed_neighbours(features, a, b, wanted)
        yield NeighbourList(a, b, index, as_distance(records, distance, rules))


TASK = HPatchesV1Matching()
