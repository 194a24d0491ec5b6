# SPDX-License-Identifier: BSD-3-Clause
"""Score matches of image pairs in memory: relative pose and homography."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, ProblemsError
from ..core.records import Arrays, Features
from ..core.scores import scene_kind
from ..datasets.image_pairs.builder import PairDraft, assemble_pairs
from ..datasets.image_pairs.ground_truth import PairSet, PairTruth
from ..datasets.image_pairs.pair import Size
from ..datasets.image_pairs.problems import PairProblems
from ..methods.pairs.adapter import match_arrays
from ..tasks.homography.task import TASK as PLANES
from ..tasks.keypoints.geometry.data import OpenGeometryPairs
from ..tasks.keypoints.geometry.score import D2NET
from ..tasks.keypoints.geometry.task import TASK as GEOMETRY
from ..tasks.pose.task import TASK as POSE
from .inputs import check_lengths, check_protocol, scene_labels, share, size_table, split_arrays
from .result import Result, score_records

FIRST = "a"
"""Image name of the first image of a scene. The second images are 0, 1, 2, …."""
HOMOGRAPHY_PROTOCOLS = tuple(p for p in GEOMETRY.protocols if p != D2NET)
"""Protocols that estimate homographies."""


def pose(
    points0: Any,
    points1: Any,
    K0: Any,
    K1: Any,
    T: Any,
    *,
    sizes: Any,
    confidence: Any = None,
    centre: float = 0.0,
    dataset: str = "",
    scenes: Any = None,
    protocol: str = "exact",
    **options: Any,
) -> Result:
    """Score the relative camera pose that matches of image pairs give, as `pose/relative` does.

    Points are in pixels of the original images, with the centre of the first pixel at (0, 0). Every pair
    counts once, because arrays do not show whether two pairs are of the same images.

    Args:
        points0: Matched points (n, 2) of image 0; or a list, one array for each image pair.
        points1: Their matches (n, 2) in image 1; or a list.
        K0: Camera matrix (3, 3) of image 0, or one for each pair.
        K1: Camera matrix (3, 3) of image 1, or one for each pair.
        T: True pose (4, 4) or (3, 4) with x1 = R x0 + t; or a list.
        sizes: ((width0, height0), (width1, height1)) in pixels, or one for each pair. Protocols that resize
            images need them.
        confidence: Confidence (n,) of each match; or a list. Only the option ``budget`` needs it.
        centre: Coordinate that K assigns to the centre of the first pixel: 0, or 0.5 as in COLMAP.
        dataset: ``scannet`` or ``megadepth``, for which the protocols of papers have their own settings.
        scenes: Scene label of each pair. Six or more scenes give an interval.
        protocol: ``exact`` or the protocol of a paper, such as ``superglue`` or ``loftr``.
        **options: Options of the task: ``seeds``, ``threshold_px``, ``frame``, ``budget`` …

    Returns:
        A `Result` with the metric `auc` up to 10 degrees. ``values`` has more scores, such as
            ``auc[threshold_deg=5]``.
    """
    check_protocol("pose", protocol, POSE.protocols)
    POSE.options.check_protocols("score.pose", options, [protocol])
    chosen = POSE.options.parse("score.pose", options)
    if chosen.cluster == "image":
        raise InputError(
            "score.pose: cluster=image needs image names; pass `scenes`, or use `tiepoint.evaluate`"
        )
    if not isinstance(dataset, str):
        raise InputError(f"score.pose: dataset is {repr(dataset)[:40]}; expected a name such as 'scannet'")
    if not isinstance(centre, int | float) or not np.isfinite(centre):
        raise InputError(f"score.pose: centre is {repr(centre)[:40]}; expected a number such as 0.5")
    pairs = _Pairs("pose", points0, points1, confidence, sizes, scenes)
    count = len(pairs.points)
    K, poses = [share(k, 2, count) for k in (K0, K1)], split_arrays(T, 2)
    check_lengths("pose", {"points0": pairs.points, "K0": K[0], "K1": K[1], "T": poses}, "pair")
    drafts = [
        pairs.draft(i, K=(K[0][i], K[1][i]), T=poses[i], centre=float(centre), dataset=dataset)
        for i in range(count)
    ]
    truths, arrays = pairs.check(drafts, "pose")
    comparison = POSE.comparison(protocol)
    records = [POSE.compare_pair(t, a, chosen, comparison) for t, a in zip(truths, arrays, strict=True)]
    return score_records(POSE, records, protocol, by_scene=scenes is not None)


def homography(
    points0: Any,
    points1: Any,
    H: Any,
    *,
    sizes: Any,
    confidence: Any = None,
    scenes: Any = None,
    protocol: str = "exact",
    **options: Any,
) -> Result:
    """Score the homography that matches of image pairs give, as `keypoints/geometry` does.

    Points are in pixels of the original images, with the centre of the first pixel at (0, 0).

    Args:
        points0: Matched points (n, 2) of image 0; or a list, one array for each image pair.
        points1: Their matches (n, 2) in image 1; or a list.
        H: True homography (3, 3) from image 0 to image 1; or a list.
        sizes: ((width0, height0), (width1, height1)) in pixels, or one for each pair.
        confidence: Confidence (n,) of each match; or a list. The protocols ``loftr`` and ``glue-factory`` use
            it.
        scenes: Scene label of each pair. Six or more scenes give an interval. Labels that begin with ``i_``
            and ``v_`` are strata, as in HPatches.
        protocol: ``exact`` or the protocol of a paper, such as ``loftr`` or ``dkm``.
        **options: Options of the task: ``ransac_px``, ``max_iterations``, ``tau_px``, ``frame`` …

    Returns:
        A `Result` with the metric `homography_auc` up to 3 pixels. ``values`` has more scores, such as `mma`
        (under ``exact``).
    """
    check_protocol("homography", protocol, HOMOGRAPHY_PROTOCOLS)
    GEOMETRY.options.check_protocols("score.homography", options, [protocol])
    chosen = GEOMETRY.options.parse("score.homography", options)
    pairs = _Pairs("homography", points0, points1, confidence, sizes, scenes)
    true = split_arrays(H, 2)
    check_lengths("homography", {"points0": pairs.points, "H": true}, "pair")
    drafts = [pairs.draft(i, truth={"H": h}) for i, h in enumerate(true)]
    truths, arrays = pairs.check(drafts, "homography")
    opened = _OpenArrays(_Sequences(truths), chosen)
    features = Features(lambda name: arrays[int(name.rpartition("-")[2])])
    compare = GEOMETRY.comparisons[GEOMETRY.comparison(protocol)]
    records = [compare(opened, scene, features) for scene in opened.sequences.scenes]
    by_scene = scenes is not None
    return score_records(GEOMETRY, records, protocol, metric="homography_auc", by_scene=by_scene)


def planes(
    points0: Any,
    points1: Any,
    H: Any,
    *,
    sizes: Any,
    landmarks: Any = None,
    scenes: Any = None,
    **options: Any,
) -> Result:
    """Score the homography that matches of image pairs give, as `homography/pairs` does.

    Points are in pixels of the original images, with the centre of the first pixel at (0, 0).

    Args:
        points0: Matched points (n, 2) of image 0; or a list, one array for each image pair.
        points1: Their matches (n, 2) in image 1; or a list.
        H: True homography (3, 3) from image 0 to image 1; or a list.
        sizes: ((width0, height0), (width1, height1)) in pixels, or one for each pair.
        landmarks: Landmarks (m, 4) as x0, y0, x1, y1; or a list.
        scenes: Scene label of each pair. Six or more scenes give an interval.
        **options: Options of the task: ``threshold_px``, ``side_px``, ``seeds``.

    Returns:
        A `Result` with the metric `auc` up to 3 pixels. ``values`` has more scores, such as `mma`,
        `corner_px` and ``auc[tau_px=10]``.
    """
    chosen = PLANES.options.parse("score.planes", options)
    if chosen.turn or chosen.mirror:
        raise InputError(
            "score.planes: `turn` and `mirror` have no effect on arrays; transform the points and H instead"
        )
    pairs = _Pairs("planes", points0, points1, None, sizes, scenes)
    true = split_arrays(H, 2)
    marks = [None] * len(true) if landmarks is None else split_arrays(landmarks, 2)
    check_lengths("planes", {"points0": pairs.points, "H": true, "landmarks": marks}, "pair")
    drafts = [
        pairs.draft(i, truth={"H": h, "landmarks": m})
        for i, (h, m) in enumerate(zip(true, marks, strict=True))
    ]
    truths, arrays = pairs.check(drafts, "homography")
    chosen_truths = PLANES.select_pairs(PairSet(truths, "score.planes"), chosen).truths
    records = [PLANES.compare_pair(t, a, chosen, "exact") for t, a in zip(chosen_truths, arrays, strict=True)]
    return score_records(PLANES, records, "exact", by_scene=scenes is not None)


class _Pairs:
    """Matches of image pairs, split by pair, with sizes and scene labels."""

    def __init__(
        self, function: str, points0: Any, points1: Any, confidence: Any, sizes: Any, scenes: Any
    ) -> None:
        self.function = function
        self.points, self._points1 = split_arrays(points0, 2), split_arrays(points1, 2)
        count = check_lengths(function, {"points0": self.points, "points1": self._points1}, "pair")
        several = isinstance(points0, list | tuple) or count > 1
        sure = (split_arrays(confidence, 1) if several else [confidence]) if confidence is not None else []
        self._confidence = sure or [None] * count
        self._sizes = _pair_sizes(function, sizes, count)
        check_lengths(function, {"points0": self.points, "confidence": self._confidence}, "pair")
        self._scenes = scene_labels(function, scenes, count, "pair")

    def where(self, i: int) -> str:
        """Return the name of a pair in error messages."""
        return "the pair" if len(self.points) == 1 else f"pair {i}"

    def draft(self, i: int, **truth: Any) -> PairDraft:
        """Return a pair with its ground truth, unchecked."""
        size0, size1 = self._sizes[i]
        return PairDraft(self.where(i), (None, None), str(i), self._scenes[i], sizes=(size0, size1), **truth)

    def check(self, drafts: Sequence[PairDraft], needs: str) -> tuple[tuple[PairTruth, ...], list[Arrays]]:
        """Return the checked ground truth and matches of every pair. Report all problems in one error."""
        findings = PairProblems(Path(f"score.{self.function}"))
        truths = assemble_pairs(drafts, findings, needs=needs)
        arrays: list[Arrays] = []
        for i, truth in enumerate(truths):
            parts = self.points[i], self._points1[i], self._confidence[i]
            try:
                arrays.append(match_arrays(parts, truth.pair.sizes(), self.where(i)))
            except InputError as e:
                findings.problems.append(str(e))
        if findings.problems:
            raise ProblemsError(f"score.{self.function}", list(dict.fromkeys(findings.problems)))
        for message in findings.warnings:
            warnings.warn(message, UserWarning, stacklevel=3)
        return truths, arrays


def _pair_sizes(function: str, sizes: Any, count: int) -> list[tuple[Size, Size]]:
    """Return (width, height) of both images of every pair."""
    expected = "((width0, height0), (width1, height1))"
    table = size_table(f"score.{function}: sizes", sizes, (2, 2), count, expected)
    return [((int(a), int(b)), (int(c), int(d))) for (a, b), (c, d) in table.tolist()]


@dataclass(frozen=True)
class _Sequences:
    """Image pairs grouped by scene, with the interface of a folder of image sequences."""

    truths: tuple[PairTruth, ...]

    @property
    def scenes(self) -> tuple[str, ...]:
        """Scenes in the order of their first pair."""
        return tuple(dict.fromkeys(t.pair.scene for t in self.truths))

    def kind(self, scene: str) -> str:
        """Return the kind of a scene: `i`, `v` or `other`."""
        return scene_kind(scene)

    def images(self, scene: str) -> tuple[str, ...]:
        """Return the image names of a scene: the first image, then one image per pair."""
        return (FIRST, *(t.pair.name for t in self.truths if t.pair.scene == scene))

    def homography(self, scene: str, k: str) -> NDArray[np.float64]:
        """Return the true homography of a pair."""
        return np.asarray(self.truths[int(k)].annotations["H"], np.float64)


class _OpenArrays(OpenGeometryPairs):
    """Data of `keypoints/geometry` from arrays. Pairs of a scene may differ in the size of image 0."""

    def __init__(self, sequences: _Sequences, options: Any) -> None:
        super().__init__(GEOMETRY, sequences, options)
        self.sequences: Any = sequences

    def pair_sizes(self, scene: str, k: str) -> tuple[Size, Size]:
        """Return (width, height) of both images of a pair."""
        return self.sequences.truths[int(k)].pair.sizes()
