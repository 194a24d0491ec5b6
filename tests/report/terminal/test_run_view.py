# SPDX-License-Identifier: BSD-3-Clause
"""One run in the terminal: card, scores, scenes, ranks, notes; hostile names stay text everywhere."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published_world import make_patches
from report_world import HOSTILE, SCENE
from rich.console import Console

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.core.records import Records
from tiepoint.report.runs.card import card_rows
from tiepoint.report.runs.selection import runs_of
from tiepoint.report.terminal.conventions import (
    RunConventions,
    conventions_of,
    terminal_convention_tables,
)
from tiepoint.report.terminal.run_view import (
    card_table,
    histogram_table,
    notes,
    rank_histogram,
    rank_shares,
    scene_table,
    scores_table,
)
from tiepoint.report.terminal.scores import score_tables
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store
from tiepoint.tasks.steps import StepTable


def printed(thing: object, width: int = 2000) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(thing)
    return console.export_text()


@pytest.fixture
def odd(report_runs: list[Run]) -> Run:
    (found,) = [r for r in report_runs if r.method == HOSTILE]
    return found


def test_the_card_shows_names_as_they_are(odd: Run) -> None:
    text = printed(card_table(odd))
    assert HOSTILE in text
    assert "hpatches-v1/matching" in text
    assert "exact, hbench-2016" in text


def test_tables_of_several_runs_show_names_as_they_are(report_runs: list[Run]) -> None:
    assert HOSTILE in "".join(printed(t) for t in score_tables(report_runs))


def test_scores_of_all_protocols_stand_side_by_side(odd: Run) -> None:
    text = printed(scores_table(odd))
    head = next(line for line in text.splitlines() if "exact" in line)
    assert "hbench-2016" in head
    row = next(line for line in text.splitlines() if "success_rate" in line and " all " in line)
    assert f"{100 * odd.value('success_rate'):.2f}" in row


@pytest.mark.parametrize("levels", [(0.25, 0.25), (0.25, 0.5)])
def test_equal_chance_levels_are_a_line(odd: Run, levels: tuple[float, float]) -> None:
    first = next(s for s in odd.score_rows if s.protocol == "exact")
    rows = [replace(first, group=g, chance=c) for g, c in zip(("all", "kind=v"), levels, strict=True)]
    text = printed(scores_table(Run(replace(odd.stored, scores=tuple(rows)))))
    is_column = any("group" in line and "chance" in line for line in text.splitlines())
    assert is_column == (len(set(levels)) > 1)
    assert (f"chance under exact: {first.metric} 25.00" in text) != is_column


def test_metrics_that_no_step_changes_share_a_line() -> None:
    changed = StepTable("map", [("first", 0.5), ("second", 0.25)], "a to b")
    same = StepTable("success_rate", [("first", 0.5), ("second", 0.5 + 1e-16)], "a to b")
    found = RunConventions("hpatches/matching", [], [changed, same], {}, [])
    text = "".join(printed(t) for t in terminal_convention_tables(found))
    assert text.count("second") == 1
    assert f"no step changes {same.title}" in text


def test_scenes_and_ranks(odd: Run) -> None:
    text = printed(scene_table(odd))
    assert f"v_{SCENE}" in text
    assert f"{100 * odd.value('ap', 'scene=i_s0'):.2f}" in text
    ranks = rank_histogram(odd, "exact")
    assert sum(share for _, share in ranks) == pytest.approx(1.0)
    assert dict(ranks)["1"] == pytest.approx(odd.value("success_rate"), abs=0.02)
    assert "█" in printed(histogram_table(odd, "exact"))


def test_ranks_against_a_count_by_hand() -> None:
    rng = np.random.default_rng(0)
    lt, eq = rng.integers(0, 3000, 500), rng.integers(0, 3, 500)
    kept = rng.uniform(size=500) < 0.9
    found = dict(rank_shares([Records("rank", {"lt": lt, "eq": eq, "retrieved": kept})]))
    wanted = sum(1 for a, b, k in zip(lt, eq, kept, strict=True) if k and 50 < 1 + a + b / 2 <= 100)
    assert found["51 to 100"] == wanted / 500
    assert found["never"] == pytest.approx(1 - kept.mean())


def test_the_command_and_what_it_writes(
    report_store: Path, odd: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(report_store)]
    assert command(["show", odd.id[:6], *store]) == 0
    assert "scores by scene under exact" in capsys.readouterr().out
    assert command(["show", odd.id, "--conventions", *store]) == 0
    assert "hbench-2016" in capsys.readouterr().out
    assert command(["show", odd.id, "--curves", str(tmp_path / "c.csv"), *store]) == 0
    assert (tmp_path / "c.csv").read_text().startswith("group,curve,x,y\n")
    assert command(["show", "nothing", *store]) == 2


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert command([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_holds_what_the_text_shows(
    report_store: Path, odd: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["show", odd.id, "--store", str(report_store)]
    plain = answer(words, capsys)
    assert plain["scores"] == json.loads(json.dumps(odd.rows()))
    assert plain["card"]["method"] == HOSTILE
    assert plain["notes"] == notes(odd)
    assert sum(r["share"] for r in plain["ranks"]) == pytest.approx(1.0)
    assert "conventions" not in plain
    whole = answer([*words, "--conventions", "--curves", str(tmp_path / "c.csv")], capsys)
    told = whole["conventions"]
    by = {(s["protocol"], s["metric"]): s["value"] for s in told["protocols"]}
    assert by["hbench-2016", "ap"] == odd.value("ap", protocol="hbench-2016")
    (ap,) = [t["steps"] for t in told["steps"] if t["title"].endswith(" ap")]
    assert ap[0]["value"] == pytest.approx(by["hbench-2016", "ap"])
    assert ap[-1]["value"] == pytest.approx(by["exact", "ap"])
    assert ap[0]["change"] is None
    total = ap[0]["value"] + sum(step["change"] for step in ap[1:])
    assert total == pytest.approx(ap[-1]["value"])
    assert told["missing"] == []
    assert whole["curves"]["points"] == len((tmp_path / "c.csv").read_text().splitlines()) - 1
    assert command([*words, "--conventions"]) == 0
    text = capsys.readouterr().out
    for table in told["steps"]:
        assert table["title"].removeprefix(f"{odd.task} ") in text
        for step in table["steps"]:
            assert f"{100 * step['value']:.2f}" in text


def test_protocols_that_compare_by_rules_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Path(__file__).parents[2] / "data" / "synthetic_tss"
    words = ["score", "tss", "--results", str(world / "Results"), "--data", str(world / "Dataset")]
    words += ["--missing", "skip", "--protocol", "exact,tss-cpp", "--store", str(tmp_path)]
    assert command(words) == 0
    with Store.open(tmp_path) as store:
        (run,) = runs_of(store, None)
    show = ["show", run.id, "--conventions", "--store", str(tmp_path)]
    capsys.readouterr()
    assert command(show) == 0
    text = capsys.readouterr().out
    assert "one convention only" not in text
    assert "tss-matlab needs its own comparison" in text
    assert 'protocol="exact,tss-cpp,tss-matlab"' in text
    row = next(line for line in text.splitlines() if "flow_accuracy" in line)
    for protocol in ("exact", "tss-cpp"):
        assert f"{100 * run.value('flow_accuracy', protocol=protocol):.2f}" in row
    told = answer(show, capsys)["conventions"]
    assert {s["protocol"] for s in told["protocols"]} == {"exact", "tss-cpp"}
    assert [m["protocol"] for m in told["missing"]] == ["tss-matlab"]
    assert "distance" not in dict(card_rows(run))


def test_conventions_say_what_the_matlab_tool_would_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_patches(tmp_path / "made")
    with Store.open(tmp_path / "s") as store:
        run = evaluate(RunRequest("pixels", "hpatches/matching", data, ("exact",), {"split": "view"}), store)
    assert command(["show", run.id, "--conventions", "--store", str(tmp_path / "s")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "note: hpatches-matlab: the split alone" in text
    assert 'sequences="all"' in text


def test_a_task_with_one_protocol_has_nothing_to_tell_apart(odd: Run) -> None:
    alone = Run(replace(odd.stored, task="dense/pck"))
    with pytest.raises(InputError, match="only the protocol exact"):
        conventions_of(alone)


def test_the_card_names_every_fitted_transform(tmp_path: Path) -> None:
    data = make_patches(tmp_path / "made")
    other = make_patches(tmp_path / "other", count=40)
    with Store.open(tmp_path / "s") as store:
        request = RunRequest(
            "meanstd+zca", "hpatches/matching", data, ("exact",), {"split": "full"}, fit_on=other
        )
        run = evaluate(request, store)
    (fit,) = run.manifest.method.fitted
    rows = dict(card_rows(run))
    assert fit["hash"][:12] in rows["fitted"]
    assert rows["distance"] == "l2"
    assert fit["hash"][:12] in printed(card_table(run))


def test_lists_comparisons_and_queries_survive_hostile_names(
    report_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(report_store)]
    assert command(["list", "runs", *store]) == 0
    assert "drop table runs" in capsys.readouterr().out.replace("\n", " ")
    assert command(["compare", "--task", "hpatches-v1/matching", *store]) == 0
    assert command(["compare", HOSTILE, "pixels", "--task", "hpatches-v1/matching", *store]) == 0
    capsys.readouterr()
    assert command(["sql", "select count(*) as n from runs", *store]) == 0
    assert "6" in capsys.readouterr().out
    assert command(["sql", "select name from methods", *store]) == 0
    assert "<script>" in capsys.readouterr().out
    assert command(["report", "'; drop table runs; --", *store]) == 2


def test_notes_are_told_once(odd: Run) -> None:
    assert len(notes(odd)) == len(set(notes(odd)))
