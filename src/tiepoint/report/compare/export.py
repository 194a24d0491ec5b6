# SPDX-License-Identifier: BSD-3-Clause
"""Export a comparison as LaTeX, data frames, JSON and files."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...formats.csv_table import frame_csv
from ...formats.file_io import atomic_path
from ...stats.multiplicity import join_letters
from .comparison import Comparison, MethodRow
from .sentences import (
    assumption,
    legend,
    margin_sentences,
    sentences,
    title,
    unit_difference_sentences,
)
from .text_table import comparison_text, header, markdown, row_cells, visible_name

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
    "‡": r"$^{\ddagger}$",
    "`": r"\`{}",
    "–": "--",
    "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"},
}

_LATEX_LETTERS = frozenset("ßæøåÆØÅœŒłŁ…‘’“”—")
"""Non-ASCII letters that LaTeX prints without packages."""


def latex(c: Comparison) -> str:
    """Return a LaTeX table. The best value and all values not separated from it are bold."""
    names = header(c)
    best = next((set(r.letters) for r in c.rows if r.tested), set()) if c.pairs else set()
    lines = [r"\begin{tabular}{l" + "r" * (len(names) - 2) + "l}", r"\hline"]
    lines += [" & ".join(latex_text(x) for x in names) + r" \\", r"\hline"]
    for row in c.rows:
        line = [latex_text(x) for x in row_cells(c, row)]
        if best & set(row.letters):
            line[1] = r"\textbf{" + line[1] + "}"
        lines.append(" & ".join(line) + r" \\")
    lines += [r"\hline", r"\end{tabular}", ""]
    lines += [
        r"\par\smallskip{\footnotesize",
        *(
            latex_text(x)
            for x in [title(c) + ".", *margin_sentences(c), *unit_difference_sentences(c), *legend(c)]
        ),
        "}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(x: str) -> str:
    r"""Escape characters that LaTeX would interpret.

    >>> print(latex_text(r"50% \input{x}_1"))
    50\% \textbackslash{}input\{x\}\_1
    """
    # A row that starts with [ or * would be read as an argument of the line break before it.
    guarded = "{}" if x.startswith(("[", "*")) else ""
    # Two hyphens would become a dash.
    x = re.sub("-(?=-)", "-\0", visible_name(x))
    return guarded + "".join("{}" if ch == "\0" else _LATEX.get(ch) or _latex_letter(ch) for ch in x)


def _latex_letter(ch: str) -> str:
    """Return a letter if LaTeX prints it without packages, else its code point. Other letters stop LaTeX.

    >>> _latex_letter("é"), _latex_letter("漢")
    ('é', '(U+6F22)')
    """
    if ch.isascii() or ch in _LATEX_LETTERS:
        return ch
    parts = unicodedata.normalize("NFD", ch)
    accented = ord(ch) < 0x180 and parts[0].isascii() and len(parts) > 1 and "\u0328" not in parts
    return ch if accented else f"(U+{ord(ch):04X})"


def comparison_frame(c: Comparison) -> Any:
    """Return a pandas DataFrame with one row per method."""
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
        "difference_low_single": None if v is None else v.single_low,
        "difference_high_single": None if v is None else v.single_high,
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
        "skewed": None if v is None else v.skewed,
        **_margin_record(c, r.method),
    }


def _margin_record(c: Comparison, method: str) -> dict[str, Any]:
    """Return the margin columns of a method. Empty without a margin."""
    if c.margin is None:
        return {}
    row = next((asdict(m) for m in c.margins if m.method == method), {})
    keys = {
        "lower": "margin_lower",
        "p": "margin_p",
        "p_adjusted": "margin_p_adjusted",
        "holds": "margin_holds",
    }
    return {"margin": c.margin} | {name: row.get(key) for key, name in keys.items()}


def pairs_frame(c: Comparison) -> Any:
    """Return a pandas DataFrame with one row per pair."""
    import pandas as pd

    return pd.DataFrame([_pair_record(asdict(p)) for p in c.pairs])


def _pair_record(p: dict[str, Any]) -> dict[str, Any]:
    won = p.pop("wins") or (None, None, None)
    return p | {"won": won[0], "level": won[1], "lost": won[2]}


def as_dict(c: Comparison) -> dict[str, Any]:
    """Return all values as a JSON-serialisable dict."""
    rare = ("wide", "cautions", "margin", "margins", "design", "unit_differences")
    head = {k: v for k, v in vars(c).items() if k not in ("rows", "pairs") and (k not in rare or v)}
    plain_head = {k: list(v) if isinstance(v, tuple) else v for k, v in head.items()}
    for name in ("margins", "unit_differences"):
        plain_head |= {name: [asdict(row) for row in getattr(c, name)]} if getattr(c, name) else {}
    return plain_head | {
        "n_scenes": c.n_scenes,
        "n_methods": c.n_methods,
        "methods": [_record(c, r) for r in c.rows],
        "pairs": [_pair_record(asdict(p)) for p in c.pairs],
        "assumption": assumption(c) if c.pairs else None,
        "answer": sentences(c),
        "legend": legend(c),
    }


def save_comparison(c: Comparison, path: Path) -> Path:
    """Write the table to a file. The suffix sets the format."""
    texts: dict[str, Callable[[], str]] = {
        ".txt": lambda: comparison_text(c) + "\n",
        ".md": lambda: markdown(c),
        ".tex": lambda: latex(c),
        ".csv": lambda: frame_csv(comparison_frame(c)),
        ".json": lambda: json.dumps(as_dict(c), indent=1, sort_keys=True) + "\n",
    }
    suffixes = [*texts, ".parquet"]
    if path.suffix not in suffixes:
        raise InputError(f"cannot write {path}: the suffix must be one of {', '.join(suffixes)}")
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            comparison_frame(c).to_parquet(temporary, index=False)
        else:
            temporary.write_text(texts[path.suffix](), encoding="utf-8", newline="\n")
    return path
