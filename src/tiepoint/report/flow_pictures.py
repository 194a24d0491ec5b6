# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of dense results: flow in colour, warped image, foreground, error map, a sheet of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.tss import PairTruth
from ..formats.image import write_image
from ..geometry.bilinear import resize_u8
from ..geometry.flow_color import GREY, flow_color, max_motion
from ..geometry.flow_resize import resize_flow_pair
from ..geometry.flow_warp import warp_image
from ..metrics.flow import endpoint_error
from ..model.errors import InputError

Image = NDArray[np.uint8]
Colour = tuple[int, int, int]
CYAN: Colour = (0, 255, 255)


def parse_colour(text: str) -> Colour:
    """A colour from ``RRRGGGBBB`` (decimal, three digits a channel, as in the kit) or ``R,G,B``.

    >>> parse_colour("000255255"), parse_colour("10,20,30")
    ((0, 255, 255), (10, 20, 30))
    """
    parts = text.split(",") if "," in text else [text[i : i + 3] for i in (0, 3, 6)]
    if (len(text) == 9 or "," in text) and len(parts) == 3 and all(p.strip().isdigit() for p in parts):
        r, g, b = (int(p) for p in parts)
        if max(r, g, b) <= 255:
            return r, g, b
    raise InputError(f"cannot read the colour {text!r}; write nine digits RRRGGGBBB or R,G,B, each 0 to 255")


def foreground(image: Image, mask: Image | None, *, background: Colour = CYAN) -> Image:
    """The image (h, w, 3) with `background` wherever the mask is not 255, as the kit draws it.

    >>> foreground(np.zeros((1, 2, 3), np.uint8), np.array([[255, 1]], np.uint8))[0].tolist()
    [[0, 0, 0], [0, 255, 255]]
    """
    out = image.copy()
    if mask is not None:
        out[mask != 255] = background
    return out


def error_map(flow: NDArray[Any], truth: NDArray[Any], *, longest_px: float) -> Image:
    """Endpoint error as RGB: black (0) over red and yellow to white (`longest_px` and more).

    Unknown truth is grey, an unknown estimate blue.

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
    """The pictures of the TSS kit's visualisation for one pair, by file name without suffix.

    ``foreground1/2`` from masks; ``warped1/2`` and ``flow1/2`` from flows, background where the mask is not
    255. They have the size of the masks, else of the flows; images are resized to it. Flow colours are scaled
    by the longest ground-truth displacement of the pair at that size. Masks are not estimated for pictures.
    Agrees with the pictures the C++ tool shipped, but for single pixels by one level.
    """
    flows = (result["flow1"], result["flow2"]) if "flow1" in result and "flow2" in result else None
    masks = [result.get(f"mask{i}") for i in (1, 2)]
    if flows is None and all(m is None for m in masks):
        return {}
    sizes = [_size(masks[i], None if flows is None else flows[i]) for i in (0, 1)]
    shown = [im if size is None else resize_u8(im, *size) for im, size in zip(images, sizes, strict=True)]
    out: dict[str, Image] = {}
    for i in (0, 1):
        mask = masks[i]
        if mask is not None:
            out[f"foreground{i + 1}"] = foreground(shown[i], mask, background=background)
    if flows is None:
        return out
    whole = [(s.shape[0], s.shape[1]) for s in shown]
    scaled = resize_flow_pair(truth.flow1, truth.flow2, whole[0], whole[1], rule="tss-cpp")
    longest = max_motion(*scaled)
    for i in (0, 1):
        flow, mask = flows[i], masks[i]
        coloured = flow_color(flow, longest=longest, background=flow_background)
        warped = warp_image(shown[1 - i], flow, outside=background)
        fits = mask is not None and mask.shape == flow.shape[:2]
        out[f"warped{i + 1}"] = foreground(warped, mask if fits else None, background=background)
        out[f"flow{i + 1}"] = foreground(coloured, mask if fits else None, background=flow_background)
    return out


def _size(mask: NDArray[Any] | None, flow: NDArray[Any] | None) -> tuple[int, int] | None:
    array = mask if mask is not None else flow
    return None if array is None else (int(array.shape[0]), int(array.shape[1]))


def save_pictures(folder: str | Path, pictures: Mapping[str, Image]) -> list[Path]:
    """Write pictures as ``FOLDER/NAME.png``; makes the folder."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in pictures.items():
        write_image(path / f"{name}.png", picture)
        written.append(path / f"{name}.png")
    return written


def sheet(rows: Sequence[Sequence[Image]], *, width: int = 240, gap: int = 4) -> Image:
    """Pictures side by side, each `width` pixels wide, rows below each other on white.

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
