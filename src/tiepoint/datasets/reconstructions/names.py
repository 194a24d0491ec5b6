# SPDX-License-Identifier: BSD-3-Clause
"""Match the image names of an estimate with those of the ground truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from ...core.errors import InputError


def match_names(true: Sequence[str], found: Sequence[str]) -> tuple[dict[str, str], str]:
    """Match image names of an estimate and the ground truth. Return {estimated: true name} and the rule used.

    Names are compared unchanged. If none is equal, they are compared without the folders that all names of
    one source begin with. If none is equal then, stems (file names without suffix) are compared, provided
    that they are unique in both sources.

    >>> match_names(["a/x.png", "a/y.png"], ["x.png", "z.png"])
    ({'x.png': 'a/x.png'}, 'without leading folders')
    >>> match_names(["x.png", "y.png"], ["x.jpg"])
    ({'x.jpg': 'x.png'}, 'by file name without suffix')
    >>> match_names(["x.png"], ["x.png", "y.png"])
    ({'x.png': 'x.png'}, '')
    """
    known = set(true)
    equal = {name: name for name in found if name in known}
    if equal or not found or not true:
        return equal, ""
    ways: tuple[tuple[str, Callable[[Sequence[str]], list[str]]], ...] = (
        ("without leading folders", _without_folders),
        ("by file name without suffix", _stems),
    )
    for words, short in ways:
        here, there = short(true), short(found)
        if len(set(here)) < len(here) or len(set(there)) < len(there):
            continue
        by_short = dict(zip(here, true, strict=True))
        pairs = {n: by_short[s] for n, s in zip(found, there, strict=True) if s in by_short}
        if pairs:
            return pairs, words
    return {}, ""


def match_order(true: Sequence[str], count: int, place: str) -> list[str]:
    """Return the sorted true names for an estimate of `count` poses without names, which are in this order.

    Raises:
        InputError: The numbers of poses and true names differ.
    """
    if count != len(true):
        raise InputError(
            f"{place}: {count} poses without names, but the ground truth has {len(true)} images; "
            "write one line for each image, or use a format with names"
        )
    return sorted(true)


def _without_folders(names: Sequence[str]) -> list[str]:
    parts = [PurePosixPath(name.replace("\\", "/")).parts for name in names]
    common = 0
    while all(len(p) > common + 1 and p[common] == parts[0][common] for p in parts):
        common += 1
    return ["/".join(p[common:]) for p in parts]


def _stems(names: Sequence[str]) -> list[str]:
    return [PurePosixPath(name.replace("\\", "/")).stem for name in names]
