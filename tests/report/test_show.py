# SPDX-License-Identifier: BSD-3-Clause
"""One run in the terminal: card, scores, scenes, ranks, notes; hostile names stay text everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_world import HOSTILE, SCENE
from rich.console import Console

from tiepoint.cli.main import run as command
from tiepoint.model.records import Records
from tiepoint.report.rank_histogram import counted, rank_histogram
from tiepoint.report.show import card, histogram_table, notes, scene_table, scores_table
from tiepoint.report.text import score_tables
from tiepoint.run.result import Run


def printed(thing: object, width: int = 2000) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(thing)
    return console.export_text()


@pytest.fixture
def odd(report_runs: list[Run]) -> Run:
    (found,) = [r for r in report_runs if r.method == HOSTILE]
    return found


def test_the_card_shows_names_as_they_are(odd: Run) -> None:
    text = printed(card(odd))
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


def test_scenes_and_ranks(odd: Run) -> None:
    text = printed(scene_table(odd))
    assert f"v_{SCENE}" in text
    assert f"{100 * odd.value('ap', 'scene=i_s0'):.2f}" in text
    ranks = rank_histogram(odd, "exact")
    assert sum(share for _, share in ranks) == pytest.approx(1.0)
    assert dict(ranks)["1"] == pytest.approx(odd.value("success_rate"), abs=0.02)
    assert "█" in printed(histogram_table(odd))


def test_ranks_against_a_count_by_hand() -> None:
    rng = np.random.default_rng(0)
    lt, eq = rng.integers(0, 3000, 500), rng.integers(0, 3, 500)
    kept = rng.uniform(size=500) < 0.9
    found = dict(counted([Records("rank", {"lt": lt, "eq": eq, "retrieved": kept})]))
    wanted = sum(1 for a, b, k in zip(lt, eq, kept, strict=True) if k and 50 < 1 + a + b / 2 <= 100)
    assert found["51 to 100"] == wanted / 500
    assert found["never"] == pytest.approx(1 - kept.mean())


def test_the_command_and_what_it_writes(
    report_store: Path, odd: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(report_store)]
    assert command(["show", odd.id[:6], *store]) == 0
    assert "scenes under exact" in capsys.readouterr().out
    assert command(["show", odd.id, "--conventions", *store]) == 0
    assert "hbench-2016" in capsys.readouterr().out
    assert command(["show", odd.id, "--curves", str(tmp_path / "c.csv"), *store]) == 0
    assert (tmp_path / "c.csv").read_text().startswith("group,curve,x,y\n")
    assert command(["show", "nothing", *store]) == 2


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
