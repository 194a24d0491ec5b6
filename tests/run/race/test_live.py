# SPDX-License-Identifier: BSD-3-Clause
"""Races of methods: the keys of `run`, nothing computed twice, interrupted and continued, refusals."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from race_world import calls, requests, write_world

import tiepoint as tp
from tiepoint.core.errors import InputError, UnitError
from tiepoint.run import session
from tiepoint.run.engine import evaluate
from tiepoint.run.race.engine import RaceSettings, RunningRace
from tiepoint.run.race.live import race_methods
from tiepoint.run.race.replay import replay_runs
from tiepoint.run.race.units import unit_score
from tiepoint.run.request import RunRequest
from tiepoint.store.maintenance.space import prune_store
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.races import StoredRace, load_races, race_file, read_race
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.tasks import load_task
from tiepoint.tasks.unit_values import UnitWeights

ALPHA = RaceSettings(group="alpha=0.05,per=pair")
"""PCK at a radius of 1 px: the methods differ and no pair is trivial."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_world(tmp_path)


@pytest.fixture(autouse=True)
def no_recheck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not compute cached items again, so that calls can be counted."""
    monkeypatch.setattr(session, "irreproducible", lambda context: None)


def raced(
    root: Path, wanted: list[RunRequest], settings: RaceSettings = ALPHA, **more: Any
) -> tuple[StoredRace, list[str]]:
    told: list[str] = []
    with Store.open(root) as store:
        return race_methods(wanted, settings, store, report=told.append, **more), told


def core(race: StoredRace) -> dict[str, Any]:
    return race.model_dump(exclude={"created_at"})


def record_bytes(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (root / "records").rglob("*.parquet")}


def test_race_then_run_computes_only_what_is_missing(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 2.5)
    race, _ = raced(tmp_path / "raced", both)
    assert [(c.better, c.worse) for c in race.claims] == [("n0.6", "n2.5")]
    assert race.steps < 40
    assert calls(data) == 2 * race.steps
    with Store.open(tmp_path / "raced") as store:
        assert load_runs(store) == []
        before = record_bytes(store.root)
        prune_store(store, older_than_s=0.0, now=1e11)  # removes features, which can be computed again
        assert record_bytes(store.root) == before
        assert check_store(store).ok
        assert [r.id for r in load_races(store.root)] == [race.id]
    with pytest.raises(InputError, match="no finished runs"):
        tp.compare(task="semantic/pck", store=tmp_path / "raced")
    with Store.open(tmp_path / "again") as store:
        race_methods(both, ALPHA, store)
        missing: dict[str, int] = {}
        runs = [evaluate(one, store, lambda stage, _, total: missing.update({stage: total})) for one in both]
        assert missing["n0.6: features"] == missing["n2.5: features"] == 40 - race.steps
    with Store.open(tmp_path / "alone") as store:
        alone = [evaluate(one, store) for one in both]
    assert record_bytes(tmp_path / "again") == record_bytes(tmp_path / "alone")
    for one, other in zip(runs, alone, strict=True):
        assert one.id == other.id
        assert one.manifest.units == other.manifest.units
        assert [s.value for s in one.score_rows] == [s.value for s in other.score_rows]


def test_race_interrupted_and_continued_equals_undisturbed_race(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 1.4)
    whole, _ = raced(tmp_path / "whole", both)
    assert whole.steps > 6
    started = calls(data)

    def stop(running: RunningRace) -> None:
        if running.race.steps == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        raced(tmp_path / "cut", both, on_step=stop)
    path = race_file(tmp_path / "cut", whole.id)
    assert read_race(path).ended is None
    race, _ = raced(tmp_path / "cut", both)
    assert core(race) == core(whole)
    assert calls(data) - started == 2 * whole.steps
    assert core(read_race(path)) == core(whole)


def test_race_same_again_is_reported_from_store(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 2.5)
    race, _ = raced(tmp_path / "store", both)
    started = calls(data)
    again, told = raced(tmp_path / "store", list(reversed(both)))
    assert core(again) == core(race)
    assert calls(data) == started
    assert told == []


def test_race_other_seed_is_a_second_race_of_the_question(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 2.5)
    race, _ = raced(tmp_path / "store", both)
    other, told = raced(tmp_path / "store", both, replace(ALPHA, seed=1))
    assert other.id != race.id
    assert other.drawn != race.drawn
    assert told == ["race 2 of this question; its error probabilities add up"]


@pytest.mark.parametrize("batch", [3, 64])
def test_race_batch_changes_no_claim(data: Path, tmp_path: Path, batch: int) -> None:
    three = requests(data, 0.6, 1.4, 2.5)
    one, _ = raced(tmp_path / "one", three)
    many, _ = raced(tmp_path / "many", three, replace(ALPHA, batch=batch))
    assert one.model_dump(exclude={"created_at", "records"}) == many.model_dump(
        exclude={"created_at", "records"}
    )
    assert len(many.record_keys) > len(one.record_keys)  # what was computed too early stays in the store
    with Store.open(tmp_path / "many") as store:
        prune_store(store, older_than_s=0.0, now=1e11)
        assert all(key in store.records for key in many.record_keys)


def test_race_limit_ends_undecided_and_continues_later(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 0.62)
    short, _ = raced(tmp_path / "store", both, replace(ALPHA, limit=4))
    assert (short.ended, short.steps, short.claims) == ("limit", 4, ())
    assert short.open_pairs[0].low < 0 < short.open_pairs[0].high
    whole, _ = raced(tmp_path / "fresh", both)
    later, _ = raced(tmp_path / "store", both)
    assert core(later) == core(whole)
    again, _ = raced(tmp_path / "store", both, replace(ALPHA, limit=3))
    assert again.steps == whole.steps


def test_race_all_units_used_difference_is_exact(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 0.62)
    race, _ = raced(tmp_path / "store", both, replace(ALPHA, alpha=1e-9))
    with Store.open(tmp_path / "store") as store:
        found = [{(s.metric, s.group): s.value for s in evaluate(one, store).score_rows} for one in both]
    scores = [values["pck", ALPHA.group or ""] for values in found]
    low, high = race.sequences[0].sets[-1][1:]
    assert race.steps == 40
    assert low == pytest.approx(high, abs=1e-9) == pytest.approx(scores[0] - scores[1], abs=1e-9)


def test_race_about_scenes_uses_scene_means(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.4, 40.0)
    race, _ = raced(tmp_path / "store", both, replace(ALPHA, about="scenes"))
    assert race.question.units == 8
    assert set(race.drawn) <= {f"s{k}" for k in range(8)}
    assert race.ended in ("decided", "exhausted")
    keys = {f"p{k}" for k in range(40) if f"s{k % 8}" in race.drawn}
    assert set(race.records["n0.4"]) == keys
    benchmark, _ = raced(tmp_path / "store", both)
    assert benchmark.id != race.id


def test_race_failing_unit_ends_without_claim_and_continues(data: Path, tmp_path: Path) -> None:
    spec = f"{data.parent / 'mine.py'}:Shift?fails=3&noise="
    both = [RunRequest(f"{spec}{n}", "semantic/pck", data, name=f"n{n}") for n in (0.6, 0.61)]
    (data.parent / "fate" / "bad").touch()
    with pytest.raises(UnitError, match="no answer"):
        raced(tmp_path / "store", both)
    (left,) = load_races(tmp_path / "store")
    assert (left.ended, left.claims) == (None, ())
    (data.parent / "fate" / "bad").unlink()
    assert raced(tmp_path / "store", both)[0].ended == "decided"


def test_race_corrupt_record_is_recomputed_on_resume(data: Path, tmp_path: Path) -> None:
    both = requests(data, 0.6, 2.5)
    race, _ = raced(tmp_path / "store", both)
    race_file(tmp_path / "store", race.id).unlink()
    path = next((tmp_path / "store" / "records").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-40])
    again, told = raced(tmp_path / "store", both)
    assert core(again) == core(race)
    assert any("corrupt" in line for line in told)


def test_race_corrupt_file_is_reported_by_check(data: Path, tmp_path: Path) -> None:
    race, _ = raced(tmp_path / "store", requests(data, 0.6, 2.5))
    key = next(iter(race.record_keys))
    with Store.open(tmp_path / "store") as store:
        store.records.path(key).unlink()
        (problem,) = check_store(store).problems
        assert race.id in str(problem)
        assert "race again" in str(problem)
        path = race_file(store.root, race.id)
        path.write_text(path.read_text().replace('"alpha": 0.05', '"alpha": 0.5'))
        assert any("checksum mismatch" in str(p) for p in check_store(store).problems)
        assert list(load_races(store.root)) == []


def test_race_methods_called_the_same_get_their_specification_as_name(data: Path, tmp_path: Path) -> None:
    both = [replace(r, name=None) for r in requests(data, 0.6, 2.5)]
    race, _ = raced(tmp_path / "store", both)
    names = [m.name for m in race.question.methods]
    assert len(set(names)) == 2
    assert all("noise=" in name for name in names)


def test_race_equal_methods_raise(data: Path, tmp_path: Path) -> None:
    one = requests(data, 0.6)[0]
    with pytest.raises(InputError, match="equal by content"):
        raced(tmp_path / "store", [one, replace(one, name="other")])
    with pytest.raises(InputError, match="at least two"):
        raced(tmp_path / "store", [one])


def test_race_uncacheable_method_raises(data: Path, tmp_path: Path) -> None:
    class Lock:
        name = "lock"

        def __init__(self) -> None:
            import threading

            self.lock = threading.Lock()

        def match(self, image1: Any, image2: Any) -> Any:
            return np.zeros((0, 2)), np.zeros((0, 2))

    wanted = [*requests(data, 0.6), RunRequest(Lock(), "semantic/pck", data)]
    with pytest.raises(InputError, match="replay"):
        raced(tmp_path / "store", wanted)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (replace(ALPHA, metric="unanswered", group=None), "pools the points"),
        (replace(ALPHA, metric="nothing", group=None), "unknown metric"),
        (replace(ALPHA, about="pairs"), "expected benchmark or scenes"),
        (replace(ALPHA, alpha=0.0), "between 0 and 1"),
        (replace(ALPHA, limit=0), "at least 1"),
        (replace(ALPHA, goal="first"), "best, order or baseline"),
        (replace(ALPHA, goal="baseline=zz"), "not in the race"),
        (replace(ALPHA, about="scenes", group="alpha=0.05,per=class"), "only one scene"),
    ],
)
def test_race_wrong_settings_raise(tmp_path: Path, settings: RaceSettings, said: str) -> None:
    data = write_world(tmp_path, pairs=4, scenes=2)
    with pytest.raises(InputError, match=said):
        raced(tmp_path / "store", requests(data, 0.6, 2.5), settings)
    assert calls(data) == 0


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"a": 0.5, "b": 0.25}, "sum to 0.75 instead of 1; a weight is missing"),
        ({"a": 0.5, "b": float("nan")}, "b: the weight is nan"),
        ({"a": 1.0, "b": 0.0}, "b: the weight is 0.0; every unit needs a finite weight above 0"),
    ],
)
def test_race_of_task_with_wrong_weights_raises(
    monkeypatch: pytest.MonkeyPatch, weights: dict[str, float], said: str
) -> None:
    task = load_task("semantic/pck")
    made = UnitWeights(weights, dict.fromkeys(weights, ""), dict.fromkeys(weights, "s"))
    monkeypatch.setattr(task, "unit_weights", lambda *_: made)
    with pytest.raises(InputError, match=said):
        unit_score(task, {}, "exact", "pck", "alpha=0.05,per=pair")


@pytest.mark.parametrize("goal", ["order", "best", "baseline=n1.4"])
def test_replay_equals_live_race_and_writes_nothing(data: Path, tmp_path: Path, goal: str) -> None:
    three = requests(data, 0.6, 1.4, 2.5)
    settings = replace(ALPHA, goal=goal)
    live, _ = raced(tmp_path / "live", three, settings)
    with Store.open(tmp_path / "full") as store:
        runs = {one.name or "": evaluate(one, store).stored for one in three}
        names = sorted(p.name for p in store.root.rglob("*"))
        race = replay_runs(runs, settings, store)
        assert sorted(p.name for p in store.root.rglob("*")) == names
        kept = replay_runs(runs, settings, store, keep=True)
        assert [r.id for r in load_races(store.root)] == [kept.id]
    for name in ("claims", "steps", "evaluations", "drawn", "values", "sequences", "ended", "records"):
        assert getattr(race, name) == getattr(live, name), name
    assert race.full is not None
    for claim in race.claims:
        assert claim.low <= race.full[claim.better] - race.full[claim.worse] <= claim.high


def test_replay_refuses_runs_that_differ(data: Path, tmp_path: Path) -> None:
    other = write_world(tmp_path / "o", pairs=5) if (tmp_path / "o").mkdir() is None else data
    with Store.open(tmp_path / "store") as store:
        one, two = (evaluate(r, store).stored for r in (requests(data, 0.6)[0], requests(other, 2.5)[0]))
        with pytest.raises(InputError, match="differ in their dataset"):
            replay_runs({"a": one, "b": two}, ALPHA, store)
        with pytest.raises(InputError, match="equal by content"):
            replay_runs({"a": one, "b": one}, ALPHA, store)
        with pytest.raises(InputError, match="at least two"):
            replay_runs({"a": one}, ALPHA, store)
