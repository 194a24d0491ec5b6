# SPDX-License-Identifier: BSD-3-Clause
"""Format a comparison as plain text and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from ...stats.multiplicity import join_letters
from .comparison import Comparison, MethodRow
from .sentences import SKEWED, joint, legend, number, p_value, sentences, title


def blocks(widths: Sequence[int], width: int, *, keys: int = 1, between: int = 2) -> list[list[int]]:
    """Split a wide table into tables of at most `width`. Each table repeats the first `keys` columns.

    Args:
        widths: Width of each column.
        width: Maximum length of a line.
        keys: Number of leading columns that identify a row.
        between: Width of the gap between two columns.

    Returns:
        The column indices of each table; empty if some column does not fit beside the keys.

    >>> blocks([6, 10, 10, 10], 80)
    [[0, 1, 2, 3]]
    >>> blocks([6, 10, 10, 10], 30)
    [[0, 1, 2], [0, 3]]
    >>> blocks([6, 10, 10, 40], 30)
    []
    """
    first = list(range(keys))
    taken = sum(widths[k] + between for k in first) - between
    if len(widths) <= keys:
        return [first] if taken <= width else []
    if any(taken + between + w > width for w in widths[keys:]):
        return []
    tables: list[list[int]] = []
    free = -1
    for k in range(keys, len(widths)):
        free -= widths[k] + between
        if free < 0:
            tables.append([*first])
            free = width - taken - between - widths[k]
        tables[-1].append(k)
    return tables


MAX_TABLE_CHARS = 200
"""Maximum length of a printed name. Longer names, for example of imported results, are shortened."""
WIDE_HEAD = 44
"""Maximum length of the heading of a column of numbers."""


def header(c: Comparison) -> list[str]:
    """Return the headings of the columns."""
    level = f"{100 * c.level:g} %"
    names = ["method", "value", f"{level} interval"]
    if c.pairs:
        names += [f"minus {c.baseline}", f"{joint(c.family_size, c.wide)}{level} interval", "p (family-wise)"]
        names += [] if c.pooled else ["won-level-lost"]
        names += ["rank", "group"]
    return names


def row_cells(c: Comparison, row: MethodRow) -> list[str]:
    """Return the printed cells of a row."""
    star = " *" if row.method in c.cautions else ""
    out = [row.method, f"{number(c, row.value)}{star}", _interval(c, row.low, row.high)]
    if not c.pairs:
        return out
    v = row.versus
    if v is None:
        out += ["", "", ""] + ([] if c.pooled else [""])
    else:
        out += [number(c, v.difference, signed=True), _interval(c, v.low, v.high)]
        out.append(p_value(v.p_adjusted) + SKEWED * v.skewed)
        if not c.pooled:
            out.append("–" if v.wins is None else "-".join(map(str, v.wins)))
    return [*out, rank_range(row), join_letters(row.letters)]


def rank_range(row: MethodRow) -> str:
    """Format the rank range: ``3`` or ``3–5``. Empty for a method that is not tested."""
    if row.rank_best is None:
        return ""
    return f"{row.rank_best}" if row.rank_best == row.rank_worst else f"{row.rank_best}–{row.rank_worst}"


def _interval(c: Comparison, low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(c, low)} to {number(c, high)}"


def visible_name(name: str) -> str:
    r"""Escape non-printable characters.

    >>> visible_name("a\nb")
    'a\\nb'
    """
    if name.isprintable():
        return name
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in name)


def distinct_short_names(names: Sequence[str], most: int = MAX_TABLE_CHARS) -> list[str]:
    """Escape names, and shorten names of more than `most` characters by removing their middle.

    Names that would become equal are not shortened.

    >>> distinct_short_names(["abcdefghij", "abcdefgxij", "abcde", "0123456789"], 5)
    ['abcdefghij', 'abcdefgxij', 'abcde', '01…89']
    """
    full = [visible_name(name) for name in names]
    half = (most - 1) // 2
    cut = [n if len(n) <= most else n[:half] + "…" + n[len(n) - (most - 1 - half) :] for n in full]
    owners: dict[str, set[str]] = {}
    for name, short in zip(full, cut, strict=True):
        owners.setdefault(short, set()).add(name)
    return [short if len(owners[short]) == 1 else name for name, short in zip(full, cut, strict=True)]


def comparison_text(c: Comparison, width: int | None = None) -> str:
    """Format the table for a terminal. If `width` is too small, split it or print one cell per line."""
    from rich.cells import cell_len

    heads = [visible_name(x) for x in header(c)]
    long = c.pairs and len(heads[3]) > WIDE_HEAD
    if long:
        heads[3] = "minus baseline"
    names = distinct_short_names([r.method for r in c.rows])
    rows = [[name, *map(visible_name, row_cells(c, r)[1:])] for name, r in zip(names, c.rows, strict=True)]
    grid = [heads, *rows]
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
        for line in grid[1:]:
            body.append(line[0])
            body += [f"  {head}: {x}" for head, x in zip(grid[0][1:], line[1:], strict=True) if x]
    answer = [visible_name(x) for x in sentences(c)]
    answer += [""] if answer else []
    body = [*([f"baseline: {distinct_short_names([c.baseline])[0]}", ""] if long else []), *body]
    lines = [
        *_filled([visible_name(title(c)), "", *answer], width),
        *body,
        "",
        *_filled(map(visible_name, legend(c)), width),
    ]
    return "\n".join(lines)


def _filled(lines: Iterable[str], width: int | None) -> list[str]:
    """Wrap lines at `width`."""
    if width is None:
        return list(lines)
    return [
        part
        for line in lines
        for part in wrap(line, max(width, 20), break_on_hyphens=False, break_long_words=False) or [""]
    ]


def markdown(c: Comparison) -> str:
    """Return the table in Markdown, with markup in names escaped."""
    lines = [_markdown_row(header(c)), "|" + "---|" + "---:|" * (len(header(c)) - 2) + "---|"]
    lines += [_markdown_row(row_cells(c, r)) for r in c.rows]
    notes = [f"- {markdown_text(x)}" for x in legend(c)]
    answer = [line for x in sentences(c) for line in (markdown_text(x), "")]
    return "\n".join([f"**{markdown_text(title(c))}**", "", *answer, *lines, "", *notes]) + "\n"


def _markdown_row(line: list[str]) -> str:
    return "| " + " | ".join(markdown_text(x) for x in line) + " |"


def markdown_text(x: str) -> str:
    """Escape Markdown and HTML markup."""
    x = visible_name(x).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + ch if ch in "\\`*_[]|~#$" else ch for ch in x)
