# SPDX-License-Identifier: BSD-3-Clause
"""Draw the matches of a pair without ground truth, coloured by whether the model of the other half agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .error_colours import GRADES, PAPER
from .matches import FINE, Image, Panels

Floats = NDArray[np.float64]
YES, NO = GRADES[0].colour, GRADES[-1].colour
OPACITY = 170


def confirmed_panels(
    images: tuple[Image, Image],
    points0: Floats,
    points1: Floats,
    confirmed: NDArray[np.bool_],
    *,
    most: int = 150,
    side_px: int = 360,
) -> Image:
    """Draw two images with at most `most` matches (n, 2), (n, 2), sampled evenly.

    Lines of confirmed matches are green, the others orange. The rarer kind is drawn last.
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw

    sizes = tuple((image.shape[1], image.shape[0]) for image in images)
    panels = Panels((sizes[0], sizes[1]), side_px)
    canvas = Pillow.new("RGB", (panels.width, panels.height), PAPER)
    for side, image in enumerate(images):
        picture = Pillow.fromarray(image).convert("L").resize(panels.sizes[side], Pillow.Resampling.BOX)
        canvas.paste(picture.convert("RGB"), (panels.left[side], 0))
    over = Pillow.new("RGBA", (panels.width * FINE, panels.height * FINE), (0, 0, 0, 0))
    draw = ImageDraw.Draw(over)
    rows = np.linspace(0, len(points0) - 1, min(most, len(points0))).round().astype(int)
    ends = [(panels.place(k, p[rows]) + 0.5) * FINE - 0.5 for k, p in enumerate((points0, points1))]
    good = confirmed[rows]
    kinds: list[Any] = sorted((True, False), key=lambda kind: -int((good == kind).sum()))
    for kind in kinds:
        colour = (*(YES if kind else NO), OPACITY)
        for r in np.flatnonzero(good == kind):
            draw.line((*ends[0][r], *ends[1][r]), fill=colour, width=FINE)
            for x, y in (ends[0][r], ends[1][r]):
                draw.ellipse((x - FINE, y - FINE, x + FINE, y + FINE), fill=colour)
    small = over.resize(canvas.size, Pillow.Resampling.BOX)
    canvas.paste(small, (0, 0), small)
    return np.asarray(canvas)
