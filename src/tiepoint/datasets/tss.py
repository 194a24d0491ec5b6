# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs in the layout of the TSS evaluation kit: ``ROOT/SUBSET/PAIR``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.buffers import Workspace
from ..core.errors import FormatError, InputError
from ..core.formatting import found_in
from ..core.hashing import hash_file, hash_json
from ..formats.flow.flo import read_flo, read_flo_size
from ..formats.flow.tss import corr_pixels, read_corr, read_flip, read_pair_names
from ..formats.image.mask import read_mask, read_mask_size
from ..formats.image.reader import read_image
from .image_pairs.pair import ImagePair

TRUTH_FILES = ("flow1.flo", "flow2.flo", "mask1.png", "mask2.png")
_TEXT_FILES = ("flip_gt.txt", "pair.txt")
_MARKS = (*TRUTH_FILES, *_TEXT_FILES, "image1.png", "image2.png", "corr.txt")


@dataclass(frozen=True)
class PairTruth:
    """Ground truth of an image pair: flows float32 (h, w, 2) and raw masks uint8 (h, w)."""

    flow1: NDArray[np.float32]
    flow2: NDArray[np.float32]
    mask1: NDArray[np.uint8]
    mask2: NDArray[np.uint8]


@dataclass(frozen=True)
class TssPair:
    """Image pair in a TSS subset. Its files are read on demand."""

    subset: str
    name: str
    folder: Path

    @property
    def key(self) -> str:
        """Text ``SUBSET/PAIR`` that identifies the pair in the dataset."""
        return f"{self.subset}/{self.name}"

    @cached_property
    def flip(self) -> int:
        """1 if the objects face opposite directions, else 0."""
        return read_flip(self.folder / "flip_gt.txt")

    @cached_property
    def names(self) -> tuple[str, str]:
        """Original file names of the two images, empty if not stated."""
        return read_pair_names(self.folder / "pair.txt")

    def truth(self, space: Workspace | None = None) -> PairTruth:
        """Read the ground-truth flows and masks. If `space` is given, they are read into its arrays."""
        f1, f2, m1, m2 = TRUTH_FILES
        flows = [read_flo(f"{self.folder}/{f}", space=space, name=f"truth {f}") for f in (f1, f2)]
        masks = [read_mask(f"{self.folder}/{m}", space=space, name=f"truth {m}") for m in (m1, m2)]
        return PairTruth(flows[0], flows[1], masks[0], masks[1])

    def images(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Read the two images, RGB uint8."""
        return read_image(self.folder / "image1.png"), read_image(self.folder / "image2.png")

    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return (height, width) of the true flows of both images, from their headers."""
        return read_flo_size(self.folder / "flow1.flo"), read_flo_size(self.folder / "flow2.flo")

    def points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return manually annotated correspondences in pixels of both images, (n, 2) each."""
        corr = read_corr(self.folder / "corr.txt")
        return corr_pixels(corr, *self.sizes())

    def problems(self) -> list[str]:
        """Return messages about missing, unreadable or wrongly sized ground-truth files.

        Only headers are read.
        """
        found = [f"{self.key}: {n} is missing" for n in TRUTH_FILES if not (self.folder / n).exists()]
        if found:
            return found
        try:
            for i in (1, 2):
                flow = read_flo_size(self.folder / f"flow{i}.flo")
                mask = read_mask_size(self.folder / f"mask{i}.png")
                if flow != mask:
                    found.append(
                        f"{self.key}: flow{i}.flo is {flow}, but mask{i}.png is {mask} (height, width)"
                    )
            _ = self.flip, self.names
        except FormatError as e:
            found.append(str(e))
        return found

    def image_pair(self) -> ImagePair:
        """Return the two images without their ground truth."""
        images = (self.folder / "image1.png", self.folder / "image2.png")
        return ImagePair(self.key, self.key, image0=images[0], image1=images[1])

    def image_content(self) -> str:
        """Return a hash of the two image files. A missing file is allowed."""
        files = [self.folder / f"image{i}.png" for i in (1, 2)]
        return hash_json([hash_file(f) if f.exists() else None for f in files])

    def truth_content(self) -> str:
        """Return a hash of the ground truth."""
        return hash_json([*(hash_file(self.folder / n) for n in TRUTH_FILES), self.flip, list(self.names)])


class TssDataset:
    """All image pairs of a TSS folder, sorted by name.

    `root` is the dataset, the folder of the kit (with the dataset in ``Dataset``), or a single subset. A pair
    is any folder with at least one file of the kit.

    Raises:
        InputError: The folder contains no pair.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise InputError(f"{self.root}: {found_in(self.root)}; pass the dataset folder of the TSS kit")
        base = self.root / "Dataset" if (self.root / "Dataset").is_dir() else self.root
        folders = _folders(base)
        pairs = [TssPair(base.resolve().name, p.name, p) for p in folders if _is_pair(p)]
        pairs = pairs or [TssPair(s.name, p.name, p) for s in folders for p in _folders(s) if _is_pair(p)]
        self.pairs: tuple[TssPair, ...] = tuple(pairs)
        if not self.pairs:
            raise InputError(
                f"{self.root} contains no pair: {found_in(self.root)}\n"
                f"  expected: images and {', '.join(TRUTH_FILES)} in SUBSET/PAIR/"
            )

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets, sorted."""
        return tuple(sorted({p.subset for p in self.pairs}))

    def __getitem__(self, key: str) -> TssPair:
        return self._by_key[key]

    @cached_property
    def _by_key(self) -> dict[str, TssPair]:
        return {p.key: p for p in self.pairs}


def _is_pair(folder: Path) -> bool:
    return any((folder / name).exists() for name in _MARKS)


def _folders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
