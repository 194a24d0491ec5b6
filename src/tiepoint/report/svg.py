# SPDX-License-Identifier: BSD-3-Clause
"""Matplotlib figures as SVG text: same bytes for the same data, colours that follow the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

INK = "#010203"
"""Stands for the page's text colour; replaced by ``currentColor`` in the SVG."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
"""Okabe-Ito and two more: distinguishable with the common colour-vision deficiencies."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))

_STYLE = {
    "svg.hashsalt": "tiepoint",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def colour(index: int) -> str:
    """Colour of the i-th series; beyond the palette, markers and dashes tell series apart.

    >>> colour(0) == colour(len(PALETTE))
    True
    """
    return PALETTE[index % len(PALETTE)]


def look(index: int) -> dict[str, Any]:
    """Colour, marker and dash of the i-th series: any two of the first 40 differ in one of them."""
    return {
        "color": colour(index),
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[(index // len(PALETTE)) % len(DASHES)],
    }


def svg(draw: Callable[[Any], None], *, width: float = 6.4, height: float = 3.6, label: str = "") -> str:
    """The SVG of a figure that `draw(axes)` draws.

    Text stays text, the ink becomes ``currentColor`` (so that the figure is readable on dark and light
    pages), ids depend on the content only, and there is no date: two calls give the same bytes.
    """
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"^<svg ", f'<svg role="img" aria-label="{_escape(label)}" ', text)
    return re.sub(r'(<svg [^>]*?)width="([\d.]+)pt" height="([\d.]+)pt"', r"\1", text, count=1, flags=re.S)


def _escape(text: str) -> str:
    from html import escape

    return escape(text, quote=True)
