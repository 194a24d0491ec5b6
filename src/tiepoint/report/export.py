# SPDX-License-Identifier: BSD-3-Clause
"""Scores of a store in other forms: Markdown, LaTeX, CSV, JSON, Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError, UnknownNameError
from ..run.result import Run
from .collect import LOWER_IS_BETTER, Section, sections
from .compare_runs import compare_runs, unique_names
from .compare_table import latex_text, markdown_text
from .figures import scale_of

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("html", "md", "latex", "csv", "json", "parquet")
SUFFIX = {"html": "html", "md": "md", "latex": "tex", "csv": "csv", "json": "json", "parquet": "parquet"}


def write(runs: Sequence[Run], path: Path, form: str) -> None:
    """Write the scores of runs to a file in one of `FORMATS`."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    try:
        if form == "parquet":
            frame(runs).to_parquet(path, index=False)
        else:
            path.write_text(text(runs, form), encoding="utf-8")
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e


def text(runs: Sequence[Run], form: str) -> str:
    """The scores as text in one of the text formats."""
    if form == "csv":
        return str(frame(runs).to_csv(index=False, lineterminator="\n"))
    if form == "json":
        rows = [row for r in _ordered(runs) for row in r.rows()]
        warnings = sorted({str(w) for r in runs for w in r.manifest.get("warnings", ())})
        return json.dumps({"scores": rows, "warnings": warnings}, indent=1) + "\n"
    if form == "html":
        from .html import render

        return render(runs)
    make = _markdown if form == "md" else _latex
    return "\n".join(make(s) for s in sections(runs))


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """Tidy scores of all runs, in a fixed order."""
    import pandas as pd

    frames = [r.scores.assign(run=r.id, dataset=r.stored.dataset) for r in _ordered(runs)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _ordered(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda r: (r.task, r.method, r.id))


def _table(section: Section) -> tuple[list[tuple[str, str]], list[tuple[str, str, list[Any]]]]:
    """Columns, and a row (name, letters, scores) a run."""
    columns = [c for c in section.columns() if c[1] == "all" or c == (section.metric, section.group)]
    columns = sorted(columns, key=lambda c: c != (section.metric, section.group))
    letters: dict[str, str] = {}
    if len(section.runs) > 1:
        try:
            compared = compare_runs(
                section.runs, metric=section.metric, group=section.group, protocol=section.protocol
            )
            letters = {r.method: " ".join(r.letters) for r in compared.rows}
        except InputError:
            letters = {}  # runs on different data: a table without groups
    names = unique_names(section.runs)
    rows = [
        (name, letters.get(name, ""), [section.score(run, *c) for c in columns])
        for name, run in zip(names, section.runs, strict=True)
    ]
    return columns, rows


def _best(column: tuple[str, str], scores: Sequence[Any]) -> float | None:
    values = [s["value"] for s in scores if s is not None and s["value"] is not None]
    if not values:
        return None
    return float(min(values) if column[0] in LOWER_IS_BETTER else max(values))


def _numbers(column: tuple[str, str], score: Any) -> tuple[str, str]:
    """Value and interval as text."""
    if score is None or score["value"] is None:
        return "–", ""
    factor, unit = scale_of(column[0])
    digits = 2 if unit == "%" else 3
    value = f"{factor * score['value']:.{digits}f}"
    if score["low"] is None or score["high"] is None:
        return value, ""
    return value, f"{factor * score['low']:.{digits}f}, {factor * score['high']:.{digits}f}"


def _markdown(section: Section) -> str:
    columns, rows = _table(section)
    best = [_best(c, [row[2][i] for row in rows]) for i, c in enumerate(columns)]
    heads = ["method", "group", *(m if g == "all" else f"{m} {g}" for m, g in columns)]
    lines = [f"## {section.task} ({section.protocol})", ""]
    lines.append("| " + " | ".join(markdown_text(h) for h in heads) + " |")
    lines.append("|" + "---|" * len(heads))
    for name, letters, scores in rows:
        cells = []
        for i, (column, score) in enumerate(zip(columns, scores, strict=True)):
            value, interval = _numbers(column, score)
            if score is not None and score["value"] is not None and score["value"] == best[i]:
                value = f"**{value}**"
            cells.append(f"{value} [{interval}]" if interval else value)
        lines.append("| " + " | ".join([markdown_text(name), letters, *cells]) + " |")
    return "\n".join(lines) + "\n"


def _latex(section: Section) -> str:
    columns, rows = _table(section)
    best = [_best(c, [row[2][i] for row in rows]) for i, c in enumerate(columns)]
    heads = ["method", "", *(m if g == "all" else f"{m} {g}" for m, g in columns)]
    caption = f"{section.task}, protocol {section.protocol}; 95 % intervals by scene."
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\begin{{tabular}}{{ll{'r' * len(columns)}}}",
        r"\hline",
        " & ".join(latex_text(h) for h in heads) + r" \\",
        r"\hline",
    ]
    for name, letters, scores in rows:
        cells = []
        for i, (column, score) in enumerate(zip(columns, scores, strict=True)):
            value, interval = _numbers(column, score)
            if score is not None and score["value"] is not None and score["value"] == best[i]:
                value = rf"\textbf{{{value}}}"
            value = value.replace("–", "--")
            cells.append(rf"{value} {{\scriptsize [{interval}]}}" if interval else value)
        shown = rf"\textit{{{latex_text(letters)}}}" if letters else ""
        lines.append(" & ".join([latex_text(name), shown, *cells]) + r" \\")
    lines += [r"\hline", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)
