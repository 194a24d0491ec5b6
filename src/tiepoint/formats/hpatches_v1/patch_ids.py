# SPDX-License-Identifier: BSD-3-Clause
"""Identifiers in the 2016 files: images ``SEQ.IM`` and patches ``SEQ.IM.IDX`` with 0-based IDX."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError


@dataclass(frozen=True)
class PatchList:
    """List of patches as integer arrays: patch i is patch ``index[i]`` of image ``images[image[i]]``.

    >>> PatchList(("v_wall.ref",), np.zeros(1, np.int32), np.array([7])).id(0)
    'v_wall.ref.7'
    """

    images: tuple[str, ...]
    image: NDArray[np.int32]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.index)

    def id(self, i: int) -> str:
        """Return the identifier of patch i."""
        return f"{self.images[self.image[i]]}.{self.index[i]}"

    def ids(self) -> list[str]:
        """Return the identifiers of all patches."""
        names = self.images
        return [f"{names[m]}.{k}" for m, k in zip(self.image.tolist(), self.index.tolist(), strict=True)]


def split_image(name: str) -> tuple[str, str]:
    """Split an image identifier ``SEQ.IM`` into sequence name and image name.

    >>> split_image("v_wall.e1")
    ('v_wall', 'e1')
    """
    sequence, dot, image = name.partition(".")
    if not (sequence and dot and image) or "." in image or any(c.isspace() for c in name):
        raise InputError(f"expected an image identifier SEQ.IM, found {name!r}")
    return sequence, image


def sequence_codes(images: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the distinct sequences of the images, and for each image the index of its sequence.

    >>> sequence_codes(["a.ref", "b.ref", "a.e1"])
    (('a', 'b'), array([0, 1, 0], dtype=int32))
    """
    table: dict[str, int] = {}
    codes = [table.setdefault(split_image(name)[0], len(table)) for name in images]
    return tuple(table), np.array(codes, np.int32)


def unknown_image(name: str, counts: Mapping[str, int]) -> str:
    """Return an error message that states whether the sequence or only the image is unknown."""
    sequence, image = split_image(name)
    sequences = sorted({n.partition(".")[0] for n in counts})
    if sequence not in sequences:
        near = difflib.get_close_matches(sequence, sequences, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"the dataset has no sequence {sequence!r}{hint} ({name!r})"
    have = ", ".join(n.partition(".")[2] for n in counts if n.startswith(sequence + "."))
    return f"sequence {sequence!r} has no image {image!r} (it has {have})"


def check_images(
    names: Sequence[str], counts: Mapping[str, int], *, path: str | Path, line_of: Callable[[int], int]
) -> None:
    """Raise a `FormatError` for the first image that is missing in `counts` (patch counts by ``SEQ.IM``)."""
    for i, name in enumerate(names):
        if name not in counts:
            raise FormatError(path, unknown_image(name, counts), line=line_of(i))


def check_patch_ids(
    patches: PatchList, counts: Mapping[str, int], *, path: str | Path, line_of: Callable[[int], int]
) -> None:
    """Raise a `FormatError` for the first patch outside the dataset.

    `counts` has the number of patches of each image ``SEQ.IM``. `line_of` returns the line number of patch i.
    """
    limit = np.array([counts.get(name, 0) for name in patches.images], np.int64)
    bad = np.flatnonzero(patches.index >= limit[patches.image])
    if not bad.size:
        return
    i = int(bad[0])
    name = patches.images[patches.image[i]]
    more = f"; {bad.size - 1} more patches of this file do not exist either" if bad.size > 1 else ""
    if name not in counts:
        raise FormatError(path, unknown_image(name, counts) + more, line=line_of(i))
    n = counts[name]
    reason = f"patch {patches.id(i)!r} does not exist: {name!r} has {n} patches (0 to {n - 1})"
    raise FormatError(path, reason + more, line=line_of(i))


def recode(patches: PatchList, images: Sequence[str]) -> PatchList:
    """Return the patches with image indices that refer to `images`, which must contain all their images."""
    code = {name: i for i, name in enumerate(images)}
    try:
        table = np.array([code[name] for name in patches.images], np.int32)
    except KeyError as e:
        raise InputError(f"image {e.args[0]!r} is not in the list of images") from e
    return PatchList(tuple(images), table[patches.image], patches.index)
