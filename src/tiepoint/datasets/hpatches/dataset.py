# SPDX-License-Identifier: BSD-3-Clause
"""Patch datasets in the HPatches layout ``ROOT/SEQ/IM.png``, or without images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from ...core.formatting import path_part
from ...core.hashing import cached_file_hash, hash_file, hash_files, hash_json
from ...core.processes import cores
from ...core.records import Item
from ...core.scores import scene_kind
from ...formats.file_io import refuse_incomplete
from ...formats.hpatches.patch_pack import SUFFIX, PatchPack, open_pack
from ...formats.hpatches.patch_strip import read_strip
from ...formats.json_yaml import read_json
from .layout import NOISES, STANDARD_IMAGES, image_order, scan_folder
from .pack import find_pack

LENGTHS_FILE = "lengths.json"
MAX_STRIP_PATCHES = 10_000_000
"""Maximum number of patches per sequence in a lengths file."""


class HPatchesDataset:
    """Dataset of patch images, read on demand.

    Opening it reads the headers of all patch strips and reports all problems together. `root` is one of

    * a folder of sequences;
    * a JSON file with the number of patches per sequence (``{"v_wall": 1779, …}``), or a folder with this
      file as ``lengths.json``. Such a dataset has no pixels, but can score descriptors that were computed
      elsewhere. If the number of a sequence is an interval (``[1538, 1539]``), the sequence is skipped, and a
      split that needs it raises an error (see `open_lengths`);
    * a pack file (see `pack_dataset`). A pack inside the folder of sequences is used if the strips have not
      changed since packing. Results are the same with and without a pack.

    >>> data = HPatchesDataset.from_lengths({"i_a": 3, "v_b": 2}, images=["ref", "e1"])
    >>> data.sequences, data.count("v_b"), data.kind("i_a"), data.images("i_a"), data.has_patches
    (('i_a', 'v_b'), 2, 'i', ('ref', 'e1'), False)
    >>> data.counts["v_b.e1"]
    2
    """

    def __init__(self, root: str | Path, *, packed: bool = True) -> None:
        path = Path(root).expanduser()
        refuse_incomplete(path)
        self._pack: PatchPack | None = None
        lengths = path / LENGTHS_FILE if path.is_dir() else path
        has_strips = path.is_dir() and any(path.glob("*/*.png"))
        self.root: Path | None = path
        self.warnings: tuple[str, ...] = ()
        self.open_lengths: Mapping[str, tuple[int, int]] = {}
        if packed and self._use_pack(path):
            return
        if not has_strips and lengths.suffix == ".json" and lengths.is_file():
            counts, self.open_lengths, images = _read_lengths(lengths)
            self._set_lengths(counts, images)
            return
        layout = scan_folder(path)
        if layout.problems:
            raise ProblemsError(f"dataset {path}", layout.problems)
        self.has_patches = True
        self.side: int | None = layout.side
        self._images = {s: tuple(strips) for s, strips in layout.strips.items()}
        self.lengths: Mapping[str, int] = {s: strips["ref"].count for s, strips in layout.strips.items()}

    def _use_pack(self, path: Path) -> bool:
        """Open the pack file at `path` and read the dataset's sequences and images from it.

        Return whether a usable pack exists.
        """
        if path.is_file() and path.suffix == SUFFIX:
            self._pack = open_pack(path)
        elif path.is_dir():
            self._pack, notice = find_pack(path)
            self.warnings = () if notice is None else (notice,)
        if self._pack is None:
            return False
        images: dict[str, list[str]] = {}
        for strip in sorted(self._pack.strips.values(), key=lambda s: (s.sequence, image_order(s.image))):
            images.setdefault(strip.sequence, []).append(strip.image)
        self.has_patches, self.side = True, self._pack.side
        self._images = {s: tuple(names) for s, names in images.items()}
        self.lengths = {s: self._pack.strips[f"{s}/ref"].count for s in images}
        return True

    @property
    def pack(self) -> PatchPack | None:
        """Pack file that provides the pixels. None if pixels are read from strips."""
        return self._pack

    @classmethod
    def from_lengths(
        cls,
        lengths: Mapping[str, int],
        images: Iterable[str] = STANDARD_IMAGES,
        unsure: Mapping[str, tuple[int, int]] | None = None,
    ) -> HPatchesDataset:
        """Create a dataset without pixels from the number of patches of each sequence.

        `unsure` has an interval for each sequence whose number of patches is not known exactly.
        """
        self = cls.__new__(cls)
        self.root = None
        self._pack = None
        self.warnings = ()
        self.open_lengths = dict(unsure or {})
        self._set_lengths(dict(lengths), tuple(images))
        return self

    def _set_lengths(self, lengths: dict[str, int], images: tuple[str, ...]) -> None:
        self.has_patches = False
        self.side = None
        self.lengths = dict(sorted(lengths.items()))
        self._images = dict.fromkeys(self.lengths, tuple(sorted(images, key=image_order)))

    @property
    def sequences(self) -> tuple[str, ...]:
        """Names of the sequences, sorted."""
        return tuple(self.lengths)

    def images(self, sequence: str) -> tuple[str, ...]:
        """Return the image names of a sequence: ref first, then easy, hard, tough."""
        return self._images[self._known(sequence)]

    def count(self, sequence: str) -> int:
        """Return the number of patches of every image of a sequence."""
        return self.lengths[self._known(sequence)]

    def kind(self, sequence: str) -> str:
        """Return the kind of a sequence: `i` illumination, `v` viewpoint, or `other`."""
        return scene_kind(sequence)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of patches of every image, by identifier ``SEQ.IM``."""
        return {f"{s}.{m}": self.lengths[s] for s in self.sequences for m in self._images[s]}

    @property
    def noises(self) -> tuple[str, ...]:
        """Noise levels (easy, hard, tough) that all sequences have."""
        return tuple(
            n for n, z in NOISES.items() if all(f"{z}1" in images for images in self._images.values())
        )

    def patches(self, sequence: str, image: str) -> NDArray[np.uint8]:
        """Read the patches of an image, uint8 (n, side, side)."""
        if not self.has_patches:
            name = self.root or "this dataset"
            raise InputError(
                f"{name}: the dataset has numbers of patches but no pixels; pass descriptors as files:DIR"
            )
        if self._pack is not None:
            self._known(sequence, image)
            return self._pack.read(f"{sequence}/{image}")
        return read_strip(self.path(sequence, image))

    def path(self, sequence: str, image: str) -> Path:
        """Return the path of a patch strip."""
        if self.root is None:
            raise InputError(
                "the dataset has numbers of patches but no images; open a folder of patch strips"
            )
        if self.root.is_file():
            raise InputError(f"{self.root} is a pack file without strip files; open the folder of strips")
        self._known(sequence, image)
        return self.root / sequence / f"{image}.png"

    def item(self, sequence: str, image: str | None = None) -> Item:
        """Return the item of an image, given (sequence, image) or the key ``SEQ/IM``."""
        sequence, image = self._split(sequence, image)
        key, n = f"{sequence}/{image}", self.count(sequence)
        self._known(sequence, image)
        if self._pack is not None:
            return Item(key, self._pack.strips[key].content, n)
        if self.has_patches:
            return Item(key, hash_file(f"{self.root}/{key}.png"), n)
        return Item(key, hash_json(["no patches", sequence, image, n]), n)

    def items(self, keys: Iterable[str]) -> list[Item]:
        """Return the items of images with the given keys ``SEQ/IM``.

        Strips without a cached hash are hashed in several threads.
        """
        names = list(keys)
        if not self.has_patches or self._pack is not None:
            return [self.item(key) for key in names]
        known = {key: cached_file_hash(f"{self.root}/{key}.png") for key in names}
        hash_files([f"{self.root}/{key}.png" for key, content in known.items() if content is None], cores())
        counts = {key: self.count(self._split(key, None)[0]) for key in names}
        return [self.item(key) if (c := known[key]) is None else Item(key, c, counts[key]) for key in names]

    def read(self, key: str) -> NDArray[np.uint8]:
        """Read the patches of an image by its key ``SEQ/IM``."""
        return self.patches(*self._split(key, None))

    def missing(self, sequences: Iterable[str], images: Iterable[str] = ()) -> list[str]:
        """Return a message for each requested sequence or image that the dataset does not have."""
        names = tuple(images)
        problems = []
        for sequence in sequences:
            if sequence in self.open_lengths:
                low, high = self.open_lengths[sequence]
                problems.append(
                    f"the number of patches of {sequence!r} is not known exactly ({low} to {high}); "
                    "state one number in the lengths file"
                )
            elif sequence not in self.lengths:
                error = UnknownNameError("sequence", sequence, self.sequences)
                problems.append(str(error).split(" Known:")[0])
            elif lack := [m for m in names if m not in self._images[sequence]]:
                problems.append(f"sequence {sequence!r} has no image {', '.join(lack)}")
        return problems

    def _known(self, sequence: str, image: str | None = None) -> str:
        if sequence not in self.lengths:
            raise UnknownNameError("sequence", sequence, self.sequences)
        if image is not None and image not in self._images[sequence]:
            raise UnknownNameError(f"image of {sequence}", image, self._images[sequence])
        return sequence

    @staticmethod
    def _split(sequence: str, image: str | None) -> tuple[str, str]:
        if image is None:
            sequence, _, image = sequence.rpartition("/")
        return sequence, image


