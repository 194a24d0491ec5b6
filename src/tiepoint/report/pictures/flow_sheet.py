# SPDX-License-Identifier: BSD-3-Clause
"""Draw sheets of flows: images, flow, true flow, warped image, foreground and error, with captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...datasets.tss import PairTruth
from ...geometry.flow.color import GREY, flow_color, max_motion
from ...geometry.flow.reference_resize import resize_u8
from ...geometry.flow.resize import is_known_flow
from ...geometry.flow.warp import warp_image
from ...metrics.dense import flow_counts
from .error_colours import INK, PAPER, font, wrap_text
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
"""Largest correct error and smallest white error, as fractions of the target's larger side."""

SMALL, STEP, GAP, WHEEL = 13, 18, 6, 64
"""Font size, line height, gap and height of the colour wheel, in pixels."""


@dataclass(frozen=True)
class CaptionedPanel:
    """A picture (h, w, 3) and its caption."""

    picture: Image
    caption: str


@dataclass(frozen=True)
class FlowView:
    """A flow (h, w, 2) with its images, mask and true flow. Sizes are (height, width).

    `seen` is the size at which the method read image 2. It is required only if the image sizes do not
    determine it. `names` are the image names in captions.
    """

    flow: NDArray[Any]
    image1: Image | None = None
    image2: Image | None = None
    mask: Image | None = None
    truth: NDArray[Any] | None = None
    seen: Size | None = None
    names: tuple[str, str] = ("image 1", "image 2")

    def size1(self) -> Size | None:
        """Return the size of image 1, which equals the size of the true flow. None if unknown."""
        source = self.image1 if self.image1 is not None else self.truth
        return None if source is None else size_of(source)

    def at_truth(self) -> NDArray[Any]:
        """Return the flow at the size of the true flow."""
        assert self.truth is not None
        if self.image2 is None:
            return at_truth(self.flow, self.truth, self.seen, None)
        size2 = size_of(self.image2)
        seen = self.seen or target_size(size_of(self.flow), self.size1(), size2)
        return at_truth(self.flow, self.truth, seen, target_size(size_of(self.truth), self.size1(), size2))

    def target_side(self) -> int:
        """Return the larger side of image 2, or of image 1 if image 2 is unknown."""
        assert self.truth is not None
        size = size_of(self.truth)
        if self.image2 is not None:
            size = target_size(size, self.size1(), size_of(self.image2))
        return max(size)


@dataclass(frozen=True)
class FlowErrors:
    """Errors of a flow in pixels of the true flow: mean over known pixels, and fraction within 5 %."""

    mean_px: float | None
    within: float | None
    limit_px: float

    def text(self) -> str:
        """Describe the errors for a caption.

        >>> FlowErrors(2.5, 0.75, 17.0).text()
        'mean 2.50 px, 75.0 % within 17 px (5 % of the larger side)'
        """
        if self.within is None:
            return "the true flow is nowhere known"
        mean = "no flow where the truth is known" if self.mean_px is None else f"mean {self.mean_px:.2f} px"
        return f"{mean}, {100 * self.within:.1f} % within {self.limit_px:g} px (5 % of the larger side)"


def flow_errors(view: FlowView) -> FlowErrors:
    """Return the mean endpoint error and the fraction of pixels within 5 % of the target's larger side.

    >>> flow_errors(FlowView(np.ones((20, 20, 2)), truth=np.zeros((20, 20, 2)))).text()
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
    """Draw a row of captioned pictures for each flow, with colour keys below.

    A row has image 1, image 2, flow, true flow, warped image 2, foreground and error, if available. All flows
    share one colour scale. It ends at the longest true displacement in pixels of the flow, or without true
    flow at the longest estimated displacement.
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
    """Draw both flows of a TSS pair on one sheet, with one row per direction."""
    views = []
    for own, other in ((1, 2), (2, 1)):
        true = truth.flow1 if own == 1 else truth.flow2
        pictures = (images[own - 1], images[other - 1])
        seen = size_of(result[f"flow{other}"])
        names = (f"image {own}", f"image {other}")
        views.append(FlowView(result[f"flow{own}"], *pictures, result.get(f"mask{own}"), true, seen, names))
    return flow_sheet(views, title=[title], background=colours[0], flow_background=colours[1])


def plain_flow(view: FlowView, *, flow_background: Colour = GREY) -> Image:
    """Draw a flow at its own size, with the colour scale of its sheet.

    >>> plain_flow(FlowView(np.ones((3, 4, 2)))).shape
    (3, 4, 3)
    """
    return flow_color(view.flow, longest=_longest(view), background=flow_background)


def _longest(view: FlowView) -> float:
    """Return the displacement that is drawn with full saturation, in pixels of the flow."""
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
        size = format_image_size(size_of(seen))
        row.append(CaptionedPanel(warped, f"{view.names[1]} warped by the flow, read at {size}"))
    if view.mask is not None:
        row.append(_masked(view, coloured, background, flow_background))
    if view.truth is not None and white is not None:
        picture = error_map(view.at_truth(), view.truth, longest_px=white)
        row.append(CaptionedPanel(picture, f"error: {flow_errors(view).text()}"))
    return row


