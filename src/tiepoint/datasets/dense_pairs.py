# SPDX-License-Identifier: BSD-3-Clause
"""Find image pairs with ground truth for dense matching: flow, homographies or keypoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError, InputError, ProblemsError
from ..core.formatting import found_in
from ..core.hashing import hash_file, hash_json
from ..formats.flow.reader import SUFFIXES, read_flow
from ..formats.image.mask import read_mask
from ..formats.image.reader import SUFFIXES as IMAGE_SUFFIXES
from ..formats.image.reader import read_image, read_size
from ..formats.keypoints.pf_willow import read_pf_keypoints
from ..geometry.flow.resize import UNKNOWN
from ..geometry.flow.warp import homography_flow, lands_inside
from .image_pairs.ground_truth import PairTruth
from .image_pairs.pair import ImagePair
from .image_sequences import ImageSequences, NoSequencesError
from .tss import TRUTH_FILES, TssDataset

Flow = NDArray[np.float32]
Points = NDArray[np.float64]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class DensePair:
    """Image pair in one direction, with its ground-truth correspondence.

    `direction` is 1 (image 1 is the source, image 2 the target) or 2 (reversed). A method runs once on the
    images of an `item` and returns the flows of both directions. `scene` groups pairs that share images.

    `flow()` returns the ground-truth flow on the source, float32 (h, w, 2), 1e10 if unknown. `points()`
    returns corresponding positions (n, 2) in source and target, NaN for padding. `box()` returns the object's
    box in the target, (x1, y1, x2, y2). Each function is None if the dataset has no such ground truth.
    `homography` is the source of the flow, if it was computed from one.
    """

    item: str
    direction: int
    scene: str
    kind: str
    image1: Path
    image2: Path
    truth_content: str
    flow: Callable[[], Flow] | None = None
    points: Callable[[], tuple[Points, Points]] | None = None
    box: Callable[[], Box] | None = None
    homography: NDArray[np.float64] | None = None

    @property
    def key(self) -> str:
        """Text that identifies item and direction, unique in the dataset."""
        return f"{self.item}:{'1to2' if self.direction == 1 else '2to1'}"

    def images(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Read both images, RGB uint8."""
        return read_image(self.image1), read_image(self.image2)

    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return (height, width) of source and target, read from the image headers."""
        first, second = (read_size(p)[::-1] for p in (self.image1, self.image2))
        return (first, second) if self.direction == 1 else (second, first)

    def truth(self) -> PairTruth:
        """Return the ground truth from image 1 to image 2, with the homography if there is one."""
        pair = ImagePair(self.item, self.scene, image0=self.image1, image1=self.image2)
        return PairTruth(pair, annotations={} if self.homography is None else {"H": self.homography})

    def content(self) -> str:
        """Return a hash of the two images."""
        return hash_json([hash_file(self.image1), hash_file(self.image2)])


def homography_truth(h: NDArray[np.float64], size1: tuple[int, int], size2: tuple[int, int]) -> Flow:
    """Return the flow of a homography. It is 1e10 (unknown) where the target is outside image 2.

    `size1` and `size2` are (h, w) of the images.

    >>> homography_truth(np.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 1]]), (1, 2), (1, 2))[0].tolist()
    [[1.0, 0.0], [10000000000.0, 10000000000.0]]
    """
    flow = homography_flow(h, size1)
    flow[~lands_inside(flow, size2)] = UNKNOWN
    return flow.astype(np.float32)


@dataclass(frozen=True)
class BrokenPair:
    """Image pair that cannot be used, with the reason (a missing or unreadable file)."""

    item: str
    kind: str
    reason: str


def find_pairs(root: str | Path, broken: list[BrokenPair] | None = None) -> list[DensePair]:
    """Find the image pairs in a folder of any supported layout.

    * TSS kit (``SUBSET/PAIR/flow1.flo``): ground-truth flow in both directions, boxes of the masks, and
      keypoints if ``corr.txt`` exists;
    * image sequences with homographies (HPatches, Oxford): pairs from image 1 to each other image of a
      sequence;
    * PF-WILLOW (``CLASS/*.png`` with ``*.mat``): every pair of a class in both directions, with keypoints;
    * flow pairs (``PAIR/image1.*``, ``image2.*``, ``flow.flo|png|npy|npz``): ground-truth flow.

    Pairs with a missing or unreadable file are skipped and appended to `broken`.

    Raises:
        InputError: No pair was found.
    """
    path = Path(root)
    if not path.is_dir():
        raise InputError(f"{path}: {found_in(path)}; pass a folder of image pairs")
    found: list[BrokenPair] = [] if broken is None else broken
    for finder in (_tss, _willow, _flow_folders, _sequences):
        pairs = finder(path, found)
        if pairs:
            return pairs
        if found:
            raise ProblemsError(
                f"{path}: no usable image pair",
                [b.reason for b in found],
            )
    raise InputError(
        f"{path} contains no pairs: {found_in(path)}\n"
        "  expected: SUBSET/PAIR/flow1.flo (TSS), SEQ/H_1_2 (image sequences), CLASS/*.mat (PF-WILLOW), or "
        "folders with image1, image2 and flow"
    )


def _tss(root: Path, broken: list[BrokenPair]) -> list[DensePair]:
    try:
        found = TssDataset(root).pairs
    except InputError:
        return []
    # Folders of flow pairs are found too, but contain no ground-truth file of the kit.
    if not any((p.folder / name).exists() for p in found for name in TRUTH_FILES):
        return []
    out: list[DensePair] = []
    for p in found:
        images = p.folder / "image1.png", p.folder / "image2.png"
        problems = p.problems() + [f"{p.key}: {i.name} is missing" for i in images if not i.exists()]
        if problems:
            broken += [BrokenPair(p.key, p.subset, problem) for problem in problems]
            continue
        corr = p.folder / "corr.txt"
        for d in (1, 2):
            mask = p.folder / f"mask{3 - d}.png"  # mask of the target
            files = [p.folder / f"flow{d}.flo", mask, *([corr] if corr.exists() else [])]
            truth = hash_json([hash_file(f) for f in files])
            points = _directed(p.points, d) if corr.exists() else None
            flow = partial(read_flow, files[0])
            out.append(
                DensePair(p.key, d, p.key, p.subset, *images, truth, flow, points, partial(_mask_box, mask))
            )
    return out


def _mask_box(path: Path) -> Box:
    y, x = np.nonzero(read_mask(path))
    if not len(x):
        raise FormatError(path, "the mask is empty, so the object has no box; choose another `scale`")
    return float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1)


def _directed(
    points: Callable[[], tuple[Points, Points]], direction: int
) -> Callable[[], tuple[Points, Points]]:
    def directed() -> tuple[Points, Points]:
        a, b = points()
        return (a, b) if direction == 1 else (b, a)

    return directed


def _sequences(root: Path, _broken: list[BrokenPair]) -> list[DensePair]:
    try:
        data = ImageSequences(root)
    except NoSequencesError:
        return []
    out = []
    for scene in data.scenes:
        for k in data.images(scene)[1:]:
            h = data.homography(scene, k)
            sizes = [data.size(scene, name)[::-1] for name in ("1", k)]
            paths = data.path(scene, "1"), data.path(scene, k)
            flow = partial(homography_truth, h, *sizes)
            key, kind, truth = f"{scene}/1_{k}", data.kind(scene), hash_json(h.tolist())
            out.append(DensePair(key, 1, scene, kind, *paths, truth, flow, homography=h))
    return out


def _willow(root: Path, _broken: list[BrokenPair]) -> list[DensePair]:
    out: list[DensePair] = []
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))]
    for folder in folders:
        annotated = sorted(p for p in folder.glob("*.mat") if p.with_suffix(".png").exists())
        for a, b in combinations(annotated, 2):
            key, images = f"{folder.name}/{a.stem}-{b.stem}", (a.with_suffix(".png"), b.with_suffix(".png"))
            for d, (source, target) in ((1, (a, b)), (2, (b, a))):
                truth = hash_json([hash_file(source), hash_file(target)])
                points = partial(_read_keypoints, source, target)
                out.append(DensePair(key, d, folder.name, folder.name, *images, truth, None, points))
    return out


def _read_keypoints(a: Path, b: Path) -> tuple[Points, Points]:
    source, target = read_pf_keypoints(a), read_pf_keypoints(b)
    if len(source) != len(target):
        counts = f"this file has {len(target)}, {a.name} has {len(source)}"
        raise FormatError(
            b, f"all files of a class must have equally many keypoints, but {counts}; correct the .mat files"
        )
    return source, target


def _flow_folders(root: Path, broken: list[BrokenPair]) -> list[DensePair]:
    out = []
    for folder in sorted({p.parent for p in root.rglob("flow.*") if p.suffix in SUFFIXES}):
        candidates = [[p for s in IMAGE_SUFFIXES if (p := folder / f"image{i}{s}").exists()] for i in (1, 2)]
        images = [next(iter(paths), None) for paths in candidates]
        flows = sorted(p for p in folder.glob("flow.*") if p.suffix in SUFFIXES)
        key = folder.relative_to(root).as_posix() if folder != root else root.resolve().name
        if images[0] is None or images[1] is None:
            # A folder without any image is not a pair.
            if images != [None, None]:
                lacking = "image1" if images[0] is None else "image2"
                broken.append(BrokenPair(key, "other", f"{key}: {lacking} is missing"))
            continue
        if both := next((paths for paths in (flows, *candidates) if len(paths) > 1), None):
            reason = f"{key}: has {both[0].name} and {both[1].name}; remove one"
            broken.append(BrokenPair(key, "other", reason))
            continue
        flow, truth = partial(read_flow, flows[0]), hash_file(flows[0])
        out.append(DensePair(key, 1, key, "other", images[0], images[1], truth, flow))
    return out
