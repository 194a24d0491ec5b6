# SPDX-License-Identifier: BSD-3-Clause
"""Write the tables of a paper as LaTeX with booktabs, with the BibTeX entries to cite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..run.result import Run
from .cells import ScoreCell
from .compare.export import latex_text
from .compare.text_table import distinct_short_names
from .figures.figure import anchor
from .paper_tables import TIED, ColumnHeading, PaperTable, bibtex

NEEDED = "% Needs \\usepackage{booktabs} and nothing else."
BIBTEX = "% BibTeX entries for your .bib file:"
WIDE_COLUMNS = 5
"""Maximum number of columns that fit one text column."""
MAX_NAME_CHARS = 40


def document(tables: Sequence[PaperTable], entries: str = "", *, intervals: bool = False) -> str:
    """Return all tables as text to include in a paper. BibTeX entries follow as comments."""
    comments = [BIBTEX, *(f"% {line}".rstrip() for line in entries.splitlines()), ""] if entries else []
    return "\n".join([NEEDED, "", *(float_text(t, intervals=intervals) for t in tables), *comments])


@dataclass(frozen=True)
class PaperTexts:
    """LaTeX of tables without and with confidence intervals, and the BibTeX entries, for a page."""

    latex: str
    with_intervals: str
    bibtex: str


def paper_texts(tables: Sequence[PaperTable], runs: Sequence[Run]) -> PaperTexts | None:
    """Return the texts that a page offers for copying. None if there are no tables."""
    if not tables:
        return None
    return PaperTexts(document(tables), document(tables, intervals=True), bibtex(runs))


def float_text(table: PaperTable, *, intervals: bool = False) -> str:
    """Return a LaTeX float with caption and label. A wide table spans both text columns.

    With `intervals`, each method has a second line with the confidence intervals of its scores.
    """
    place = "table*" if len(table.heads) > WIDE_COLUMNS else "table"
    lines = [
        rf"\begin{{{place}}}",
        r"\centering",
        rf"\caption{{{latex_text(table.full_caption(intervals))}}}",
    ]
    lines += [rf"\label{{tab:{anchor(table.name)}}}", rf"\begin{{tabular}}{{l{'r' * len(table.heads)}}}"]
    lines += [r"\toprule", *_latex_heads(table.heads), r"\midrule"]
    names = distinct_short_names([name for name, _ in table.rows], MAX_NAME_CHARS)
    for name, (_, cells) in zip(names, table.rows, strict=True):
        shown = [_cell(c) for c in cells]
        lines.append(" & ".join([latex_text(name), *shown]) + r" \\")
        if intervals and any(c.interval_text for c in cells):
            lines.append(" & ".join(["", *(_interval(c) for c in cells)]) + r" \\")
    if any(table.chance):
        lines += [r"\midrule", " & ".join(["chance", *map(latex_text, table.chance)]) + r" \\"]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip{{\footnotesize {latex_text(n)}}}" for n in table.notes]
    return "\n".join([*lines, rf"\end{{{place}}}", ""])


def _latex_heads(heads: Sequence[ColumnHeading]) -> list[str]:
    """Return up to three LaTeX header lines: shared headings with a rule below, names, units."""
    spans: list[tuple[str, int, int]] = []
    for i, head in enumerate(heads, start=2):
        if spans and head.over and spans[-1][0] == head.over:
            spans[-1] = (head.over, spans[-1][1], i)
        else:
            spans.append((head.over, i, i))
    lines = []
    if any(over for over, _, _ in spans):
        texts = [rf"\multicolumn{{{b - a + 1}}}{{c}}{{{latex_text(over)}}}" for over, a, b in spans]
        lines.append(" & ".join(["", *texts]) + r" \\")
        lines.append("".join(rf"\cmidrule(lr){{{a}-{b}}}" for over, a, b in spans if over))
    under = any(h.unit for h in heads)
    arrows = [r" $\downarrow$" if h.lower else "" for h in heads]
    names = [latex_text(h.name) + ("" if under else a) for h, a in zip(heads, arrows, strict=True)]
    lines.append(
        " & ".join(["" if under else "method", *(rf"\multicolumn{{1}}{{c}}{{{n}}}" for n in names)]) + r" \\"
    )
    if under:
        units = [latex_text(h.unit) + a for h, a in zip(heads, arrows, strict=True)]
        lines.append(" & ".join(["method", *(rf"\multicolumn{{1}}{{c}}{{{u}}}" for u in units)]) + r" \\")
    return lines


def _cell(cell: ScoreCell) -> str:
    text = latex_text(cell.marked)
    text = rf"\textbf{{{text}}}" if cell.best else rf"\underline{{{text}}}" if cell.second else text
    # The mark has no width, so that digits stay aligned.
    return text + (rf"\rlap{{{latex_text(TIED)}}}" if cell.tied else "")


def _interval(cell: ScoreCell) -> str:
    return rf"{{\scriptsize {latex_text(cell.interval_text)}}}" if cell.interval_text else ""
