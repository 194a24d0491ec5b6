# SPDX-License-Identifier: BSD-3-Clause
"""Methods on two images made ready to run: matches, a flow or answered points out, checked at the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.image.read import to_grey
from ...model.errors import InputError, TiepointError, UnitError
from ...model.units import Arrays, Item
from .forms import as_array, flow_arrays, form_of, match_arrays, point_array

Image = NDArray[np.uint8]
EDGES = ("lookup_item", "match_item", "match_truth", "match_points", "match", "match_both")
"""What a method on pairs has, one of them at least."""


def bind_pairs(thing: Any, *, name: str, distance: str, on_bad: str) -> Callable[[Item, Any], Arrays]:
    """What turns a method on two images into features of a pair.

    `thing` has one of

    * ``match(image1, image2)``: (points0 (n, 2), points1 (n, 2)[, confidence (n,)]) in original pixels, the
      centre of the first pixel at (0, 0); or a flow (h, w, 2) on image 1[, mask[, confidence (h, w)]]. Which
      it is follows from the dimensions of the first array; ``kind = "pairs"`` or ``"dense"`` declares it, and
      the other form is then an error. A mapping of the arrays named below will do as well;
    * ``match_points(image1, image2, points)``: where the points (q, 2) of image 1 lie in image 2; called
      where the task asks about given points, before ``match``;
    * ``lookup_item(item)``: a mapping of the arrays, for what only needs to know which pair (files);
    * of this package, ``match_item(item, image1, image2)`` and ``match_truth(item, truth)``.

    Images are uint8 (h, w, 3) RGB, or (h, w) where the object says ``colour = "grey"``. The payload of an
    item is (image0, image1), with `queries` and `truth` where it has them. The features are `points0`,
    `points1` and, where given, `confidence`, `keypoints0` and `keypoints1` (numbers of keypoints, (1,)); or
    `flow` float32 with `flow_confidence`; or `answers` (q, 2), NaN where a point has none. `distance` has no
    meaning here. An `on_bad` other than ``error`` would have no effect and is refused.
    """
    if on_bad != "error":
        raise InputError(
            f'`on_bad="{on_bad}"` is about descriptors and has no effect on matches; '
            "leave out matches that are not finite, or correct them"
        )
    kind = getattr(thing, "kind", None)
    if kind not in (None, "pairs", "dense"):
        raise InputError(f'method {name!r}: kind is {kind!r}; expected "pairs" (points) or "dense" (a flow)')
    colour = getattr(thing, "colour", "rgb")
    if isinstance(colour, str) and colour not in ("rgb", "grey"):
        raise InputError(f'method {name!r}: colour is {colour!r}; expected "rgb" or "grey"')
    call = _caller(thing, name)

    def extract(item: Item, payload: Any) -> Arrays:
        where = f"{name} on {item.key}"
        try:
            made = call(item, _grey(payload) if colour == "grey" and payload is not None else payload)
        except TiepointError:
            raise
        except Exception as e:
            raise UnitError(f"{name} failed on {item.key}: {type(e).__name__}: {e}") from e
        if isinstance(made, _Answers):
            return {"answers": point_array(made.points, where, "answers", made.count)}
        return _checked(made, kind, item, payload, where)

    return extract


class _Answers:
    """Points that answer queries, and how many there were."""

    def __init__(self, points: Any, count: int) -> None:
        self.points, self.count = points, count


class _Payload(tuple[Any, Any]):
    """Two images, with the queries and the truth of where they came from."""

    queries: Any
    truth: Any


def _grey(payload: Any) -> _Payload:
    made = _Payload(to_grey(image) for image in payload[:2])
    made.queries, made.truth = getattr(payload, "queries", None), getattr(payload, "truth", None)
    return made


def _caller(thing: Any, name: str) -> Callable[[Item, Any], Any]:
    if hasattr(thing, "lookup_item"):
        return lambda item, payload: thing.lookup_item(item)
    if hasattr(thing, "match_truth"):
        return lambda item, payload: thing.match_truth(item, getattr(payload, "truth", None))
    if not any(hasattr(thing, edge) for edge in EDGES):
        raise InputError(
            f"method {name!r} has no match(image1, image2), which a method on pairs of images needs"
        )

    def call(item: Item, payload: Any) -> Any:
        first, second = payload[:2]
        queries = getattr(payload, "queries", None)
        if queries is not None and hasattr(thing, "match_points"):
            return _Answers(thing.match_points(first, second, queries), len(queries))
        if hasattr(thing, "match_item"):
            return thing.match_item(item, first, second)
        if hasattr(thing, "match"):
            return thing.match(first, second)
        if hasattr(thing, "match_both"):
            made = thing.match_both(first, second)
            return made["flow1"], made.get("mask1"), made.get("conf1")
        raise InputError(
            f"{name} answers given points only, and {item.key} asks about none; give it match(image1, image2)"
        )

    return call


def _checked(made: Any, kind: str | None, item: Item, payload: Any, where: str) -> Arrays:
    """The features of a pair, or an error that names the method, the pair and what is wrong."""
    if isinstance(made, Mapping):
        return _named(made, kind, item, payload, where)
    form, parts = form_of(made, kind, where)
    if form == "dense":
        return flow_arrays(parts, where)
    return match_arrays(parts, sizes_of(item, payload), where)


def _named(made: Mapping[str, Any], kind: str | None, item: Item, payload: Any, where: str) -> Arrays:
    if "answers" in made:
        queries = getattr(payload, "queries", None)
        return {
            "answers": point_array(
                made["answers"], where, "answers", None if queries is None else len(queries)
            )
        }
    if "flow" in made:
        _, parts = form_of((made["flow"], None, made.get("flow_confidence")), kind, where)
        return flow_arrays(parts, where)
    if not {"points0", "points1"} <= set(made):
        raise InputError(
            f"{where}: expected points0 and points1, a flow, or answers; found {', '.join(made)}"
        )
    given = (made["points0"], made["points1"], made.get("confidence"))
    _, parts = form_of(given, kind, where)
    out = match_arrays(parts, sizes_of(item, payload), where)
    for side in ("keypoints0", "keypoints1"):
        if made.get(side) is not None:
            out[side] = np.array([int(np.asarray(as_array(made[side], where)).reshape(-1)[0])], np.int64)
    return out


def sizes_of(item: Item, payload: Any) -> list[tuple[int, int] | None]:
    """(width, height) of both images, as far as they are known."""
    if payload is not None:
        return [(image.shape[1], image.shape[0]) for image in payload[:2]]
    return [facts.size for facts in item.images] if len(item.images) == 2 else [None, None]
