# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text, Markdown, LaTeX, frames and files."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from ...stats.groups import join_letters
from ..side_by_side import blocks
from .result import Comparison, MethodRow
from .words import joint, legend, number, p_value, sentences, title


def header(c: Comparison) -> list[str]:
    """Names of the columns."""
    level = f"{100 * c.level:g} %"
    names = ["method", "value", f"{level} interval"]
    if c.pairs:
        names += [f"minus {c.baseline}", f"{joint(c.family_size, c.wide)}{level} interval", "p (family-wise)"]
        names += [] if c.pooled else ["won-level-lost"]
        names += ["rank", "group"]
    return names


def cells(c: Comparison, row: MethodRow) -> list[str]:
    """One row as printed."""
    out = [row.method, number(c, row.value), _interval(c, row.low, row.high)]
    if not c.pairs:
        return out
    v = row.versus
    if v is None:
        out += ["", "", ""] + ([] if c.pooled else [""])
    else:
        out += [number(c, v.difference, signed=True), _interval(c, v.low, v.high), p_value(v.p_adjusted)]
        if not c.pooled:
            out.append("–" if v.wins is None else "-".join(map(str, v.wins)))
    return [*out, rank_range(row), join_letters(row.letters)]


def rank_range(row: MethodRow) -> str:
    """The ranks the scenes leave open, ``3`` or ``3–5``; empty for a method that is not tested."""
    if row.rank_best is None:
        return ""
    return f"{row.rank_best}" if row.rank_best == row.rank_worst else f"{row.rank_best}–{row.rank_worst}"


def _interval(c: Comparison, low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(c, low)} to {number(c, high)}"


def plain(name: str, longest: int | None = None) -> str:
    r"""A name as visible characters on one line, cut in the middle if it is too long.

    >>> plain("a\nb"), plain("abcdefghij", 5)
    ('a\\nb', 'ab…ij')
    """
    shown = "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in name)
    if longest is not None and len(shown) > longest:
        half = (longest - 1) // 2
        shown = shown[:half] + "…" + shown[len(shown) - (longest - 1 - half) :]
    return shown


def text(c: Comparison, width: int | None = None) -> str:
    """The table for a terminal; in several parts, or a line a cell, where `width` columns are too few."""
    from rich.cells import cell_len

    grid = [[plain(x, 60) for x in line] for line in (header(c), *(cells(c, r) for r in c.rows))]
    widths = [max(cell_len(line[k]) for line in grid) for k in range(len(grid[0]))]
    parts = [list(range(len(widths)))] if width is None else blocks(widths, width)

    def join(line: list[str], part: list[int]) -> str:
        padded = [
            line[k] + " " * (widths[k] - cell_len(line[k]))
            if k in (0, len(line) - 1)
            else " " * (widths[k] - cell_len(line[k])) + line[k]
            for k in part
        ]
        return "  ".join(padded).rstrip()

    body: list[str] = []
    for part in parts:
        body += [""] if body else []
        body += [join(grid[0], part), "  ".join("-" * widths[k] for k in part)]
        body += [join(line, part) for line in grid[1:]]
    if not parts:
        for row, line in zip(c.rows, grid[1:], strict=True):
            body.append(plain(row.method))
            body += [f"  {head}: {x}" for head, x in zip(grid[0][1:], line[1:], strict=True) if x]
    said = [*(plain(x) for x in sentences(c)), ""] if c.pairs else []
    lines = [*_filled([plain(title(c)), "", *said], width), *body, "", *_filled(map(plain, legend(c)), width)]
    return "\n".join(lines)


def _filled(lines: Iterable[str], width: int | None) -> list[str]:
    """Prose in lines of at most `width`."""
    if width is None:
        return list(lines)
    return [part for line in lines for part in wrap(line, max(width, 20), break_on_hyphens=False) or [""]]


def markdown(c: Comparison) -> str:
    """The table in Markdown; names are shown as text whatever is in them."""
    lines = [_markdown_row(header(c)), "|" + "---|" + "---:|" * (len(header(c)) - 2) + "---|"]
    lines += [_markdown_row(cells(c, r)) for r in c.rows]
    notes = [f"- {markdown_text(x)}" for x in legend(c)]
    said = [line for x in sentences(c) for line in (markdown_text(x), "")]
    return "\n".join([f"**{markdown_text(title(c))}**", "", *said, *lines, "", *notes]) + "\n"


def _markdown_row(line: list[str]) -> str:
    return "| " + " | ".join(markdown_text(x) for x in line) + " |"


def markdown_text(x: str) -> str:
    """Text with everything Markdown or HTML would read as markup made visible."""
    x = plain(x).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + ch if ch in "\\`*_[]|~#$" else ch for ch in x)
