"""Runs on informative subsets: what they compute and store, and what they may be compared with."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tiepoint as tp
from less_golden import ZEB, needs_golden, needs_zeb
from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report.runs.selection import one_run
from tiepoint.run import session
from tiepoint.run.importers import import_files
from tiepoint.run.subset.choose import ADVICE
from tiepoint.run.update import rescore
from tiepoint.serve.views.run import rerun_command
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun
from tiepoint.tools import plan, race, subset

_SPEC = importlib.util.spec_from_file_location(
    "race_world", Path(__file__).parents[1] / "race" / "race_world.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
race_world = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(race_world)

TASK = "semantic/pck"
GROUP = "alpha=0.05,per=pair"
PAIRS = 24


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs, and a store with two complete runs and a run of a third method on eight of the pairs."""
    root = tmp_path_factory.mktemp("subset")
    data = race_world.write_world(root, pairs=PAIRS, scenes=6)
    for name, noise in (("good", 0.6), ("bad", 2.5)):
        tp.evaluate(spec(root, noise), task=TASK, data=data, store=root / "store", name=name)
    assert on_subset(root, "--name", "new", noise=1.4) == 0
    assert len(list((root / "store" / "records").rglob("*.parquet"))) == 2 * PAIRS + 8
    return root


def spec(root: Path, noise: float) -> str:
    return f"{root / 'mine.py'}:Shift?noise={noise}"


def on_subset(root: Path, *more: str, noise: float = 1.4, n: int = 8) -> int:
    arguments = ["run", spec(root, noise), "--task", TASK, "--data", str(root / "pairs.json"), "--jobs", "1"]
    arguments += ["--subset", f"informative:{n}", "--subset-score", f"pck:{GROUP}", *more]
    return command([*arguments, "--store", str(root / "store")])


def stored(root: Path, name: str) -> StoredRun:
    with Store.open(root / "store", mode="read") as store:
        return [run for run in load_runs(store) if run.method == name][-1]


def unit_values(root: Path, name: str) -> dict[str, float]:
    """Values of all pairs of a complete run, from its records."""
    run = tp.load(name, store=root / "store")
    task: Any = __import__("tiepoint.tasks", fromlist=["load_task"]).load_task(TASK)
    records = {unit: by["exact"] for unit, by in run.unit_records.items()}
    return dict(task.unit_values(records, "exact", "pck", GROUP))


def test_run_on_subset_computes_only_its_units(world: Path) -> None:
    run = stored(world, "new")
    facts = run.manifest.subset
    assert facts is not None
    assert set(run.manifest.units) == set(facts.units)
    assert len(facts.units) == 8
    assert facts.total == PAIRS
    assert facts.references == {"good": stored(world, "good").id, "bad": stored(world, "bad").id}
    assert facts.name.startswith("informative-8-")
    assert run.manifest.dataset.name == f"pairs.json ({facts.name})"
    assert run.manifest.dataset.items == 8
    assert any(ADVICE in text for text in run.manifest.warnings)
    file = json.loads((world / "store" / "runs" / f"{run.id}.json").read_text())
    assert file["manifest"]["subset"]["name"] == facts.name
    complete = json.loads((world / "store" / "runs" / f"{stored(world, 'good').id}.json").read_text())
    assert "subset" not in complete["manifest"]


def test_estimates_equal_plain_loops(world: Path) -> None:
    run = stored(world, "new")
    facts = run.manifest.subset
    assert facts is not None
    ((_, stratum),) = facts.strata.items()
    tp.evaluate(
        spec(world, 1.4), task=TASK, data=world / "pairs.json", store=world / "complete", name="new", jobs=1
    )
    values = tp.load("new", store=world / "complete")
    task: Any = __import__("tiepoint.tasks", fromlist=["load_task"]).load_task(TASK)
    records = {unit: by["exact"] for unit, by in values.unit_records.items()}
    y = [task.unit_values(records, "exact", "pck", GROUP)[key] for key in stratum.units]
    mean = sum(y) / 8
    z = [v / 8 for v in y]
    share = sum(8 / PAIRS for _ in stratum.units) / PAIRS
    se = ((1 - share) * 8 / (2 * 7) * sum((a - b) ** 2 for a, b in pairwise(z))) ** 0.5
    (score,) = [s for s in run.scores if (s.metric, s.group) == ("pck", GROUP)]
    assert score.value == pytest.approx(mean)
    assert score.n == 8
    assert (score.low, score.high) == pytest.approx((max(0, mean - 1.96 * se), min(1, mean + 1.96 * se)))
    assert f"8 of {PAIRS} pairs" in str(score.note)
    assert len(run.scores) > 1  # equal weights estimate every mean over the same pairs


