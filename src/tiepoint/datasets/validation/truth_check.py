# SPDX-License-Identifier: BSD-3-Clause
"""Check whether the ground truth of image pairs is right, by comparing it with matches and images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.formatting import count_text
from ..image_pairs.ground_truth import PairTruth
from ..image_pairs.problems import first_names
from .image_copies import find_image_copies

if TYPE_CHECKING:
    from .match_votes import VoteCounts

NO_OPENCV = (
    "the ground truth was not compared with matches, because OpenCV is not installed; "
    "pip install 'tiepoint[opencv]'"
)
MARGIN = 2
"""Ground truth or inverse counts as right if it has more than this factor times the votes of the other."""
MAX_FITTING = 1 / 3
"""Share of the agreeing matches below which a geometry counts as wrong."""


class TruthReport(NamedTuple):
    """Warnings about ground truth that is probably wrong, and notes about the check."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_ground_truth(
    truths: Sequence[PairTruth],
    step: Callable[[int, int], None] = lambda _done, _total: None,
    *,
    reread: bool = False,
) -> TruthReport:
    """Find copied images, and poses or homographies that contradict the images.

    Matches of `sift` on at most 20 pairs decide whether the ground truth, its inverse, or neither fits.
    `step` is called with the numbers of matched and sampled pairs. With `reread`, cached hashes of files are
    recomputed.
    """
    copies = find_image_copies([truth.pair for truth in truths], reread=reread)
    wrong = _check_geometry(truths, step)
    return TruthReport((*copies.warnings, *wrong.warnings), (*copies.notes, *wrong.notes))


def _check_geometry(truths: Sequence[PairTruth], step: Callable[[int, int], None]) -> TruthReport:
    if find_spec("cv2") is None:
        some = any((t.T_0to1 is not None or "H" in t.annotations) and t.pair.has_images() for t in truths)
        return TruthReport(notes=(NO_OPENCV,) if some else ())
    from .match_votes import MIN_VOTES, VoteCounts, count_votes, has_pose, sample_pairs

    pairs = sample_pairs(truths)
    if not pairs:
        return TruthReport()
    votes = count_votes(pairs, step)
    total, scenes = VoteCounts.pooled(votes), np.array([truth.pair.scene for truth in pairs])
    by_scene = {str(s): VoteCounts.pooled(votes[scenes == s]) for s in dict.fromkeys(scenes.tolist())}
    name = "pose" if any(map(has_pose, pairs)) else "homography"
    warnings = []
    for is_wrong, describe in ((_is_inverted, _inverted), (_is_contradicted, _contradicted)):
        # Scenes with few votes are judged together, others also by themselves.
        fewest = 1 if is_wrong(total, MIN_VOTES) else MIN_VOTES
        wrong = [scene for scene, counts in by_scene.items() if is_wrong(counts, fewest)]
        if wrong:
            pooled = VoteCounts.pooled(votes[np.isin(scenes, wrong)])
            where = f"in {count_text(len(wrong), 'scene')} ({first_names(wrong)})"
            warnings.append(f"{where}, {describe(pooled, name)}")
    if warnings:
        return TruthReport(tuple(warnings))
    if total.given >= MIN_VOTES and total.given > MARGIN * total.inverse:
        used = count_text(int(votes.any(axis=1).sum()), "pair")
        return TruthReport(notes=(f"the ground truth fits matches better than its inverse (sift, {used})",))
    used = count_text(len(pairs), "pair")
    return TruthReport(notes=(f"too few matches to tell whether the ground truth is right (sift, {used})",))


def _is_inverted(votes: VoteCounts, fewest: int) -> bool:
    fits = votes.fitting_inverse >= MAX_FITTING * votes.agreeing
    return fits and votes.inverse >= fewest and votes.inverse > MARGIN * votes.given


def _inverted(votes: VoteCounts, name: str) -> str:
    fit = count_text(votes.inverse, "match fits", "matches fit")
    cause = {
        "pose": "is T_0to1 given as T_1to0? Invert it",
        "homography": "does H map the second image to the first? Invert it",
    }
    return f"{fit} the inverse of the given {name} and {votes.given} the {name} itself; {cause[name]}"


def _is_contradicted(votes: VoteCounts, fewest: int) -> bool:
    fitting = max(votes.fitting, votes.fitting_inverse)
    return votes.agreeing >= fewest and fitting < MAX_FITTING * votes.agreeing


def _contradicted(votes: VoteCounts, name: str) -> str:
    cause = {
        "pose": "are poses camera-to-world, or do their axes differ? Expected is x1 = R x0 + t",
        "homography": "is H given for images of another size, or for other images?",
    }
    return (
        f"{votes.agreeing} matches agree on one geometry and {votes.fitting} of them fit the given {name}; "
        f"{cause[name]}"
    )
