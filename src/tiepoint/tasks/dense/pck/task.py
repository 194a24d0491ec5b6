# SPDX-License-Identifier: BSD-3-Clause
"""Task `dense/pck`: transfer keypoints with a flow and count those near their true positions (PCK)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....core.errors import FormatError, InputError
from ....core.records import Records
from ....core.scores import Score, group_name
from ....datasets.dense_pairs import Box, DensePair
from ....geometry.flow.warp import transfer
from ....metrics.dense import SCALES, pck_length, point_errors, points_right
from ...base import Column, MetricInfo, TaskInfo
from ...info import PROPOSAL_FLOW
from ...options import Numbers, parse_ascending
from ...scene_means import ratio_score
from ...unit_values import Means
from ..data import PairTask, meta_of, usable_records
from ..options import PairOptions

HEADLINE_ALPHA = 0.1
_LENGTHS = {
    "image": "the target image's larger side",
    "box": "the larger side of the object's box in the target image",
    "keypoints": "the larger extent of the target's keypoints",
}
_PER = {"pair": ", mean over image pairs", "point": ", over all keypoints of all pairs"}


class PckOptions(PairOptions):
    """Options of `dense/pck`."""

    alphas: Numbers = (0.01, 0.03, 0.05, 0.1, 0.15)
    """PCK thresholds alpha, as fractions of the reference length."""

    scale: Literal["image", "box", "keypoints"] = "keypoints"
    """Reference length of the headline: the image's larger side, the object's box or the extent of the
    keypoints."""


def compare(pair: DensePair, flow: NDArray[Any] | None, options: PckOptions) -> Records:
    """Compute the error of every keypoint (inf if not found) and the reference lengths of a pair.

    Padding keypoints are excluded.
    """
    if pair.points is None:
        raise InputError(f"{pair.key} has no true keypoints; choose another dataset")
    source, target = pair.points()
    real = np.isfinite(source).all(axis=1) & np.isfinite(target).all(axis=1)
    found = np.full_like(source, np.nan) if flow is None else transfer(source, flow)
    box = _box(pair, wanted=options.scale == "box")
    size = pair.sizes()[1]
    lengths = {
        scale: pck_length(scale, size=size, points=target[real], box=box)
        for scale in SCALES
        if scale != "box" or box is not None
    }
    columns = {
        "point": np.flatnonzero(real).astype(np.int64),
        "distance_px": point_errors(found[real], target[real]),
    }
    if options.scale not in lengths:
        raise InputError(
            f"{pair.key} has no reference length for scale {options.scale!r}; choose "
            f"one of {', '.join(lengths)}"
        )
    meta = meta_of(
        pair,
        options,
        absent=flow is None,
        lengths=lengths,
        padded=int((~real).sum()),
        alphas=list(parse_ascending([*options.alphas, HEADLINE_ALPHA])),
        scale=options.scale,
    )
    return Records("pixel", columns, meta)


def _box(pair: DensePair, *, wanted: bool) -> Box | None:
    """Return the box of the object, or None. An unreadable box is an error only if it is `wanted`."""
    if pair.box is None:
        return None
    try:
        return pair.box()
    except FormatError:
        if wanted:
            raise
        return None


class DensePck(PairTask):
    """Task `dense/pck`: PCK by `alpha` and `scale` (image, box, keypoints), per image pair and per point.

    The headline ``all`` is the mean over image pairs at alpha 0.1, with the length of the option `scale`. The
    default is the extent of the target's keypoints, as usually reported for PF-WILLOW.
    """

    truth = "points"
    means: ClassVar[Means] = {"pck": frozenset({"alpha", "scale", "per", "kind"})}
    name = "dense/pck"
    options = PckOptions
    info = TaskInfo(
        "Does a flow carry keypoints to their true positions?",
        ("pck", "all"),
        {
            "pck": MetricInfo(
                lambda at: (
                    f"share of keypoints that the flow carries to within {at.get('alpha', 'alpha')} times "
                    f"{_LENGTHS.get(at.get('scale', ''), 'the length that its scale names')} of their "
                    f"true position{_PER.get(at.get('per', ''), '')}"
                )
            )
        },
        cite=(PROPOSAL_FLOW,),
        licence="PF-WILLOW: academic use only",
        title="Keypoints by flow",
        # Version 2: a flow without its opposite is resized by the scale of each axis.
        protocol_versions={"exact": 2},
    )

    def expand_column(self, column: Column, options: Mapping[str, Any]) -> Column:
        """Return the full name of a PCK column with its alpha, length and averaging."""
        if column != ("pck", "all"):
            return column
        scale = options.get("scale") or PckOptions().scale
        return "pck", group_name(alpha=HEADLINE_ALPHA, per="pair", scale=str(scale))

    def compare_pair(self, pair: DensePair, flow: NDArray[Any] | None, options: Any) -> Records:
        """Compute the result records of one directed pair."""
        return compare(pair, flow, options)

    def kind_scores(self, records: Sequence[Records], parts: dict[str, Any]) -> list[Score]:
        """Return the scores of the records of one class."""
        return score(records, parts)

    def share(self, record: Records) -> float | None:
        """Return the headline PCK of a directed pair."""
        found, meta = record["distance_px"], record.meta
        right = points_right(found, meta["lengths"][meta["scale"]], HEADLINE_ALPHA)
        return right / len(found) if len(found) else None


def score(records: Sequence[Records], parts: dict[str, Any]) -> list[Score]:
    """Compute the scores of a list of records, for every scale that all of them have.

    `parts` are the parts of their group name.
    """
    used, left = usable_records(records)
    if not used:
        return [Score("pck", group_name(**parts), float("nan"), 0, note=left)]
    scenes = [str(r.meta["scene"]) for r in used]
    kinds = [str(r.meta["kind"]) for r in used]
    points = np.array([len(r["distance_px"]) for r in used], np.float64)
    headline = str(used[0].meta["scale"])
    scores: list[Score] = []
    for scale in (s for s in SCALES if all(s in r.meta["lengths"] for r in used)):
        for alpha in used[0].meta["alphas"]:
            right = np.array(
                [points_right(r["distance_px"], r.meta["lengths"][scale], alpha) for r in used], np.float64
            )
            for per in ("pair", "point"):
                labels = {"alpha": alpha, "scale": scale, "per": per}
                notes = [left] if left else []
                named = [labels]
                if (alpha, scale, per) == (HEADLINE_ALPHA, headline, "pair"):
                    named.insert(0, {})
                    notes.append(headline_words(alpha, scale))
                for label in named:
                    note = "; ".join(notes) or None
                    all_parts = {**parts, **label}
                    scores.append(
                        ratio_score("pck", all_parts, scenes, kinds, right, points, per=per, note=note)
                    )
    return scores


def headline_words(alpha: float, scale: str) -> str:
    """Return a description of the headline PCK: its threshold and reference length."""
    return f"alpha {alpha}, scale {scale}, mean over pairs"


TASK = DensePck()
