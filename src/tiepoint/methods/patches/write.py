# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors written in the HPatches layout, ``OUT/SEQ/IM.csv``, for other programs and for `files:`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.hpatches.descriptor_table import write_descriptors as write_table
from ...model.errors import InputError, joined
from ...model.units import Arrays, Item
from ..base import Method

MOST = 20
"""Images with problems that are listed."""


def as_table(arrays: Arrays, distance: str) -> NDArray[Any]:
    """Features of one image as a table of numbers.

    Bits become columns of 0 and 1, so that the L1 and L2 of older tools rank as Hamming does. Rows that
    failed are NaN: text has no other way to say so, and `files:` reports them again.

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


def write_descriptors(
    method: Method, items: Iterable[tuple[Item, Any]], out: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Describe patch-images and write one CSV for each; returns the files in order.

    Args:
        method: a method of the family ``patches``.
        items: pairs (item, patches); patches may be None for a method that looks them up.
        out: folder for ``SEQ/IM.csv``; made if missing.
        overwrite: replace files that exist. Otherwise one that exists is an error before it is touched.

    Images whose descriptors cannot be written do not stop the others; they are raised together at the end, or
    after `MOST` of them where the method computes.
    """
    written = []
    errors: list[InputError] = []
    for item, patches in items:
        path = Path(out) / f"{item.key}.csv"
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already; choose another folder or allow overwriting")
        try:
            arrays = method.extract(item, patches)
        except InputError as e:
            errors.append(e)
            if method.reads_payload and len(errors) >= MOST:
                break
            continue
        write_table(path, as_table(arrays, method.distance))
        written.append(path)
    if errors:
        raise joined(errors, f"{method.name}: descriptors", shown=MOST)
    return written
