# SPDX-License-Identifier: BSD-3-Clause
"""The class `Figure` of reports and papers: a picture and its data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...formats.file_io import write_text
from ...tasks.base import MetricInfo
from .svg import Drawing, save_drawing


@dataclass(frozen=True)
class Figure:
    """A figure. `svg` is the picture for an HTML page, `csv` its data; `save` writes it for a paper.

    `name` is unique in the report. The pair (`kind`, `group`) is unique in a section. `wide` figures take the
    full width of the page. `extra` has HTML attributes for the script of the page.
    """

    name: str
    title: str
    caption: str
    drawing: Drawing = field(repr=False)
    csv: str = field(repr=False)
    wide: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    group: str = "all"

    @cached_property
    def svg(self) -> str:
        """SVG for an HTML page. Text is selectable and has the text colour of the page."""
        return self.drawing.svg(self.name)

    def save(self, path: str | Path, *, columns: int = 1, width: float | None = None) -> Path:
        """Write the figure for a paper as .pdf, .svg or .png, or its data as .csv.

        Args:
            path: File to write; folders are created.
            columns: 1 for one column (3.3 inches) or 2 for both (6.9 inches).
            width: Width in inches, instead of `columns`.
        """
        import warnings

        path = Path(path)
        if path.suffix == ".csv":
            write_text(path, self.csv)
            return path
        if lacking := save_drawing(self.drawing, path, columns=columns, width=width):
            text = f"the font of figures lacks {' '.join(lacking)}; choose another display name"
            warnings.warn(text, UserWarning, stacklevel=2)
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    @property
    def anchor(self) -> str:
        """HTML id of the figure."""
        return anchor(self.name)


def anchor(text: str) -> str:
    """Convert a text to an HTML id.

    >>> anchor("a/b <c>")
    'a-b-c'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"


def short(name: str, most: int = 32) -> str:
    """Shorten a name to one line of at most `most` characters.

    The middle is removed, because the end distinguishes runs of one method.

    >>> short("a method with a very long name (split a)", 24)
    'a method wit…e (split a)'
    """
    flat = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(name.split()))
    half = most // 2
    return flat if len(flat) <= most else flat[:half] + "…" + flat[len(flat) - (most - 1 - half) :]


def escape_mathtext(text: str) -> str:
    """Escape dollar signs, which start Matplotlib's math mode."""
    return text.replace("$", r"\$")


def axis_label(metric: str, info: MetricInfo) -> str:
    """Return the axis label of a metric: its name and unit, and the direction of an error.

    >>> axis_label("ap", MetricInfo()), axis_label("aepe", MetricInfo(unit="px", better="lower"))
    ('ap (%)', 'aepe (px, lower is better)')
    """
    details = ", ".join(x for x in (info.scale[1], "lower is better" if info.lower else "") if x)
    return f"{metric} ({details})" if details else metric


def only_best(drawn: int, every: int, *, data: bool = True) -> str:
    """Return a sentence about methods that are not drawn. Empty if all methods are drawn.

    >>> only_best(3, 3), only_best(3, 5, data=False)
    ('', ' Only the best 3 of 5 methods are shown.')
    """
    if drawn >= every:
        return ""
    if data:
        return f" Only the best {drawn} methods are drawn; the data have all {every}."
    return f" Only the best {drawn} of {every} methods are shown."
