# SPDX-License-Identifier: BSD-3-Clause
"""Check a dataset of image pairs and summarise it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import FormatError, InputError, ProblemsError
from ...core.formatting import count_text
from ...formats.image.reader import read_image
from ..image_pairs.builder import NEEDS, PairDraft, assemble_pairs
from ..image_pairs.ground_truth import PairTruth
from ..image_pairs.pair import ImagePair
from ..image_pairs.planes import plane_facts
from ..image_pairs.problems import PairProblems
from ..image_pairs.reader import detect_layout
from .truth_check import TruthReport, check_ground_truth

MIN_BASELINE, MAX_BASELINE = 0.001, 100.0
"""Range of plausible median baselines in metres."""


class PairsReport(NamedTuple):
    """Report on a dataset of image pairs: title, properties, problems, warnings, notes, and the pairs."""

    title: str
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    truths: tuple[PairTruth, ...] = ()


def check_pairs(
    root: Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> PairsReport | None:
    """Check a dataset of image pairs of any layout. Return None for other data.

    If `deep`, every image is decoded and the ground truth is compared with matches. If any pair has K or T,
    all pairs must have both.
    """
    folder = root if root.is_dir() else root.parent
    findings = PairProblems(root, (folder, folder / "images"))
    try:
        layout, drafts = detect_layout(root, findings)
    except InputError as e:
        return PairsReport(f"{root}: pairs", problems=(str(e),))
    if layout is None:
        return None
    truths = assemble_pairs(drafts, findings, needs=_needs(drafts))
    if deep:
        _decode([truth.pair for truth in truths], findings, progress)
    title, facts = f"{root}: {layout.name}", tuple(_facts(truths) if truths else [])
    try:
        warnings = findings.end()
    except ProblemsError as e:
        return PairsReport(title, facts, e.problems, truths=truths)
    found = check_ground_truth(truths, reread=True) if deep else TruthReport()
    return PairsReport(title, facts, (), (*warnings, *found.warnings), found.notes, truths)


def _needs(drafts: Sequence[PairDraft]) -> str:
    """Return the kind of ground truth that the pairs contain.

    It is the first kind in `NEEDS` of which any pair has a key.
    """
    if any(draft.truth.get("landmarks") is not None for draft in drafts):
        return "plane"
    for needs, keys in NEEDS.items():
        for draft in drafts:
            stated = {"K0": draft.K[0], "K1": draft.K[1], "T_0to1": draft.T, **draft.truth}
            if any(stated.get(key) is not None for key in keys):
                return needs
    return "any"


def _decode(
    pairs: Sequence[ImagePair], findings: PairProblems, progress: Callable[[int, int], None] | None
) -> None:
    """Decode each image once and collect problems."""
    whole = [pair for pair in pairs if not any(pair.members)]
    paths = sorted({p for pair in whole for p in (pair.image0, pair.image1) if p is not None and p.is_file()})
    inner = [partial(pair.image, side) for pair in pairs for side in (0, 1) if pair.members[side]]
    decoders: list[Callable[[], Any]] = [*(partial(read_image, path) for path in paths), *inner]
    for i, decode in enumerate(decoders, start=1):
        try:
            decode()
        except FormatError as e:
            findings.problems.append(str(e))
        if progress is not None:
            progress(i, len(decoders))


def _facts(truths: Sequence[PairTruth]) -> list[str]:
    pairs = [truth.pair for truth in truths]
    images = {
        (path, member)
        for pair in pairs
        for path, member in zip((pair.image0, pair.image1), pair.members, strict=True)
        if path is not None
    }
    present = sum(path.is_file() for path, _ in images)
    scenes = Counter(pair.scene for pair in pairs)
    facts = [
        f"{count_text(len(pairs), 'pair')} of {count_text(len(images), 'image')}, {present} of them present",
        f"{count_text(len(scenes), 'scene')}, {span(scenes.values(), 'pair')} per scene",
    ]
    names = Counter(pair.dataset for pair in pairs if pair.dataset)
    if names:
        facts.append("dataset: " + ", ".join(f"{name} ({n})" for name, n in names.items()))
    directed = {(*pair.image_names(), pair.turns) for pair in pairs if pair.image0 is not None}
    both = sum((b, a, turns[::-1]) in directed for a, b, turns in directed) // 2
    if both:
        facts.append(f"in both directions: {count_text(both, 'pair')}")
    turned = sum(any(pair.turns) for pair in pairs)
    if turned:
        facts.append(f"with rotated images: {count_text(turned, 'pair')}")
    facts += _truth_facts(truths)
    keys = sorted({key for pair in pairs for key in pair.facts})
    if keys:
        facts.append(f"properties for grouping scores: {', '.join(keys)}")
    return facts


def _truth_facts(truths: Sequence[PairTruth]) -> list[str]:
    facts = []
    posed = [truth for truth in truths if truth.T_0to1 is not None and truth.K0 is not None]
    if posed:
        centres = sorted({truth.centre for truth in posed})
        at = " and ".join(f"({c:g}, {c:g})" for c in centres)
        facts.append(f"K and T: {count_text(len(posed), 'pair')}, centre of the first pixel at {at}")
        T = np.stack([truth.T_0to1 for truth in posed if truth.T_0to1 is not None])
        R = T[:, :3, :3]
        off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max()
        angles = np.rad2deg(np.arccos(np.clip((np.trace(R, axis1=1, axis2=2) - 1) / 2, -1, 1)))
        lengths = np.linalg.norm(T[:, :3, 3], axis=1)
        facts.append(
            f"rotations of {angles.min():.3g} to {angles.max():.3g} degrees (orthonormal to {off:.2g}), "
            f"baselines of {lengths.min():.3g} to {lengths.max():.3g}"
        )
        if not MIN_BASELINE <= (middle := float(np.median(lengths))) <= MAX_BASELINE:
            facts.append(
                f"the median baseline is {middle:.3g}; check that the unit is metres (angular scores do "
                "not depend on it)"
            )
    for key, name in (("corrs", "correspondences"), ("points0", "keypoints"), ("landmarks", "landmarks")):
        counts = [len(truth.annotations[key]) for truth in truths if key in truth.annotations]
        if counts:
            facts.append(f"{name}: {count_text(len(counts), 'pair')}, {span(counts)} each")
    planes = sum("H" in truth.annotations for truth in truths)
    if planes:
        facts.append(f"homographies: {count_text(planes, 'pair')}")
    facts += plane_facts(truths)
    return facts


def span(values: Collection[int], word: str = "") -> str:
    """Format the range of several counts with a unit, such as ``3 to 5 images``.

    >>> span([3, 1], "pair"), span([1, 1], "pair"), span([2])
    ('1 to 3 pairs', '1 pair', '2')
    """
    low, high = min(values), max(values)
    unit = f" {word}" + "s" * (high != 1) if word else ""
    return (f"{low} to {high}" if low < high else f"{low}") + unit
