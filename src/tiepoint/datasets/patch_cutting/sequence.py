# SPDX-License-Identifier: BSD-3-Clause
"""Cut corresponding patches from the images of a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import seeded_generator
from ...formats.image.reader import to_grey
from ...geometry.areas import circle_overlap, ellipse_overlap
from ...geometry.homography import Floats
from ...geometry.patch_sampling import (
    as_frames,
    magnify,
    project_frames,
    sample_patches,
    similarity_frames,
    square_in_view,
)
from ..image_sequences import ImageSequences
from .detection import detect, orientations


@dataclass(frozen=True)
class Jitter:
    """Limits of a random change of region frames.

    Each value is sampled uniformly between -limit and +limit.
    """

    rotation_deg: float
    translation: float
    log_scale: float
    log_stretch: float

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Sample n random changes of frames, (n, 2, 3), relative to the unit circle.

        A change is (B | t) with B = scale R(rotation) R(d) diag(sqrt(stretch), 1 / sqrt(stretch)) R(d)^T and
        a uniform direction d. The stretch preserves the area. The translation t (x, y) is in units of the
        detected radius.
        """
        turn = np.deg2rad(rng.uniform(-self.rotation_deg, self.rotation_deg, n))
        shift = rng.uniform(-self.translation, self.translation, (n, 2))
        scale = np.exp(rng.uniform(-self.log_scale, self.log_scale, n))
        root = np.exp(rng.uniform(-self.log_stretch, self.log_stretch, n) / 2)
        along = _rotation(rng.uniform(0, np.pi, n))
        diagonal = np.zeros((n, 2, 2))
        diagonal[:, 0, 0], diagonal[:, 1, 1] = root, 1 / root
        linear = _rotation(turn) @ along @ diagonal @ along.transpose(0, 2, 1)
        return np.concatenate([scale[:, None, None] * linear, shift[:, :, None]], axis=2)


NOISE = {
    "easy": Jitter(rotation_deg=15, translation=0.13, log_scale=0.10, log_stretch=0.10),
    "hard": Jitter(rotation_deg=30, translation=0.26, log_scale=0.20, log_stretch=0.20),
    "tough": Jitter(rotation_deg=45, translation=0.39, log_scale=0.30, log_stretch=0.30),
}
"""Jitter of the noise levels in equal steps, chosen to agree with published figures.

Translation, scale and stretch determine the median overlap of jittered and detected regions: 0.85, 0.72 (both
published) and 0.61. Rotation does not change the overlap. Its range was chosen so that the matching score of
RootSIFT decreases from easy to hard to tough as in the published results on the same images.
"""


def apply_jitter(frames: Floats, jitter: Floats) -> Floats:
    """Apply each jitter (B | t) to its frame (A | c): (A B | A t + c). All arrays are (n, 2, 3).

    >>> jitter = np.array([[[1.0, 0, 0.5], [0, 1, 0]]])
    >>> apply_jitter(np.array([[[2.0, 0, 5], [0, 2, 5]]]), jitter)[0, 0].tolist()
    [2.0, 0.0, 6.0]
    """
    f, j = as_frames(frames), as_frames(jitter)
    moved = f[:, :, :2] @ j
    moved[:, :, 2] += f[:, :, 2]
    return moved


def _rotation(angle: Floats) -> Floats:
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s], axis=-1), np.stack([s, c], axis=-1)], axis=-2)


@dataclass(frozen=True)
class CutOptions:
    """Options of patch cutting. The defaults are the published recipe."""

    side: int = 65
    magnification: float = 5.0
    max_patches: int = 2000
    cluster_overlap: float = 0.5
    min_deviation: float = 5.0
    seed: int = 0


