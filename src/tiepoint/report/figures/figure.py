# SPDX-License-Identifier: BSD-3-Clause
"""A figure of the report: its picture and the numbers behind it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...tasks.base import MetricInfo


@dataclass(frozen=True)
class Figure:
    """`svg` is the picture, `csv` its data, both downloadable; `name` is unique in the report.

    `wide` figures take the whole width; `extra` are attributes for the page's script.
    """

    name: str
    title: str
    caption: str
    svg: str
    csv: str
    wide: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

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


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""CSV text; numbers with all their digits.

    >>> to_csv(["a", "b"], [[1, 0.5], ["x,y", None]])
    'a,b\n1,0.5\n"x,y",\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def short(name: str, most: int = 32) -> str:
    """A name that fits a figure, on one line; the page has it whole.

    Cut in the middle, because what tells runs of one method apart stands at the end.

    >>> short("a method with a very long name (split a)", 24)
    'a method wit…e (split a)'
    """
    flat = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(name.split()))
    half = most // 2
    return flat if len(flat) <= most else flat[:half] + "…" + flat[len(flat) - (most - 1 - half) :]


def shown(text: str) -> str:
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
