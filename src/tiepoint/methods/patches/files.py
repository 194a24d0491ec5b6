# SPDX-License-Identifier: BSD-3-Clause
"""Read descriptor files ``DIR/SEQ/IM`` (`.csv`, `.npy`, `.npz`) for ``files:DIR``, and write CSV files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError, join_errors
from ...core.formatting import path_below
from ...core.hashing import hash_file
from ...core.plugins import check_distance
from ...core.records import Arrays, Item
from ...core.regular_files import is_folder
from ...formats.hpatches.descriptors import (
    SUFFIXES,
    DescriptorTable,
    find_descriptor_file,
    read_descriptors,
    table_shape,
)
from ...formats.hpatches.descriptors import write_descriptors as write_table
from ..base import Method

Array = NDArray[Any]
ARRAYS = (".npy", ".npz")


class DescriptorFiles:
    """Descriptors read from the files of a folder.

    The distance is `hamming` if the files contain bits, else `l2`, unless ``?distance=`` is given. With
    ``distance=hamming``, text files may contain bits (0 and 1) or bytes (0 to 255).
    """

    def __init__(self, path: str, distance: str | None = None, delimiter: str | None = None) -> None:
        self.folder = Path(path).expanduser()
        self.delimiter = delimiter
        first = _first_file(self.folder)
        if distance is not None:
            check_distance(distance, f"files:{path}")
        # text is never detected as bits, so it is not parsed here
        is_bits = distance is None and first.suffix in ARRAYS and self._read(first).is_bits
        self.distance = distance or ("hamming" if is_bits else "l2")
        self.name = f"files:{path}"
        # the folder's name does not affect the output; `item_key` hashes the files
        self.config = {"distance": self.distance, "delimiter": delimiter}

    def _read(self, path: Path) -> DescriptorTable:
        return read_descriptors(path, delimiter=self.delimiter)

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists missing files, wrong row counts and differing column counts.

        The check counts rows and parses only the first line of each file.
        """
        problems, widths = _missing([item for item in items if not self.has_item(item)], items), {}
        for item in items:
            try:
                path = self._find(item)
                if path is None:
                    continue
                rows, widths[item.key] = table_shape(path, delimiter=self.delimiter)
            except FormatError as e:
                problems.append(f"{item.key}{e.path.suffix}: {e.reason}")
                continue
            except InputError as e:
                problems.append(str(e))
                continue
            if item.count is not None and rows != item.count:
                problems.append(
                    f"{item.key}{path.suffix} has {rows} descriptors, but {item.key} has {item.count} "
                    "patches; expected one row per patch"
                )
        usual = Counter(widths.values()).most_common(1)
        for key, width in widths.items():
            if width != usual[0][0]:
                problems.append(
                    f"{key} has {width} columns, but most files have {usual[0][0]}; check the delimiter"
                )
        if self.distance != "hamming" and usual and usual[0][0] == 1:
            problems.append("the files have only one column; set the delimiter with ?delimiter=")
        if problems:
            raise ProblemsError(f"descriptors in {self.folder}", problems)

    def has_item(self, item: Item) -> bool:
        """Return whether at least one file exists for an item."""
        try:
            return self._find(item) is not None
        except InputError:
            return True

    def item_key(self, item: Item) -> str:
        """Return a hash of the item's file."""
        return hash_file(self._file(item))

    def lookup_item(self, item: Item, rows: int) -> Array | tuple[Array, Array]:
        """Read the descriptors of one image from its file."""
        path = self._file(item)
        table = self._read(path)
        if len(table.values) != rows:
            raise FormatError(
                path, f"found {len(table.values)} descriptors for {rows} patches; expected one per patch"
            )
        values = table.values
        if self.distance == "hamming" and not table.is_bits:
            values = _as_bits(values, path)
        return values if table.valid is None else (values, table.valid)

    def _find(self, item: Item) -> Path | None:
        sequence, _, image = item.key.rpartition("/")
        return find_descriptor_file(self.folder, sequence, image)

    def _file(self, item: Item) -> Path:
        found = self._find(item)
        if found is None:
            raise InputError(
                f"{self.folder}/{item.key}{'|'.join(SUFFIXES)} is missing; add one of these files"
            )
        return found


