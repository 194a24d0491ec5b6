# SPDX-License-Identifier: BSD-3-Clause
"""Count the matches that fit the ground truth of image pairs, its inverse, or another geometry.

A match votes for the ground truth if it fits the ground truth but not the inverse, and for the inverse if it
fits only the inverse. Matches that fit both, as with an unmoved camera, do not vote. Matches agree on one
geometry if a robust estimate fits at least half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.array_cache import cached_arrays
from ...core.errors import FormatError
from ...core.records import ImageFacts, Item
from ...geometry.two_view.epipolar import in_front, normalise_points, pixel_distances
from ...geometry.two_view.estimator import Estimator
from ...geometry.two_view.linear_estimation import HomographyEstimator, estimate_homography
from ...geometry.two_view.pose_errors import has_baseline
from ...geometry.two_view.pose_estimation import estimate_fundamental
from ...methods.base import Method
from ...methods.resolve import resolve
from ...methods.source_files import library_versions
from ..image_pairs.ground_truth import PairTruth
from ..image_pairs.pair import Matrix, PairPayload
from ..image_pairs.principal_point import doubt_principal_point
from .image_copies import is_identical

Image = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Votes = NDArray[np.int64]
"""Numbers of matches of n pairs, (n, 5), with the columns of `VoteCounts`."""
MAX_PAIRS, MAX_DETAILED = 20, 4
"""Maximum number of pairs that are matched at first, and again with more detail."""
MIN_VOTES, MIN_PAIRS = 30, 5
"""Minimum number of voting matches for a conclusion, and of pairs that are always matched."""
SIDE_PX, DETAILED_SIDE_PX = 640, 1600
"""Longer image side for matching at first, and with more detail, in pixels."""
FIT_PX = 3.0
"""Maximum error of a match that fits a geometry, in pixels of the reduced image."""
_EPIPOLAR = Estimator("opencv-f", FIT_PX, 0.99, 1000)
_PLANE = HomographyEstimator("opencv", FIT_PX)
_SPEC = "sift?max_features={}&matcher=mnn&ratio=0.9+rootsift"
_FEATURES, _DETAILED_FEATURES = 2000, 4000
_REVISION = 1
_Step = Callable[[int, int], None]
_Found = tuple[Matrix, Matrix, tuple[float, float]]
"""Matched points (n, 2) of both images in original pixels, and the scales of the reduced images."""


class VoteCounts(NamedTuple):
    """Numbers of matches of one or several pairs.

    `given` fit only the ground truth, `inverse` only its inverse. `agreeing` agree on one geometry. Of these,
    `fitting` also fit the ground truth and `fitting_inverse` its inverse.
    """

    given: int = 0
    inverse: int = 0
    agreeing: int = 0
    fitting: int = 0
    fitting_inverse: int = 0

    @classmethod
    def pooled(cls, votes: Votes) -> VoteCounts:
        """Add the votes (n, 5) of several pairs."""
        return cls(*(int(n) for n in votes.sum(axis=0)))


def sample_pairs(truths: Sequence[PairTruth]) -> list[PairTruth]:
    """Return up to `MAX_PAIRS` pairs whose pose or homography can be compared with matches.

    They are spread over the scenes: first one pair of each scene, then a second one. Pairs with a wrong
    principal point or identical images are excluded.
    """
    scenes: dict[str, list[PairTruth]] = {}
    for truth in truths:
        if has_pose(truth) or "H" in truth.annotations:
            scenes.setdefault(truth.pair.scene, []).append(truth)
    if len(scenes) > MAX_PAIRS:
        names = list(scenes)
        scenes = {names[i]: scenes[names[i]] for i in np.linspace(0, len(names) - 1, MAX_PAIRS).astype(int)}
    turns = chain.from_iterable(zip_longest(*scenes.values()))
    return list(islice((truth for truth in turns if truth is not None and _is_usable(truth)), MAX_PAIRS))


def has_pose(truth: PairTruth) -> bool:
    """Return whether a pair has cameras with different centres."""
    T = truth.T_0to1
    return truth.K0 is not None and truth.K1 is not None and T is not None and bool(has_baseline(T[:3, 3]))


def _is_usable(truth: PairTruth) -> bool:
    if not truth.pair.has_images() or is_identical(truth.pair):
        return False
    if not has_pose(truth):
        return True
    cameras = zip((truth.K0, truth.K1), truth.pair.sizes(), strict=True)
    return all(K is not None and doubt_principal_point(K, size) is None for K, size in cameras)


def count_votes(pairs: Sequence[PairTruth], step: _Step = lambda _done, _total: None) -> Votes:
    """Count the matches of each pair by the geometry that they fit; see `VoteCounts`.

    The result is cached in the open store, keyed by content. If no kind of vote reaches `MIN_VOTES` in all
    pairs together, the first `MAX_DETAILED` pairs are matched again with more detail: for poses on larger
    images, for homographies after aligning the images.
    """
    contents = [[truth.pair.scene, truth.pair.content(), truth.definition()] for truth in pairs]
    key = [_REVISION, contents, library_versions(("cv2",))]
    return np.asarray(cached_arrays("truth-votes", key, lambda: {"votes": _count(pairs, step)})["votes"])


def _count(pairs: Sequence[PairTruth], step: _Step) -> Votes:
    votes = _count_with(_plain, pairs, step)
    if votes.sum(axis=0).max() < MIN_VOTES:
        detailed = _count_with(_detailed, pairs[:MAX_DETAILED], step)
        if detailed[:, :2].sum(axis=0).max() > votes[:, :2].sum(axis=0).max():
            votes[:] = 0
            votes[: len(detailed)] = detailed
    return votes


def _count_with(
    find: Callable[[PairTruth], Iterator[_Found]], pairs: Sequence[PairTruth], step: _Step
) -> Votes:
    """Count the matches of each pair that fit the truth or one of its wrong forms.

    After `MIN_PAIRS` pairs, skip pairs of scenes that have `MIN_VOTES`.
    """
    votes = np.zeros((len(pairs), len(VoteCounts._fields)), np.int64)
    scenes: dict[str, Votes] = {}
    for i, truth in enumerate(pairs):
        step(i, len(pairs))
        known = scenes.setdefault(truth.pair.scene, np.zeros(len(VoteCounts._fields), np.int64))
        if i < MIN_PAIRS or known[:2].max() < MIN_VOTES:
            votes[i] = _pair_votes(find, truth)
            known += votes[i]
    step(len(pairs), len(pairs))
    return votes


def _pair_votes(find: Callable[[PairTruth], Iterator[_Found]], truth: PairTruth) -> Votes:
    try:
        return np.sum([_vote(truth, *found) for found in find(truth)], axis=0)
    except FormatError:  # an unreadable image is a problem that the other checks report
        return np.zeros(len(VoteCounts._fields), np.int64)


def _vote(truth: PairTruth, points0: Matrix, points1: Matrix, scales: tuple[float, float]) -> Votes:
    """Count the matches of one pair by the geometry that they fit.

    `scales` are the sizes of the reduced images relative to the originals.
    """
    fit0, fit1 = (FIT_PX / scale for scale in scales)
    small0, small1 = points0 * scales[0], points1 * scales[1]
    if has_pose(truth):
        assert truth.T_0to1 is not None
        inverse = np.asarray(np.linalg.inv(truth.T_0to1), np.float64)
        fit_px = (fit0 + fit1) / 2
        near, given = _fits_pose(truth, truth.T_0to1, points0, points1, fit_px)
        near_inverse, back = _fits_pose(truth, inverse, points0, points1, fit_px)
        agree = estimate_fundamental(_EPIPOLAR, small0, small1).inlier_mask
    else:
        H = truth.annotations["H"]
        near = given = _distances(H, points0, points1) < fit1
        near_inverse = back = _distances(H, points1, points0) < fit0
        agree = _distances(estimate_homography(_PLANE, small0, small1).H, small0, small1) < FIT_PX
    if agree.sum() < max(MIN_VOTES, len(agree) / 2):
        agree = np.zeros(len(agree), bool)
    counted = (given & ~back, back & ~given, agree, agree & near, agree & near_inverse)
    return np.array([matches.sum() for matches in counted], np.int64)


def _fits_pose(
    truth: PairTruth, T: Matrix, points0: Matrix, points1: Matrix, fit_px: float
) -> tuple[Bools, Bools]:
    """Return masks of matches near their epipolar lines, and of those also in front of both cameras."""
    assert truth.K0 is not None
    assert truth.K1 is not None
    a, b = points0 + truth.centre, points1 + truth.centre
    u0, u1 = normalise_points(a, truth.K0, skew=True), normalise_points(b, truth.K1, skew=True)
    near = np.asarray(pixel_distances(a, b, truth.K0, truth.K1, T) < fit_px, bool)
    return near, near & in_front(u0, u1, T, min_sine=fit_px / float(truth.K0[0, 0]))


def _distances(H: Matrix, source: Matrix, target: Matrix) -> Matrix:
    return np.nan_to_num(np.linalg.norm(_mapped(H, source) - target, axis=1), nan=np.inf)


def _mapped(H: Matrix, points: Matrix) -> Matrix:
    """Map points (n, 2) by a homography. Points behind the camera are mapped as well."""
    there = np.column_stack([points, np.ones(len(points))]) @ H.T
    with np.errstate(all="ignore"):
        return np.asarray(there[:, :2] / there[:, 2:], np.float64)


def _plain(truth: PairTruth) -> Iterator[_Found]:
    """Yield the matches of a pair's reduced images."""
    yield _matched(truth, SIDE_PX, _FEATURES)


