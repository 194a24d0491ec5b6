# SPDX-License-Identifier: BSD-3-Clause
"""Task `dense/flow`: compare a flow with a true flow or a homography, in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....core.errors import FormatError, InputError
from ....core.records import Records
from ....core.scores import Score, group_name
from ....datasets.dense_pairs import DensePair
from ....metrics.dense import endpoint_error, outliers
from ...base import MetricInfo, TaskInfo
from ...options import Numbers, parse_ascending
from ...scene_means import ratio_score
from ...unit_values import Means
from ..data import DIRECTED, PairTask, meta_of, usable_records
from ..options import ENDPOINT_ERROR, PairOptions, mean_note

HEADLINE_PX = 5.0
METRICS = ("aepe", "fl", "flow_accuracy")


class FlowOptions(PairOptions):
    """Options of `dense/flow`."""

    thresholds_px: Numbers = (1.0, 3.0, 5.0, 10.0)
    """Accuracy thresholds in pixels."""

    alphas: Numbers = (0.01, 0.05, 0.1)
    """Accuracy thresholds as fractions of the target image's larger side."""


def compare(pair: DensePair, flow: NDArray[Any] | None, options: FlowOptions) -> Records:
    """Compute the result records of a pair: counts of known pixels, correct pixels and outliers; error sums.

    An outlier is defined as in KITTI.
    """
    if pair.flow is None:
        raise InputError(f"{pair.key} has no true flow; choose another dataset")
    truth = pair.flow()
    source, target = pair.sizes()
    if truth.shape[:2] != source:
        raise FormatError(
            pair.key,
            f"the true flow is {truth.shape[:2]}, but its image is {source} (height, width)",
        )
    # The headline threshold is always included.
    pixels = parse_ascending([*options.thresholds_px, HEADLINE_PX])
    limits = [*pixels, *(a * max(target) for a in options.alphas)]
    if flow is None:
        flow = np.full(truth.shape, np.nan)
        absent = True
    else:
        absent = False
    error = endpoint_error(flow, truth)
    error_valid = error[~np.isnan(error)]
    finite = error_valid[np.isfinite(error_valid)]
    columns = {
        "correct": np.array([[int((error_valid <= t).sum()) for t in limits]], np.int64),
        "valid": np.array([error_valid.size], np.int64),
        "known": np.array([finite.size], np.int64),
        "error_sum_px": np.array([finite.sum()]),
        "outliers": np.array([outliers(error, truth)], np.int64),
    }
    labels = [{"threshold_px": int(t) if t == int(t) else t} for t in pixels]
    labels += [{"alpha": a} for a in options.alphas]
    return Records("pixel", columns, meta_of(pair, options, absent=absent, labels=labels))


def _at_most(at: Mapping[str, str]) -> str:
    """Return the threshold of a group of scores as text."""
    if "alpha" in at:
        return f"{at['alpha']} of the target's larger side"
    return f"{at.get('threshold_px', '5')} px"


class DenseFlow(PairTask):
    """Task `dense/flow`: AEPE, Fl, and accuracy at thresholds in pixels and relative to the image size.

    The relative thresholds are fractions of the target's larger side. Scores include means over pairs
    (``per=pair``, the headline) and over pixels (``per=pixel``). The ground truth is a flow file (TSS, or a
    list of ``image1, image2, flow``) or a homography (image sequences).
    """

    truth = "flow"
    means: ClassVar[Means] = {
        "flow_accuracy": frozenset({"threshold_px", "alpha", "kind"}),
        "fl": frozenset({"kind"}),
    }
    name = "dense/flow"
    options = FlowOptions
    info = TaskInfo(
        "How far is a flow from the true one?",
        ("aepe", "all"),
        {
            "flow_accuracy": MetricInfo(
                lambda at: (
                    f"share of the pixels with known ground truth whose error is at most {_at_most(at)}, "
                    "mean over flows"
                ),
                short="5 px",
            ),
            "aepe": ENDPOINT_ERROR,
            "fl": MetricInfo(
                "share of the pixels with known true flow whose error exceeds both 3 px and 5 % of the "
                "true displacement, mean over flows",
                better="lower",
            ),
        },
        table_note="flow_accuracy is within 5 px",
        licence="that of the dataset given",
        title="Optical flow",
        # Version 2: a flow without its opposite is resized by the scale of each axis.
        protocol_versions={"exact": 2},
    )

    def compare_pair(self, pair: DensePair, flow: NDArray[Any] | None, options: Any) -> Records:
        """Compute the result records of one directed pair."""
        return compare(pair, flow, options)

    def kind_scores(self, records: Sequence[Records], parts: dict[str, Any]) -> list[Score]:
        """Return the scores of the records of one subset or class."""
        return score(records, parts)

    def share(self, record: Records) -> float | None:
        """Return the accuracy of a directed pair at the headline threshold."""
        k = record.meta["labels"].index({"threshold_px": HEADLINE_PX})
        valid = record["valid"][0]
        return float(record["correct"][0][k] / valid) if valid else None


def score(records: Sequence[Records], parts: dict[str, Any]) -> list[Score]:
    """Compute the scores of a list of records; `parts` are the parts of their group name."""
    used, note = usable_records(records)
    if not used:
        return [Score(m, group_name(**parts), float("nan"), 0, note=note) for m in METRICS]
    scenes = [str(r.meta["scene"]) for r in used]
    kinds = [str(r.meta["kind"]) for r in used]
    columns = {
        name: np.array([r[name][0] for r in used], np.float64) for name in ("valid", "known", "outliers")
    }
    errors = np.array([r["error_sum_px"][0] for r in used])
    correct = np.stack([r["correct"][0] for r in used]).astype(np.float64)
    # An unknown flow has no endpoint error: it is wrong in the other metrics and excluded from this one.
    known_note = mean_note(int((columns["known"] > 0).sum()), len(records), DIRECTED)
    scores: list[Score] = []
    for per in ("pair", "pixel"):
        by = {} if per == "pair" else {"per": per}

        def add(
            metric: str, extra: dict[str, Any], top: Any, bottom: Any, per: str = per, by: Any = by
        ) -> None:
            scores.append(
                ratio_score(metric, {**parts, **by, **extra}, scenes, kinds, top, bottom, per=per, note=note)
            )

        scores.append(
            ratio_score(
                "aepe", {**parts, **by}, scenes, kinds, errors, columns["known"], per=per, note=known_note
            )
        )
        add("fl", {}, columns["outliers"], columns["valid"])
        labels = used[0].meta["labels"]
        for k, label in enumerate(labels):
            if label == {"threshold_px": HEADLINE_PX}:
                add("flow_accuracy", {}, correct[:, k], columns["valid"])
            add("flow_accuracy", label, correct[:, k], columns["valid"])
    return scores


TASK = DenseFlow()
