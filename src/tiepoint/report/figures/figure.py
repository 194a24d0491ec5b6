# SPDX-License-Identifier: BSD-3-Clause
"""A figure of the report and of a paper: its picture and the numbers behind it."""

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
    """`svg` is the picture in a page, `csv` its data, both downloadable; `save_drawing` writes it for a paper.

    `name` is unique in the report, and `kind` and `group` tell the figures of a section apart. `wide` figures
    take the whole width; `extra` are attributes for the page's script.
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
        """The picture in a page: text stays text, its colour follows the page."""
        return self.drawing.svg(self.name)

    def save(self, path: str | Path, *, columns: int = 1, width: float | None = None) -> Path:
        """Write it for a paper: .pdf, .svg or .png; .csv writes its data.

        Args:
            path: File to write; folders are made.
            columns: Over one column (3.3 inches) or over both (6.9 inches).
            width: In inches, instead of that of the columns.
        """
        import warnings

        path = Path(path)
        if path.suffix == ".csv":
            write_text(path, self.csv)
            return path
        if lacking := save_drawing(self.drawing, path, columns=columns, width=width):
            text = f"the font of figures lacks {' '.join(lacking)}; give the method a display name without"
            warnings.warn(text, UserWarning, stacklevel=2)
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    @property
    def anchor(self) -> str:
        """Where the figure stands in the page."""
        return anchor(self.name)


def anchor(text: str) -> str:
    """A text as an HTML id.

    >>> anchor("a/b <c>")
    'a-b-c'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"


def short(name: str, most: int = 32) -> str:
    """A name that fits a figure, on one line; the page has it whole.

    Cut in the middle, because what tells runs of one method apart stands at the end.

    >>> short("a method with a very long name (split a)", 24)
    'a method wit…e (split a)'
    """
    flat = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(name.split()))
    half = most // 2
    return flat if len(flat) <= most else flat[:half] + "…" + flat[len(flat) - (most - 1 - half) :]


def escape_mathtext(text: str) -> str:
    """Text for Matplotlib, whose mathematics mode starts at a dollar sign."""
    return text.replace("$", r"\$")


def axis_label(metric: str, info: MetricInfo) -> str:
    """Name and unit of a metric.

    >>> axis_label("ap", MetricInfo()), axis_label("inliers", MetricInfo(unit="count"))
    ('ap (%)', 'inliers')
    """
    unit = info.scale[1]
    return f"{metric} ({unit})" if unit else metric


def only_best(drawn: int, every: int, *, data: bool = True) -> str:
    """The sentence that says that not all methods are drawn; empty where they are.

    >>> only_best(3, 3), only_best(3, 5, data=False)
    ('', ' Only the best 3 of 5 methods are shown.')
    """
    if drawn >= every:
        return ""
    if data:
        return f" Only the best {drawn} methods are drawn; the data have all {every}."
    return f" Only the best {drawn} of {every} methods are shown."
