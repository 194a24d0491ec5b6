# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text, Markdown, LaTeX, frames and files."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from ...stats.groups import join_letters
from .result import Comparison, MethodRow
from .words import legend, number, p_value, sentences, title

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "≤": r"$\le$",
    "°": r"$^{\circ}$",
    "µ": r"$\mu$",
    "†": r"$^{\dagger}$",
    "`": r"\`{}",
    "–": "--",
    "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"},
}
_LATEX_KNOWS = frozenset("ßæøåÆØÅœŒłŁ…‘’“”—")


def header(c: Comparison) -> list[str]:
    """Names of the columns."""
    level = f"{100 * c.level:g} %"
    names = ["method", "value", f"{level} interval"]
    if c.pairs:
        names += [f"minus {c.baseline}", f"{level} interval", "p (family-wise)"]
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


def text(c: Comparison) -> str:
    """The table for a terminal."""
    from rich.cells import cell_len

    grid = [[plain(x, 44) for x in line] for line in (header(c), *(cells(c, r) for r in c.rows))]
    width = [max(cell_len(line[k]) for line in grid) for k in range(len(grid[0]))]

    def join(line: list[str]) -> str:
        padded = [
            x + " " * (w - cell_len(x)) if k in (0, len(line) - 1) else " " * (w - cell_len(x)) + x
            for k, (x, w) in enumerate(zip(line, width, strict=True))
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * w for w in width)
    body = [join(grid[0]), rule, *(join(line) for line in grid[1:])]
    said = [*(plain(x) for x in sentences(c)), ""] if c.pairs else []
    return "\n".join([plain(title(c)), "", *said, *body, "", *(plain(x) for x in legend(c))])


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


def latex(c: Comparison) -> str:
    """The table in LaTeX without packages; the best value and all not separated from it in bold."""
    names = header(c)
    best = next((set(r.letters) for r in c.rows if r.tested), set()) if c.pairs else set()
    lines = [r"\begin{tabular}{l" + "r" * (len(names) - 2) + "l}", r"\hline"]
    lines += [" & ".join(latex_text(x) for x in names) + r" \\", r"\hline"]
    for row in c.rows:
        line = [latex_text(x) for x in cells(c, row)]
        if best & set(row.letters):
            line[1] = r"\textbf{" + line[1] + "}"
        lines.append(" & ".join(line) + r" \\")
    lines += [r"\hline", r"\end{tabular}", ""]
    lines += [r"\par\smallskip{\footnotesize", *(latex_text(x) for x in [title(c) + ".", *legend(c)]), "}"]
    return "\n".join(lines) + "\n"


def latex_text(x: str) -> str:
    r"""Text with everything LaTeX would read as a command made visible.

    >>> print(latex_text(r"50% \input{x}_1"))
    50\% \textbackslash{}input\{x\}\_1
    """
    # A row that starts with [ or * would be read as an argument of the line break before it.
    guarded = "{}" if x.startswith(("[", "*")) else ""
    # Two hyphens would become a dash.
    x = re.sub("-(?=-)", "-\0", plain(x))
    return guarded + "".join("{}" if ch == "\0" else _LATEX.get(ch) or _latex_letter(ch) for ch in x)


def _latex_letter(ch: str) -> str:
    """A letter as it is if plain LaTeX knows it, else its code: an unknown one would stop the compilation.

    >>> _latex_letter("é"), _latex_letter("漢")
    ('é', '(U+6F22)')
    """
    if ch.isascii() or ch in _LATEX_KNOWS:
        return ch
    parts = unicodedata.normalize("NFD", ch)
    accented = ord(ch) < 0x180 and parts[0].isascii() and len(parts) > 1 and "\u0328" not in parts
    return ch if accented else f"(U+{ord(ch):04X})"


def frame(c: Comparison) -> Any:
    """One row a method, as a pandas DataFrame."""
    import pandas as pd

    return pd.DataFrame([_record(c, r) for r in c.rows])


def _record(c: Comparison, r: MethodRow) -> dict[str, Any]:
    v = r.versus
    won = None if v is None else v.wins
    return {
        "method": r.base_name or r.method,
        "name": r.method,
        "run": r.run,
        "value": r.value,
        "low": r.low,
        "high": r.high,
        "baseline": c.baseline,
        "difference": None if v is None else v.difference,
        "difference_low": None if v is None else v.low,
        "difference_high": None if v is None else v.high,
        "p": None if v is None else v.p,
        "p_adjusted": None if v is None else v.p_adjusted,
        "separated": None if v is None else v.separated,
        "effect_size": None if v is None else v.effect,
        "smallest_resolvable": None if v is None else v.resolvable,
        "won": None if won is None else won[0],
        "level": None if won is None else won[1],
        "lost": None if won is None else won[2],
        "rank_best": r.rank_best,
        "rank_worst": r.rank_worst,
        "group": join_letters(r.letters),
        "identical_to": r.identical_to,
        "tested": r.tested,
        "n_scenes": c.n_scenes,
    }


def pairs_frame(c: Comparison) -> Any:
    """One row a pair, as a pandas DataFrame."""
    import pandas as pd

    return pd.DataFrame([_pair_record(asdict(p)) for p in c.pairs])


def _pair_record(p: dict[str, Any]) -> dict[str, Any]:
    won = p.pop("wins") or (None, None, None)
    return p | {"won": won[0], "level": won[1], "lost": won[2]}


def as_dict(c: Comparison) -> dict[str, Any]:
    """Everything as plain values."""
    head = {k: v for k, v in vars(c).items() if k not in ("rows", "pairs") and (k != "wide" or v)}
    plain_head = {k: list(v) if isinstance(v, tuple) else v for k, v in head.items()}
    return plain_head | {
        "n_scenes": c.n_scenes,
        "n_methods": c.n_methods,
        "methods": [_record(c, r) for r in c.rows],
        "pairs": [_pair_record(asdict(p)) for p in c.pairs],
        "answer": sentences(c),
        "legend": legend(c),
    }


def save(c: Comparison, path: Path) -> Path:
    """Write the table in the form its suffix names."""
    writers: dict[str, Callable[[], object]] = {
        ".txt": lambda: path.write_text(text(c) + "\n", encoding="utf-8"),
        ".md": lambda: path.write_text(markdown(c), encoding="utf-8"),
        ".tex": lambda: path.write_text(latex(c), encoding="utf-8"),
        ".csv": lambda: frame(c).to_csv(path, index=False),
        ".json": lambda: path.write_text(
            json.dumps(as_dict(c), indent=1, sort_keys=True) + "\n", encoding="utf-8"
        ),
        ".parquet": lambda: frame(c).to_parquet(path, index=False),
    }
    if path.suffix not in writers:
        raise InputError(f"cannot write {path}: the suffix must be one of {', '.join(writers)}")
    writers[path.suffix]()
    return path
