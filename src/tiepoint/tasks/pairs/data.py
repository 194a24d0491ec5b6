# SPDX-License-Identifier: BSD-3-Clause
"""Data of the tasks on image pairs: items, units, ground truth and matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_json
from ...core.records import Arrays, Features, ImageFacts, Item, Records, Unit
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...datasets.image_pairs.pair import ImagePair
from ...datasets.image_pairs.reader import read_pairs
from ...geometry.homography import project
from ...geometry.two_view.epipolar import fundamental, line_distances
from ...geometry.two_view.estimator import canonical_order
from ...geometry.two_view.linear_estimation import MIN_POINTS_EIGHT_POINT, eight_point
from ...geometry.two_view.pose_errors import has_baseline
from ...methods.source_files import library_versions
from ..base import BaseTask, BaseTaskData
from ..cases import Cases, MatchedPair, pair_cases
from ..options import Names, TaskOptions, Word
from ..unit_values import MeansOfUnits, UnitFacts

Floats = NDArray[np.float64]
LINES = "mean distance to the true epipolar lines of both images"
PLACES = "distance to the true place in image 1"


def match_errors(
    truth: PairTruth, points0: Floats, points1: Floats, confidence: Floats | None = None
) -> MatchedPair:
    """Return the matches of a pair with their errors in pixels under its ground truth.

    With K and T the error is the mean of both distances to the epipolar lines, in pixels of each image. If
    the cameras share their centre, it is the distance to the position that the rotation predicts. With at
    least eight clicked correspondences, it is the epipolar distance under the F that fits the correspondences
    best. With H it is the distance |H x0 - x1|.
    """
    pair = truth.pair
    F, H, measure = _model(truth)
    errors: Floats | None = None
    if F is not None:
        errors = np.asarray(line_distances(points0, points1, F), np.float64)
    elif H is not None:
        width, height = pair.sizes()[0]
        there = project(H, points0, reference=((width - 1) / 2, (height - 1) / 2))
        errors = np.nan_to_num(np.linalg.norm(there - points1, axis=1), nan=np.inf)
    sizes = pair.sizes()
    return MatchedPair(
        pair.name, _image_paths(pair), sizes, points0, points1, errors, measure, F, H, confidence
    )


def transfer_errors(pair: ImagePair, asked: Floats, answers: Floats, true: Floats) -> MatchedPair:
    """Return points `asked` (q, 2) of image 0 and their estimated positions `answers`, with errors in pixels.

    Points without a finite answer are excluded. `measure` states how many.
    """
    known = np.asarray(np.isfinite(answers).all(axis=1), bool)
    missing = int((~known).sum())
    some = f"; {missing} of {len(known)} points have no answer" if missing else ""
    errors = np.linalg.norm(answers[known] - true[known], axis=1)
    images, sizes = _image_paths(pair), pair.sizes()
    return MatchedPair(pair.name, images, sizes, asked[known], answers[known], errors, f"{PLACES}{some}")


def _model(truth: PairTruth) -> tuple[Floats | None, Floats | None, str]:
    """Return the true F or H for integer pixel centres, and a text that names the match error."""
    if truth.K0 is not None and truth.K1 is not None and truth.T_0to1 is not None:
        T = np.asarray(truth.T_0to1, np.float64)
        shift = np.array([[1, 0, truth.centre], [0, 1, truth.centre], [0, 0, 1]])
        if has_baseline(T[:3, 3]):
            return shift.T @ fundamental(truth.K0, truth.K1, T) @ shift, None, LINES
        H = np.linalg.inv(shift) @ truth.K1 @ T[:3, :3] @ np.linalg.inv(truth.K0) @ shift
        return None, np.asarray(H / H[2, 2], np.float64), f"{PLACES}, as the cameras share their centre"
    if "H" in truth.annotations:
        return None, np.asarray(truth.annotations["H"], np.float64), PLACES
    clicked = np.asarray(truth.annotations.get("corrs", np.empty((0, 4))), np.float64)
    if len(clicked) < MIN_POINTS_EIGHT_POINT:
        return None, None, ""
    fitted = f"{LINES}, of an F fitted to {len(clicked)} clicked correspondences"
    return eight_point(clicked[:, :2], clicked[:, 2:]), None, fitted


def _image_paths(pair: ImagePair) -> tuple[NDArray[np.uint8] | None, NDArray[np.uint8] | None]:
    found = [
        pair.image(side) if path is not None and path.is_file() else None
        for side, path in enumerate((pair.image0, pair.image1))
    ]
    return found[0], found[1]


def oracle_features(truth: PairTruth, noise_px: float) -> dict[str, Floats]:
    """Return the true correspondences of a pair, and the true positions of its query points, with noise.

    The noise is Gaussian with a standard deviation of `noise_px` pixels.
    """
    name = truth.pair.name
    table = truth.correspondences()
    if table is None:
        raise InputError(f"oracle: {name} has no true correspondences; choose another dataset")
    seed = int(hash_json(["pairs", "oracle", name])[:32], 16)
    noise = np.random.Generator(np.random.PCG64(seed)).standard_normal((len(table), 2)) * noise_px
    points0, points1 = table[:, :2].astype(np.float64), table[:, 2:] + noise
    queries = truth.queries()
    answers = {} if queries is None or not np.array_equal(queries, points0) else {"answers": points1}
    return {**answers, "points0": points0, "points1": points1}


FLOW_STEP_PX = 8
"""Step in pixels of the grid on which matches are sampled from a flow."""


class PairsOptions(TaskOptions):
    """Options of every task on image pairs."""

    scenes: Names = ()
    """Scenes to use. The default is all scenes."""

    images: Word | None = None
    """Folder that contains the listed images. The default is the folder of the pair list."""


class SeededOptions(PairsOptions):
    """Options of tasks that estimate a two-view model with several seeds under `exact`."""

    threshold_px: Annotated[float, Field(gt=0)] = 1.0
    """Threshold of the estimator under `exact`, in pixels of images whose longer side is `side_px`."""

    side_px: Annotated[float, Field(gt=0)] = 1000.0
    """Length in pixels of the longer side of both images to which `threshold_px` refers."""

    seeds: Annotated[int, Field(ge=1)] = 5
    """Number of seeds with which the estimator runs under `exact`."""


@dataclass(frozen=True)
class PairMatches:
    """Matches of a pair: `points0` and `points1` (n, 2) in original pixels, first pixel's centre at (0, 0).

    `confidence` is (n,) or None. `keypoints` are the numbers of keypoints in both images, None if unknown.
    """

    points0: Floats
    points1: Floats
    confidence: Floats | None = None
    keypoints: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.points0)

    def best(self, budget: int, where: str) -> PairMatches:
        """Return the `budget` matches of highest confidence in their original order.

        If confidences are equal, earlier matches come first.

        >>> m = PairMatches(np.zeros((3, 2)), np.ones((3, 2)), np.array([0.1, 0.9, 0.9]))
        >>> m.best(2, "here").confidence.tolist(), m.best(1, "here").confidence.tolist()
        ([0.9, 0.9], [0.9])
        """
        if self.confidence is None:
            raise InputError(
                f"{where}: a budget selects the matches of highest confidence, but these have none; let "
                "match() return (points0, points1, confidence), or remove the budget"
            )
        kept = np.sort(np.argsort(-self.confidence, kind="stable")[:budget])
        return replace(
            self, points0=self.points0[kept], points1=self.points1[kept], confidence=self.confidence[kept]
        )


def matches_of(arrays: Arrays, where: str) -> PairMatches:
    """Return the matches in a method's arrays. A flow is sampled on a grid of `FLOW_STEP_PX` pixels.

    Unknown flow (not finite, or at least 1e9) gives no match.
    """
    if "flow" in arrays:
        return _of_flow(np.asarray(arrays["flow"]), arrays.get("flow_confidence"))
    if "points0" not in arrays:
        raise InputError(
            f"{where}: expected matches or a flow, found only {', '.join(sorted(arrays))}; return matches "
            "from the method"
        )
    counts = tuple(int(np.asarray(arrays[k])[0]) for k in ("keypoints0", "keypoints1") if k in arrays)
    confidence = arrays.get("confidence")
    return PairMatches(
        np.asarray(arrays["points0"], np.float64),
        np.asarray(arrays["points1"], np.float64),
        None if confidence is None else np.asarray(confidence, np.float64),
        (counts[0], counts[1]) if len(counts) == 2 else None,
    )


def _of_flow(flow: NDArray[Any], confidence: NDArray[Any] | None) -> PairMatches:
    start = FLOW_STEP_PX // 2
    y, x = np.mgrid[start : flow.shape[0] : FLOW_STEP_PX, start : flow.shape[1] : FLOW_STEP_PX]
    moved = flow[y, x].astype(np.float64).reshape(-1, 2)
    points = np.stack([x, y], axis=-1).astype(np.float64).reshape(-1, 2)
    known = (np.isfinite(moved) & (np.abs(moved) < 1e9)).all(axis=1)
    sure = None if confidence is None else np.asarray(confidence, np.float64)[y, x].reshape(-1)[known]
    return PairMatches(points[known], (points + moved)[known], sure)


class FramedMatches(NamedTuple):
    """Matches (n, 2), (n, 2) in resized pixels, and the transforms (3, 3) from original to resized pixels."""

    points0: Floats
    points1: Floats
    scale0: Floats
    scale1: Floats


def matches_in_frame(pair: ImagePair, matches: PairMatches, side_px: float) -> FramedMatches:
    """Return the matches in canonical order, in pixels of images whose longer side is `side_px`."""
    order = canonical_order(matches.points0, matches.points1)
    scales = [side_px / max(size) for size in pair.sizes()]
    x0, x1 = matches.points0[order] * scales[0], matches.points1[order] * scales[1]
    return FramedMatches(x0, x1, *(np.diag([s, s, 1.0]) for s in scales))


class OpenPairs(BaseTaskData):
    """Data of a task on image pairs. Each pair is one item and one unit."""

    def __init__(self, task: PairsTask, data: PairSet, options: Any) -> None:
        self.task, self.options, self.what = task, options, data.what
        scenes = sorted({p.scene for p in data.pairs})
        for scene in options.scenes:
            if scene not in scenes:
                raise UnknownNameError("scene", scene, scenes)
        self.data = data.select(lambda p: p.scene in options.scenes) if options.scenes else data
        self.pairs = {p.name: p for p in self.data.pairs}
        if not self.pairs:
            raise InputError(
                f"{task.name}: {data.what} has no pair that can be used; choose other data or options"
            )
        self.warnings = (*data.warnings, *task.data_warnings(self))

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per pair. It has the names and sizes of both images, because match files refer to them."""
        return tuple(self.item(self.truth(name)) for name in self.pairs)

    def item(self, truth: PairTruth) -> Item:
        """Return the method input of a pair."""
        pair = truth.pair
        content = pair.content(truth.queries())
        return Item(pair.name, content, images=_images(pair), truth_hash=truth.definition())

    def truth(self, item: str) -> PairTruth:
        """Return the ground truth of an item."""
        return self.data.truth(item)

    def pair_truths(self) -> Sequence[PairTruth]:
        """Return all pairs with their ground truth."""
        return self.data.truths

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per pair."""
        chosen = self.options.model_dump(
            mode="json", exclude={"scenes", "images", *self.task.scoring_options}
        )
        same = [self.task.name, chosen, library_versions(self.task.libraries)]
        return tuple(
            Unit(
                name,
                (name,),
                hash_json([*same, name, pair.scene, dict(pair.facts), self.truth(name).definition()]),
            )
            for name, pair in self.pairs.items()
        )

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images and all ground truth."""
        truths = [self.truth(name) for name in self.pairs]
        return hash_json([[t.pair.name, t.pair.content(t.queries()), t.definition()] for t in truths])

    def read_item(self, key: str) -> Any:
        """Read both images of a pair, and its query points if it has any."""
        truth = self.truth(key)
        return truth.pair.payload(truth.queries())

    def oracle_features(self, item: Item, noise_px: float) -> Arrays:
        """Return the true correspondences of an item with Gaussian noise of `noise_px` pixels."""
        return oracle_features(self.truth(item.key), noise_px)

    def drawable_pairs(self) -> tuple[str, ...]:
        """Return the names of all pairs."""
        return tuple(self.pairs)

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the matches of a pair and their errors under its ground truth."""
        found = matches_of(features.arrays(name), name)
        return match_errors(self.truth(name), found.points0, found.points1, found.confidence)

    def case_pair(self, scene: str, key: str) -> str | None:
        """Return the key of a case unchanged, because every case is a pair."""
        return key if key in self.pairs else None

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one pair."""
        truth, arrays = self.truth(unit.key), features.arrays(unit.items[0])
        return self.task.compare_pair(truth, arrays, self.options, comparison)


