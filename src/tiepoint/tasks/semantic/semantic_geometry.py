# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints that only left and right tell apart: groups per class, and which points of a pair they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import FormatError
from ...formats.json_yaml import read_json

Groups = Mapping[str, Sequence[Sequence[int]]]
AMBIGUOUS: Groups = {
    "aeroplane": ((4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15), (16, 17), (18, 19), (20, 21)),
}
"""By class the groups of SPair keypoints that look alike but for their side; other classes are not listed."""


def ambiguous_points(
    ids: ArrayLike, visible: ArrayLike, groups: Sequence[Sequence[int]]
) -> NDArray[np.bool_]:
    """Which points (n,) are of a group with at least two keypoints visible in the target image.

    Args:
        ids: Numbers of the keypoints that both images have.
        visible: Numbers of all keypoints of the target image.
        groups: Groups of the class.

    >>> ambiguous_points([4, 6, 9], [4, 5, 6, 8, 9], [(4, 5), (6, 7), (8, 9)]).tolist()
    [True, False, True]
    """
    there = np.asarray(visible).astype(np.int64)
    chosen = [i for group in groups if np.isin(np.asarray(group), there).sum() >= 2 for i in group]
    return np.isin(np.asarray(ids).astype(np.int64), np.array(chosen, np.int64))


def read_groups(value: Any) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Groups by class from a mapping or the path of a JSON file: ``{"cat": [[0, 1], [2, 3]]}``."""
    if isinstance(value, str | Path):
        try:
            value = read_json(Path(value).expanduser())
        except FormatError as e:
            raise ValueError(f"groups: {e}") from None
    try:
        return {
            str(name): tuple(tuple(int(i) for i in group) for group in groups)
            for name, groups in value.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            'groups: expected a JSON file of {"CLASS": [[number, number], …]}, keypoints that look alike'
        ) from None
