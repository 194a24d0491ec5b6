# SPDX-License-Identifier: BSD-3-Clause
"""Draw dense results: coloured flow, warped image, foreground, error map and contact sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...datasets.tss import PairTruth
from ...formats.image.reader import write_image
from ...geometry.flow.color import GREY, flow_color, max_motion
from ...geometry.flow.reference_resize import resize_u8
from ...geometry.flow.resize import resize_flow_pair, resize_mask, same_scale
from ...geometry.flow.warp import warp_image
from ...metrics.dense import endpoint_error
from ...tasks.dense.protocols import RULES

Size = tuple[int, int]
"""Image size (height, width)."""


def size_of(array: NDArray[Any]) -> Size:
    """Return the (height, width) of an image, a mask or a flow."""
    return int(array.shape[0]), int(array.shape[1])


def format_image_size(size: Size) -> str:
    """Format a size, width first.

    >>> format_image_size((319, 512))
    '512 x 319'
    """
    return f"{size[1]} x {size[0]}"


def target_size(flow: Size, size1: Size | None, size2: Size) -> Size:
    """Return the size of image 2 to which the flow refers. All sizes are (height, width).

    If the flow has the size of image 1 (or image 2), it is in pixels of image 2. Otherwise the method resized
    the images. Two images of equal size were resized to the size of the flow. If their sizes differ and the
    flow has the aspect ratio of image 1, image 2 was resized by the same factor.

    Raises:
        InputError: The size of image 2 is ambiguous.

    >>> target_size((319, 512), (212, 340), (240, 340)), target_size((3, 4), (6, 8), (6, 8))
    ((361, 512), (3, 4))
    >>> target_size((212, 340), (212, 340), (240, 340))
    (240, 340)
    """
    if flow in (size1, size2):
        return size2
    if size1 == size2:
        return flow
    sizes = f"the flow is {format_image_size(flow)} and image 2 is {format_image_size(size2)}"
    if size1 is None:
        raise InputError(
            f"{sizes}, so the scale of the flow is unknown; pass image 1 (`image1`), "
            "or the size at which the method read image 2 (`size2`)"
        )
    if proportional(flow, size1):
        return same_scale(flow, size1, size2)
    raise InputError(
        f"{sizes}, but image 1 is {format_image_size(size1)}, so the scale of the flow is unknown; "
        "pass the size at which the method read image 2 (`size2`)"
    )


def proportional(size: Size, full: Size) -> bool:
    """Return whether two sizes have the same aspect ratio, up to rounding to pixels.

    >>> proportional((319, 512), (212, 340)), proportional((256, 256), (212, 340))
    (True, False)
    """
    (h, w), (full_h, full_w) = size, full
    return abs(h * full_w - w * full_h) <= max(full_w, full_h)


def at_truth(flow: NDArray[Any], truth: NDArray[Any], seen: Size | None, size2: Size | None) -> NDArray[Any]:
    """Resize a flow (h, w, 2) to the size of the true flow, as in the scores of `exact`.

    Args:
        flow: The flow.
        truth: The true flow, of any size.
        seen: Size of image 2 to which the flow refers. None if unknown.
        size2: Size of image 2 to which the true flow refers. None if unknown.

    Raises:
        InputError: The aspect ratios differ and the sizes of image 2 are unknown.

    >>> at_truth(np.ones((2, 2, 2)), np.zeros((4, 4, 2)), None, None)[0, 0].tolist()
    [2.0, 2.0]
    """
    size, full = size_of(flow), size_of(truth)
    if size == full and seen == size2:
        return flow
    if seen is None or size2 is None:
        if not proportional(size, full):
            raise InputError(
                f"the flow is {format_image_size(size)} and the true flow {format_image_size(full)}, with "
                "different aspect ratios; pass both images (`image1`, `image2`), which determine the scale"
            )
        seen, size2 = size, full
    other = np.zeros((*seen, 2), flow.dtype)
    resized: NDArray[Any] = resize_flow_pair(flow, other, full, size2)[0]
    return resized


Image = NDArray[np.uint8]
Colour = tuple[int, int, int]
CYAN: Colour = (0, 255, 255)


def parse_colour(text: str) -> Colour:
    """Parse a colour: ``RRRGGGBBB`` (three decimal digits per channel, as in the TSS kit) or ``R,G,B``.

    >>> parse_colour("000255255"), parse_colour("10,20,30")
    ((0, 255, 255), (10, 20, 30))
    """
    parts = text.split(",") if "," in text else [text[i : i + 3] for i in (0, 3, 6)]
    if (len(text) == 9 or "," in text) and len(parts) == 3 and all(_number(p) for p in parts):
        r, g, b = (int(p) for p in parts)
        if max(r, g, b) <= 255:
            return r, g, b
    raise InputError(f"{text!r} is not a colour; write nine digits RRRGGGBBB or R,G,B, each 0 to 255")


def _number(text: str) -> bool:
    return text.isascii() and text.strip().isdigit()


def target_image(
    image2: Image, flow: NDArray[Any], size1: tuple[int, int] | None, seen: tuple[int, int] | None = None
) -> Image:
    """Resize image 2 (h, w, 3) to the scale of a flow (h, w, 2), for warping.

    The TSS kit resizes each image to its own flow. With a single flow, the scale follows from `size1`, the
    (height, width) of image 1, or from `seen`, the size of image 2. See `target_size`.

    Raises:
        InputError: The sizes differ and the scale is ambiguous.

    >>> target_image(np.zeros((6, 8, 3), np.uint8), np.zeros((3, 4, 2)), (6, 8)).shape
    (3, 4, 3)
    """
    size = seen or target_size(size_of(flow), size1, size_of(image2))
    return image2 if size == size_of(image2) else resize_u8(image2, *size)


def foreground(image: Image, mask: Image | None, *, background: Colour = CYAN) -> Image:
    """Replace pixels of an image (h, w, 3) by `background` where the mask is not 255, as in the TSS kit.

    >>> foreground(np.zeros((1, 2, 3), np.uint8), np.array([[255, 1]], np.uint8))[0].tolist()
    [[0, 0, 0], [0, 255, 255]]
    """
    out = image.copy()
    if mask is not None:
        out[mask != 255] = background
    return out


def error_map(flow: NDArray[Any], truth: NDArray[Any], *, longest_px: float) -> Image:
    """Draw the endpoint error: from black (0) over red and yellow to white (`longest_px` and more).

    Pixels with unknown true flow are grey. Pixels with unknown estimated flow are blue.

    >>> error_map(np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), longest_px=5.0).tolist()
    [[[0, 0, 0]]]
    """
    error = endpoint_error(flow, truth)
    level = np.clip(np.nan_to_num(error, posinf=0.0) / longest_px, 0, 1) * 3
    out = np.stack([np.clip(level - k, 0, 1) for k in range(3)], axis=2)
    picture = np.rint(out * 255).astype(np.uint8)
    picture[np.isnan(error)] = GREY
    picture[np.isinf(error)] = (0, 0, 255)
    return picture


def kit_pictures(
    images: tuple[Image, Image],
    result: Mapping[str, NDArray[Any]],
    truth: PairTruth,
    *,
    background: Colour = CYAN,
    flow_background: Colour = GREY,
) -> dict[str, Image]:
    """Draw the pictures of the TSS kit for one pair, by file name without suffix.

    ``foreground1/2`` have the size of the masks. ``warped1/2`` and ``flow1/2`` have the size of the flows,
    with background where the mask is not 255. Images are resized to masks and flows, and masks are resized to
    the flows. Flow colours are scaled by the longest ground-truth displacement of the pair at the size of the
    flows. Masks are not estimated. The pictures equal those that the kit ships with its sample results. A
    build of the C++ tool whose `atan2f` rounds differently, as in glibc 2.36, differs by one grey level in
    single pixels, for example in ``flow2`` of FG3DCar/001_005.
    """
    flows = (result["flow1"], result["flow2"]) if "flow1" in result and "flow2" in result else None
    masks = [result.get(f"mask{i}") for i in (1, 2)]
    if flows is None and all(m is None for m in masks):
        return {}
    out: dict[str, Image] = {}
    for i in (0, 1):
        mask = masks[i]
        if mask is not None:
            shown = resize_u8(images[i], *size_of(mask))
            out[f"foreground{i + 1}"] = foreground(shown, mask, background=background)
    if flows is None:
        return out
    sizes, kit = [size_of(f) for f in flows], RULES["tss-cpp"]
    longest = max_motion(*resize_flow_pair(truth.flow1, truth.flow2, *sizes, rule=kit))
    for i in (0, 1):
        mask = masks[i]
        fitting = None if mask is None else resize_mask(mask, sizes[i], rule=kit)
        coloured = flow_color(flows[i], longest=longest, background=flow_background)
        warped = warp_image(resize_u8(images[1 - i], *sizes[1 - i]), flows[i], outside=background)
        out[f"warped{i + 1}"] = foreground(warped, fitting, background=background)
        out[f"flow{i + 1}"] = foreground(coloured, fitting, background=flow_background)
    return out


def save_pictures(folder: str | Path, pictures: Mapping[str, Image]) -> list[Path]:
    """Write pictures as ``FOLDER/NAME.png``. Create the folder if necessary."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in pictures.items():
        write_image(path / f"{name}.png", picture)
        written.append(path / f"{name}.png")
    return written


def sheet(rows: Sequence[Sequence[Image]], *, width: int = 240, gap: int = 4) -> Image:
    """Arrange pictures in rows on a white background. Each picture is `width` pixels wide.

    >>> sheet([[np.zeros((10, 20, 3), np.uint8)] * 2], width=40, gap=2).shape
    (24, 86, 3)
    """
    lines = []
    for row in rows:
        small = [resize_u8(p, max(1, round(p.shape[0] * width / p.shape[1])), width) for p in row]
        height = max(p.shape[0] for p in small)
        line = np.full((height + 2 * gap, len(small) * (width + gap) + gap, 3), 255, np.uint8)
        for k, p in enumerate(small):
            left = gap + k * (width + gap)
            line[gap : gap + p.shape[0], left : left + width] = p
        lines.append(line)
    widest = max(line.shape[1] for line in lines)
    padded = [np.pad(n, ((0, 0), (0, widest - n.shape[1]), (0, 0)), constant_values=255) for n in lines]
    return np.concatenate(padded)