def _masked(view: FlowView, coloured: Image, background: Colour, flow_background: Colour) -> CaptionedPanel:
    """Return the foreground of image 1, resized to the mask. Without image 1, use the coloured flow."""
    assert view.mask is not None
    size = size_of(view.mask)
    if view.image1 is not None:
        picture = foreground(resize_u8(view.image1, *size), view.mask, background=background)
        return CaptionedPanel(picture, f"foreground of {view.names[0]}")
    if size != size_of(coloured):
        raise InputError(
            f"the mask is {format_image_size(size)}, but the flow is {format_image_size(size_of(coloured))}; "
            "pass image 1 (`image1`) to show its foreground instead"
        )
    return CaptionedPanel(
        foreground(coloured, view.mask, background=flow_background), "flow in the foreground"
    )


def flow_key(longest_px: float, unknown: tuple[int, int, int]) -> CaptionedPanel:
    """Return the colour wheel of flows with its explanation.

    >>> flow_key(12.0, (128, 128, 128)).caption.split("; ")[1]
    'white is no motion, full colour 12.0 px, darker beyond'
    """
    y, x = np.mgrid[:WHEEL, :WHEEL]
    motion = np.stack([x, y], axis=2) * 2.0 / (WHEEL - 1) - 1
    wheel = flow_color(motion, longest=1.0)
    wheel[np.hypot(motion[..., 0], motion[..., 1]) > 1] = PAPER
    grey = "grey" if len(set(unknown)) == 1 else f"RGB {unknown[0]}, {unknown[1]}, {unknown[2]}"
    scale = f"white is no motion, full colour {longest_px:.1f} px, darker beyond; {grey} is unknown"
    return CaptionedPanel(wheel, f"flow: the colour is the direction; {scale}")


def error_key(white_px: float) -> CaptionedPanel:
    """Return the colour bar of error maps with its explanation.

    >>> error_key(34.0).caption
    'error: black 0 px, over red and yellow to white, 34 px and more; grey: truth unknown, blue: flow unknown'
    """
    ramp = np.zeros((WHEEL // 4, 2 * WHEEL, 2))
    ramp[..., 0] = np.linspace(0, 1, 2 * WHEEL)
    bar = error_map(ramp, np.zeros_like(ramp), longest_px=1.0)
    scale = f"black 0 px, over red and yellow to white, {white_px:g} px and more"
    return CaptionedPanel(bar, f"error: {scale}; grey: truth unknown, blue: flow unknown")


def captioned_sheet(
    rows: Sequence[Sequence[CaptionedPanel]],
    *,
    title: Sequence[str] = (),
    keys: Sequence[CaptionedPanel] = (),
    width: int = 320,
    least: int = 560,
) -> Image:
    """Arrange a title, rows of captioned pictures of `width` pixels, and colour keys in one RGB image.

    Captions wrap at the width of their picture. Title and keys wrap at the width of the sheet, which is at
    least `least` pixels.

    >>> captioned_sheet([[CaptionedPanel(np.zeros((10, 20, 3), np.uint8), "one")]], width=40, least=0).shape
    (56, 52, 3)
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw

    across = max(max(len(row) for row in rows) * (width + GAP) + GAP, least)
    head = [line for text in title for line in wrap_text(text, across - GAP)]
    fitted = [
        [(_at_width(p.picture, width), wrap_text(p.caption, width, size_px=SMALL)) for p in row]
        for row in rows
    ]
    keyed = [
        (k.picture, wrap_text(k.caption, across - k.picture.shape[1] - 3 * GAP, size_px=SMALL)) for k in keys
    ]
    heights = [max(p.shape[0] for p, _ in row) + STEP * max(len(w) for _, w in row) for row in fitted]
    below = [max(p.shape[0], STEP * len(lines)) for p, lines in keyed]
    total = 22 * len(head) + sum(h + GAP for h in heights) + sum(h + GAP for h in below) + 2 * GAP
    canvas = Pillow.new("RGB", (across, total), PAPER)
    draw = ImageDraw.Draw(canvas)
    y = GAP
    for line in head:
        draw.text((GAP, y), line, fill=INK, font=font())
        y += 22
    for row, height in zip(fitted, heights, strict=True):
        tallest = max(p.shape[0] for p, _ in row)
        for k, (picture, lines) in enumerate(row):
            left = GAP + k * (width + GAP)
            canvas.paste(Pillow.fromarray(picture), (left, y))
            _write(draw, lines, left, y + tallest + 1)
        y += height + GAP
    for (picture, lines), height in zip(keyed, below, strict=True):
        canvas.paste(Pillow.fromarray(picture), (GAP, y + (height - picture.shape[0]) // 2))
        _write(draw, lines, 2 * GAP + picture.shape[1], y + (height - STEP * len(lines)) // 2)
        y += height + GAP
    return np.asarray(canvas)


def _at_width(picture: Image, width: int) -> Image:
    return resize_u8(picture, max(1, round(picture.shape[0] * width / picture.shape[1])), width)


def _write(draw: Any, lines: Sequence[str], x: int, y: int) -> None:
    for k, line in enumerate(lines):
        draw.text((x, y + k * STEP), line, fill=INK, font=font(SMALL))
