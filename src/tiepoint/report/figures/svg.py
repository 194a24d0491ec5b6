# SPDX-License-Identifier: BSD-3-Clause
"""Matplotlib figures as SVG text: same bytes for the same data, colours that follow the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

INK = "#010203"
"""Stands for the page's text colour; replaced by ``currentColor`` in the SVG."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
"""Okabe-Ito and two more: distinguishable with the common colour-vision deficiencies."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
FONT_PT = 9.5
_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

_STYLE = {
    "svg.hashsalt": "tiepoint",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": FONT_PT,
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
    """Colour, marker and dash of the i-th series: any two of the first 32 differ in colour or dash."""
    return {
        "color": colour(index),
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[(index // len(PALETTE)) % len(DASHES)],
    }


def text_width(text: str, size_pt: float = FONT_PT) -> float:
    """About how wide a text is, in inches."""
    return 0.56 * size_pt * len(text) / 72


def svg(
    draw: Callable[[Any], None],
    *,
    name: str,
    label: str,
    width: float = 6.4,
    height: float = 3.6,
    left: float = 0.62,
    right: float = 0.15,
    bottom: float = 0.5,
    top: float = 0.2,
) -> str:
    """The SVG of a figure that `draw(axes)` draws.

    Text stays text, the ink becomes ``currentColor`` (so that the figure is readable on dark and light
    pages), ids depend on the content only, and there is no date: two calls give the same bytes.

    Args:
        draw: draws into the axes it is given.
        name: unique in the page; ids inside the figure start with it.
        label: what the picture shows, for those who do not see it.
        width: inches.
        height: inches.
        left: margin in inches. Fixed margins cost nothing; fitting them costs half of the time.
        right: likewise.
        bottom: likewise.
        top: likewise.
    """
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # Letters that Matplotlib's own font lacks are drawn by the browser's.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), dpi=72)
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        draw(figure.add_axes(box))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _clean(buffer.getvalue(), name, label)


def _clean(text: str, name: str, label: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", text, flags=re.S)
    text = re.sub(r">\s*\n\s*<", ">\n<", text)
    prefix = re.sub(r"[^a-z0-9]+", "-", name.lower())
    text = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], prefix), text)
    text = re.sub(r'(<svg [^>]*?)width="([\d.]+)pt" height="([\d.]+)pt"', r"\1", text, count=1, flags=re.S)
    return f'<svg role="img" aria-label="{escape(label, quote=True)}" ' + text.removeprefix("<svg ")


def _tag(tag: str, prefix: str) -> str:
    """One tag: ink as the page's, ids that start with the figure's name.

    Ids repeat from figure to figure, and a reference into a hidden one would find nothing.
    """
    tag = re.sub(r'<g id="[^"]*"', "<g", tag.replace(INK, "currentColor"))
    tag = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', tag)
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return re.sub(r"'DejaVu Sans'[^;\"]*", _FONT, tag)
