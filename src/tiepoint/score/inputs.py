# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the arrays that a user passes: shapes, types, lengths, scene labels and protocol names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, UnknownNameError
from ..methods.output_checks import from_tensor, output_array

ONE_SCENE = "all"
"""Scene of all items if the user passes no scene labels. One scene gives no interval."""


def check_protocol(function: str, protocol: str, known: Sequence[str]) -> None:
    """Raise an error that lists the known names if a function does not have the protocol."""
    if protocol not in known:
        raise UnknownNameError(f"protocol of score.{function}", str(protocol), known)


def split_arrays(value: Any, ndim: int) -> list[Any]:
    """Split an argument into one array per item.

    An array of `ndim` dimensions is one item. A list, or an array with one more dimension, is several items.

    >>> len(split_arrays(np.zeros((5, 2)), 2)), len(split_arrays(np.zeros((3, 5, 2)), 2))
    (1, 3)
    >>> len(split_arrays([np.zeros((5, 2)), np.zeros((4, 2))], 2))
    2
    """
    if isinstance(value, list | tuple):
        return list(value)
    array = from_tensor(value)
    return list(array) if np.ndim(array) == ndim + 1 else [array]


def share(value: Any, ndim: int, count: int) -> list[Any]:
    """Split an argument into `count` arrays. A single array is repeated for every item.

    >>> share(np.eye(3), 2, 4)[3].shape
    (3, 3)
    """
    found = split_arrays(value, ndim)
    one = len(found) == 1 and not isinstance(value, list | tuple)
    return found * count if one else found


def check_lengths(function: str, arguments: Mapping[str, Sized], item: str) -> int:
    """Return the number of items. Raise an error if the arguments differ in length or are empty.

    >>> check_lengths("pose", {"points0": [1, 2], "points1": [1]}, "pair")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: score.pose: points0 has length 2, points1 has length 1; pass \
arguments of equal length, with one entry for every pair
    """
    lengths = {name: len(value) for name, value in arguments.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has length {n}" for name, n in lengths.items())
        raise InputError(
            f"score.{function}: {shown}; pass arguments of equal length, with one entry for every {item}"
        )
    count = next(iter(lengths.values()))
    if not count:
        raise InputError(f"score.{function}: {next(iter(lengths))} is empty; pass at least one {item}")
    return count


def vector(value: Any, where: str) -> NDArray[Any]:
    """Return numbers or Booleans as an array (n,)."""
    found = output_array(value, where, "rows differ in length; pass an array of shape (n,)")
    if found.dtype.kind not in "biuf" or found.ndim != 1:
        raise InputError(f"{where}: expected numbers of shape (n,), found {found.dtype} {found.shape}")
    return found


def distance_vector(value: Any, where: str) -> NDArray[np.float64]:
    """Return distances (n,). Infinity is a failed comparison, which ranks last. NaN is an error."""
    found = vector(value, where).astype(np.float64)
    wrong = np.isnan(found) | (found == -np.inf)
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(f"{where}[{i}] is {found[i]}; pass infinity for a failed comparison")
    return found


def label_vector(value: Any, where: str) -> NDArray[np.bool_]:
    """Return labels (n,) as Booleans. Numbers must be 0 or 1."""
    found = vector(value, where)
    wrong = ~np.isin(found, (0, 1))
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(f"{where}[{i}] is {found[i]}; expected True or False, or 1 and 0")
    return found.astype(bool)


def scene_labels(function: str, scenes: Any, count: int, item: str) -> list[str]:
    """Return the scene of each item as text. Without labels, all items are of one scene."""
    if scenes is None:
        return [ONE_SCENE] * count
    if isinstance(scenes, str) or not np.iterable(scenes):
        raise InputError(
            f"score.{function}: scenes is {repr(scenes)[:40]}; pass a list with one label for every {item}"
        )
    labels = [str(label) for label in scenes]
    if len(labels) != count:
        raise InputError(
            f"score.{function}: scenes has length {len(labels)}, expected {count}, one for every {item}"
        )
    for label in labels:
        if not label or set(label) & set(",="):
            raise InputError(
                f"score.{function}: the scene label {label!r} is not usable; use text without ',' and '='"
            )
    return labels


def size_table(
    where: str, value: Any, shape: tuple[int, ...], count: int, expected: str
) -> NDArray[np.int64]:
    """Return image sizes in pixels (count, *shape). A single size is repeated for every item.

    >>> size_table("sizes", (640, 480), (2,), 3, "(width, height)").shape
    (3, 2)
    """
    table = output_array(value, where, f"rows differ in length; expected {expected}")
    if table.shape == shape:
        table = np.broadcast_to(table, (count, *shape))
    if table.shape != (count, *shape) or table.dtype.kind not in "iu" or (table < 1).any():
        raise InputError(
            f"{where} is {str(value)[:60]}; expected {expected} in pixels, or one for each of {count} items"
        )
    return np.asarray(table, np.int64)
