# SPDX-License-Identifier: BSD-3-Clause
"""Adapter for dense methods, which compute flows in both directions, and the method `zero`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, TiepointError
from ...core.records import Arrays, Item
from ..pairs.adapter import check_kind, flow_parts, match_arrays, output_form
from ..user_code import copy_for_user, user_failure, view_for_user

Image = NDArray[np.uint8]


def bind_dense(thing: Any, *, name: str, distance: str, on_bad: str) -> Callable[[Item, Any], Arrays]:
    """Return the `extract` of a dense method: flow1, flow2, and masks and confidences if given.

    `thing` has one of

    * ``match(image1, image2)``: called once in each direction. It returns a flow from image 1 to image 2,
      (h, w, 2), or ``(flow, mask)`` or ``(flow, mask, confidence)``. It may instead return matched points
      (points0, points1[, confidence]), which are interpolated to a flow. An object that declares ``kind =
      "dense"`` must return a flow, and one that declares ``kind = "pairs"`` must return points;
    * ``match_both(image1, image2)``: a mapping of the arrays of both directions;
    * ``lookup_item(item)``: the same mapping, read from files;
    * ``extract(image)``: keypoints and descriptors, which are matched and interpolated to a flow.

    Images are uint8, RGB. A flow may differ in size from its image; tasks resize it. Unknown flow is NaN or
    1e10 and counts as wrong. `distance` is ignored. `on_bad` must be ``error``.
    """
    if on_bad != "error":
        raise InputError(
            f'`on_bad="{on_bad}"` applies to descriptors and has no effect on flows; for missing results use '
            "the option missing=skip or missing=zero"
        )
    thing = as_matcher(thing)
    check_kind(thing, name)
    if hasattr(thing, "lookup_item"):
        return lambda item, _: dict(thing.lookup_item(view_for_user(thing, item)))
    if hasattr(thing, "match_both"):
        return _with_error_context(name, thing, lambda item, pair: _both(thing, name, item, pair))
    if hasattr(thing, "match"):
        return _with_error_context(name, thing, lambda item, pair: _each(thing, name, item, pair))
    raise InputError(
        f"method {name!r}: match(image1, image2) is missing; add it to the class and return a flow"
    )


def _with_error_context(
    name: str, thing: Any, extract: Callable[[Item, Any], Arrays]
) -> Callable[[Item, Any], Arrays]:
    """Wrap `extract` so that its exceptions name the image pair and the line of user code that failed."""

    def wrapped(item: Item, pair: Any) -> Arrays:
        try:
            return extract(item, pair)
        except TiepointError:
            raise
        except (Exception, SystemExit) as e:
            raise user_failure(f"{name} failed on {item.key}", e, thing, pair) from e

    return wrapped


def as_matcher(thing: Any) -> Any:
    """Return `thing`, or a dense matcher around it if it only computes keypoints and descriptors."""
    if hasattr(thing, "extract") and not any(
        hasattr(thing, m) for m in ("lookup_item", "match_both", "match")
    ):
        from .sparse_to_dense import UserFeatures

        return UserFeatures(thing)
    return thing


def _both(thing: Any, name: str, item: Item, pair: tuple[Image, Image]) -> Arrays:
    made: Mapping[str, Any] = thing.match_both(*(copy_for_user(thing, image) for image in pair))
    out: dict[str, NDArray[Any]] = {}
    for i in (1, 2):
        parts = (made[f"flow{i}"], made.get(f"mask{i}"), made.get(f"conf{i}"))
        out.update(_checked(parts, f"method {name!r} on {item.key}", i))
    return out


def _each(thing: Any, name: str, item: Item, pair: tuple[Image, Image]) -> Arrays:
    (first, second), where = pair, f"method {name!r} on {item.key}"
    there = thing.match(*(copy_for_user(thing, image, used_again=True) for image in (first, second)))
    out = _direction_arrays(thing, there, first, where, 1)
    back = thing.match(*(copy_for_user(thing, image) for image in (second, first)))
    return out | _direction_arrays(thing, back, second, where, 2)


def _direction_arrays(thing: Any, made: Any, source: Image, where: str, i: int) -> dict[str, NDArray[Any]]:
    """Return the checked flow, mask and confidence of direction `i` (1 or 2) by name, such as ``flow1``.

    Matched points are interpolated to a flow on the image `source`.
    """
    form, parts = output_form(made, getattr(thing, "kind", None), where)
    if form == "dense":
        return _checked(parts, where, i)
    from .sparse_to_dense import interpolated_flow

    found = match_arrays(parts, (None, None), where)
    flow = interpolated_flow(found["points0"], found["points1"], source.shape[:2])
    return _checked((flow,), where, i)


def _checked(parts: tuple[Any, ...], where: str, i: int) -> dict[str, NDArray[Any]]:
    """Check `parts` (flow, mask, confidence) of direction `i` and return them by name, such as ``flow1``."""
    checked = flow_parts(parts, where)
    out = {f"flow{i}": checked["flow"]}
    if "mask" in checked:
        out[f"mask{i}"] = _mask(checked["mask"])
    if "confidence" in checked:
        out[f"conf{i}"] = checked["confidence"].astype(np.float32)
    return out


def _mask(values: NDArray[Any]) -> NDArray[np.uint8]:
    if values.dtype == np.uint8:
        return values
    return np.where(values > 0, 255, 0).astype(np.uint8)


class ZeroFlow:
    """Reference method that returns zero flow and marks all pixels as foreground.

    >>> ZeroFlow().match(np.zeros((2, 3, 3), np.uint8), np.zeros((2, 3, 3), np.uint8))[0].shape
    (2, 3, 2)
    """

    name = "zero"

    def match(
        self, image1: NDArray[np.uint8], image2: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return flow and mask on image 1."""
        size = image1.shape[:2]
        return np.zeros((*size, 2), np.float32), np.ones(size, bool)
