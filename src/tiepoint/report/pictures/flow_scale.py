# SPDX-License-Identifier: BSD-3-Clause
"""In which scale a single flow counts: the size at which its method saw image 2."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...geometry.flow.resize import resize_flow_pair, same_scale

Size = tuple[int, int]
"""Height and width."""


def size_of(array: NDArray[Any]) -> Size:
    """Height and width of an image, a mask or a flow."""
    return int(array.shape[0]), int(array.shape[1])


def format_image_size(size: Size) -> str:
    """A size as it is written: width first.

    >>> format_image_size((319, 512))
    '512 x 319'
    """
    return f"{size[1]} x {size[0]}"


def target_size(flow: Size, size1: Size | None, size2: Size) -> Size:
    """The size (height, width) of image 2 in whose pixels a flow counts; all sizes are (height, width).

    A flow of the size of image 1 (or of image 2) counts the pixels of image 2 as it is. Else the method saw
    other sizes than those of the files: both images of one size became the flow's size; where their sizes
    differ, a flow with the proportions of image 1 says the scale, and image 2 had the same one.

    Raises:
        InputError: where nothing says how image 2 was resized.

    >>> target_size((319, 512), (212, 340), (240, 340)), target_size((3, 4), (6, 8), (6, 8))
    ((361, 512), (3, 4))
    >>> target_size((212, 340), (212, 340), (240, 340))
    (240, 340)
    """
    if flow in (size1, size2):
        return size2
    if size1 == size2:
        return flow
    found = f"the flow is {format_image_size(flow)} and image 2 is {format_image_size(size2)}"
    if size1 is None:
        raise InputError(
            f"{found}; give image 1 too (`image1`), whose size tells in which scale the flow counts, "
            "or the size at which image 2 was seen (`size2`)"
        )
    if proportional(flow, size1):
        return same_scale(flow, size1, size2)
    raise InputError(
        f"{found}, but image 1 is {format_image_size(size1)}: nothing tells in which scale the flow counts; "
        "give the size at which image 2 was seen (`size2`)"
    )


def proportional(size: Size, full: Size) -> bool:
    """Whether one size is the other at another scale, but for the rounding to whole pixels.

    >>> proportional((319, 512), (212, 340)), proportional((256, 256), (212, 340))
    (True, False)
    """
    (h, w), (full_h, full_w) = size, full
    return abs(h * full_w - w * full_h) <= max(full_w, full_h)


def at_truth(flow: NDArray[Any], truth: NDArray[Any], seen: Size | None, size2: Size | None) -> NDArray[Any]:
    """A flow (h, w, 2) at the size of the true flow, resized as the scores of `exact` resize it.

    Args:
        flow: The flow.
        truth: The true flow, of any size.
        seen: Size of image 2 in whose pixels the flow counts; None where it is not known.
        size2: Size of image 2 in whose pixels the truth counts.

    Raises:
        InputError: where sizes differ in proportion, and the sizes of image 2 are not known.

    >>> at_truth(np.ones((2, 2, 2)), np.zeros((4, 4, 2)), None, None)[0, 0].tolist()
    [2.0, 2.0]
    """
    size, full = size_of(flow), size_of(truth)
    if size == full and seen == size2:
        return flow
    if seen is None or size2 is None:
        if not proportional(size, full):
            raise InputError(
                f"the flow is {format_image_size(size)} and the true flow {format_image_size(full)}, of other proportions; "
                "give both images (`image1`, `image2`), whose sizes tell how the flow was made"
            )
        seen, size2 = size, full
    other = np.zeros((*seen, 2), flow.dtype)
    resized: NDArray[Any] = resize_flow_pair(flow, other, full, size2)[0]
    return resized
