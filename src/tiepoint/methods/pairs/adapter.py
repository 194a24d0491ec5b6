# SPDX-License-Identifier: BSD-3-Clause
"""Adapter for methods on image pairs, with checks of matches, flows and transferred query points."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, TiepointError
from ...core.records import Arrays, Item
from ...formats.image.reader import to_grey
from ...geometry.correspondence import in_view
from ..base import Finish
from ..output_checks import output_array
from ..user_code import copy_for_user, is_builtin_class, user_failure, view_for_user

FORMS = (
    "expected (points0 (n, 2), points1 (n, 2)[, confidence (n,)]) "
    "or a flow (height, width, 2)[, mask[, confidence]]"
)
BEYOND_PX = 1.0
Parts = tuple[Any, ...]


def as_array(given: Any, where: str) -> NDArray[Any]:
    """Convert the output of a method (array, list or tensor) to a numeric array."""
    made = output_array(given, where, f"rows differ in length; {FORMS}")
    if made.dtype == object or made.dtype.kind not in "biuf":
        raise InputError(f"{where}: found {made.dtype}; {FORMS}")
    return made


def check_kind(thing: Any, name: str) -> str | None:
    """Return the `kind` that an object declares: ``pairs``, ``dense`` or None."""
    kind = getattr(thing, "kind", None)
    if kind not in (None, "pairs", "dense"):
        raise InputError(f'method {name!r}: kind is {kind!r}; expected "pairs" (points) or "dense" (a flow)')
    return kind


def output_form(made: Any, kind: str | None, where: str) -> tuple[str, Parts]:
    """Return the form of a method's output, ``pairs`` (points) or ``dense`` (a flow), and its arrays.

    A first array with two dimensions contains points, and one with three is a flow. `kind` is the form that
    the method declares; an output of the other form is an error.

    >>> output_form(np.zeros((4, 5, 2)), None, "here")[0], output_form(([[1, 2]], [[3, 4]]), None, "here")[0]
    ('dense', 'pairs')
    >>> output_form(np.zeros(3), None, "here")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: here: found float64 (3,); expected (points0 (n, 2), points1 (n, 2)[, \
confidence (n,)]) or a flow (height, width, 2)[, mask[, confidence]]
    """
    if made is None:
        raise InputError(f"{where}: match returned None; {FORMS}")
    if isinstance(made, tuple) and not 1 <= len(made) <= 3:
        raise InputError(f"{where}: match returned a tuple of {len(made)} elements; {FORMS}")
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
            f"{where}: the method declares kind = {kind!r} ({says[kind]}), but returned {first.dtype} "
            f"{first.shape}; {FORMS}"
        )
    if found == "pairs" and len(parts) < 2:
        raise InputError(f"{where}: match returned one array {first.shape}; {FORMS}")
    return found, (first, *parts[1:])


def _rows(given: Any) -> bool:
    """Return whether a list consists of arrays rather than rows of numbers."""
    return np.ndim(given) != 1 or len(given) == 0


def point_array(given: Any, where: str, what: str, count: int | None = None) -> NDArray[np.float64]:
    """Check that points (n, 2) are finite and that n equals `count`, if given. Return them as float64."""
    made = as_array(given, where)
    if made.size == 0 and made.ndim < 2:
        made = made.reshape(0, 2)
    if made.ndim != 2 or made.shape[1] != 2:
        raise InputError(f"{where}: {what} has shape {made.shape}, expected (n, 2)")
    if count is not None and len(made) != count:
        raise InputError(f"{where}: {len(made)} {what} for {count} points; return one row for every point")
    points = made.astype(np.float64)
    finite = np.isfinite(points).all(axis=1)
    if what != "answers" and not finite.all():  # answers may be NaN, matches may not
        raise InputError(f"{where}: {what}[{int(np.argmin(finite))}] is NaN or infinite; remove such matches")
    return points


def matrix_array(given: Any, where: str, what: str) -> NDArray[np.float64]:
    """Return a fundamental matrix or homography (3, 3) as float64. All NaN means that none was found."""
    made = as_array(given, where)
    if made.shape != (3, 3):
        raise InputError(f"{where}: {what} has shape {made.shape}, expected (3, 3)")
    matrix = made.astype(np.float64)
    if not np.isfinite(matrix).all() and not np.isnan(matrix).all():
        raise InputError(f"{where}: {what} has NaN or infinite values; return all NaN if no matrix was found")
    return matrix


def match_arrays(
    parts: Parts, sizes: Sequence[tuple[int, int] | None], where: str
) -> dict[str, NDArray[Any]]:
    """Return checked `points0`, `points1` and, if given, `confidence`.

    `sizes` are (width, height), or None if unknown. Points may be up to `BEYOND_PX` outside an image: methods
    that work on resized images return such points.
    """
    first, second = point_array(parts[0], where, "points0"), point_array(parts[1], where, "points1")
    if len(first) != len(second):
        raise InputError(f"{where}: points0 and points1 differ in shape: {first.shape}, {second.shape}")
    for side, (points, size) in enumerate(zip((first, second), sizes, strict=True)):
        if size is not None and len(points):
            check_inside(points, size, f"{where}: points{side}")
    out: dict[str, NDArray[Any]] = {"points0": first, "points1": second}
    if len(parts) == 3 and parts[2] is not None:
        confidence = as_array(parts[2], where).astype(np.float64)
        if confidence.shape != (len(first),):
            raise InputError(f"{where}: confidence has shape {confidence.shape}, expected ({len(first)},)")
        if not np.isfinite(confidence).all():
            i = int(np.argmin(np.isfinite(confidence)))
            raise InputError(f"{where}: confidence[{i}] is NaN or infinite; remove such matches")
        out["confidence"] = confidence
    return out


def check_inside(points: NDArray[np.float64], size: tuple[int, int], where: str) -> None:
    """Raise an error for the first point that is more than `BEYOND_PX` outside the image."""
    inside = in_view(points, size, border_px=-BEYOND_PX)
    if not inside.all():
        i = int(np.argmin(inside))
        x, y = points[i]
        raise InputError(
            f"{where}[{i}] = ({x:g}, {y:g}) is outside the image of {size[0]} x {size[1]} px; return matches "
            "in pixels of the original image, with the centre of the first pixel at (0, 0)"
        )


def flow_arrays(parts: Parts, where: str) -> dict[str, NDArray[Any]]:
    """Return `flow` float32 (h, w, 2) and, if given, `flow_confidence` (h, w).

    A mask becomes a confidence of 0 or 1.
    """
    checked = flow_parts(parts, where)
    out = {"flow": checked["flow"]}
    for label, values in checked.items():
        if label != "flow":
            out["flow_confidence"] = (values > 0 if label == "mask" else values).astype(np.float32)
    return out


def flow_parts(parts: Parts, where: str) -> dict[str, NDArray[Any]]:
    """Return the checked `flow` float32 (h, w, 2) and, if given, `mask` and `confidence` (h, w)."""
    flow = as_array(parts[0], where)
    if flow.ndim != 3 or flow.shape[2] != 2 or flow.dtype.kind != "f" or 0 in flow.shape:
        raise InputError(f"{where}: a flow must be float (height, width, 2), found {flow.dtype} {flow.shape}")
    out: dict[str, NDArray[Any]] = {"flow": flow.astype(np.float32)}
    for label, part in zip(("mask", "confidence"), parts[1:], strict=False):
        if part is None:
            continue
        values = as_array(part, where)
        if values.ndim != 2:
            raise InputError(f"{where}: {label} has shape {values.shape}, expected (height, width)")
        out[label] = values
    return out


Image = NDArray[np.uint8]
Sizes = list[tuple[int, int] | None]
EDGES = ("lookup_item", "match_points", "match", "match_both")
"""Method names of which an object for image pairs must have at least one."""


def bind_pairs(thing: Any, *, name: str, distance: str, on_bad: str) -> Callable[[Item, Any], Arrays]:
    """Return the function that computes the features of a method on two images.

    `thing` has one of

    * ``match(image1, image2)``: returns (points0 (n, 2), points1 (n, 2)[, confidence (n,)]) in original
      pixels, with the centre of the first pixel at (0, 0), or a flow (h, w, 2) on image 1[, mask[, confidence
      (h, w)]]. An object that declares ``kind = "pairs"`` must return points, and one with ``kind = "dense"``
      a flow. A mapping of the features named below is accepted as well;
    * ``match_points(image1, image2, points)``: returns positions in image 2 of the points (q, 2) of image 1.
      It is called for pairs with query points, in addition to ``match`` if the object has both;
    * ``lookup_item(item)``: returns a mapping of the features, read from files.

    Images are uint8 (h, w, 3) RGB, or (h, w) if the object has ``colour = "grey"``. The payload of an item is
    (image0, image1), followed by `queries` if the item has query points. The features are one of

    * `points0`, `points1` and, if given, `confidence`, `keypoints0` and `keypoints1` (numbers of keypoints,
      (1,));
    * `flow` float32 with `flow_confidence`;
    * `answers` (q, 2): positions of the query points, NaN if unknown;
    * a matrix `F` or `H` (3, 3) from image 1 to image 2, NaN if none was found.

    `distance` is ignored. `on_bad` must be ``error``.

    A built-in object with ``match_stream(pairs)`` receives many image pairs at a time and yields what
    ``match`` returns for each, in order.
    """
    if on_bad != "error":
        raise InputError(
            f'`on_bad="{on_bad}"` applies to descriptors and has no effect on matches; '
            "remove matches with NaN or infinite values, or correct them"
        )
    kind = check_kind(thing, name)
    colour = getattr(thing, "colour", "rgb")
    if isinstance(colour, str) and colour not in ("rgb", "grey"):
        raise InputError(f'method {name!r}: colour is {colour!r}; expected "rgb" or "grey"')
    call = _caller(thing, name)

    def extract(item: Item, payload: Any) -> Arrays:
        try:
            made = call(item, _grey(payload) if colour == "grey" and payload is not None else payload)
        except TiepointError:
            raise
        except (Exception, SystemExit) as e:
            raise user_failure(f"{name} failed on {item.key}", e, thing, payload and payload[:2]) from e
        return checked(item, payload, made)

    def checked(item: Item, payload: Any, made: Sequence[Any]) -> Arrays:
        out: dict[str, NDArray[Any]] = {}
        sizes = image_sizes(item, payload)
        queries = getattr(payload, "queries", None)
        for part in made:
            count = None if queries is None else len(queries)
            out |= _checked(part, kind, sizes, count, f"{name} on {item.key}")
        return out

    def stream(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        waiting: deque[tuple[Item, Any]] = deque()

        def images() -> Iterator[tuple[Image, Image]]:
            for item, payload in payloads:
                waiting.append((item, payload))
                yield tuple(payload[:2])

        for made in thing.match_stream(images()):
            item, payload = waiting.popleft()
            yield item, partial(checked, item, payload, [made])

    if is_builtin_class(type(thing)) and hasattr(thing, "match_stream"):
        extract.stream = stream  # type: ignore[attr-defined]
    return extract


class _GreyPair(NamedTuple):
    image0: Any
    image1: Any
    queries: Any


def _grey(payload: Any) -> _GreyPair:
    image0, image1 = map(to_grey, payload[:2])
    return _GreyPair(image0, image1, getattr(payload, "queries", None))


def _caller(thing: Any, name: str) -> Callable[[Item, Any], list[Any]]:
    """Return a function that calls the `match` and `match_points` of an object on an image pair."""
    if hasattr(thing, "lookup_item"):
        return lambda item, payload: [_one_way(thing.lookup_item(view_for_user(thing, item)))]
    if not any(hasattr(thing, edge) for edge in EDGES):
        raise InputError(f"method {name!r}: match(image1, image2) is missing; add it to the class")

    def call(item: Item, payload: Any) -> list[Any]:
        def images(used_again: bool = False) -> list[Any]:
            return [copy_for_user(thing, image, used_again=used_again) for image in payload[:2]]

        queries = getattr(payload, "queries", None)
        made: list[Any] = []
        if queries is not None and hasattr(thing, "match_points"):
            points = copy_for_user(thing, np.asarray(queries), used_again=True)
            made.append({"answers": thing.match_points(*images(used_again=True), points)})
        if hasattr(thing, "match"):
            made.append(thing.match(*images()))
        elif hasattr(thing, "match_both"):
            both = thing.match_both(*images())
            made.append((both["flow1"], both.get("mask1"), both.get("conf1")))
        if not made:
            raise InputError(
                f"{name}: the class has only match_points, but {item.key} has no query points; add "
                "match(image1, image2)"
            )
        return made

    return call


def _one_way(found: Any) -> Any:
    """Return the flow on image 1 from an output with flows in both directions.

    Other outputs are unchanged.
    """
    if not isinstance(found, Mapping) or "flow1" not in found or "flow" in found:
        return found
    names = {"flow1": "flow", "conf1": "flow_confidence"}
    return {new: found[old] for old, new in names.items() if old in found}


def _checked(made: Any, kind: str | None, sizes: Sizes, count: int | None, where: str) -> Arrays:
    """Check what a method returned for a pair, and return it as named feature arrays.

    `count` is the number of query points, None without them.
    """
    if isinstance(made, Mapping):
        return _named(made, kind, sizes, count, where)
    form, parts = output_form(made, kind, where)
    if form == "dense":
        return flow_arrays(parts, where)
    return match_arrays(parts, sizes, where)


def _named(made: Mapping[str, Any], kind: str | None, sizes: Sizes, count: int | None, where: str) -> Arrays:
    out: dict[str, NDArray[Any]] = {}
    if "answers" in made:
        out["answers"] = point_array(made["answers"], where, "answers", count)
    if "flow" in made:
        _, parts = output_form((made["flow"], None, made.get("flow_confidence")), kind, where)
        out |= flow_arrays(parts, where)
    if {"points0", "points1"} <= set(made):
        _, parts = output_form((made["points0"], made["points1"], made.get("confidence")), kind, where)
        out |= match_arrays(parts, sizes, where)
        for side in ("keypoints0", "keypoints1"):
            if made.get(side) is not None:
                out[side] = np.array([_count(as_array(made[side], where), f"{where}: {side}")], np.int64)
    for matrix in ("F", "H"):
        if made.get(matrix) is not None:
            out[matrix] = matrix_array(made[matrix], where, matrix)
    if not out:
        raise InputError(
            f"{where}: expected points0 and points1, a flow, answers, F or H; found "
            f"{', '.join(made) or 'nothing'}"
        )
    return out


def _count(given: NDArray[Any], where: str) -> int:
    """Return the number of keypoints, given as a number or as an array of keypoints."""
    if given.ndim == 2:
        return len(given)
    if given.size == 1 and 0 <= given.item() < 1 << 53 and given.item() == int(given.item()):
        return int(given.item())
    raise InputError(
        f"{where} has shape {given.shape}; expected the number of keypoints, or keypoints (n, 2)"
    )


def image_sizes(item: Item, payload: Any) -> Sizes:
    """Return (width, height) of both images, None if unknown."""
    if payload is not None:
        return [(image.shape[1], image.shape[0]) for image in payload[:2]]
    return [facts.size for facts in item.images] if len(item.images) == 2 else [None, None]
