# SPDX-License-Identifier: BSD-3-Clause
"""Reports as Markdown, LaTeX, CSV, JSON and Parquet; the LaTeX is compiled."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from report_world import HOSTILE

from tiepoint.cli.main import run as command
from tiepoint.core.errors import UnknownNameError
from tiepoint.report.export import FORMATS, SUFFIX, scores_frame, scores_text, write
from tiepoint.report.paper_tables import SOFTWARE
from tiepoint.run.result import Run
from tiepoint.tasks import TASKS, load_task


def test_csv_json_and_parquet_agree(report_runs: list[Run], tmp_path: Path) -> None:
    whole = scores_frame(report_runs)
    assert set(whole["method"]) == {r.method for r in report_runs}
    from_csv = pd.read_csv(io.StringIO(scores_text(report_runs, "csv")))
    from_json = json.loads(scores_text(report_runs, "json"))
    write(report_runs, tmp_path / "scores.parquet", "parquet")
    from_parquet = pd.read_parquet(tmp_path / "scores.parquet")
    assert len(from_csv) == len(from_json["scores"]) == len(from_parquet) == len(whole)
    assert from_csv["value"].tolist() == pytest.approx(whole["value"].tolist(), nan_ok=True)
    assert from_parquet["method"].tolist() == whole["method"].tolist()
    assert [s["method"] for s in from_json["scores"]] == whole["method"].tolist()
    assert HOSTILE in set(from_csv["method"])


def test_markdown_has_one_row_a_run_and_no_markup_from_names(report_runs: list[Run]) -> None:
    lines = scores_text(report_runs, "md", table="scores").splitlines()
    table = [line for line in lines if line.startswith("|")]
    columns = table[0].count(" | ")
    rows = table[2:]
    assert len(rows) == len(report_runs) + 1
    assert "<script>" not in "".join(lines)
    for row in rows:
        assert row.replace("\\|", "").count("|") == columns + 2
    assert any("**" in row for row in rows)
    assert any("not separated" in line for line in lines)


def test_latex_makes_commands_visible(report_runs: list[Run]) -> None:
    tex = scores_text(report_runs, "latex", table="scores")
    assert r"\input{x}" not in tex
    assert r"\textbf{" in tex
    assert r"\textit{a" in tex
    assert r"{\scriptsize [" in tex
    assert r"chance &" in tex


def structure(tex: str) -> list[str]:
    """Return the faults of LaTeX that need no compiler: braces, environments, cells by row, plain text."""
    body = re.sub(r"(?m)(?<!\\)%.*$", "", tex)
    faults = []
    bare = re.sub(r"\\[\\{}%&$#_]", "", body)
    if bare.count("{") != bare.count("}"):
        faults.append("braces do not match")
    opened: list[str] = []
    for verb, name in re.findall(r"\\(begin|end){([a-z*]+)}", body):
        if verb == "begin":
            opened.append(name)
        elif not opened or opened.pop() != name:
            faults.append(f"{name} ends before it begins")
    faults += [f"{name} is not closed" for name in opened]
    for columns, rows in re.findall(r"\\begin{tabular}{([lcr]+)}(.*?)\\end{tabular}", body, flags=re.S):
        for row in re.findall(r"(?m)^(.*)\\\\$", rows):
            spans = [int(n) - 1 for n in re.findall(r"\\multicolumn{(\d+)}", row)]
            if len(re.findall(r"(?<!\\)&", row)) + 1 + sum(spans) != len(columns):
                faults.append(f"{row!r} has another number of cells than {columns}")
    return faults + [f"{c!r} is no text" for c in sorted(set(body)) if ord(c) < 32 and c not in "\n"]


def test_structure_of_broken_latex_is_reported() -> None:
    good = "\\begin{table}\n\\begin{tabular}{lr}\na & \\textbf{1} \\\\\n\\end{tabular}\n\\end{table}\n"
    assert structure(good) == []
    for old, new in (("{1}", "{1"), ("a &", "a & &"), ("\\end{table}", ""), ("a", "\t")):
        assert structure(good.replace(old, new, 1))


def compiled(folder: Path, body: str, bibtex: str = "") -> str:
    """Compile a page with pdflatex or tectonic. Return the log of BibTeX."""
    (folder / "t.bib").write_text(bibtex, encoding="utf-8")
    cite = "\\nocite{*}\n\\bibliographystyle{plain}\n\\bibliography{t}\n" if bibtex else ""
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    page = f"{head}{body}{cite}\\end{{document}}\n"
    (folder / "t.tex").write_text(page, encoding="utf-8")
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    steps = [latex, ["bibtex", "t"], latex] if bibtex else [latex]
    if shutil.which("pdflatex") is None:
        steps = [["tectonic", "--only-cached", "--keep-logs", "t.tex"]]
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, errors="replace", timeout=90)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (folder / "t.pdf").stat().st_size > 1000
    log = folder / "t.blg"
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


TEX = shutil.which("pdflatex") or shutil.which("tectonic")


@pytest.mark.parametrize(("table", "intervals"), [(None, False), (None, True), ("scores", False)])
def test_latex_compiles(report_runs: list[Run], tmp_path: Path, table: str | None, intervals: bool) -> None:
    body = scores_text(report_runs, "latex", table=table, intervals=intervals)
    assert structure(body) == []
    if TEX is None:
        pytest.skip("no pdflatex or tectonic on this machine: only the structure was checked")
    compiled(tmp_path, body)


def test_bibtex_entries_of_all_tasks_compile(tmp_path: Path) -> None:
    tasks = [load_task(entry.name) for entry in TASKS]
    entries = "\n\n".join(dict.fromkeys([SOFTWARE, *(c for t in tasks for c in t.info.cite)]))
    for entry in entries.split("\n\n"):
        assert entry.startswith("@")
        assert entry.count("{") == entry.count("}")
    if TEX is None:
        pytest.skip("no pdflatex or tectonic on this machine: only the structure was checked")
    log = compiled(tmp_path, "Text.\n", entries)
    assert "error message" not in log
    assert "Repeated entry" not in log


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_every_format(report_store: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "deep" / f"report.{SUFFIX[form]}"
    call = ["report", "pixels", "meanstd", "--store", str(report_store), "--format", form, "--out", str(out)]
    assert command(call) == 0
    assert out.stat().st_size > 100


def test_no_public_verb_is_hidden_by_a_package_of_its_name(report_runs: list[Run], tmp_path: Path) -> None:
    import tiepoint as tp

    assert all(callable(getattr(tp, name)) for name in tp.__all__ if name not in ("__version__", "score"))
    assert tp.write_report(report_runs, tmp_path / "r.md", form="md").stat().st_size > 100


def test_an_unknown_format_is_refused(report_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", "--store", str(report_store), "--format", "htm"]) == 2
    assert "html" in capsys.readouterr().err
    with pytest.raises(UnknownNameError):
        write([], Path("x"), "htm")


def test_a_task_without_runs_is_named(report_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", "--store", str(report_store), "--task", "tss", "--format", "md"]) == 2
    assert "tss" in capsys.readouterr().err
