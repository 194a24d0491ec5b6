# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a paper: what is marked, what heads say, LaTeX of known commands only with equal rows."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_world import HOSTILE

import tiepoint as tp
from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.core.scores import ScoreRow
from tiepoint.report.cells import ScoreCell
from tiepoint.report.compare.comparison import Comparison
from tiepoint.report.compare.export import latex_text
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.export import scores_text
from tiepoint.report.paper_latex import BIBTEX, NEEDED
from tiepoint.report.paper_tables import bibtex, combined_tables, paper_tables, task_tables
from tiepoint.report.runs.names import DisplayNames, parse_names
from tiepoint.report.runs.sections import is_canary
from tiepoint.run.result import Run

OTHER = "hpatches-v1/retrieval"
DISPLAY = parse_names(
    {
        "methods": {"pixels": "Raw & pixels_1", "meanstd": "MStd"},
        "tasks": {OTHER: "Find 100%"},
        "metrics": {"ap": "AP"},
        "groups": {"noise=hard": "HARD"},
    }
)
COMMANDS = {
    "begin",
    "end",
    "centering",
    "caption",
    "label",
    "toprule",
    "midrule",
    "bottomrule",
    "cmidrule",
    "multicolumn",
    "textbf",
    "underline",
    "rlap",
    "dagger",
    "circ",
    "par",
    "smallskip",
    "footnotesize",
    "scriptsize",
    "downarrow",
    "textbackslash",
    "textasciitilde",
    "textasciicircum",
    "textless",
    "textgreater",
    "textbar",
}


def score(run: Run, group: str, value: float) -> ScoreRow:
    first = next(s for s in run.score_rows if s.metric == "ap" and s.group == "all")
    return replace(first, group=group, value=value, low=None, high=None)


def changed(run: Run, *, task: str | None = None, **values: float) -> Run:
    """A run of another task, with scores `ap` of groups beside its own."""
    more = [score(run, f"noise={g}", v) for g, v in values.items()]
    stored = replace(run.stored, scores=[*run.score_rows, *more], task=task or run.task)
    return replace(run, stored=replace(stored, id=f"{run.id}{'-' if task else ''}"))


@pytest.fixture(scope="module")
def two_tasks(report_runs: list[Run]) -> list[Run]:
    """All runs on their task, and all but one on another."""
    return [*report_runs, *(changed(r, task=OTHER) for r in report_runs if r.method != "meanstd")]


def rows_of(tex: str) -> list[list[str]]:
    """Rows of all tabulars as cells, a cell that spans several so many times."""
    found = []
    for body in re.findall(r"\\begin{tabular}{[lr]+}\n(.*?)\\end{tabular}", tex, flags=re.S):
        for line in body.splitlines():
            if line.endswith(r"\\"):
                row: list[str] = []
                for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\")):
                    span = re.search(r"\\multicolumn{(\d+)}", cell)
                    row += [cell.strip()] * (int(span[1]) if span else 1)
                found.append(row)
    return found


def test_latex_has_known_commands_only_and_rows_of_one_length(two_tasks: list[Run]) -> None:
    for display in (DisplayNames(), DISPLAY):
        tex = scores_text(two_tasks, "latex", display=display)
        assert tex.startswith(NEEDED)
        body = tex.removeprefix(NEEDED).partition(BIBTEX)[0]
        used = set(re.findall(r"\\([A-Za-z]+)", body))
        assert used <= COMMANDS
        plain = re.sub(r"\\[\\{}%&$#_]", "", body)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        assert "%" not in plain
        assert not set(plain) - {"\n"} - {c for c in plain if c.isprintable()}
        for part in tex.split(r"\begin{tabular}")[1:]:
            columns = len(part[1 : part.index("}")])
            assert {len(row) for row in rows_of(r"\begin{tabular}" + part)} == {columns}
        assert len(set(re.findall(r"\\label{tab:([a-zA-Z0-9-]+)}", tex))) == tex.count(r"\begin{table")


def test_names_are_shown_as_text(two_tasks: list[Run]) -> None:
    tex = scores_text(two_tasks, "latex", display=DISPLAY)
    assert r"Raw \& pixels\_1 & " in tex
    assert r"Find 100\%" in tex
    assert r"\input{x}" not in tex
    assert latex_text("a--b`c 5°") == r"a-{}-b\`{}c 5$^{\circ}$"
    md = scores_text(two_tasks, "md", display=DISPLAY)
    assert "<script>" not in md
    assert "Raw &amp; pixels\\_1" in md


