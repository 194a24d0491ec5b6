# SPDX-License-Identifier: BSD-3-Clause
"""Render Matplotlib figures as SVG for HTML pages and as files for papers. Output is reproducible."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...formats.file_io import write_bytes

INK = "#010203"
"""Placeholder for the page's text colour; replaced by ``currentColor`` in the SVG."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
"""The Okabe-Ito palette and two more colours, suitable for colour-blind readers."""

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


_PAPER = _STYLE | {
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.2,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
}
"""Matplotlib style for papers. Fonts are embedded, as TrueType in PDF and as outlines in SVG."""

COLUMN_INCHES = {1: 3.3, 2: 6.9}
"""Figure widths for one and for two columns of a paper, in inches."""

SUFFIXES = (".pdf", ".svg", ".png")
ROW_INCHES = 0.175
PNG_DPI = 300
_PAD = 2.0
_NARROW, _WIDE = frozenset("ijlftrI.,:;'|!()[]/ "), frozenset("mwMW&=%@+<>~")


def colour(index: int) -> str:
    """Return the colour of the i-th series. Colours repeat; markers and dashes then distinguish series.

    >>> colour(0) == colour(len(PALETTE))
    True
    """
    return PALETTE[index % len(PALETTE)]


def look(index: int) -> dict[str, Any]:
    """Return colour, marker and dash of the i-th series. The first 32 differ in colour or dash."""
    return {
        "color": colour(index),
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[(index // len(PALETTE)) % len(DASHES)],
    }


def text_width(text: str, size_pt: float = FONT_PT) -> float:
    """Return the approximate width of a text in inches: that of usual names, or more for wide characters.

    >>> text_width("orb?matcher=mnn&ratio=0.9") > text_width("orb-matcher-mni-ratio-0.9")
    True
    """
    drawn = sum(0.36 if c in _NARROW else 0.92 if c in _WIDE else 0.63 for c in text)
    return max(0.56 * len(text), drawn) * size_pt / 72


@dataclass(frozen=True)
class Drawing:
    """A function that draws into axes, and the size and margins of the figure in inches.

    `label` describes the picture for screen readers. `rows` is the number of rows of fixed height, or 0.
    Margins are fixed, because fitting them to the content doubles the drawing time.
    """

    draw: Callable[[Any], None]
    label: str
    width: float = 6.4
    height: float = 3.6
    left: float = 0.62
    right: float = 0.15
    bottom: float = 0.5
    top: float = 0.2
    rows: int = 0

    def svg(self, name: str) -> str:
        """Return the SVG text for an HTML page. `name` must be unique in the page; it prefixes all ids.

        Text stays selectable. The text colour becomes ``currentColor``, so that the figure is readable on
        dark and light pages. The output is byte-identical for equal content.
        """
        import matplotlib

        with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
            # The browser's font draws letters that Matplotlib's font lacks.
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            from matplotlib.figure import Figure

            figure = Figure(figsize=(self.width, self.height), dpi=72)
            across, up = self.left + self.right, self.bottom + self.top
            low = (self.left / self.width, self.bottom / self.height)
            self.draw(figure.add_axes((*low, 1 - across / self.width, 1 - up / self.height)))
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        return _clean(buffer.getvalue(), name, self.label)


def _clean(text: str, name: str, label: str) -> str:
    """Remove metadata, styles and fixed sizes from an SVG; add a label and unique ids."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", text, flags=re.S)
    text = re.sub(r">\s*\n\s*<", ">\n<", text)
    prefix = re.sub(r"[^a-z0-9]+", "-", name.lower())
    text = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], prefix), text)
    text = re.sub(r'(<svg [^>]*?)width="([\d.]+)pt" height="([\d.]+)pt"', r"\1", text, count=1, flags=re.S)
    return f'<svg role="img" aria-label="{escape(label, quote=True)}" ' + text.removeprefix("<svg ")


def _tag(tag: str, prefix: str) -> str:
    """Set the page's text colour in an SVG tag, and prefix its ids with the figure's name.

    Without the prefix, ids would repeat between figures, and references into a hidden figure would fail.
    """
    tag = re.sub(r'<g id="[^"]*"', "<g", tag.replace(INK, "currentColor"))
    tag = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', tag)
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return re.sub(r"'DejaVu Sans'[^;\"]*", _FONT, tag)


def save_drawing(drawing: Drawing, path: Path, *, columns: int = 1, width: float | None = None) -> list[str]:
    """Write a drawing for a paper. The suffix sets the format: .pdf .svg .png (300 dpi).

    Margins are fitted to ticks, labels and legend. The width is exact. In a narrow figure the legend is below
    the plot. The file embeds its fonts and is byte-identical for equal content.

    Returns:
        Characters that the font does not have. They are drawn as boxes.
    """
    if columns not in COLUMN_INCHES:
        raise InputError(f"`columns={columns}` must be 1 or 2, the width in columns of a paper")
    if path.suffix not in SUFFIXES:
        raise UnknownNameError("suffix of a figure", path.suffix or path.name, SUFFIXES)
    import matplotlib

    width = COLUMN_INCHES[columns] if width is None else width
    if not 1.5 <= width <= 20:
        raise InputError(f"`width={width:g}` must be from 1.5 to 20 inches")
    metadata: dict[str, Any] = {
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        ".svg": {"Date": None, "Creator": None},
        ".png": {"Software": None},
    }[path.suffix]
    with matplotlib.rc_context(_PAPER), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", message="Glyph .* missing")
        figure = _fit(drawing, width, legend_below=width < 5)
        figure.set_facecolor("white" if path.suffix == ".png" else "none")
        content = io.BytesIO()  # Matplotlib would hide the error of a full disk.
        figure.savefig(content, format=path.suffix[1:], dpi=PNG_DPI, metadata=metadata, facecolor="auto")
    write_bytes(path, [content.getvalue()])
    codes = [re.search(r"Glyph (\d+)", str(w.message)) for w in caught]
    return sorted({chr(int(code[1])) for code in codes if code})


def _fit(drawing: Drawing, width: float, *, legend_below: bool) -> Any:
    """Create a figure of the given width with margins that fit ticks, labels and legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    inner = drawing.rows * ROW_INCHES * 72 if drawing.rows else 72 * min(width * 0.58, 3.1)
    margins = [72 * v for v in (drawing.left, drawing.bottom, drawing.right, drawing.top)]
    figure: Any = None
    for _ in range(5):
        left, bottom, right, top = margins
        height = inner + bottom + top
        figure = Figure(figsize=(width, height / 72), dpi=72)
        canvas = FigureCanvasAgg(figure)
        across = max(36.0, 72 * width - left - right)
        axes = figure.add_axes((left / (72 * width), bottom / height, across / (72 * width), inner / height))
        drawing.draw(axes)
        renderer: Any = canvas.get_renderer()
        below = _legend_below(figure, axes, renderer) if legend_below and axes.get_legend() else 0.0
        box, outer = axes.get_window_extent(renderer), axes.get_tightbbox(renderer)
        sizes = [box.x0 - outer.x0, box.y0 - outer.y0 + below, outer.x1 - box.x1, outer.y1 - box.y1]
        needed = [max(0.0, v) + _PAD for v in sizes]
        if all(abs(n - m) < 0.5 for n, m in zip(needed, margins, strict=True)):
            break
        margins = needed
    return figure


def _legend_below(figure: Any, axes: Any, renderer: Any) -> float:
    """Move the legend to the lower edge, in as many columns as fit. Return its height."""
    handles, labels = axes.get_legend_handles_labels()
    axes.get_legend().remove()
    for columns in range(min(4, len(labels)), 0, -1):
        legend = figure.legend(
            handles, labels, loc="lower center", ncols=columns, borderaxespad=0.1, labelspacing=0.3
        )
        size = legend.get_window_extent(renderer)
        if size.width <= figure.bbox.width or columns == 1:
            return float(size.height) + 3.0
        legend.remove()
    return 0.0