def _read_lengths(path: Path) -> tuple[dict[str, int], dict[str, tuple[int, int]], tuple[str, ...]]:
    """Read a lengths file. Return exact numbers of patches, intervals, and image names.

    The file is a JSON object with the numbers by sequence, or an object with the keys `lengths` and `images`.
    """
    raw = read_json(path)
    images: Any = STANDARD_IMAGES
    if isinstance(raw, dict) and "lengths" in raw:
        unknown = sorted(set(raw) - {"lengths", "images"})
        if unknown:
            raise FormatError(path, f"unknown key {unknown[0]!r}; use lengths and images")
        images = raw.get("images", STANDARD_IMAGES)
        raw = raw["lengths"]
    if not isinstance(raw, dict) or not raw:
        raise FormatError(path, "expected a JSON object that maps sequences to numbers of patches")
    problems = []
    lengths: dict[str, int] = {}
    unsure: dict[str, tuple[int, int]] = {}
    for name, value in raw.items():
        problems += _name_problems(name, "the sequence")
        ends = value if isinstance(value, list) else [value]
        if len(ends) not in (1, 2) or not all(_is_count(n) for n in ends) or ends[0] > ends[-1]:
            expected = "expected a number of patches (or the lowest and highest)"
            problems.append(f"{name}: {expected}, found {value!r}")
        elif ends[0] == ends[-1]:
            lengths[name] = ends[0]
        else:
            unsure[name] = (ends[0], ends[1])
    if not isinstance(images, list | tuple) or not images or not all(isinstance(m, str) for m in images):
        problems.append("images must be a list of names such as ['ref', 'e1']")
    else:
        problems += [p for name in dict.fromkeys(images) for p in _name_problems(name, "the image")]
        problems += [f"duplicate image {name!r}" for name, count in Counter(images).items() if count > 1]
    if not lengths and not problems:
        problems.append("every number of patches is an interval; state one number per sequence")
    if problems:
        raise ProblemsError(f"dataset {path}", problems)
    return lengths, unsure, tuple(images)


def _name_problems(name: str, subject: str) -> list[str]:
    """Return the reasons why a sequence or image name cannot be part of a file name or of ``SEQ.IM``."""
    try:
        path_part(name, subject)
    except InputError as e:
        return [str(e)]
    return [f"{subject} {name!r}: a name must not have a dot"] if "." in name else []


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MAX_STRIP_PATCHES