def test_rescore_older_version_estimates_again(world: Path) -> None:
    run = stored(world, "new")
    older = replace(run, manifest=run.manifest.model_copy(update={"scoring": 1}))
    with Store.open(world / "store") as store:
        made = rescore(store, older)
    assert [(s.metric, s.group, s.value, s.low) for s in made.scores] == [
        (s.metric, s.group, s.value, s.low) for s in run.scores
    ]


def test_rerun_command_names_subset(world: Path) -> None:
    text = rerun_command(tp.load("new", store=world / "store"))
    assert "--subset informative:8 --design ordered --references " in text
    assert f"--subset-score 'pck:{GROUP}'" in text or f"--subset-score pck:{GROUP}" in text


def test_line_is_sorted_by_references(world: Path) -> None:
    facts = stored(world, "new").manifest.subset
    assert facts is not None
    good, bad = unit_values(world, "good"), unit_values(world, "bad")
    (stratum,) = facts.strata.values()
    expected = [(good[key] + bad[key]) / 2 for key in stratum.units]
    assert list(stratum.expected) == pytest.approx(expected)
    assert expected == sorted(expected)


def test_same_request_is_reported_from_store(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "irreproducible", lambda context: None)  # computes cached items again
    before, run = race_world.calls(world / "pairs.json"), stored(world, "new")
    assert on_subset(world, "--name", "new") == 0
    assert race_world.calls(world / "pairs.json") == before
    assert stored(world, "new").created_at == run.created_at
    said = capsys.readouterr()
    assert "hardly a difference" in said.err.replace("\n", " ")
    assert "estimates; 95 % interval about the complete benchmark" in said.out.replace("\n", " ")


def test_complete_run_afterwards_is_another_run(world: Path, tmp_path: Path) -> None:
    data = race_world.write_world(tmp_path, pairs=PAIRS, scenes=6)
    tp.evaluate(spec(tmp_path, 0.6), task=TASK, data=data, store=tmp_path / "store", name="good")
    assert on_subset(tmp_path, "--name", "new") == 0
    part = stored(tmp_path, "new").manifest.units
    complete = tp.evaluate(spec(tmp_path, 1.4), task=TASK, data=data, store=tmp_path / "store", name="new")
    assert part.items() <= dict(complete.manifest.units).items()  # the same records
    alone = tp.evaluate(spec(tmp_path, 1.4), task=TASK, data=data, store=tmp_path / "alone", name="new")
    assert complete.id == alone.id
    assert [(s.metric, s.group, s.value) for s in complete.score_rows] == [
        (s.metric, s.group, s.value) for s in alone.score_rows
    ]
    with Store.open(tmp_path / "store", mode="read") as store:
        run, notes = one_run(store, "new", task=TASK)
        assert run.id == complete.id
        assert notes == []
    assert command(["store", "prune", "--older-than", "0d", "--yes", "--store", str(tmp_path / "store")]) == 0
    assert command(["store", "check", "--store", str(tmp_path / "store")]) == 0


def test_compare_leaves_subsets_out_unless_named(world: Path) -> None:
    store = world / "store"
    complete = tp.compare(task=TASK, group=GROUP, store=store)
    assert {r.method for r in complete.rows} == {"good", "bad"}
    name = stored(world, "new").manifest.subset
    assert name is not None
    assert any(name.name in note for note in complete.notes)
    found = tp.compare(task=TASK, group=GROUP, store=store, subset=name.name)
    assert {r.method for r in found.rows} == {"good", "bad", "new"}
    assert not found.pairs
    assert "say nothing about new scenes" in str(found)
    assert "tiepoint race" in str(found)
    values = {m: unit_values(world, m) for m in ("good", "bad")}
    (stratum,) = name.strata.values()
    means = {m: sum(own[k] for k in stratum.units) / 8 for m, own in values.items()}
    assert {r.method: r.value for r in found.rows if r.method != "new"} == pytest.approx(means)
    gaps = {d.first: d for d in found.unit_differences}
    best = found.rows[0].method
    other = "bad" if best != "bad" else "good"
    if best in means:
        assert gaps[other].difference == pytest.approx(means[other] - means[best])
        d = [(values[other][k] - values[best][k]) / 8 for k in stratum.units]
        squares = sum((a - b) ** 2 for a, b in pairwise(d))
        half = 1.96 * ((1 - (8 / PAIRS) ** 2) * 8 / 14 * squares) ** 0.5
        assert gaps[other].high == pytest.approx(gaps[other].difference + half)
    both = [tp.load(method, store=store) for method in ("new", "good")]
    assert {r.method for r in tp.compare(both, task=TASK, group=GROUP).rows} == {"new", "good"}
    with pytest.raises(UnknownNameError, match="subset with runs"):
        tp.compare(task=TASK, group=GROUP, store=store, subset="informative-9-x")
    with pytest.raises(InputError, match="`margin` needs complete runs"):
        tp.compare(task=TASK, group=GROUP, store=store, subset=name.name, margin=1.0)
    with pytest.raises(UnknownNameError, match="score of informative-8-"):
        tp.compare(task=TASK, metric="answered", store=store, subset=name.name)


