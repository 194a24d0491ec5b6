# SPDX-License-Identifier: BSD-3-Clause
"""Methods on two images made ready to run: matches, a flow or answered points out, checked at the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, TiepointError
from ...core.units import Arrays, Item
from ...formats.image.reader import to_grey
from ..user_code import copy_for_user, user_failure
from .forms import as_array, check_kind, flow_arrays, match_arrays, matrix_array, output_form, point_array

Image = NDArray[np.uint8]
Sizes = list[tuple[int, int] | None]
EDGES = ("lookup_item", "match_truth", "match_points", "match", "match_both")
"""What a method on pairs has, one of them at least."""


def bind_pairs(thing: Any, *, name: str, distance: str, on_bad: str) -> Callable[[Item, Any], Arrays]:
    """What turns a method on two images into features of a pair.

    `thing` has one of

    * ``match(image1, image2)``: (points0 (n, 2), points1 (n, 2)[, confidence (n,)]) in original pixels, the
      centre of the first pixel at (0, 0); or a flow (h, w, 2) on image 1[, mask[, confidence (h, w)]]. Which
      it is follows from the dimensions of the first array; ``kind = "pairs"`` or ``"dense"`` declares it, and
      the other form is then an error. A mapping of the arrays named below will do as well;
    * ``match_points(image1, image2, points)``: where the points (q, 2) of image 1 lie in image 2; called
      where the pair has query points, besides ``match``, if there is one;
    * ``lookup_item(item)``: a mapping of the arrays, for what only needs to know which pair (files);
    * of this package, ``match_truth(item, truth, queries)``.

    Images are uint8 (h, w, 3) RGB, or (h, w) where the object says ``colour = "grey"``. The payload of an
    item is (image0, image1), with `queries` and `truth` where it has them. The features are `points0`,
    `points1` and, where given, `confidence`, `keypoints0` and `keypoints1` (numbers of keypoints, (1,)); or
    `flow` float32 with `flow_confidence`; or `answers` (q, 2), NaN where a point has none; or a matrix `F` or
    `H` (3, 3) from image 1 to image 2, NaN where there is none. `distance` has no
    meaning here. An `on_bad` other than ``error`` would have no effect and is refused.
    """
    if on_bad != "error":
        raise InputError(
            f'`on_bad="{on_bad}"` is about descriptors and has no effect on matches; '
            "leave out matches that are not finite, or correct them"
        )
    kind = check_kind(thing, name)
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
        except (Exception, SystemExit) as e:
            raise user_failure(f"{name} failed on {item.key}", e, thing, payload) from e
        out: dict[str, NDArray[Any]] = {}
        sizes: Sizes = [None, None] if hasattr(thing, "match_truth") else image_sizes(item, payload)
        queries = getattr(payload, "queries", None)
        for part in made:
            out |= _checked(part, kind, sizes, None if queries is None else len(queries), where)
        return out

    return extract


class _Payload(tuple[Any, Any]):
    """Two images, with the queries and the truth of where they came from."""

    queries: Any
    truth: Any


def _grey(payload: Any) -> _Payload:
    made = _Payload(to_grey(image) for image in payload[:2])
    made.queries, made.truth = getattr(payload, "queries", None), getattr(payload, "truth", None)
    return made


def _caller(thing: Any, name: str) -> Callable[[Item, Any], list[Any]]:
    """What an object gives for a pair: its answers to the queries, and its matches or flow."""
    if hasattr(thing, "lookup_item"):
        return lambda item, payload: [_one_way(thing.lookup_item(item))]
    if hasattr(thing, "match_truth"):
        return lambda item, payload: [
            thing.match_truth(item, getattr(payload, "truth", None), getattr(payload, "queries", None))
        ]
    if not any(hasattr(thing, edge) for edge in EDGES):
        raise InputError(
            f"method {name!r} has no match(image1, image2), which a method on pairs of images needs"
        )

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
                f"{name} answers given points only, and {item.key} asks about none; "
                "give it match(image1, image2) as well"
            )
        return made

    return call


def _one_way(found: Any) -> Any:
    """Of flows both ways, as dense methods leave them, that on image 1."""
    if not isinstance(found, Mapping) or "flow1" not in found or "flow" in found:
        return found
    names = {"flow1": "flow", "conf1": "flow_confidence"}
    return {new: found[old] for old, new in names.items() if old in found}


def _checked(made: Any, kind: str | None, sizes: Sizes, count: int | None, where: str) -> Arrays:
    """The features of a pair, or an error that names the method, the pair and what is wrong."""
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
            f"{where}: expected points0 and points1, a flow, answers, F or H; "
            f"found {', '.join(made) or 'nothing'}"
        )
    return out


def _count(given: NDArray[Any], where: str) -> int:
    """How many keypoints there are: as stated, or of the keypoints themselves."""
    if given.ndim == 2:
        return len(given)
    if given.size == 1 and 0 <= given.item() < 1 << 53 and given.item() == int(given.item()):
        return int(given.item())
    raise InputError(
        f"{where} has shape {given.shape}; expected the number of keypoints, or keypoints (n, 2)"
    )


def image_sizes(item: Item, payload: Any) -> Sizes:
    """(width, height) of both images, as far as they are known."""
    if payload is not None:
        return [(image.shape[1], image.shape[0]) for image in payload[:2]]
    return [facts.size for facts in item.images] if len(item.images) == 2 else [None, None]
