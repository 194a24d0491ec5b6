# SPDX-License-Identifier: BSD-3-Clause
"""The two forms in which a method answers for two images, points or a flow, told apart and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...geometry.covisibility import in_view
from ..output_checks import output_array

FORMS = (
    "expected (points0 (n, 2), points1 (n, 2)[, confidence (n,)]) "
    "or a flow (height, width, 2)[, mask[, confidence]]"
)
BEYOND_PX = 1.0
Parts = tuple[Any, ...]


def as_array(given: Any, where: str) -> NDArray[Any]:
    """An array of numbers from what a method gave, tensors included."""
    made = output_array(given, where, f"rows differ in length; {FORMS}")
    if made.dtype == object or made.dtype.kind not in "biuf":
        raise InputError(f"{where}: found {made.dtype}; {FORMS}")
    return made


def check_kind(thing: Any, name: str) -> str | None:
    """What an object declares as its `kind`: ``pairs``, ``dense`` or nothing."""
    kind = getattr(thing, "kind", None)
    if kind not in (None, "pairs", "dense"):
        raise InputError(f'method {name!r}: kind is {kind!r}; expected "pairs" (points) or "dense" (a flow)')
    return kind


def output_form(made: Any, kind: str | None, where: str) -> tuple[str, Parts]:
    """``pairs`` or ``dense``, by the dimensions of the first array, and the parts that were given.

    Two dimensions are points and three a flow. `kind` is what the method declares.

    >>> output_form(np.zeros((4, 5, 2)), None, "here")[0], output_form(([[1, 2]], [[3, 4]]), None, "here")[0]
    ('dense', 'pairs')
    >>> output_form(np.zeros(3), None, "here")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: here: found float64 (3,); expected (points0 (n, 2), points1 (n, 2)[, \
confidence (n,)]) or a flow (height, width, 2)[, mask[, confidence]]
    """
    if made is None:
        raise InputError(f"{where}: match returned nothing; {FORMS}")
    if isinstance(made, tuple) and not 1 <= len(made) <= 3:
        raise InputError(f"{where}: found {len(made)} things; {FORMS}")
    is_several = isinstance(made, tuple) or (
        isinstance(made, list) and len(made) in (2, 3) and _rows(made[0])
    )
    parts: Parts = tuple(made) if is_several else (made,)
    first = as_array(parts[0], where)
    if first.ndim == 1 and first.size == 0 and len(parts) > 1:
        first = first.reshape(0, 2)
    found = {2: "pairs", 3: "dense"}.get(first.ndim)
    if found is None:
        raise InputError(f"{where}: found {first.dtype} {first.shape}; {FORMS}")
    if kind is not None and found != kind:
        says = {"pairs": "points (n, 2)", "dense": "a flow (height, width, 2)"}
        raise InputError(
            f"{where}: the method declares kind = {kind!r}, which is {says[kind]}, and gave {first.dtype} "
            f"{first.shape}; {FORMS}"
        )
    if found == "pairs" and len(parts) < 2:
        raise InputError(f"{where}: found one array {first.shape}; {FORMS}")
    return found, (first, *parts[1:])


def _rows(given: Any) -> bool:
    """Whether the first of a list is an array of its own and not a row of one."""
    return np.ndim(given) != 1 or len(given) == 0


def point_array(given: Any, where: str, what: str, count: int | None = None) -> NDArray[np.float64]:
    """Points (n, 2) as float64, finite; `count` rows where it is given."""
    made = as_array(given, where)
    if made.size == 0 and made.ndim < 2:
        made = made.reshape(0, 2)
    if made.ndim != 2 or made.shape[1] != 2:
        raise InputError(f"{where}: {what} has shape {made.shape}, not (n, 2)")
    if count is not None and len(made) != count:
        raise InputError(f"{where}: {len(made)} {what} for {count} points; return one row for every point")
    points = made.astype(np.float64)
    finite = np.isfinite(points).all(axis=1)
    if what != "answers" and not finite.all():  # an answer may be unknown, a match may not
        raise InputError(f"{where}: {what}[{int(np.argmin(finite))}] is not finite; leave such matches out")
    return points


def matrix_array(given: Any, where: str, what: str) -> NDArray[np.float64]:
    """A fundamental matrix or homography (3, 3) as float64; all NaN stands for none."""
    made = as_array(given, where)
    if made.shape != (3, 3):
        raise InputError(f"{where}: {what} has shape {made.shape}, not (3, 3)")
    matrix = made.astype(np.float64)
    if not np.isfinite(matrix).all() and not np.isnan(matrix).all():
        raise InputError(f"{where}: {what} is not finite; where there is none, let all of it be NaN")
    return matrix


def match_arrays(
    parts: Parts, sizes: Sequence[tuple[int, int] | None], where: str
) -> dict[str, NDArray[Any]]:
    """`points0`, `points1` and perhaps `confidence`, checked against each other and the images.

    `sizes` are (width, height) or None where unknown. Points may lie `BEYOND_PX` outside of an image, where
    a method that works on a resized image puts some.
    """
    first, second = point_array(parts[0], where, "points0"), point_array(parts[1], where, "points1")
    if len(first) != len(second):
        raise InputError(f"{where}: points0 has shape {first.shape} and points1 {second.shape}, not the same")
    for side, (points, size) in enumerate(zip((first, second), sizes, strict=True)):
        if size is not None and len(points):
            check_inside(points, size, f"{where}: points{side}")
    out: dict[str, NDArray[Any]] = {"points0": first, "points1": second}
    if len(parts) == 3 and parts[2] is not None:
        confidence = as_array(parts[2], where).astype(np.float64)
        if confidence.shape != (len(first),):
            raise InputError(
                f"{where}: confidence has shape {confidence.shape}, expected ({len(first)},), one a match"
            )
        if not np.isfinite(confidence).all():
            i = int(np.argmin(np.isfinite(confidence)))
            raise InputError(f"{where}: confidence[{i}] is not finite; leave such matches out")
        out["confidence"] = confidence
    return out


def check_inside(points: NDArray[np.float64], size: tuple[int, int], where: str) -> None:
    """Refuse the first point that is not on the image or within `BEYOND_PX` of it."""
    inside = in_view(points, size, border_px=-BEYOND_PX)
    if not inside.all():
        i = int(np.argmin(inside))
        x, y = points[i]
        raise InputError(
            f"{where}[{i}] = ({x:g}, {y:g}) lies outside the image of {size[0]} x {size[1]} px; matches are "
            "in pixels of the original image, the first pixel's centre at (0, 0)"
        )


def flow_arrays(parts: Parts, where: str) -> dict[str, NDArray[Any]]:
    """`flow` float32 (h, w, 2) and perhaps `flow_confidence`; a mask alone is a confidence of 0 and 1."""
    flow = np.asarray(parts[0])
    if flow.ndim != 3 or flow.shape[2] != 2 or flow.dtype.kind != "f" or 0 in flow.shape:
        raise InputError(f"{where}: a flow is float (height, width, 2), found {flow.dtype} {flow.shape}")
    out: dict[str, NDArray[Any]] = {"flow": flow.astype(np.float32)}
    for label, part in zip(("mask", "confidence"), parts[1:], strict=False):
        if part is None:
            continue
        values = as_array(part, where)
        if values.ndim != 2:
            raise InputError(f"{where}: {label} has shape {values.shape}, not (height, width)")
        out["flow_confidence"] = (values > 0 if label == "mask" else values).astype(np.float32)
    return out
