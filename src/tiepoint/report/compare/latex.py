# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as a table of LaTeX."""

from __future__ import annotations

import re
import unicodedata

from .comparison import Comparison
from .sentences import legend, title
from .text_table import header, row_cells, visible_name

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


def latex(c: Comparison) -> str:
    """The table in LaTeX without packages; the best value and all not separated from it in bold."""
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
    x = re.sub("-(?=-)", "-\0", visible_name(x))
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
