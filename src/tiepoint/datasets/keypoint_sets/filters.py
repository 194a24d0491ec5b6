# SPDX-License-Identifier: BSD-3-Clause
"""Filter keypoint sets by size, distance or rank; intersect two sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import seeded_generator
from ...core.keypoints import Keypoints
from ...formats.keypoints.set_folder import KeypointSet
from ...geometry.correspondence import nearest_of, points_within

SCOPES = ("image", "set")
ORDERS = ("response", "size", "random")
Ints = NDArray[np.int64]


def filter_by_size(keypoints: Keypoints, low_px: float | None, high_px: float | None) -> Keypoints:
    """Return the keypoints with low_px <= size <= high_px. None means no bound.

    >>> filter_by_size(Keypoints.at([[0, 0], [1, 1]], size_px=[4, 9]), 5, None).size_px.tolist()
    [9.0]
    """
    return keypoints[_rows_within(keypoints, low_px, high_px)]


def _rows_within(keypoints: Keypoints, low_px: float | None, high_px: float | None) -> Ints:
    low = -np.inf if low_px is None else low_px
    high = np.inf if high_px is None else high_px
    return np.flatnonzero((keypoints.size_px >= low) & (keypoints.size_px <= high))


def thin_by_distance(keypoints: Keypoints, distance_px: float | None, *, rows: bool = False) -> Any:
    """Remove keypoints until all are at least `distance_px` apart.

    Keypoints are visited in order, and each is retained if it is far enough from all retained before it. Of
    keypoints at the same position, the first is retained. If `rows` is True, return row numbers in place of
    keypoints.

    >>> thin_by_distance(Keypoints.at([[0, 0], [3, 0], [5, 0]]), 5).xy[:, 0].tolist()
    [0.0, 5.0]
    """
    if distance_px is None:
        return np.arange(len(keypoints)) if rows else keypoints
    if not distance_px > 0:
        raise InputError(f"the minimum distance of keypoints must be positive, found {distance_px:g}")
    cells: dict[tuple[int, int], list[int]] = {}
    retained: list[int] = []
    xy = keypoints.xy
    for i, cell in enumerate(np.floor(xy / distance_px).astype(np.int64)):
        a, b = int(cell[0]), int(cell[1])
        near = [j for u in (a - 1, a, a + 1) for v in (b - 1, b, b + 1) for j in cells.get((u, v), ())]
        if all(np.hypot(*(xy[i] - xy[j])) >= distance_px for j in near):
            cells.setdefault((a, b), []).append(i)
            retained.append(i)
    numbers = np.array(retained, np.int64)
    return numbers if rows else keypoints[numbers]


def subset(
    source: KeypointSet,
    name: str,
    *,
    count: int | None = None,
    scope: str = "image",
    by: str = "response",
    seed: int = 0,
    min_size_px: float | None = None,
    max_size_px: float | None = None,
    min_distance_px: float | None = None,
) -> KeypointSet:
    """Return a subset of a keypoint set: select by size, thin, then retain the first `count` in order `by`.

    `by` is response (strongest first), size (largest first) or random. With `scope` ``image``, `count` is the
    number per image. With ``set``, it is the number in all images together, and images have different numbers
    of keypoints. Ties are broken by image and row. Rows stay in their order and keep their pair numbers.
    """
    if scope not in SCOPES:
        raise UnknownNameError("scope", scope, SCOPES)
    if by not in ORDERS:
        raise UnknownNameError("order", by, ORDERS)
    if count is not None and count < 1:
        raise InputError(f"`count` must be positive, found {count}")
    rows = {}
    for key, keypoints in source.images.items():
        fits = _rows_within(keypoints, min_size_px, max_size_px)
        rows[key] = fits[thin_by_distance(keypoints[fits], min_distance_px, rows=True)]
    if count is not None:
        rows = _best_rows(source, rows, count, scope, by, seed)
    recipe = {
        **_inherited(source), "method": "subset", "source_a": source.id, "source_a_name": source.name,
        "count": count, "scope": scope, "by": by, "seed": seed if by == "random" else None,
        "min_size_px": min_size_px, "max_size_px": max_size_px, "min_distance_px": min_distance_px,
    }  # fmt: skip
    return _select(source, name, rows, recipe)


def _best_rows(
    source: KeypointSet, rows: Mapping[str, Ints], count: int, scope: str, by: str, seed: int
) -> dict[str, Ints]:
    keys = list(rows)
    image = np.repeat(np.arange(len(keys)), [len(rows[k]) for k in keys])
    row = np.concatenate([np.empty(0, np.int64), *(rows[k] for k in keys)])
    if by == "random":
        values = [seeded_generator(seed, "subset", k).random(len(source.of(k)))[rows[k]] for k in keys]
    else:
        column = "size_px" if by == "size" else "response"
        values = [getattr(source.of(k), column)[rows[k]] for k in keys]
    value = np.concatenate([np.empty(0), *values])
    order = np.lexsort((row, image, -value))
    if scope == "set":
        keep = order[:count]
    else:
        ranked = order[np.argsort(image[order], kind="stable")]
        starts = np.searchsorted(image[ranked], np.arange(len(keys)))
        keep = ranked[np.arange(len(ranked)) - starts[image[ranked]] < count]
    selected = np.zeros(len(row), bool)
    selected[keep] = True
    return {k: row[(image == i) & selected] for i, k in enumerate(keys)}


def intersect(
    a: KeypointSet, b: KeypointSet, name: str, *, tolerance_px: float = 3.0
) -> tuple[KeypointSet, KeypointSet]:
    """Create sets ``NAME_a`` and ``NAME_b`` of keypoints that are mutual nearest neighbours in the image.

    Neighbours must be within `tolerance_px`. Ties are resolved in favour of the lower row. Row i of one set
    corresponds to row i of the other, and both have the same pair number. Both sets must have the same
    images.
    """
    if not tolerance_px > 0:
        raise InputError(f"`tolerance_px` must be positive, found {tolerance_px:g}")
    if set(a.images) != set(b.images):
        only = sorted(set(a.images) ^ set(b.images))
        raise InputError(
            f"{a.name} and {b.name} have different images: only one has {only[0]}; use sets of the "
            "same dataset"
        )
    rows_a, rows_b = {}, {}
    for key in a.images:
        forward = nearest_of(points_within(a.of(key).xy, b.of(key).xy, tolerance_px))
        back = nearest_of(points_within(b.of(key).xy, a.of(key).xy, tolerance_px))
        partner = np.full(len(b.of(key)), -1, np.int64)
        partner[back.query] = back.target
        mutual = partner[forward.target] == forward.query
        rows_a[key], rows_b[key] = forward.query[mutual], forward.target[mutual]
    shared = {
        "method": "mutual_nearest_neighbor", "tolerance_px": tolerance_px,
        "source_a": a.id, "source_b": b.id, "source_a_name": a.name, "source_b_name": b.name,
        "source_a_keypoints": a.total, "source_b_keypoints": b.total,
    }  # fmt: skip
    pairs = {key: np.arange(len(rows), dtype=np.int64) for key, rows in rows_a.items()}
    first, second = (
        _select(source, f"{name}_{side}", rows, {**_inherited(source), **shared})
        for side, source, rows in (("a", a, rows_a), ("b", b, rows_b))
    )
    return replace(first, pairs=pairs), replace(second, pairs=pairs)


def _inherited(source: KeypointSet) -> dict[str, Any]:
    """Return the entries of a set's recipe that also hold for its subsets: detector, border and data."""
    return {k: source.recipe[k] for k in ("detector", "border_px", "data", "data_hash") if k in source.recipe}


def _select(
    source: KeypointSet, name: str, rows: Mapping[str, Ints], recipe: Mapping[str, Any]
) -> KeypointSet:
    images = {key: source.of(key)[rows[key]] for key in source.images}
    pairs = None
    if source.pairs is not None:
        pairs = {key: np.asarray(source.pairs[key])[rows[key]] for key in source.images}
    return KeypointSet(name, images, dict(recipe), pairs, source.contents)
