# SPDX-License-Identifier: BSD-3-Clause
"""Reports as Markdown, LaTeX, CSV, JSON and Parquet; the LaTeX is compiled."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from report_world import HOSTILE

from tiepoint.cli.main import run as command
from tiepoint.core.errors import UnknownNameError
from tiepoint.report.export import FORMATS, SUFFIX, scores_frame, scores_text, write
from tiepoint.run.result import Run


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


@pytest.mark.parametrize("table", [None, "scores"])
def test_latex_compiles(report_runs: list[Run], tmp_path: Path, table: str | None) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex on this machine")
    body = scores_text(report_runs, "latex", table=table)
    page = (
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + body + "\\end{document}\n"
    )
    (tmp_path / "t.tex").write_text(page, encoding="utf-8")
    stop = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    done = subprocess.run(stop, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 1000


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
