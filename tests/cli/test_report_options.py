# SPDX-License-Identifier: BSD-3-Clause
"""Options of `compare`, `report`, `show` and `list`: each has an effect or is refused, and defaults pass."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.cli.main import run as command

TASK = "hpatches-v1/matching"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods on three scenes, under two protocols."""
    root = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(0)
    lines = []
    for scene in ("i_a", "v_b", "v_c"):
        (root / "patches" / scene).mkdir(parents=True)
        base = rng.uniform(0, 255, (8, 16, 16))
        for name, noise in (("ref", 0), ("e1", 60)):
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 16)).save(root / "patches" / scene / f"{name}.png")
        lines.append(f"{scene}.ref,{scene}.e1")
    (root / "matching").mkdir()
    (root / "matching" / "all.benchmark").write_text("\n".join(lines) + "\n")
    words = [
        "run",
        "pixels",
        "meanstd",
        "--task",
        TASK,
        "--data",
        str(root / "patches"),
        "--tasks",
        str(root),
    ]
    assert command([*words, "--protocol", "exact,hbench-2016", "--store", str(root / "store")]) == 0
    return root / "store"


@pytest.fixture
def call(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> object:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIEPOINT_STORE", str(store))
    capsys.readouterr()

    def run(*words: str) -> tuple[int, str]:
        code = command(list(words))
        return code, capsys.readouterr().out

    return run


COMPARE = ("compare", "--task", TASK)


@pytest.mark.parametrize(
    ("plain", "option"),
    [
        (COMPARE, ("--json",)),
        (COMPARE, ("--out", "c.md")),
        ((*COMPARE, "--out", "c.md"), ("--json",)),
        (COMPARE, ("--metric", "success_rate")),
        (COMPARE, ("--group", "benchmark=all")),
        (COMPARE, ("--protocol", "hbench-2016")),
        (COMPARE, ("--baseline", "meanstd")),
        (("list", "runs"), ("--json",)),
        (("list", "methods"), ("--json",)),
    ],
)
def test_an_option_changes_what_is_printed(call, plain: tuple[str, ...], option: tuple[str, ...]) -> None:
    before, after = call(*plain), call(*plain, *option)
    assert before[0] == after[0] == 0
    assert before[1] != after[1]


@pytest.mark.parametrize(
    "words",
    [
        (*COMPARE, "--split", "full"),
        (*COMPARE, "--allow", "nothing"),
        (*COMPARE, "--protocol", "workbench"),
        ("report", "--split", "full"),
        ("report", "--task", "tss"),
        ("report", "--protocol", "workbench"),
        ("report", "--dataset", "elsewhere"),
        ("report", "--format", "pdf"),
        ("list", "methods", "--store", "elsewhere"),
        ("list", "tasks", "--store", "elsewhere"),
    ],
)
def test_an_option_without_effect_is_an_error(call, words: tuple[str, ...]) -> None:
    assert call(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "default"),
    [
        (COMPARE, ("--protocol", "exact")),
        (COMPARE, ("--metric", "ap", "--group", "all")),
        (COMPARE, ("--store", "STORE")),
        (("report", "--out", "r.html"), ("--format", "html")),
        (("report", "--format", "md"), ("--out", "report.md")),
        (("list", "methods"), ("--store", "STORE")),
        (("list", "runs"), ("--store", "STORE")),
    ],
)
def test_a_default_may_be_given(call, store: Path, words: tuple[str, ...], default: tuple[str, ...]) -> None:
    given = [str(store) if w == "STORE" else w for w in default]
    assert call(*words) == call(*words, *given)
    assert call(*words)[0] == 0


