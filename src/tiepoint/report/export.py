# SPDX-License-Identifier: BSD-3-Clause
"""Export scores as HTML, Markdown, LaTeX, CSV, JSON or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import InputError, UnknownNameError
from ..formats.csv_table import frame_csv, to_csv
from ..formats.file_io import atomic_path
from ..run.result import Run
from ..stats.paired import SIGN_FLIP, TESTS
from . import paper_latex, paper_tables
from .cells import ScoreCell
from .compare.export import latex_text
from .compare.text_table import distinct_short_names, markdown_text
from .leaderboard import leaderboard
from .paper_latex import MAX_NAME_CHARS
from .runs.names import DisplayNames, distinct_names
from .runs.sections import TaskSection, sections

if TYPE_CHECKING:
    import pandas as pd

TITLE = "tiepoint report"
Progress = Callable[[str, int, int], None]
FORMATS = ("html", "md", "latex", "csv", "json", "parquet")
LATEX_COLUMNS = 4
"""Maximum number of columns with intervals per LaTeX tabular. Further columns go into another tabular."""
TABLES = ("combined", "tasks", "scores")
"""Tables: methods by tasks (`combined`), methods by groups for each task (`tasks`), all scores (`scores`)."""

SUFFIX = {"html": "html", "md": "md", "latex": "tex", "csv": "csv", "json": "json", "parquet": "parquet"}


def write(
    runs: Sequence[Run],
    path: Path,
    form: str,
    *,
    title: str = TITLE,
    progress: Progress | None = None,
    table: str | None = None,
    display: DisplayNames | None = None,
    test: str = SIGN_FLIP,
    intervals: bool = False,
) -> None:
    """Write the scores of runs to a file in one of `FORMATS`.

    `table` is one of `TABLES` and applies to Markdown, LaTeX and CSV. By default, CSV has all scores.
    Markdown and LaTeX have the tables of a paper: `tasks`, and also `combined` if there are several tasks.
    `display` has the display names. `test` compares methods in HTML, Markdown and LaTeX. `intervals` adds
    confidence intervals to the tables of a paper.
    """
    check_table(form, table, display)
    check_test(form, table, test)
    if path.suffix.lower() == ".pdf":
        raise InputError(
            f"{path}: a report cannot be written as PDF; write HTML and print it, or use format latex"
        )
    check_intervals(form, table, intervals)
    with atomic_path(path) as temporary:
        if form == "parquet":
            scores_frame(runs).to_parquet(temporary, index=False)
        elif form == "html":
            from .html_page import iter_page

            pieces = iter_page(runs, title=title, progress=progress, test=test)
            with temporary.open("w", encoding="utf-8", newline="\n") as f:
                f.writelines(pieces)
        else:
            text = scores_text(
                runs,
                form,
                title=title,
                progress=progress,
                table=table,
                display=display,
                test=test,
                intervals=intervals,
            )
            temporary.write_text(text, encoding="utf-8", newline="\n")


def check_table(form: str, table: str | None, display: DisplayNames | None) -> None:
    """Raise an error for an unknown format or table, and for options that a format does not use."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    if table is not None and table not in TABLES:
        raise UnknownNameError("table", table, TABLES)
    if table is not None and form not in ("md", "latex", "csv"):
        raise InputError(f"`table` has no effect on {form}; use it with md, latex or csv")
    if display is not None and (table == "scores" or (table is None and form not in ("md", "latex"))):
        raise InputError("`names` needs the table `combined` or `tasks` of md, latex or csv")


def check_test(form: str, table: str | None, test: str) -> None:
    """Raise an error for an unknown test, and for a test in a format that lists scores only."""
    if test not in TESTS:
        raise UnknownNameError("test", test, TESTS)
    if test != SIGN_FLIP and (form in ("json", "parquet") or (form == "csv" and table in (None, "scores"))):
        raise InputError(f"`test` has no effect on {form}; it is for html, md and latex")


def check_intervals(form: str, table: str | None, intervals: bool) -> None:
    """Raise an error unless the format writes tables of a paper, to which intervals can be added."""
    if intervals and (form not in ("md", "latex") or table == "scores"):
        what = f"the table scores of {form}" if form in ("md", "latex") else form
        raise InputError(
            f"`intervals` has no effect on {what}, which includes intervals; it is for tables of a paper"
        )


def scores_text(
    runs: Sequence[Run],
    form: str,
    *,
    title: str = TITLE,
    progress: Progress | None = None,
    table: str | None = None,
    display: DisplayNames | None = None,
    test: str = SIGN_FLIP,
    intervals: bool = False,
) -> str:
    """Return the scores in one of the text formats; see `write`. `title` is the title of the HTML page."""
    if form == "csv" and table in (None, "scores"):
        return frame_csv(scores_frame(runs))
    if form == "json":
        rows = [row | {"name": name} for r, name in _named(runs) for row in r.rows()]
        warnings = sorted({str(w) for r in runs for w in r.manifest.warnings})
        return json.dumps({"scores": rows, "warnings": warnings}, indent=1) + "\n"
    if form == "html":
        from .html_page import render_page

        return render_page(runs, title=title, progress=progress, test=test)
    if table == "scores":
        make = _markdown if form == "md" else _latex
        return "\n".join(make(s) for s in sections(runs, test=test))
    shown = (display or DisplayNames()).check_unique(runs)
    tables = paper_tables.paper_tables(runs, shown, table, one=form == "csv", test=test)
    if form == "csv":
        return _combined_csv(tables[0]) if table == "combined" else _tasks_csv(tables)
    if form == "md":
        return "\n".join(_paper_markdown(t, intervals) for t in tables)
    return paper_latex.document(tables, paper_tables.bibtex(runs), intervals=intervals)