def test_best_second_and_not_separated_follow_the_comparison(report_runs: list[Run]) -> None:
    methods = [r for r in report_runs if not is_canary(r)]
    (table,) = combined_tables(report_runs, DisplayNames())
    cells = {name: own[0] for name, own in table.rows}
    assert set(cells) == {r.method for r in methods}
    order = sorted(methods, key=lambda r: -r.value("ap"))
    assert [r.method for r in order] == list(cells)
    shown = list(dict.fromkeys(f"{100 * r.value('ap'):.2f}" for r in order))
    for run in methods:
        cell = cells[run.method]
        assert cell.text == f"{100 * run.value('ap'):.2f}"
        assert cell.best == (cell.text == shown[0])
        assert cell.second == (cell.text == shown[1])
    comparison = compare_runs(methods)
    best = order[0].method
    for name, cell in cells.items():
        if not cell.best:
            assert cell.tied == (not comparison.pair(best, name).separated)
    assert {c.tied for c in cells.values()} == {True, False}
    assert "\N{DAGGER} not separated from the best" in table.caption


def test_very_many_methods_are_marked_as_few_are(
    report_runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    (few,) = combined_tables(report_runs, DisplayNames())
    monkeypatch.setattr("tiepoint.report.compare.methods.MAX_STEP_DOWN_METHODS", 2)
    assert combined_tables(report_runs, DisplayNames()) == [few]


def test_marks_of_many_methods_need_no_intervals(
    report_runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiepoint.report.compare.methods.MAX_STEP_DOWN_METHODS", 2)
    calls: list[object] = []
    monkeypatch.setattr("tiepoint.stats.samples.MethodSample.difference_bounds", calls.append)
    combined_tables(report_runs, DisplayNames())
    assert calls == []


def test_paper_tables_test_each_column_once(two_tasks: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str, str]] = []

    def counted(runs: list[Run], **how: Any) -> Comparison:
        compared.append((runs[0].task, how["metric"], how["group"]))
        return compare_runs(runs, **how)

    monkeypatch.setattr("tiepoint.report.paper_tables.compare_runs", counted)
    paper_tables(two_tasks, DISPLAY)
    assert len({task for task, _, _ in compared}) == 2
    assert len(compared) == len(set(compared))


def test_values_that_print_alike_share_their_mark(report_runs: list[Run]) -> None:
    runs = [r for r in report_runs if not is_canary(r)]
    values = (0.50001, 0.50002, 0.4, 0.3)
    made = [changed(r, easy=v, hard=v / 2, tough=0.1) for r, v in zip(runs, values, strict=True)]
    (table,) = task_tables(made, DisplayNames())
    by = {name: own[0] for name, own in table.rows}
    assert [(by[r.method].text, by[r.method].ranking) for r in runs] == [
        ("50.00", "best"),
        ("50.00", "best"),
        ("40.00", "second"),
        ("30.00", ""),
    ]
    assert all(own[2].best for _, own in table.rows)


def test_a_task_is_shown_by_noise_and_then_over_all(report_runs: list[Run]) -> None:
    runs = [changed(r, easy=0.3, hard=0.2, tough=0.1) for r in report_runs]
    (table,) = task_tables(runs, DISPLAY)
    assert [(h.over, h.name) for h in table.heads] == [
        ("AP (%)", "easy"),
        ("AP (%)", "HARD"),
        ("AP (%)", "tough"),
        ("AP (%)", "all"),
    ]
    tex = scores_text(runs, "latex", display=DISPLAY)
    assert r"\multicolumn{4}{c}{AP (\%)}" in tex
    assert r"\cmidrule(lr){2-5}" in tex
    assert "chance & " in tex


def test_a_method_without_a_run_of_a_task_has_an_empty_cell(two_tasks: list[Run]) -> None:
    (table,) = combined_tables(two_tasks, DISPLAY)
    rows = dict(table.rows)
    assert rows["MStd"][1] == ScoreCell()
    assert [h.whole for h in table.heads] == ["HPatches 2016 matching AP (%)", "Find 100% AP (%)"]
    found = list(csv.reader(io.StringIO(scores_text(two_tasks, "csv", table="combined", display=DISPLAY))))
    assert found[0][:3] == ["method", "HPatches 2016 matching AP (%)", "HPatches 2016 matching AP (%) mark"]
    assert {len(row) for row in found} == {5}
    assert HOSTILE in {row[0] for row in found}
    long = list(csv.DictReader(io.StringIO(scores_text(two_tasks, "csv", table="tasks"))))
    assert {row["table"] for row in long} == {"hpatches-v1/matching", OTHER}
    assert {"best", "second"} <= {m for row in long for m in row["mark"].split(", ")}


def test_too_few_scenes_are_said_instead_of_marking_everything(
    report_runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiepoint.report import paper_tables

    def few(*args: Any, **words: Any) -> Any:
        return replace(compare_runs(*args, **words), smallest_p=0.25)

    monkeypatch.setattr(paper_tables, "compare_runs", few)
    (table,) = combined_tables(report_runs, DisplayNames())
    assert not any(c.tied for _, own in table.rows for c in own)
    assert any("so few cannot separate" in note for note in table.notes)


def test_csv_of_all_scores_is_what_it_was(report_runs: list[Run]) -> None:
    plain = scores_text(report_runs, "csv")
    assert plain == scores_text(report_runs, "csv", table="scores")
    assert plain.startswith(
        "method,task,protocol,metric,group,value,n,low,high,interval,chance,note,run,dataset"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "html", "--table", "tasks"), "--table has no effect on html"),
        (("--format", "json", "--table", "tasks"), "--table has no effect on json"),
        (("--format", "csv", "--intervals"), "--intervals has no effect on csv"),
        (("--format", "latex", "--table", "scores", "--intervals"), "--intervals has no effect on the table"),
        (("--format", "md", "--table", "task"), "did you mean 'tasks'"),
        (("--format", "csv", "--names", "NAMES"), "needs the table"),
        (("--format", "md", "--names", "nothing.yaml"), "nothing.yaml: the file does not exist"),
    ],
)
def test_settings_without_effect_are_refused(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    names = tmp_path / "names.yaml"
    names.write_text("methods: {pixels: Pixels}\n")
    given = [str(names) if w == "NAMES" else w for w in words]
    assert command(["report", "--store", str(report_store), "--out", str(tmp_path / "x"), *given]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_python_and_the_command_write_the_same(
    report_store: Path, report_runs: list[Run], tmp_path: Path
) -> None:
    names = tmp_path / "names.yaml"
    names.write_text("methods: {pixels: Pixels}\n")
    out = tmp_path / "a.tex"
    words = ["--format", "latex", "--names", str(names), "--out", str(out)]
    assert command(["report", "--store", str(report_store), *words]) == 0
    made = tp.write_report(
        report_runs, tmp_path / "b.tex", form="latex", names={"methods": {"pixels": "Pixels"}}
    )
    assert made.read_text() == out.read_text()
    with pytest.raises(InputError, match="all runs are canaries"):
        scores_text([r for r in report_runs if is_canary(r)], "latex")


def test_caption_states_protocol_items_scenes_and_version(report_runs: list[Run]) -> None:
    (table,) = task_tables(report_runs, DisplayNames())
    scores = [s for r in report_runs for s in r.score_rows]
    items = {s.n for s in scores if (s.protocol, s.metric, s.group) == ("exact", "ap", "all")}
    assert table.about == f"Protocol exact; n = {items.pop()} items in 7 scenes; tiepoint {tp.__version__}."
    assert latex_text(table.about) in scores_text(report_runs, "latex")
    older = [replace_rules(r, {"exact": 3}) for r in report_runs]
    assert task_tables(older, DisplayNames())[0].about.startswith("Protocol exact (version 3); n = ")


def replace_rules(run: Run, rules: dict[str, int]) -> Run:
    manifest = run.manifest.model_copy(update={"rules": rules})
    return replace(run, stored=replace(run.stored, manifest=manifest))


def test_intervals_follow_each_value_on_request(report_runs: list[Run]) -> None:
    plain, more = (scores_text(report_runs, "latex", intervals=i) for i in (False, True))
    (table,) = task_tables(report_runs, DisplayNames())
    known = [c.interval_text for _, cells in table.rows for c in cells if c.interval_text]
    assert len(known) >= 4
    for text in known:
        assert rf"{{\scriptsize {latex_text(text)}}}" in more
        assert latex_text(text) not in plain
    assert "95 \\% confidence intervals over scenes" in more
    assert "confidence intervals over scenes" not in plain
    for part in more.split(r"\begin{tabular}")[1:]:
        columns = len(part[1 : part.index("}")])
        assert {len(row) for row in rows_of(r"\begin{tabular}" + part)} == {columns}
    assert f"[{known[0]}]" in scores_text(report_runs, "md", intervals=True)


def test_bibtex_has_tiepoint_and_each_task_once(two_tasks: list[Run]) -> None:
    entries = bibtex(two_tasks)
    keys = re.findall(r"^@\w+\{([^,]+),", entries, flags=re.M)
    assert keys[0] == "tiepoint"
    assert len(keys) == len(set(keys)) > 1
    assert f"version {tp.__version__}" in entries
    tail = scores_text(two_tasks, "latex").partition(BIBTEX)[2]
    assert [line.removeprefix("%").strip() for line in tail.strip().splitlines()] == [
        line.strip() for line in entries.splitlines()
    ]
