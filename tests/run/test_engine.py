"""The engine on a task made for the purpose: what is cached, what is made anew, what fails how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnitError, UnknownNameError
from tiepoint.core.hashing import hash_array
from tiepoint.core.records import Features, Item, Records, Unit
from tiepoint.core.scores import SceneValues, Score
from tiepoint.report.runs.lazy_records import lazy_run
from tiepoint.run import feature_pipeline, finish, preparation, session, update
from tiepoint.run.engine import evaluate
from tiepoint.run.finish import merge_runs
from tiepoint.run.request import RunRequest
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.tasks.base import BaseTask, BaseTaskData
from tiepoint.tasks.info import TaskInfo


class FakeOpened(BaseTaskData):
    """Two patch-images and a unit each; counts how often it compares."""

    warnings = ("a warning",)
    compared = 0
    images = 2

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        keys = [f"v_s{i}/ref" for i in range(self.images)]
        self.payload = {k: rng.integers(0, 256, (4, 9, 9)).astype(np.uint8) for k in keys}
        self.items = [Item(k, hash_array(p), 4) for k, p in self.payload.items()]
        self.units = [Unit(k, (k,), f"definition of {k}") for k in self.payload]
        self.data_hash = "d" + "0" * 63 if seed == 0 else f"e{seed:063d}"

    def read_item(self, key: str) -> Any:
        return self.payload[key]

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        type(self).compared += 1
        values = np.asarray(features.arrays(unit.items[0])["values"], dtype=float)
        return Records("pair", {"mean": values.mean(axis=1)}, {"scene": unit.key, "comparison": comparison})


class FakeTask(BaseTask):
    name = "fake/task"
    family = "patches"
    protocols = ("exact", "old")
    info = TaskInfo("A task made for the purpose.", ("mean", "all"))
    seed = 0

    def open(self, data: Path, options: Mapping[str, Any]) -> FakeOpened:
        return FakeOpened(self.seed)

    def comparison(self, protocol: str) -> str:
        return "same"

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        return ["a warning of the records"]

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        means = np.array([r["mean"].mean() for r in records])
        scenes = SceneValues(tuple(r.meta["scene"] for r in records), ("v",) * len(records), means[None])
        return [Score("mean", "all", float(means.mean()), len(records), protocol, scenes=scenes)]


CALLS: list[int] = []
"""Patches of every call: not an attribute of the method, because all of these are in its key."""


class Mean:
    """Mean grey value; counts how often it is called."""

    name = "mean-grey"
    distance = "l2"
    fail_on: str | None = None

    def describe(self, patches: np.ndarray) -> np.ndarray:
        CALLS.append(len(patches))
        return patches.reshape(len(patches), -1).mean(axis=1, keepdims=True).astype(np.float32)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> FakeTask:
    fake = FakeTask()
    for module in (finish, preparation, update):
        monkeypatch.setattr(module, "load_task", lambda name: fake)
    monkeypatch.setattr(feature_pipeline, "repeat_items", lambda context, computed: {})
    monkeypatch.setattr(session, "irreproducible", lambda context: None)
    FakeOpened.compared = 0
    CALLS.clear()
    return fake


def ask(store: Store, method: Any = Mean, **changes: Any) -> Any:
    return evaluate(RunRequest(method, "fake/task", Path("data"), **changes), store)


def test_a_second_run_computes_nothing(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        first = ask(store)
        assert (len(CALLS), FakeOpened.compared) == (2, 2)
        second = ask(store)
    assert (len(CALLS), FakeOpened.compared) == (2, 2)
    assert second.value("mean") == first.value("mean")
    assert list(first.warnings) == list(second.warnings) == ["a warning", "a warning of the records"]


def test_another_protocol_only_scores(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        ask(store)
        other = ask(store, protocols=("old",))
        assert (len(CALLS), FakeOpened.compared) == (2, 2)
        assert [s.protocol for s in other.score_rows] == ["old"]
        assert [s.protocol for s in load_runs(store)[0].scores] == ["exact", "old"]
        assert len(load_runs(store)) == 1
        again = ask(store, protocols=("old", "exact"))
        assert [s.protocol for s in again.score_rows] == ["old", "exact"]


def test_changed_data_are_described_again(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        ask(store)
        task.seed = 1
        ask(store)
        assert (len(CALLS), FakeOpened.compared) == (4, 4)
        assert len(load_runs(store)) == 2


def test_a_damaged_record_is_made_anew(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        run = ask(store)
        key = next(iter(run.manifest.units["v_s0/ref"].values()))
        store.records.path(key).unlink()
        again = ask(store)
    assert (len(CALLS), FakeOpened.compared) == (2, 3)
    assert again.value("mean") == run.value("mean")


def test_an_object_of_a_session_is_not_cached_and_says_so(task: FakeTask, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"np": np}
    code = (
        "class Here:\n    name = 'here'\n"
        "    def describe(self, p):\n        return p.reshape(len(p), -1)[:, :3] + 1.0\n"
    )
    exec(compile(code, "<session>", "exec"), namespace)
    with Store.open(tmp_path) as store:
        run = ask(store, namespace["Here"]())
        assert any("not cached" in w for w in run.warnings)
        assert not (store.root / "features").exists()


def test_unknown_protocol_is_refused_with_a_hint(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, pytest.raises(UnknownNameError, match="did you mean 'exact'"):
        ask(store, protocols=("exat",))


class Wrong:
    name = "wrong"

    def __init__(self, how: str = "rows") -> None:
        self.how = how

    def describe(self, patches: np.ndarray) -> np.ndarray:
        values = np.ones((len(patches), 3), np.float32)
        if self.how == "rows":
            return values[:-1]
        if self.how == "raise":
            raise RuntimeError("no weights")
        values[1] = np.nan if self.how == "nan" else np.inf
        return values


@pytest.mark.parametrize(("how", "message"), [("rows", "3"), ("nan", "NaN|nan"), ("inf", "inf")])
def test_bad_descriptors_are_refused_with_their_place(
    task: FakeTask, tmp_path: Path, how: str, message: str
) -> None:
    with Store.open(tmp_path) as store, pytest.raises(InputError, match=message):
        ask(store, Wrong(how))


def test_a_method_that_raises_fails_its_units(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, pytest.raises(UnitError, match="no weights"):
        ask(store, Wrong("raise"))


def test_records_and_scores_are_frames(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        run = ask(store)
    assert list(run.scores["metric"]) == ["mean"]
    assert len(run.records) == 8
    assert "mean-grey on fake/task" in str(run)
    with pytest.raises(KeyError, match="no score"):
        run.value("nothing")


class Half:
    """Fails on some patches."""

    name = "half"

    def describe(self, patches: np.ndarray) -> np.ndarray:
        values = np.ones((len(patches), 3), np.float32)
        values[1] = np.nan
        return values


def test_failed_descriptors_are_counted_and_told_again(task: FakeTask, tmp_path: Path) -> None:
    message = "2 of 8 descriptors failed"
    with Store.open(tmp_path) as store:
        for _ in range(2):
            run = ask(store, Half, method_options={"on_bad": "miss"})
            assert sum(message in w for w in run.warnings) == 1
        assert any(message in w for w in load_runs(store)[0].manifest.warnings)
        assert not any("failed" in w for w in ask(store).warnings)


def test_bad_descriptors_of_all_images_are_told(task: FakeTask, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, pytest.raises(InputError, match=r"half: features: 2 problems") as e:
        ask(store, Half)
    assert "v_s0/ref: 1 descriptors have NaN" in str(e.value)
    assert "v_s1/ref: 1 descriptors have NaN" in str(e.value)
    assert FakeOpened.compared == 0


def test_a_method_that_computes_is_stopped_after_the_problems_that_are_shown(
    task: FakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeOpened, "images", 60)
    with Store.open(tmp_path) as store, pytest.raises(InputError) as e:
        ask(store, Half)
    assert 20 <= len(e.value.problems) < 30  # type: ignore[attr-defined]


def test_a_second_protocol_keeps_the_warnings_of_the_first(
    task: FakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        ask(store)
        monkeypatch.setattr(FakeTask, "record_warnings", lambda self, records: ["another"])
        ask(store, protocols=("old",))
        kept = load_runs(store)[0].manifest.warnings
    assert kept == ("a warning", "another", "a warning of the records")


def test_new_rules_of_comparing_mark_old_runs_and_make_their_records_anew(
    task: FakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTask, "comparison", lambda self, protocol: protocol)
    with Store.open(tmp_path / "s") as store:
        before = ask(store, protocols=("exact", "old"))
        assert (before.manifest.rules, FakeOpened.compared) == ({}, 4)
        assert list(lazy_run(before.stored, store).warnings) == list(before.warnings)
        monkeypatch.setattr(FakeTask, "info", replace(FakeTask.info, protocol_versions={"old": 2}))
        assert any(
            "under old are of an older protocol version" in w for w in lazy_run(before.stored, store).warnings
        )
        with pytest.raises(InputError, match="older protocol version"):
            merge_runs([before])
        ask(store, protocols=("exact",))  # the other protocol is as it was, and the old scores stay
        assert FakeOpened.compared == 4
        monkeypatch.setattr(finish, "SCORING", finish.SCORING + 1)
        monkeypatch.setattr(update, "SCORING", update.SCORING + 1)
        ask(store, protocols=("exact",))
        (kept,) = load_runs(store)
        assert (kept.manifest.scoring, kept.manifest.rules, update.outdated_protocols(kept)) == (
            finish.SCORING,
            {},
            ["old"],
        )
        after = ask(store, protocols=("old",))
        assert FakeOpened.compared == 6
        (kept,) = load_runs(store)
        assert (kept.manifest.rules, update.outdated_protocols(kept)) == ({"old": 2}, [])
        assert {s.protocol for s in kept.scores} == {"exact", "old"}
        units = before.manifest.units["v_s0/ref"], after.manifest.units["v_s0/ref"]
        assert units[0]["exact"] == units[1]["exact"]
        assert units[0]["old"] != units[1]["old"]


def test_scores_made_by_other_rules_are_made_again_from_records(
    task: FakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "s") as store:
        with monkeypatch.context() as older:
            older.setattr(finish, "SCORING", -1)
            before = ask(store, protocols=("exact", "old"))
        compared = FakeOpened.compared
        after = ask(store, protocols=("exact",))
        assert (before.manifest.scoring, after.manifest.scoring) == (-1, finish.SCORING)
        assert FakeOpened.compared == compared
        assert after.manifest.protocols == ("exact", "old")
        (kept,) = load_runs(store)
        assert {s.protocol for s in kept.scores} == {"exact", "old"}