def test_runs_of_two_subsets_are_not_compared(world: Path) -> None:
    assert on_subset(world, "--name", "other", n=6) == 0
    ids = [stored(world, "new").id, stored(world, "other").id]
    with pytest.raises(InputError, match="runs of different subsets cannot be compared"):
        tp.compare(ids, task=TASK, group=GROUP, store=world / "store")


@pytest.mark.slow
def test_report_shows_subsets_apart(world: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    assert command(["report", "--store", str(world / "store"), "--out", str(page)]) == 0
    text = page.read_text()
    assert "pairs.json (informative-8-" in text
    assert "Bars are 95 % intervals about the complete benchmark, from estimates on a subset." in text


def test_other_commands_take_no_subset_for_complete_run(world: Path) -> None:
    store = world / "store"
    made = plan(task=TASK, detect=2.0, group=GROUP, store=store)
    assert [{r.first, r.second} for r in made.rows] == [{"good", "bad"}]
    with pytest.raises(InputError, match="differ in their dataset"):
        race(["good", "new"], replay=True, task=TASK, group=GROUP, store=store)
    runs = [tp.load(name, store=store) for name in ("good", "new")]
    with pytest.raises(InputError, match="cannot be merged"):
        tp.merge([runs[1], runs[1]])


def test_pps_and_reference_itself(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--design", "pps", "--references", "good,bad")
    assert on_subset(world, *more, "--name", "itself", noise=0.6) == 0
    said = capsys.readouterr().err.replace("\n", " ")
    assert "is one of the references that chose the units" in said
    run = stored(world, "itself")
    assert run.manifest.subset is not None
    assert run.manifest.subset.design == "pps"
    assert [(s.metric, s.group) for s in run.scores] == [("pck", GROUP)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--subset", "random:5"), "--subset is 'random:5'; expected informative:NUMBER"),
        (("--subset", "informative:0"), "at least 1 unit"),
        (("--subset", "informative:5", "--design", "quality"), "is 'quality'; expected ordered or pps"),
        (("--subset", "informative:5", "--references", "nobody"), "reference 'nobody' has no complete run"),
        (("--subset", "informative:5", "--subset-score", "auc"), "auc"),
        (("--subset", "informative:5", "--subset-score", "unanswered"), "cannot be estimated from a subset"),
        (("--subset", "informative:5", "--write-results", "out"), "has no effect with --subset"),
        (("--design", "pps"), "has no effect without --subset"),
    ],
)
def test_wrong_requests_are_refused(
    world: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
) -> None:
    data = str(world / "pairs.json")
    arguments = ["run", spec(world, 1.4), "--task", TASK, "--data", data, "--store", str(world / "store")]
    assert command([*arguments, *more]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_subset_without_complete_run_is_refused(tmp_path: Path) -> None:
    race_world.write_world(tmp_path, pairs=6, scenes=3)
    assert on_subset(tmp_path) == 2
    Store.open(tmp_path / "store").close()
    with pytest.raises(InputError, match="complete run"):
        subset(5, task=TASK, store=tmp_path / "store")


def test_subset_from_python(world: Path) -> None:
    made = subset(8, task=TASK, references=["good", "bad"], group=GROUP, metric="pck", store=world / "store")
    facts = stored(world, "new").manifest.subset
    assert facts is not None
    assert made.facts == facts
    assert ADVICE in str(made)
    with pytest.warns(UserWarning, match="informative-8-"):
        run = made.evaluate(spec(world, 1.4), data=world / "pairs.json")
    assert {s.group: s.value for s in run.score_rows if s.metric == "pck"}[GROUP] == pytest.approx(
        next(s.value for s in stored(world, "new").scores if (s.metric, s.group) == ("pck", GROUP))
    )


@needs_zeb
@needs_golden
@pytest.mark.parametrize(("design", "value"), [("ordered", 0.520390729841), ("pps", 0.5107749573835885)])
def test_subset_of_imported_runs(tmp_path: Path, design: str, value: float) -> None:
    with Store.open(tmp_path / "s") as store:
        import_files([ZEB], store)
    names = ["root_sift", "gim_lightglue", "gim_loftr"]
    made = subset(20, task="pose/relative", references=names, design=design, store=tmp_path / "s")
    assert len(made.units) == 240
    score = made.estimate("gim_dkm")
    assert score.value == pytest.approx(value, abs=1e-9)
    assert score.low is not None
    assert score.low < 0.520383621067 < (score.high or 0)
