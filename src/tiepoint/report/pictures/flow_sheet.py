# SPDX-License-Identifier: BSD-3-Clause
"""A sheet of one flow: images, flow, true flow, warped image, foreground and error, each with its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ...core.errors import InputError
from ...datasets.tss import PairTruth
from ...geometry.flow.color import GREY, flow_color, max_motion
from ...geometry.flow.reference_resize import resize_u8
from ...geometry.flow.resize import is_known_flow
from ...geometry.flow.warp import warp_image
from ...metrics.dense import flow_counts
from .captions import CaptionedPanel, captioned_sheet, error_key, flow_key
from .flow import (
    CYAN,
    Colour,
    Image,
    Size,
    at_truth,
    error_map,
    foreground,
    format_image_size,
    size_of,
    target_image,
    target_size,
)

WITHIN, WHITE = 0.05, 0.1
"""Shares of the target's larger side: the error that still counts as right, and the one drawn white."""


@dataclass(frozen=True)
class FlowView:
    """A flow (h, w, 2) and what is known about it; sizes are (height, width).

    `seen` is the size at which its method saw image 2, where it does not follow from the sizes of the images;
    `names` are what captions call the two images.
    """

    flow: NDArray[Any]
    image1: Image | None = None
    image2: Image | None = None
    mask: Image | None = None
    truth: NDArray[Any] | None = None
    seen: Size | None = None
    names: tuple[str, str] = ("image 1", "image 2")

    def size1(self) -> Size | None:
        """The size of image 1, which the true flow lives on."""
        known_by = self.image1 if self.image1 is not None else self.truth
        return None if known_by is None else size_of(known_by)

    def at_truth(self) -> NDArray[Any]:
        """The flow at the size of the true flow."""
        assert self.truth is not None
        if self.image2 is None:
            return at_truth(self.flow, self.truth, self.seen, None)
        size2 = size_of(self.image2)
        seen = self.seen or target_size(size_of(self.flow), self.size1(), size2)
        return at_truth(self.flow, self.truth, seen, target_size(size_of(self.truth), self.size1(), size2))

    def target_side(self) -> int:
        """The larger side of the image that the true flow points into; of image 1 where that is not known."""
        assert self.truth is not None
        size = size_of(self.truth)
        if self.image2 is not None:
            size = target_size(size, self.size1(), size_of(self.image2))
        return max(size)


@dataclass(frozen=True)
class FlowErrors:
    """Errors of a flow in pixels of the true flow: their mean where both are known, the share within 5 %."""

    mean_px: float | None
    within: float | None
    limit_px: float

    def words(self) -> str:
        """As a caption says it.

        >>> FlowErrors(2.5, 0.75, 17.0).words()
        'mean 2.50 px, 75.0 % within 17 px (5 % of the larger side)'
        """
        if self.within is None:
            return "the true flow is nowhere known"
        mean = "no flow where the truth is known" if self.mean_px is None else f"mean {self.mean_px:.2f} px"
        return f"{mean}, {100 * self.within:.1f} % within {self.limit_px:g} px (5 % of the larger side)"


def flow_errors(view: FlowView) -> FlowErrors:
    """Mean endpoint error, and the share of pixels within 5 % of the target's larger side, as in `exact`.

    >>> import numpy as np
    >>> flow_errors(FlowView(np.ones((20, 20, 2)), truth=np.zeros((20, 20, 2)))).words()
    'mean 1.41 px, 0.0 % within 1 px (5 % of the larger side)'
    """
    assert view.truth is not None
    limit = WITHIN * view.target_side()
    counts = flow_counts(view.at_truth(), view.truth, [limit])
    mean = counts.error_sum_px / counts.known if counts.known else None
    return FlowErrors(mean, int(counts.correct[0]) / counts.valid if counts.valid else None, limit)