def test_compare_writes_and_prints_json(call) -> None:
    code, out = call(*COMPARE, "--out", "c.tex", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["file"] == "c.tex"
    assert [m["name"] for m in found["methods"]] == ["pixels", "meanstd"]
    assert Path("c.tex").read_text().startswith("\\begin{tabular}")


def test_show_takes_all_its_options_at_once(call) -> None:
    run = json.loads(call("list", "runs", "--json")[1])[0]["run"]
    code, out = call("show", run, "--conventions", "--curves", "c.csv", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["curves"]["points"] == len(Path("c.csv").read_text().splitlines()) - 1
    assert {s["protocol"] for s in found["conventions"]["protocols"]} == {"exact", "hbench-2016"}


def test_names_of_metrics_can_be_pasted_from_a_terminal(
    call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tiepoint.report.runs.selection import runs_of
    from tiepoint.report.terminal.scores import score_tables
    from tiepoint.store.store import Store

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with Store.open(None) as opened:
        tables = score_tables(runs_of(opened))
    headings = [word for t in tables for c in t.columns for word in c.heading.split()]
    assert "success_rate" in headings
    assert not any("\u200b" in h for h in headings)
    capsys.readouterr()
    for name in ("success_rate", "map_query"):
        assert name in headings
        assert call(*COMPARE, "--metric", name)[0] == 0


def test_show_takes_the_name_of_a_method(call, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {r["method"]: r["run"] for r in json.loads(call("list", "runs", "--json")[1])}
    assert json.loads(call("show", "meanstd", "--json")[1])["run"] == runs["meanstd"]
    assert json.loads(call("show", runs["pixels"][:6], "--json")[1])["run"] == runs["pixels"]
    assert call("show", "meanstd", "--task", TASK)[0] == 0
    assert command(["show", "meanst"]) == 2
    assert "did you mean 'meanstd'" in capsys.readouterr().err
    assert command(["show", "meanstd", "--task", "tss"]) == 2


def test_compare_says_it_in_one_sentence(call) -> None:
    _, out = call(*COMPARE)
    sentence = out.splitlines()[2]
    found = json.loads(call(*COMPARE, "--json")[1])
    assert [sentence] == found["answer"]
    assert sentence.startswith("pixels and meanstd are not separated by these 3 scenes")
    assert "no pair could be: the smallest p these scenes allow is" in sentence
    _, turned = call(*COMPARE, "--baseline", "pixels")
    assert turned.splitlines()[2].startswith("meanstd and pixels are not separated")


def test_a_report_of_one_protocol_has_its_scores_alone(call) -> None:
    words = ("report", "--protocol", "hbench-2016", "--out")
    assert call(*words, "r.tex", "--format", "latex")[0] == 0
    captions = [line for line in Path("r.tex").read_text().splitlines() if line.startswith(r"\caption")]
    assert captions
    assert all("Protocol hbench-2016; n = " in line for line in captions)
    assert call(*words, "r.csv", "--format", "csv")[0] == 0
    rows = Path("r.csv").read_text().splitlines()
    assert len(rows) > 1
    assert all(",hbench-2016," in row for row in rows[1:])


def test_a_table_without_intervals_says_why(call, store: Path) -> None:
    data, tasks = str(store.parent / "patches"), str(store.parent)
    code, out = call("run", "pixels", "--task", TASK, "--data", data, "--tasks", tasks)
    assert code == 0
    notes = " ".join(out[out.index("chance") :].split())
    assert "no confidence interval: 3 scenes: shown one by one, no interval below 6" in notes
    assert "95 %" not in out


def test_a_figure_without_intervals_says_so(call) -> None:
    code, out = call("plot", "differences", "--task", TASK, "--json", "--out", "d.csv")
    assert code == 0
    caption = json.loads(out)["caption"]
    assert "no confidence intervals: there are too few scenes" in caption
    assert "family-wise over 1 pair)" in caption


def test_the_name_of_runs_that_is_no_method_is_explained(
    call, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--task", TASK, "--data", str(store.parent / "patches"), "--tasks", str(store.parent))
    own = str(tmp_path / "own")
    assert call("run", "resize", "--name", "small", *words, "--store", own)[0] == 0
    assert command(["run", "small", *words, "--store", own]) == 2
    told = capsys.readouterr().err
    assert "'small' is the name of stored runs, not a method" in told
    assert "these runs: resize --name small" in told
    assert command(["run", "smal", *words, "--store", own]) == 2
    assert "unknown method 'smal'" in capsys.readouterr().err