def _missing(absent: Sequence[Item], items: Sequence[Item]) -> list[str]:
    """Return a message for every sequence that has missing files. `absent` are the items without a file."""
    endings = "|".join(SUFFIXES)
    by_sequence: dict[str, list[str]] = {}
    for item in absent:
        sequence, _, image = item.key.rpartition("/")
        by_sequence.setdefault(sequence, []).append(image)
    wanted = Counter(item.key.rpartition("/")[0] for item in items)
    problems = []
    for sequence, images in by_sequence.items():
        if len(images) == 1:
            problems.append(f"{sequence}/{images[0]}{endings} is missing")
        elif len(images) == wanted[sequence]:
            problems.append(f"{sequence}: all its files are missing ({images[0]} to {images[-1]}, {endings})")
        else:
            problems.append(f"{sequence}: {', '.join(images)} are missing ({endings})")
    return problems


def _as_bits(values: Array, path: Path) -> Array:
    if ((values < 0) | (values > 255) | (values != np.floor(values))).any():
        raise FormatError(
            path, "hamming needs bits (0 and 1) or bytes (0 to 255), found other numbers; use distance=l2"
        )
    whole = values.astype(np.uint8)
    return np.packbits(whole, axis=1) if whole.max() <= 1 else whole


def _first_file(folder: Path) -> Path:
    """Return any descriptor file below ``DIR/SEQ``. If none exists, the error names the likely folder."""
    if not is_folder(folder):
        raise InputError(f"files:{folder}: no such folder; pass a folder of descriptor files")
    children = sorted(p for p in folder.iterdir() if p.is_dir())
    for child in children:
        for file in sorted(child.iterdir()):
            if file.suffix in SUFFIXES:
                return file
    deeper = [c for c in children if any(_has_tables(g) for g in sorted(c.iterdir()))]
    if deeper:
        raise InputError(
            f"files:{folder}: the sequences are one level deeper; use files:{deeper[0]}"
            + (f" (or one of {len(deeper) - 1} other folders)" if len(deeper) > 1 else "")
        )
    below = [g for c in children for g in sorted(c.iterdir()) if g.is_dir()]
    two = next((g for g in below if any(_has_tables(h) for h in sorted(g.iterdir()))), None)
    if two is not None:
        raise InputError(f"files:{folder}: the sequences are two levels deeper; use files:{two}")
    if _has_tables(folder):
        raise InputError(f"files:{folder} is the folder of one sequence; use files:{folder.parent}")
    raise InputError(f"files:{folder}: no descriptor file; expected SEQ/IM{'|'.join(SUFFIXES)}")


def _has_tables(folder: Path) -> bool:
    return is_folder(folder) and any(p.suffix in SUFFIXES for p in folder.iterdir())


MAX_LISTED_IMAGES = 20
"""Maximum number of images whose problems an error lists."""


def as_table(arrays: Arrays, distance: str) -> NDArray[Any]:
    """Return the descriptors of one image as a numeric table, (n, d).

    Bits become columns of 0 and 1, so that the L1 and L2 distances of older tools rank like the Hamming
    distance. Failed rows become NaN, because text files have no other marker.

    >>> as_table({"values": np.array([[5]], np.uint8)}, "hamming").tolist()
    [[0, 0, 0, 0, 0, 1, 0, 1]]
    """
    values = np.asarray(arrays["values"])
    if distance == "hamming":
        values = np.unpackbits(values, axis=1)
    valid = arrays.get("valid")
    if valid is not None and not valid.all():
        values = np.where(np.asarray(valid)[:, None], values, np.nan)
    return values


def describe_to_csv(
    method: Method, items: Iterable[tuple[Item, Any]], out: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Describe patch images and write one CSV file for each. Return the paths of the files, in order.

    Args:
        method: A method of the family ``patches``.
        items: Pairs (item, patches); patches may be None for a method that reads stored features.
        out: Folder for ``SEQ/IM.csv``; created if missing.
        overwrite: Replace existing files. Otherwise an existing file raises an error and stays unchanged.

    If the descriptors of an image cannot be written, the function continues with the other images and raises
    all errors together at the end. If the method computes descriptors, it stops after `MAX_LISTED_IMAGES`
    errors.
    """
    written = []
    errors: list[InputError] = []
    for item, patches in items:
        path = path_below(out, *item.key.split("/"), what="the patch-image", ending=".csv")
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists; choose another folder or pass `overwrite`")
        try:
            arrays = method.extract(item, patches)
        except InputError as e:
            errors.append(e)
            if method.needs_payload and len(errors) >= MAX_LISTED_IMAGES:
                break
            continue
        write_table(path, as_table(arrays, method.distance))
        written.append(path)
    if errors:
        raise join_errors(errors, f"{method.name}: descriptors", shown=MAX_LISTED_IMAGES)
    return written