@dataclass(frozen=True)
class CutPatches:
    """Corresponding patches of one sequence: row k of every strip shows the same location.

    `strips` and `frames` have one entry per image name (ref, e1.., h1.., t1..). `frames` are the detected
    regions before magnification. `overlaps` has, for each noise level, the overlap of every jittered region
    with its detected region. `counts` has the number of detections left after each step.
    """

    strips: dict[str, NDArray[np.uint8]]
    frames: dict[str, Floats]
    overlaps: dict[str, Floats]
    homographies: dict[int, Floats] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def cut_sequence(data: ImageSequences, scene: str, options: CutOptions) -> CutPatches:
    """Cut the patches of one sequence. Random samples depend only on the seed and on sequence and image.

    1. Detect regions (`detect`) in image 1 and compute their orientation (`orientations`). Retain those whose
       magnified region is inside image 1 and, after projection, inside every other image.
    2. Of regions that overlap by more than half, retain a random one (`thin_overlapping`).
    3. For each noise level and image: jitter the region and project it by the affine approximation of the
       homography at its centre. Drop the location if any of its magnified squares leaves its image.
    4. Cut `side` x `side` grey patches of the magnified squares. Drop the location if any patch has a
       standard deviation below `min_deviation` grey levels (population formula).
    5. Retain at most `max_patches` at random, ordered by row, then column of the reference image.
    """
    images = {int(k): to_grey(data.image(scene, k)) for k in data.images(scene)}
    reference = data.size(scene, 1)
    targets = [k for k in images if k != 1]
    frames, counts = _visible_frames(data, scene, images[1], options)

    regions: dict[str, tuple[int, Floats]] = {"ref": (1, frames)}
    overlaps: dict[str, list[Floats]] = {noise: [] for noise in NOISE}
    for noise, jitter in NOISE.items():
        for k in targets:
            rng = seeded_generator(options.seed, "jitter", scene, noise, str(k - 1))
            moved = apply_jitter(frames, jitter.draw(len(frames), rng))
            overlaps[noise].append(ellipse_overlap(frames, moved))
            projected = project_frames(data.homography(scene, k), moved, reference)
            regions[f"{noise[0]}{k - 1}"] = (k, projected)

    inside = np.ones(len(frames), dtype=bool)
    for k, f in regions.values():
        inside &= square_in_view(magnify(f, options.magnification), data.size(scene, k))
    index = np.flatnonzero(inside)
    counts["inside every image, jittered"] = len(index)
    strips = {}
    for name, (k, f) in regions.items():
        patches = sample_patches(images[k], magnify(f[index], options.magnification), options.side)
        strips[name] = np.clip(np.rint(patches), 0, 255).astype(np.uint8)
    clear = np.ones(len(index), dtype=bool)
    for strip in strips.values():
        clear &= strip.std(axis=(1, 2)) >= options.min_deviation
    rows = np.flatnonzero(clear)
    counts["with contrast in every image"] = len(rows)
    if len(rows) > options.max_patches:
        rng = seeded_generator(options.seed, "subset", scene)
        rows = np.sort(rng.choice(rows, options.max_patches, replace=False))
    counts["patches"] = len(rows)
    keep = index[rows]
    return CutPatches(
        strips={name: patches[rows] for name, patches in strips.items()},
        frames={name: f[keep] for name, (_, f) in regions.items()},
        overlaps={noise: np.stack([o[keep] for o in parts]) for noise, parts in overlaps.items()},
        homographies={k - 1: data.homography(scene, k) for k in targets},
        counts=counts,
    )


def _visible_frames(
    data: ImageSequences, scene: str, grey: NDArray[np.uint8], options: CutOptions
) -> tuple[Floats, dict[str, int]]:
    """Detect regions in image 1, and return the frames of those that all images show and that do not overlap.

    Frames are oriented and ordered by row, then column. Also return the number left after each step.
    """
    found = detect(grey)
    counts = {"detected": len(found.points)}
    reference = data.size(scene, 1)
    # Drop discs that leave the image before orientations are computed.
    upright = similarity_frames(found.points, found.sigma)
    possible = square_in_view(magnify(upright, options.magnification), reference)
    points, sigma = found.points[possible], found.sigma[possible]
    frames = similarity_frames(points, sigma, orientations(grey, points, sigma))
    seen = square_in_view(magnify(frames, options.magnification), reference)
    for k in data.images(scene)[1:]:
        projected = project_frames(data.homography(scene, k), frames, reference)
        seen &= square_in_view(magnify(projected, options.magnification), data.size(scene, k))
    frames, sigma = frames[seen], sigma[seen]
    counts["inside every image"] = len(frames)
    rng = seeded_generator(options.seed, "cluster", scene)
    frames = frames[thin_overlapping(frames[:, :, 2], sigma, rng, overlap=options.cluster_overlap)]
    counts["not overlapping"] = len(frames)
    return frames[np.lexsort((frames[:, 0, 2], frames[:, 1, 2]))], counts


def thin_overlapping(
    points: NDArray[np.float64],
    radius: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    overlap: float = 0.5,
) -> NDArray[np.int64]:
    """Select detections such that no two overlap by more than `overlap`. Return ascending indices.

    Detections are visited in random order. Each visited detection is retained, and all others that overlap it
    by more than `overlap` are removed. Overlap is the intersection over union of the discs. A cluster keeps
    one random member, but a long chain of overlapping detections may keep several.

    >>> rng = np.random.default_rng(0)
    >>> len(thin_overlapping(np.array([[0.0, 0], [0, 0], [9, 0]]), np.array([1.0, 1.1, 1]), rng))
    2
    """
    from scipy.spatial import cKDTree

    # If discs overlap by more than t, their radii differ by at most 1/sqrt(t): this bounds the distance.
    reach = radius * (1 + 1 / np.sqrt(overlap))
    tree = cKDTree(points)
    remaining = np.ones(len(points), dtype=bool)
    retained = []
    for i in rng.permutation(len(points)):
        if not remaining[i]:
            continue
        retained.append(i)
        near = np.asarray(tree.query_ball_point(points[i], reach[i]), dtype=np.int64)
        distance = np.linalg.norm(points[near] - points[i], axis=1)
        remaining[near[circle_overlap(distance, radius[i], radius[near]) > overlap]] = False
    return np.sort(np.asarray(retained, dtype=np.int64))
