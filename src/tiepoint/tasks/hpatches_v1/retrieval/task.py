# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches-v1/retrieval` (2016): find a patch, or any patch of its sequence, in a pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ....core.errors import InputError
from ....core.formatting import path_below
from ....core.records import Features, Records
from ....core.scores import SceneCurves
from ....datasets.hpatches.dataset import HPatchesDataset
from ....formats.hpatches_v1.definitions import read_retrieval
from ....formats.hpatches_v1.retrieval import (
    Rankings,
    check_relevant,
    read_retrieval_results,
    retrieval_truth,
    write_retrieval_results,
)
from ...base import MetricInfo, TaskInfo
from ...hpatches.data import LICENCE
from ...info import COMPETING, HPATCHES
from ..data import Definition, GetArrays, OpenHPatchesV1, V1Task
from ..protocols import EXACT
from . import score as scoring
from .compare import PatchPool, compare, pool_of, records_of_rankings

NAME = "hpatches-v1/retrieval"


class HPatchesV1Retrieval(V1Task):
    """Task `hpatches-v1/retrieval`: rank all patches of a pool of images for every query.

    The first 50 ranks count. Metrics: `map_patch` (the same patch in the other images is correct) and
    `map_image` (any patch of the same sequence is correct).
    """

    name = NAME
    scoring = scoring
    info = TaskInfo(
        "HPatches 2016: does a patch find itself, or patches of its sequence, in a pool of images?",
        ("map_patch", "all"),
        {
            "map_patch": MetricInfo(
                "mean over queries of the average precision of the first 50 answers, the same patch in other "
                "images is right"
            ),
            "map_image": MetricInfo(
                "mean over queries of the average precision of the first 50 answers, any patch of the "
                "sequence is right"
            ),
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        title="HPatches 2016 retrieval",
        not_raceable=COMPETING,
    )

    def definition(self, path: Path, data: HPatchesDataset) -> Definition:
        """Return the pool of images and the correct answers of every query of a benchmark."""
        benchmark = read_retrieval(path, data.counts)
        labels = path.with_suffix(".labels")
        relevant = retrieval_truth(benchmark, labels if labels.is_file() else None)
        check_relevant(labels if labels.is_file() else path, relevant, data.counts)
        return Definition(
            path.stem, (path, labels), benchmark.pool, pool_of(benchmark, relevant, data.counts)
        )

    def compare(self, definition: Definition, features: Features) -> Records:
        """Find the nearest patches of every query."""
        return compare(definition, features)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Compute the mean precision-recall curve of every scene and benchmark under `exact`."""
        return scoring.scene_curves(records, EXACT)

    def records_from_results(
        self, folder: Path, opened: OpenHPatchesV1, on_bad: str = "error"
    ) -> list[Records]:
        """Read the records of every benchmark from ``BENCHMARK.results`` files in `folder`."""
        if on_bad != "error":
            raise InputError(
                f"`on_bad` has no effect on {self.name}, whose result files have no distances; omit it"
            )
        return super().records_from_results(folder, opened, on_bad)

    def read_results(
        self, definition: Definition, folder: Path, opened: OpenHPatchesV1, on_nan: str
    ) -> Records:
        """Read the rankings of a benchmark from ``BENCHMARK.results``."""
        pool: PatchPool = definition.content
        path = folder / f"{definition.name}.results"
        rankings = read_retrieval_results(path, pool.benchmark, opened.data.counts)
        return records_of_rankings(definition.name, pool, rankings)

    def write_benchmark(
        self,
        records: Records,
        folder: Path,
        opened: OpenHPatchesV1 | None = None,
        arrays: GetArrays | None = None,
        form: str = "final",
    ) -> Path:
        """Write ``BENCHMARK.results`` with 51 patches per query.

        The query is the first patch. All other patches keep their order.
        """
        if opened is None:
            raise InputError("retrieval results need the names of the patches; pass `opened`")
        pool: PatchPool = opened.definitions[records.meta["benchmark"]].content
        ids = np.asarray(records["ids"], np.int64)
        if not np.isfinite(records["distances"]).all():
            raise InputError(
                f"{records.meta['benchmark']}: some queries have too few neighbours for a results file, "
                "because descriptors failed; correct the descriptors"
            )
        own = ids == records["query"][:, None]
        rest = np.take_along_axis(ids, np.argsort(own, axis=1, kind="stable"), axis=1)[:, : ids.shape[1] - 1]
        listed = np.concatenate([records["query"][:, None].astype(np.int64), rest], axis=1)
        image = (np.searchsorted(pool.starts, listed, side="right") - 1).astype(np.int32)
        path = path_below(folder, records.meta["benchmark"], what="the benchmark", ending=".results")
        write_retrieval_results(path, Rankings(pool.benchmark.pool, image, listed - pool.starts[image]))
        return path


TASK = HPatchesV1Retrieval()
