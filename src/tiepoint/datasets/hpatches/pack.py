# SPDX-License-Identifier: BSD-3-Clause
"""Pack a patch dataset into one file, and find the pack of a dataset.

A pack is ignored if the strips have changed since packing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.array_cache import user_cache_folder
from ...core.errors import InputError
from ...core.file_stamps import file_stamp, has_reliable_ctime, is_settled
from ...core.formatting import count_text
from ...core.hashing import hash_bytes, hash_file, hash_json
from ...core.processes import cores
from ...formats.file_io import read_bytes
from ...formats.hpatches.patch_pack import SUFFIX, PackedStrip, PatchPack, open_pack, write_pack
from ...formats.hpatches.patch_strip import decode_strip

PACK = f"patches{SUFFIX}"
"""Name of the pack file in the dataset folder."""


@dataclass(frozen=True)
class PackedDataset:
    """Result of packing: the path of the pack file and its content."""

    path: Path
    strips: int
    patches: int
    found_alone: bool
    """Whether the dataset finds the pack automatically. Otherwise pass the pack in place of the dataset."""

    def __str__(self) -> str:
        use = "the dataset uses it automatically" if self.found_alone else "pass it as `data`"
        patches = count_text(self.patches, "patch", "patches")
        return f"{self.path}: {patches} of {count_text(self.strips, 'strip')}; {use}"


def pack_dataset(
    data: str | Path, to: str | Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> PackedDataset:
    """Decode all strips of a patch dataset and write their pixels into one memory-mappable file.

    Features have the same cache keys with and without a pack. The file is about as large as the pixels.

    Args:
        data: Folder in the HPatches layout.
        to: File to write, ending in ``.tiepack``. Pass it in place of the dataset. If None, the pack is
            written into the dataset folder, or into the user's cache folder if the dataset folder is
            read-only.
        progress: Called with (done, total) strips.

    Raises:
        InputError: The folder has no strips, strips have problems (all are listed), or the suffix is wrong.
    """
    from .dataset import HPatchesDataset

    root = Path(data).expanduser()
    if not root.is_dir():
        raise InputError(f"{root}: not a folder of patch strips; pass the folder of the sequences")
    dataset = HPatchesDataset(root, packed=False)
    if not dataset.has_patches or dataset.side is None:
        raise InputError(
            f"{root}: the dataset has numbers of patches but no strips to pack; pass a folder of strips"
        )
    default = root / PACK if os.access(root, os.W_OK) else user_cache_folder() / _name(_strips(root))
    path = default if to is None else Path(to).expanduser()
    if path.suffix != SUFFIX or path.is_dir():
        raise InputError(f"{path}: not a name of a pack file; pass a file name that ends in {SUFFIX}")
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

    write_pack(path, dataset.side, strips())
    if progress is not None:
        progress(len(keys), len(keys))
    return PackedDataset(path, len(keys), sum(dataset.counts.values()), to is None or path == root / PACK)


def find_pack(root: Path) -> tuple[PatchPack | None, str | None]:
    """Find the pack of a folder. Return it, and a notice if a pack exists but is not used.

    A folder with a pack may have no strips.

    Raises:
        FormatError: The pack is truncated or corrupt.
    """
    notice = None
    strips: dict[str, os.stat_result] | None = None
    for path in (root / PACK, user_cache_folder()):
        if not path.exists():
            continue
        strips = _strips(root) if strips is None else strips
        if path != root / PACK:
            path = path / _name(strips)
            if not path.exists():
                continue
        pack = open_pack(path)
        changed = _changed(root, pack, strips) if strips else None
        if changed is None:
            return pack, None
        notice = f"{path} is not used because {changed} later; create it again with `data pack`"
    return None, notice


def _strip(root: Path, key: str) -> tuple[PackedStrip, NDArray[np.uint8]]:
    """Read the strip of image `key` once, and return its hash and decoded pixels."""
    path = root / f"{key}.png"
    stat = path.stat()
    ctime_ns = stat.st_ctime_ns if is_settled(file_stamp(stat)) else 0
    data = read_bytes(path)
    patches = decode_strip(data, path=path)
    sequence, _, image = key.rpartition("/")
    facts = hash_bytes(data), stat.st_size, ctime_ns, hash_bytes(np.ascontiguousarray(patches).data)
    return PackedStrip(sequence, image, len(patches), *facts), patches


def _strips(root: Path) -> dict[str, os.stat_result]:
    """Return the file status of all strips below a folder, by path, without opening them."""
    return {
        f"{path.parent.name}/{path.stem}": path.stat()
        for path in root.glob("*/*.png")
        if not path.parent.name.startswith(".")
    }


def _changed(root: Path, pack: PatchPack, strips: dict[str, os.stat_result]) -> str | None:
    """Return a message if strips have changed since packing, else None.

    The contents are compared if a strip has the same size, but its status change time differs or is
    unreliable.
    """
    for key in sorted(set(strips) ^ set(pack.strips)):
        return f"{key}.png was {'added' if key in strips else 'removed'}"
    for key, strip in pack.strips.items():
        same = strips[key].st_size == strip.size
        stamp = file_stamp(strips[key])
        if same and (stamp[4] != strip.ctime_ns or not has_reliable_ctime(stamp)):
            same = hash_file(root / f"{key}.png") == strip.content
        if not same:
            return f"{key}.png changed"
    return None


def _name(strips: dict[str, os.stat_result]) -> str:
    sizes = hash_json(sorted((key, stat.st_size) for key, stat in strips.items()))
    return f"{sizes[:32]}{SUFFIX}"