def _combined_csv(table: paper_tables.PaperTable) -> str:
    """Return CSV with one row per method: the printed value and its mark for each task."""
    heads = [x for h in table.heads for x in (h.whole, f"{h.whole} mark")]
    rows = [[name, *(x for c in cells for x in (c.marked, c.ranking))] for name, cells in table.rows]
    return to_csv(["method", *heads], rows)


def _tasks_csv(tables: Sequence[paper_tables.PaperTable]) -> str:
    """Return CSV with one row per table cell, because the tables have different columns."""
    rows = [
        [table.name, name, head.whole, cell.marked, cell.ranking]
        for table in tables
        for name, cells in table.rows
        for head, cell in zip(table.heads, cells, strict=True)
    ]
    return to_csv(["table", "method", "column", "value", "mark"], rows)


def _paper_markdown(table: paper_tables.PaperTable, intervals: bool) -> str:
    lines = [f"**{markdown_text(table.full_caption(intervals))}**", ""]
    heads = ["method", *(h.whole + (" ↓" if h.lower else "") for h in table.heads)]
    lines.append("| " + " | ".join(markdown_text(h) for h in heads) + " |")
    lines.append("|---|" + "---:|" * len(table.heads))
    for name, cells in table.rows:
        shown = []
        for c in cells:
            value = markdown_text(c.marked)
            value = f"**{value}**" if c.best else f"<u>{value}</u>" if c.second else value
            value += paper_tables.TIED if c.tied else ""
            shown.append(f"{value} [{c.interval_text}]" if intervals and c.interval_text else value)
        lines.append("| " + " | ".join([markdown_text(name), *shown]) + " |")
    if any(table.chance):
        lines.append("| " + " | ".join(["chance", *table.chance]) + " |")
    return "\n".join([*lines, *(f"\n{markdown_text(n)}" for n in table.notes)]) + "\n"


def scores_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the tidy scores of all runs, in a fixed order. Column `name` is unique for each run."""
    import pandas as pd

    frames = [r.scores.assign(run=r.id, dataset=r.stored.dataset, name=name) for r, name in _named(runs)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _named(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    ordered = sorted(runs, key=lambda r: (r.task, r.method, r.id))
    return list(zip(ordered, distinct_names(ordered), strict=True))


def _markdown(section: TaskSection) -> str:
    table = leaderboard(section)
    heads = ["method", "group", *table.headings]
    where = f", on {section.dataset}" if section.dataset else ""
    lines = [f"## {markdown_text(section.task)} ({markdown_text(section.protocol + where)})", ""]
    lines.append("| " + " | ".join(markdown_text(h) for h in heads) + " |")
    lines.append("|---|---|" + "---:|" * len(table.columns))
    for row in table.rows:
        cells = []
        for c in row.cells:
            text = c.marked.replace("*", r"\*")
            value = f"**{text}**" if c.best else text
            cells.append(f"{value} [{c.interval_text}]" if c.interval_text else value)
        lines.append("| " + " | ".join([markdown_text(row.name), row.letters, *cells]) + " |")
    if any(table.chance):
        lines.append("| " + " | ".join(["chance", "", *table.chance]) + " |")
    notes = [table.wording, *(f"Note: {n}." for n in table.notes)]
    return "\n".join([*lines, *(f"\n{markdown_text(n)}" for n in notes if n)]) + "\n"


def _latex(section: TaskSection) -> str:
    """Return a LaTeX table without package dependencies, split into tabulars of a few columns."""
    table = leaderboard(section)
    step = LATEX_COLUMNS
    pieces = [range(i, min(i + step, len(table.columns))) for i in range(0, len(table.columns), step)]
    where = f", on {section.dataset}" if section.dataset else ""
    caption = f"{section.task}, protocol {section.protocol}{where}; {section.intervals}."
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}"]
    names = distinct_short_names([row.name for row in table.rows], MAX_NAME_CHARS)
    for piece in pieces:
        heads = ["method", "", *(table.headings[i] for i in piece)]
        lines += [
            rf"\begin{{tabular}}{{ll{'r' * len(piece)}}}",
            r"\hline",
            " & ".join(latex_text(h) for h in heads) + r" \\",
            r"\hline",
        ]
        for name, row in zip(names, table.rows, strict=True):
            letters = rf"\textit{{{latex_text(row.letters)}}}" if row.letters else ""
            cells = [_latex_cell(row.cells[i]) for i in piece]
            lines.append(" & ".join([latex_text(name), letters, *cells]) + r" \\")
        if any(table.chance[i] for i in piece):
            lines += [r"\hline", " & ".join(["chance", "", *(table.chance[i] for i in piece)]) + r" \\"]
        lines += [r"\hline", r"\end{tabular}", ""]
    lines += [
        rf"\par {{\footnotesize {latex_text(n)}}}"
        for n in (table.wording, *(f"Note: {n}." for n in table.notes))
        if n
    ]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_cell(cell: ScoreCell) -> str:
    value = rf"\textbf{{{cell.marked}}}" if cell.best else cell.marked
    text = rf"{value} {{\scriptsize [{cell.interval_text}]}}" if cell.interval_text else value
    return text.replace(" – ", ", ").replace("–", "--")
