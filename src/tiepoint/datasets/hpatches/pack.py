# SPDX-License-Identifier: BSD-3-Clause
"""Packing a patch dataset once, and finding its pack again; a pack of strips that changed is not used."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.formatting import count_text
from ...core.hashing import hash_bytes, hash_file, hash_json
from ...core.processes import cores
from ...formats.file_io import read_bytes
from ...formats.hpatches.patch_pack import SUFFIX, PackedStrip, PatchPack, open_pack, write_pack
from ...formats.hpatches.patch_strip import decode_strip

PACK = f"patches{SUFFIX}"
"""Name of the pack in the folder of its dataset."""
CACHE = "TIEPOINT_CACHE"
"""Environment variable: the folder for packs of datasets that cannot be written to."""


@dataclass(frozen=True)
class PackedDataset:
    """What was packed, and where the pack is."""

    path: Path
    strips: int
    patches: int
    found_alone: bool
    """Whether it is used whenever the dataset is; one written elsewhere is given as the dataset itself."""

    def __str__(self) -> str:
        """What the user has now."""
        use = "it is used whenever the dataset is" if self.found_alone else "give it as `data`"
        patches = count_text(self.patches, "patch", "patches")
        return f"{self.path}: {patches} of {count_text(self.strips, 'strip')}; {use}"


def pack_dataset(
    data: str | Path, to: str | Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> PackedDataset:
    """Decode all strips of a patch dataset once and keep their pixels in one file, mapped from then on.

    Features are cached under the same keys, packed or not. The pack is about as large as the pixels.

    Args:
        data: Folder in the HPatches layout.
        to: File to write, ending in ``.tiepack``, to be used in place of the dataset; None puts it into
            the folder, or, where that cannot be written to, into the cache folder of the user.
        progress: Called with (done, total) strips.

    Raises:
        InputError: No strips, or strips with problems, which are all named; a name that ends otherwise.
    """
    from .dataset import HPatchesDataset

    root = Path(data).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder of patch strips; only those are packed")
    dataset = HPatchesDataset(root, packed=False)
    if not dataset.has_patches or dataset.side is None:
        raise InputError(f"{root} has lengths only and no strips: there is nothing to pack")
    place = _place(root) if to is None else Path(to).expanduser()
    if place.suffix != SUFFIX or place.is_dir():
        raise InputError(f"{place} is no name of a pack; give a file that ends in {SUFFIX}")
    keys = [f"{s}/{m}" for s in dataset.sequences for m in dataset.images(s)]

    def strips() -> Iterator[tuple[PackedStrip, NDArray[np.uint8]]]:
        waiting: deque[Future[tuple[PackedStrip, NDArray[np.uint8]]]] = deque()
        with ThreadPoolExecutor(cores()) as threads:
            for done, key in enumerate(keys):
                if progress is not None:
                    progress(done, len(keys))
                waiting.append(threads.submit(_strip, root, key))
                if len(waiting) > 2 * cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    write_pack(place, dataset.side, strips())
    if progress is not None:
        progress(len(keys), len(keys))
    return PackedDataset(place, len(keys), sum(dataset.counts.values()), to is None or place == root / PACK)


def find_pack(root: Path) -> tuple[PatchPack | None, str | None]:
    """The pack of a folder, and a sentence for the user where there is one that is not used.

    A folder without strips may have a pack all the same.

    Raises:
        FormatError: A pack that is cut off or damaged.
    """
    notice = None
    there: dict[str, os.stat_result] | None = None
    for place in (root / PACK, _cache()):
        if not place.exists():
            continue
        there = _strips(root) if there is None else there
        if place != root / PACK:
            place = place / _name(there)
            if not place.exists():
                continue
        pack = open_pack(place)
        changed = _changed(root, pack, there) if there else None
        if changed is None:
            return pack, None
        notice = f"{place} is not used because {changed} after it was made; make it again with `data pack`"
    return None, notice


def _strip(root: Path, key: str) -> tuple[PackedStrip, NDArray[np.uint8]]:
    """A strip that was read once: what is hashed is what is decoded."""
    path = root / f"{key}.png"
    stat = path.stat()
    data = read_bytes(path)
    patches = decode_strip(data, path=path)
    sequence, _, image = key.rpartition("/")
    facts = hash_bytes(data), stat.st_size, stat.st_mtime_ns, hash_bytes(np.ascontiguousarray(patches).data)
    return PackedStrip(sequence, image, len(patches), *facts), patches


def _strips(root: Path) -> dict[str, os.stat_result]:
    """All strips below a folder, without opening any."""
    return {
        f"{path.parent.name}/{path.stem}": path.stat()
        for path in root.glob("*/*.png")
        if not path.parent.name.startswith(".")
    }


def _changed(root: Path, pack: PatchPack, there: dict[str, os.stat_result]) -> str | None:
    """What happened to the strips of a pack, or None. Where only the time differs, the content decides."""
    for key in sorted(set(there) ^ set(pack.strips)):
        return f"{key}.png was {'added' if key in there else 'removed'}"
    for key, strip in pack.strips.items():
        same = there[key].st_size == strip.size
        if same and there[key].st_mtime_ns != strip.mtime_ns:
            same = hash_file(root / f"{key}.png") == strip.content
        if not same:
            return f"{key}.png changed"
    return None


def _place(root: Path) -> Path:
    """Where a pack is looked for: in the folder, or else under a name that the strips give."""
    return root / PACK if os.access(root, os.W_OK) else _cache() / _name(_strips(root))


def _name(strips: dict[str, os.stat_result]) -> str:
    sizes = hash_json(sorted((key, stat.st_size) for key, stat in strips.items()))
    return f"{sizes[:32]}{SUFFIX}"


def _cache() -> Path:
    own = os.environ.get(CACHE)
    return (
        Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tiepoint"
    )
