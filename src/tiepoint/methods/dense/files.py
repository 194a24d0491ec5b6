# SPDX-License-Identifier: BSD-3-Clause
"""`files:DIR` for dense tasks: flows and masks that another program wrote, in the layout of the TSS kit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...formats.flow.tss_results import read_pair_result
from ...model.errors import InputError
from ...model.hashing import hash_file, hash_json
from ...model.units import Arrays, Item
from .layout import check_layout, pair_folder

_FILES = ("flow1.flo", "flow2.flo", "mask1.png", "mask2.png")


class DenseFiles:
    """Results by pair: ``DIR/KEY/flow1.flo, flow2.flo, mask1.png, mask2.png``, KEY as the dataset names it.

    If DIR has no folder for the first part of the key (the subset), the rest of the key is looked up, so that
    one subset's results can stand alone; with several subsets that is refused. What is missing or unreadable
    is noted, not raised: the task decides by its option `missing`.
    """

    def __init__(self, path: str) -> None:
        self.root = Path(path)
        if not self.root.is_dir():
            raise InputError(f"files:{path}: no such folder; expected SUBSET/PAIR/flow1.flo, flow2.flo, …")
        self.name = f"files:{path}"

    @property
    def config(self) -> dict[str, Any]:
        """The folder's state: names, sizes and times of its result files."""
        found = []
        for file in sorted(self.root.rglob("*")):
            if file.name in _FILES:
                stat = file.stat()
                found.append([file.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime_ns])
        return {"path": str(self.root), "files": hash_json(found)}

    def check_items(self, items: Sequence[Item]) -> None:
        """Refuse results of which nobody can tell the subset."""
        check_layout(self.root, [item.key for item in items])

    def folder(self, key: str) -> Path:
        """Where the results of a pair are."""
        return pair_folder(self.root, key)

    def item_key(self, item: Item) -> str:
        """Contents of the files of a pair."""
        files = [self.folder(item.key) / name for name in _FILES]
        return hash_json(
            [hash_file(f) if f.exists() else None for f in files] + [self.folder(item.key).is_dir()]
        )

    def lookup_item(self, item: Item) -> Arrays:
        """Flows and masks of a pair, with a note about what is missing."""
        return read_pair_result(self.folder(item.key)).to_arrays()
