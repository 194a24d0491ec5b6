# SPDX-License-Identifier: BSD-3-Clause
"""Task `tss`: dense flow between two instances of an object, and object masks (Taniai et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.records import Records
from ...core.scores import SceneCurves, Score
from ..base import MetricInfo, TaskInfo
from ..cases import Cases, pair_cases
from ..dense.options import ENDPOINT_ERROR, DenseTask
from ..info import TSS
from ..unit_values import Means, UnitFacts, UnitWeights, unit_weights
from . import score as scoring
from .data import DIRECTIONS, OpenTss, TssOptions
from .results import check_results

_T5 = 4


class Tss(DenseTask):
    """Task `tss`: the TSS benchmark under three protocols.

    * `exact`: resizing uses pixel centres, non-zero mask values are foreground, an unknown estimate is wrong,
      the consistency threshold is 2.5 % of the target's larger side, a missing flow or mask is wrong.
    * `tss-cpp`: the official C++ tool. Its ``scores.csv`` is reproduced byte for byte.
    * `tss-matlab`: an emulation of the MATLAB tool. Its `imresize` is not validated against MATLAB.

    Each protocol has its own records, because the protocols resize differently before counting.
    """

    name = "tss"
    options = TssOptions
    info = TaskInfo(
        "How close are flow and mask between two instances of an object to the true ones?",
        ("flow_accuracy", "all"),
        {
            "flow_accuracy": MetricInfo(
                lambda at: (
                    "share of the pixels with known true flow whose error is at most "
                    f"{at.get('threshold', '5')} % of the target image's larger side, mean over flows"
                ),
                short="T5",
            ),
            "aepe": ENDPOINT_ERROR,
            "iou": MetricInfo(
                "intersection over union of the object's mask with the true one, mean over images"
            ),
            "pixel_accuracy": MetricInfo(
                "share of pixels on which the mask agrees with the true one, mean over images"
            ),
            "flow_auc": MetricInfo("mean of the flow accuracy over the thresholds 1 to 50 %"),
        },
        columns=("flow_accuracy", "iou", "pixel_accuracy", "flow_auc"),
        table_note=(
            "flow_accuracy is T5, within 5 % of the target's larger side, the mean of the subsets' means"
        ),
        cite=(TSS,),
        licence="research use only",
        title="TSS flow and masks",
        # Version 2: a flow without its opposite has a score. `tss-cpp` also scales resized flows by float64
        # factors, and adds two unknown flows like known flows.
        # Version 3: a flow without its opposite is resized by the scale of each axis and, under `exact`, has
        # a score with missing=zero.
        protocol_versions={"exact": 3, "tss-cpp": 3, "tss-matlab": 3},
    )
    protocols = ("exact", "tss-cpp", "tss-matlab")
    means: ClassVar[Means] = {
        **dict.fromkeys(("iou", "pixel_accuracy", "flow_auc"), frozenset({"subset", "flip", "weighting"})),
        "flow_accuracy": frozenset({"subset", "flip", "weighting", "threshold"}),
    }

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenTss:
        """Open a dataset folder in the TSS layout."""
        return OpenTss(Path(data), options)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute flow accuracy, IoU, pixel accuracy, AUC and AEPE, by subset and by flip."""
        self.comparison(protocol)
        return scoring.score(records, protocol) if records else []

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Compute curves of flow accuracy against threshold under `exact`: by subset, and their mean."""
        return scoring.scene_curves(records, "exact")

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the flow accuracy at 5 % of each direction of every pair, for the report's gallery."""
        table = scoring.pair_table(records, "exact")
        for key, both in zip(table.keys, table.accuracy[:, :, _T5], strict=True):
            yield from ((key, float(v)) for v in both if np.isfinite(v))

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return both directions of a pair, scored by their flow accuracy at 5 %."""
        own = [r for r in records if r.meta["scene"] == scene]
        if not own:
            return None
        table = scoring.pair_table(own, "exact")
        both = zip(DIRECTIONS, table.accuracy[0, :, _T5], strict=True)
        shares = [(name, float(v)) for name, v in both if np.isfinite(v)]
        return pair_cases(shares, DIRECTIONS.__getitem__) if shares else None

    def unit_facts(self, opened: OpenTss) -> Mapping[str, UnitFacts]:
        """Return the subset and the flip of every pair."""
        self.refuse_skipping(opened.options.missing)
        return {p.key: _facts(p.key, p.subset, p.flip) for p in opened.pairs}

    def facts_of(self, record: Records) -> UnitFacts:
        """Return the subset and the flip of a pair from its records."""
        meta = record.meta
        self.refuse_skipping(str(meta["missing"]))
        return _facts(f"{meta['subset']}/{meta['pair']}", str(meta["subset"]), int(meta["flip"]))

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of a mean over subsets, or over pairs with ``weighting=pairs``."""
        return unit_weights(units, sizes, by_kind="weighting" not in parts, stratum="subset")

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings about unusual results, with counts."""
        return scoring.record_warnings(records)

    def check_results(self, opened: OpenTss, results: Path) -> list[str]:
        """Return warnings about a folder of results; raise one error that lists all problems."""
        return check_results(opened, results)


def _facts(key: str, subset: str, flip: int) -> UnitFacts:
    return UnitFacts(key, subset, groups={"subset": subset, "flip": str(flip)})


TASK = Tss()