def _images(pair: ImagePair) -> tuple[ImageFacts, ...]:
    return tuple(
        ImageFacts(name or f"{pair.name}/{side}", size)
        for side, (name, size) in enumerate(zip(pair.image_names(), pair.sizes(), strict=True))
    )


class PairsTask(MeansOfUnits, BaseTask):
    """Base class of the tasks on image pairs. `needs` names the ground truth that a pair must have."""

    family = "pairs"
    needs: ClassVar[str]
    options: type[PairsOptions] = PairsOptions
    opened: ClassVar[type[OpenPairs]] = OpenPairs
    libraries: ClassVar[tuple[str, ...]] = ()
    """Libraries whose versions affect the records."""
    scoring_options: ClassVar[frozenset[str]] = frozenset()
    """Options that affect only the scores, so that records are shared."""

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenPairs:
        """Open a file or folder of pairs. Report all problems in one error."""
        chosen = self.options.parse(self.name, options)
        found = read_pairs(Path(data), needs=self.needs, images=chosen.images)
        return self.opened(self, self.select_pairs(found, chosen), chosen)

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """Return the pairs that the options select: by default, all pairs."""
        return data

    def data_warnings(self, opened: OpenPairs) -> Sequence[str]:
        """Return warnings about the data under these options."""
        return ()

    def unit_facts(self, opened: OpenPairs) -> Mapping[str, UnitFacts]:
        """Return scene, dataset and images of every pair."""
        return {
            name: UnitFacts(
                p.scene, p.dataset or "other", 1.0, (p.image_names()[0] or name, p.image_names()[1])
            )
            for name, p in opened.pairs.items()
        }

    def facts_of(self, record: Records) -> UnitFacts:
        """Return scene, dataset and images of a pair from its records."""
        meta = record.meta
        images = meta.get("images", (meta["pair"], ""))
        return UnitFacts(str(meta["scene"]), str(meta["dataset"]) or "other", 1.0, (images[0], images[1]))

    def pair_accuracy(self, records: Sequence[Records]) -> Iterable[tuple[str, float]]:
        """Return the accuracy of each pair."""
        raise NotImplementedError

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the pairs of a scene, scored by `pair_accuracy`."""
        own = [r for r in records if r.meta["scene"] == scene]
        shares = list(self.pair_accuracy(own)) if own else []
        return pair_cases(shares) if shares else None

    def match_count(self, records: Sequence[Records], scene: str, key: str) -> int | None:
        """Return the number of matches of the pair `key`. None if its records do not contain the number."""
        return next((r.meta.get("matches") for r in records if r.meta["pair"] == key), None)

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the result records of one pair from the features of a method."""
        raise NotImplementedError
