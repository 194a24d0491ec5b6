# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint race`` and ``tiepoint plan``: what they print, refuse, draw, and what other commands see."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tiepoint.cli.main import run as tiepoint

_SPEC = importlib.util.spec_from_file_location(
    "race_world", Path(__file__).parents[2] / "run" / "race" / "race_world.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
race_world = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(race_world)

GROUP = "alpha=0.05,per=pair"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A dataset, three methods, and a store with their complete runs."""
    root = tmp_path_factory.mktemp("race")
    data = race_world.write_world(root, pairs=24, scenes=6)
    spec = f"{root / 'mine.py'}:Shift?noise="
    store = str(root / "full")
    for noise in (0.6, 1.4, 2.5):
        line = ["run", f"{spec}{noise}", "--task", "semantic/pck", "--data", str(data), "--store", store]
        assert tiepoint([*line, "--name", f"n{noise}", "--jobs", "1", "-q"]) == 0
    return {"data": str(data), "spec": spec, "store": store, "root": root}


def test_race_prints_claim_and_other_commands_see_it(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "store")]
    methods = [f"{world['spec']}{noise}" for noise in (0.6, 2.5)]
    line = ["race", *methods, "--task", "semantic/pck", "--data", world["data"], "--group", GROUP]
    assert tiepoint([*line, *store]) == 0
    shown = capsys.readouterr().out
    assert "is ahead of" in shown
    assert "at most 5 % error at any time; difference between" in shown
    assert "This is about these 24 pairs. For new scenes run all of them" in shown
    assert tiepoint(["list", "races", "--json", *store]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["task"] == "semantic/pck"
    assert tiepoint(["show", listed["race"], *store]) == 0
    assert capsys.readouterr().out == shown
    out = tmp_path / "race.svg"
    assert tiepoint(["plot", "race", listed["race"], "--out", str(out), *store]) == 0
    assert "<svg" in out.read_text()
    assert tiepoint(["plot", "race", listed["race"], "--out", str(tmp_path / "race.csv"), *store]) == 0
    assert (tmp_path / "race.csv").read_text().startswith("first,second,pairs,low,high\n")
    capsys.readouterr()
    assert tiepoint(["compare", "--task", "semantic/pck", *store]) == 2
    assert "no finished runs" in capsys.readouterr().err
    assert tiepoint(["list", "runs", *store]) == 0
    assert "no runs yet" in capsys.readouterr().out
    assert tiepoint(["store", "check", *store]) == 0
    assert tiepoint(["store", "rm", listed["race"], "--dry-run", *store]) == 0
    assert tiepoint(["store", "rm", listed["race"], "--yes", *store]) == 0
    capsys.readouterr()
    assert tiepoint(["list", "races", *store]) == 0
    assert "no races yet" in capsys.readouterr().out


def test_race_replay_prints_what_a_race_would_have_saved(
    world: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(p.name for p in Path(world["store"]).rglob("*"))
    line = ["race", "--replay", "n0.6", "n1.4", "n2.5", "--store", world["store"], "--group", GROUP]
    assert tiepoint(line) == 0
    shown = capsys.readouterr().out
    assert "The race would have used" in shown
    assert "The complete runs: pck" in shown
    assert "All claims hold together with an error probability of at most 5 %" in shown
    assert sorted(p.name for p in Path(world["store"]).rglob("*")) == before
    assert tiepoint([*line, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["replayed"] is True
    assert tiepoint(["race", "--replay", "n0.6", "n1.4", "--data", "x", "--store", world["store"]]) == 2
    assert "--data has no effect with --replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SPEC0.6"], "at least two methods, found 1"),
        (["SPEC0.6", "SPEC0.6"], "is in the race twice"),
        (["SPEC0.6", "SPEC2.5", "--metric", "unanswered"], "cannot be raced: it pools the points"),
        (["SPEC0.6", "SPEC2.5", "--keep"], "--keep has no effect without --replay"),
        (["SPEC0.6", "SPEC2.5", "--goal", "baseline=zz"], "'zz' is not in the race"),
        (["SPEC0.6", "SPEC2.5", "--alpha", "2"], "expected a probability"),
        ([], "needs METHOD"),
    ],
)
def test_race_refused(
    world: dict[str, Any],
    tmp_path: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [a.replace("SPEC", world["spec"]) for a in arguments]
    line = ["race", *given, "--task", "semantic/pck", "--data", world["data"]]
    assert tiepoint([*line, "--store", str(tmp_path / "store")]) == 2
    assert said in capsys.readouterr().err


def test_race_pooled_score_is_refused(
    patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["race", "meanstd", "resize", "--task", "hpatches/verification", "--data", str(patches)]
    assert tiepoint([*line, "--store", str(tmp_path / "store")]) == 2
    assert "ranks the pairs of all scenes in one list" in capsys.readouterr().err


def test_plan_prints_scenes_and_draws_them(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.svg"
    line = ["plan", "--detect", "2", "--task", "semantic/pck", "--store", world["store"], "--group", GROUP]
    assert tiepoint([*line, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "n0.6, n1.4" in shown
    assert "median over 3 pairs of methods" in shown
    assert "similar methods need fewer scenes" in shown
    assert "<svg" in out.read_text()
    assert tiepoint([*line, "--methods", "n0.6,n2.5", "--pairs-per-scene", "40", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    (row,) = plain["rows"]
    assert row["pairs"] == 40 * row["scenes"]
    assert row["floor"] <= row["scenes"]
    assert tiepoint([*line, "--family", "--json"]) == 0
    family = {(r["first"], r["second"]): r["scenes"] for r in json.loads(capsys.readouterr().out)["rows"]}
    assert tiepoint([*line, "--json"]) == 0
    single = {(r["first"], r["second"]): r["scenes"] for r in json.loads(capsys.readouterr().out)["rows"]}
    assert all(family[k] > single[k] for k in single)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "plan needs --detect"),
        (["--detect", "0"], "above 0"),
        (["--detect", "1", "--power", "1.5"], "expected a probability"),
        (["--detect", "1", "--methods", "n0.6"], "at least two methods"),
        (["--detect", "1", "--pairs-per-scene", "0"], "at least 1"),
    ],
)
def test_plan_refused(
    world: dict[str, Any], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiepoint(["plan", *arguments, "--task", "semantic/pck", "--store", world["store"]]) == 2
    assert said in capsys.readouterr().err