def flow_sheet(
    views: Sequence[FlowView],
    *,
    title: Sequence[str] = (),
    background: Colour = CYAN,
    flow_background: Colour = GREY,
    width: int = 320,
) -> Image:
    """A row of captioned pictures for each flow, with the keys of both colours below.

    A row is image 1, image 2, flow, true flow, warped image 2, foreground and error, as far as there is
    something to show. Colours of flows have one scale on the sheet: the longest true displacement in pixels
    of the flow, or the longest of the flows where no truth is known.
    """
    longest = max(_longest(view) for view in views)
    white = max((WHITE * view.target_side() for view in views if view.truth is not None), default=None)
    rows = [_row(view, longest, white, background, flow_background) for view in views]
    keys = [flow_key(longest, flow_background), *([] if white is None else [error_key(white)])]
    if len(rows) == 1 and len(rows[0]) == 1:
        width = min(max(width, rows[0][0].picture.shape[1]), 1600)
    return captioned_sheet(rows, title=title, keys=keys, width=width)


def pair_sheet(
    images: tuple[Image, Image],
    result: Mapping[str, NDArray[Any]],
    truth: PairTruth,
    title: str,
    colours: tuple[Colour, Colour] = (CYAN, GREY),
) -> Image:
    """Both flows of a pair of the TSS kit on one sheet: a row for each direction."""
    views = []
    for own, other in ((1, 2), (2, 1)):
        true = truth.flow1 if own == 1 else truth.flow2
        pictures = (images[own - 1], images[other - 1])
        seen = size_of(result[f"flow{other}"])
        names = (f"image {own}", f"image {other}")
        views.append(FlowView(result[f"flow{own}"], *pictures, result.get(f"mask{own}"), true, seen, names))
    return flow_sheet(views, title=[title], background=colours[0], flow_background=colours[1])


def plain_flow(view: FlowView, *, flow_background: Colour = GREY) -> Image:
    """The flow in colour, pixel by pixel, on the scale of its sheet.

    >>> import numpy as np
    >>> plain_flow(FlowView(np.ones((3, 4, 2)))).shape
    (3, 4, 3)
    """
    return flow_color(view.flow, longest=_longest(view), background=flow_background)


def _longest(view: FlowView) -> float:
    """The displacement of full colour, in pixels of the flow."""
    if view.truth is None:
        return max_motion(view.flow)
    return max_motion(view.truth) * view.flow.shape[1] / view.truth.shape[1]


def _row(
    view: FlowView, longest: float, white: float | None, background: Colour, flow_background: Colour
) -> list[CaptionedPanel]:
    flow, row = view.flow, []
    for name, image in zip(view.names, (view.image1, view.image2), strict=True):
        if image is not None:
            row.append(CaptionedPanel(image, f"{name}, {format_image_size(size_of(image))}"))
    coloured = flow_color(flow, longest=longest, background=flow_background)
    share = 100 * float(is_known_flow(flow).mean())
    row.append(CaptionedPanel(coloured, f"flow, {format_image_size(size_of(flow))}, {share:.1f} % known"))
    if view.truth is not None:
        scale = view.truth.shape[1] / flow.shape[1]
        true = flow_color(view.truth, longest=longest * scale, background=flow_background)
        row.append(CaptionedPanel(true, f"true flow, {format_image_size(size_of(view.truth))}"))
    if view.image2 is not None:
        seen = target_image(view.image2, flow, view.size1(), view.seen)
        warped = warp_image(seen, flow, outside=background)
        row.append(
            CaptionedPanel(
                warped, f"{view.names[1]} warped by the flow, read at {format_image_size(size_of(seen))}"
            )
        )
    if view.mask is not None:
        row.append(_masked(view, coloured, background, flow_background))
    if view.truth is not None and white is not None:
        picture = error_map(view.at_truth(), view.truth, longest_px=white)
        row.append(CaptionedPanel(picture, f"error: {flow_errors(view).words()}"))
    return row


def _masked(view: FlowView, coloured: Image, background: Colour, flow_background: Colour) -> CaptionedPanel:
    """The foreground of image 1, resized to the mask as in the kit; of the coloured flow without an image."""
    assert view.mask is not None
    size = size_of(view.mask)
    if view.image1 is not None:
        picture = foreground(resize_u8(view.image1, *size), view.mask, background=background)
        return CaptionedPanel(picture, f"foreground of {view.names[0]}")
    if size != size_of(coloured):
        raise InputError(
            f"the mask is {format_image_size(size)}, the flow it masks is {format_image_size(size_of(coloured))}; "
            "give image 1 (`image1`), which is resized to the mask"
        )
    return CaptionedPanel(
        foreground(coloured, view.mask, background=flow_background), "flow in the foreground"
    )
