# SPDX-License-Identifier: BSD-3-Clause
"""Scores of a store in other forms: Markdown, LaTeX, CSV, JSON, Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError, UnknownNameError
from ..run.result import Run
from .compare.latex import latex_text
from .compare.table import markdown_text
from .figures.figure import short
from .runs.names import distinct_names
from .runs.sections import Section, sections
from .tables.leaderboard import Cell, leaderboard

if TYPE_CHECKING:
    import pandas as pd

TITLE = "tiepoint report"
Progress = Callable[[str, int, int], None]
FORMATS = ("html", "md", "latex", "csv", "json", "parquet")
LATEX_COLUMNS = 4
"""Columns with intervals that fit beside each other on a page; more go into another tabular below."""
NAME_MOST = 40
SUFFIX = {"html": "html", "md": "md", "latex": "tex", "csv": "csv", "json": "json", "parquet": "parquet"}


def write(
    runs: Sequence[Run], path: Path, form: str, *, title: str = TITLE, progress: Progress | None = None
) -> None:
    """Write the scores of runs to a file in one of `FORMATS`; a refusal of the system is one sentence."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            frame(runs).to_parquet(path, index=False)
        elif form == "html":
            from .page.html import rendered

            pieces = rendered(runs, title=title, progress=progress)
            with path.open("w", encoding="utf-8") as f:
                f.writelines(pieces)
        else:
            path.write_text(text(runs, form, title=title, progress=progress), encoding="utf-8")
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e


def text(runs: Sequence[Run], form: str, *, title: str = TITLE, progress: Progress | None = None) -> str:
    """The scores as text in one of the text formats; the page has a `title`."""
    if form == "csv":
        return str(frame(runs).to_csv(index=False, lineterminator="\n"))
    if form == "json":
        rows = [row | {"name": name} for r, name in _named(runs) for row in r.rows()]
        warnings = sorted({str(w) for r in runs for w in r.manifest.warnings})
        return json.dumps({"scores": rows, "warnings": warnings}, indent=1) + "\n"
    if form == "html":
        from .page.html import render

        return render(runs, title=title, progress=progress)
    make = _markdown if form == "md" else _latex
    return "\n".join(make(s) for s in sections(runs))


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """Tidy scores of all runs, in a fixed order; `name` tells runs of one method apart."""
    import pandas as pd

    frames = [r.scores.assign(run=r.id, dataset=r.stored.dataset, name=name) for r, name in _named(runs)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _named(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    ordered = sorted(runs, key=lambda r: (r.task, r.method, r.id))
    return list(zip(ordered, distinct_names(ordered), strict=True))


def _markdown(section: Section) -> str:
    table = leaderboard(section)
    heads = ["method", "group", *table.headings]
    where = f", on {section.dataset}" if section.dataset else ""
    lines = [f"## {markdown_text(section.task)} ({markdown_text(section.protocol + where)})", ""]
    lines.append("| " + " | ".join(markdown_text(h) for h in heads) + " |")
    lines.append("|---|---|" + "---:|" * len(table.columns))
    for row in table.rows:
        cells = []
        for c in row.cells:
            text = c.value.replace("*", r"\*")
            value = f"**{text}**" if c.best else text
            cells.append(f"{value} [{c.interval}]" if c.interval else value)
        lines.append("| " + " | ".join([markdown_text(row.name), row.letters, *cells]) + " |")
    if any(table.chance):
        lines.append("| " + " | ".join(["chance", "", *table.chance]) + " |")
    notes = [table.wording, *(f"Note: {n}." for n in table.notes)]
    return "\n".join([*lines, *(f"\n{markdown_text(n)}" for n in notes if n)]) + "\n"


def _latex(section: Section) -> str:
    """A table that needs no package, in pieces of a few columns: best in bold, groups, intervals."""
    table = leaderboard(section)
    step = LATEX_COLUMNS
    pieces = [range(i, min(i + step, len(table.columns))) for i in range(0, len(table.columns), step)]
    where = f", on {section.dataset}" if section.dataset else ""
    caption = f"{section.task}, protocol {section.protocol}{where}; 95 % confidence intervals over scenes."
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}"]
    for piece in pieces:
        heads = ["method", "", *(table.headings[i] for i in piece)]
        lines += [
            rf"\begin{{tabular}}{{ll{'r' * len(piece)}}}",
            r"\hline",
            " & ".join(latex_text(h) for h in heads) + r" \\",
            r"\hline",
        ]
        for row in table.rows:
            letters = rf"\textit{{{latex_text(row.letters)}}}" if row.letters else ""
            cells = [_latex_cell(row.cells[i]) for i in piece]
            lines.append(" & ".join([latex_text(short(row.name, NAME_MOST)), letters, *cells]) + r" \\")
        if any(table.chance[i] for i in piece):
            lines += [r"\hline", " & ".join(["chance", "", *(table.chance[i] for i in piece)]) + r" \\"]
        lines += [r"\hline", r"\end{tabular}", ""]
    lines += [
        rf"\par {{\footnotesize {latex_text(n)}}}"
        for n in (table.wording, *(f"Note: {n}." for n in table.notes))
        if n
    ]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_cell(cell: Cell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value
    text = rf"{value} {{\scriptsize [{cell.interval}]}}" if cell.interval else value
    return text.replace(" – ", ", ").replace("–", "--")