def _detailed(truth: PairTruth) -> Iterator[_Found]:
    """Yield the matches of a pair's larger images, or of images aligned by H and by its inverse."""
    if has_pose(truth):
        yield _matched(truth, DETAILED_SIDE_PX, _DETAILED_FEATURES)
        return
    import cv2

    (image0, scale0), (image1, scale1) = _reduced_images(truth, SIDE_PX)
    for H in (truth.annotations["H"], np.linalg.inv(truth.annotations["H"])):
        align = np.diag([scale1, scale1, 1]) @ H @ np.diag([1 / scale0, 1 / scale0, 1])
        aligned = cv2.warpPerspective(image0, align, image1.shape[1::-1])
        points0, points1 = _sift_matches(truth, aligned, image1, _FEATURES)
        unaligned = _mapped(np.linalg.inv(align), points0)
        known = np.isfinite(unaligned).all(axis=1)
        yield _original(unaligned[known], scale0), _original(points1[known], scale1), (scale0, scale1)


def _matched(truth: PairTruth, side_px: int, features: int) -> _Found:
    (image0, scale0), (image1, scale1) = _reduced_images(truth, side_px)
    points0, points1 = _sift_matches(truth, image0, image1, features)
    return _original(points0, scale0), _original(points1, scale1), (scale0, scale1)


def _original(points: Matrix, scale: float) -> Matrix:
    """Return points of a reduced image in pixels of the original image."""
    return np.asarray((points + 0.5) / scale - 0.5, np.float64)


def _reduced_images(truth: PairTruth, side_px: int) -> list[tuple[Image, float]]:
    """Read both images of a pair and downsize them. Return each with its scale."""
    import cv2

    found = []
    for image in truth.pair.payload()[:2]:
        height, width = image.shape[:2]
        scale = min(1.0, side_px / max(height, width))
        if scale < 1:
            size = round(width * scale), round(height * scale)
            image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
        found.append((image, scale))
    return found


def _sift_matches(truth: PairTruth, image0: Image, image1: Image, features: int) -> tuple[Matrix, Matrix]:
    method: Method = resolve(_SPEC.format(features), family="pairs", on_bad="miss")
    names = [ImageFacts(str(path)) for path in (truth.pair.image0, truth.pair.image1)]
    item = Item(truth.pair.name, "", images=tuple(names))
    arrays = method.extract(item, PairPayload(image0, image1))
    return np.asarray(arrays["points0"], np.float64), np.asarray(arrays["points1"], np.float64)
