# SPDX-License-Identifier: BSD-3-Clause
"""`files:DIR` for dense tasks: read flows and masks of another program, in the layout of the TSS kit.

The results of a pair are in the folder of its subset, or directly below the root for a single subset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.formatting import count_text, first_few, found_in
from ...core.hashing import hash_file, hash_json
from ...core.records import Arrays, Item
from ...core.regular_files import is_folder
from ...formats.flow.tss import read_pair_result

NO_FOLDER = "no results folder"
MAX_LISTED_PAIRS = 3


def pair_folder(root: str | Path, key: str) -> Path:
    """Return the results folder of a pair ``SUBSET/PAIR``: ``ROOT/SUBSET/PAIR`` or ``ROOT/PAIR``.

    ``ROOT/PAIR`` is used only if it exists and ``ROOT/SUBSET`` contains no folder. The subset of such results
    may be ambiguous, so call `check_layout` first.

    >>> pair_folder("out", "JODS/car_01_02").as_posix()
    'out/JODS/car_01_02'
    """
    subset, _, pair = key.partition("/")
    base = Path(root)
    if pair and (base / pair).is_dir() and not _has_folders(base / subset):
        return base / pair
    return base / key


def is_single_pair(root: str | Path, keys: Iterable[str]) -> bool:
    """Return whether any of the pairs `keys` has its results directly below the root."""
    return any(pair_folder(root, key) != Path(root) / key for key in keys)


def check_layout(root: str | Path, keys: Sequence[str], subsets: Iterable[str] = ()) -> None:
    """Raise an error if results directly below the root could belong to several subsets.

    `subsets` are the subsets of the dataset, by default those of the keys. Two subsets may have pairs of the
    same name, so the results of one could be scored as results of the other.

    Raises:
        InputError: If the subset of the results is ambiguous.
    """
    names = sorted(set(subsets) or {key.partition("/")[0] for key in keys})
    if len(names) > 1 and is_single_pair(root, keys):
        key = next(k for k in keys if is_single_pair(root, [k]))
        raise InputError(
            f"{root}/{key.partition('/')[2]}: the results are not in the folder of a subset, so they "
            f"could belong to any of {_some(names)}; move them into {root}/SUBSET, or score one "
            "subset alone"
        )


def check_folders(root: str | Path, keys: Sequence[str], subsets: Iterable[str] = ()) -> list[str]:
    """Return the keys that have a results folder.

    Raises:
        InputError: If the root is not a folder, if no key has a folder, or if `check_layout` fails.
    """
    base = Path(root)
    if not is_folder(base):
        raise InputError(f"{base}: {found_in(base)}; expected results as SUBSET/PAIR/flow1.flo, flow2.flo, …")
    check_layout(base, keys, subsets)
    there = [key for key in keys if pair_folder(base, key).is_dir()]
    if not there:
        raise InputError(
            f"{base} has no results for any of {count_text(len(keys), 'pair')}: {found_in(base)}\n"
            f"  expected: {sorted(keys)[0]}/flow1.flo, flow2.flo, … below it"
        )
    return there


def extra_folders(root: str | Path, known: Iterable[str], subsets: Sequence[str]) -> list[str]:
    """Return a list with at most one message, about results folders of pairs that have no ground truth."""
    base, keys = Path(root), set(known)
    inside = {"/".join(key.split("/")[:n]) for key in keys for n in range(1, key.count("/") + 2)}
    found = [f"{s}/{name}" for s in subsets for name in _folders(base / s) if f"{s}/{name}" not in inside]
    if len(subsets) == 1 and is_single_pair(base, keys):
        own = subsets[0]
        found += [n for n in _folders(base) if n != own and f"{own}/{n}" not in inside]
    if not found:
        return []
    if len(found) == 1:
        return [f"results folder {found[0]} has no ground truth and is not scored"]
    return [f"{len(found)} results folders have no ground truth and are not scored: {_some(found)}"]


def missing_pairs_message(keys: Sequence[str], total: int) -> str:
    """Return the message about pairs without a results folder.

    >>> missing_pairs_message(["A/p", "A/q"], 9)
    'no results folder: 2 of 9 pairs (A/p, A/q)'
    """
    return f"{NO_FOLDER}: {len(keys)} of {total} pairs ({_some(keys)})"


def _some(names: Sequence[str]) -> str:
    return first_few(names, MAX_LISTED_PAIRS, count=False)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(e.name for e in os.scandir(folder) if e.is_dir() and not e.name.startswith("."))


def _has_folders(folder: Path) -> bool:
    return bool(_folders(folder))


_FILES = ("flow1.flo", "flow2.flo", "mask1.png", "mask2.png")


class DenseFiles:
    """Flows and masks read from ``DIR/KEY/flow1.flo``, ``flow2.flo``, ``mask1.png`` and ``mask2.png``.

    KEY is ``SUBSET/PAIR``. If DIR has no folder for the subset, the pair is searched directly below DIR,
    which is an error for datasets with several subsets. Missing or unreadable files are reported to the task,
    whose option `missing` decides what to do.
    """

    def __init__(self, path: str) -> None:
        self.root = Path(path)
        if not is_folder(self.root):
            raise InputError(f"files:{path}: no such folder; expected SUBSET/PAIR/flow1.flo, flow2.flo, …")
        self.name = f"files:{path}"

    @property
    def config(self) -> dict[str, Any]:
        """State of the folder for cache keys: names and hashes of its result files."""
        files = [file for file in sorted(self.root.rglob("*")) if file.name in _FILES]
        found = [[file.relative_to(self.root).as_posix(), hash_file(file)] for file in files]
        return {"path": str(self.root), "files": hash_json(found)}

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise an error if no pair has a folder, or if the subset of the results is ambiguous."""
        check_folders(self.root, [item.key for item in items])

    def folder(self, key: str) -> Path:
        """Return the results folder of a pair."""
        return pair_folder(self.root, key)

    def item_key(self, item: Item) -> str:
        """Return a hash of the result files of a pair."""
        files = [self.folder(item.key) / name for name in _FILES]
        return hash_json(
            [hash_file(f) if f.exists() else None for f in files] + [self.folder(item.key).is_dir()]
        )

    def lookup_item(self, item: Item) -> Arrays:
        """Return the flows and masks of a pair, and a note about its missing files."""
        return read_pair_result(self.folder(item.key)).to_arrays()
