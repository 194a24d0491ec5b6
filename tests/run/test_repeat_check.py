# SPDX-License-Identifier: BSD-3-Clause
"""Methods that are not deterministic are found, and their runs are marked wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiepoint as tp
from tiepoint.cli.main import run as command
from tiepoint.core.records import ImageFacts, Item
from tiepoint.methods.resolve import resolve
from tiepoint.run import compute, feature_pipeline, repeat_check, session
from tiepoint.run.context import RunContext
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.record_files import RecordStore
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MINE = """
from pathlib import Path
import numpy as np

def logged(what):
    with Path(__file__).with_suffix(".calls").open("a") as f:
        f.write(what + "\\n")

class Steady:
    def describe(self, patches):
        logged("patches")
        return patches.reshape(len(patches), -1)[:, :16] + 1.0

class Noisy(Steady):
    def describe(self, patches):
        return super().describe(patches) + np.random.rand()

class Seeded(Steady):
    def describe(self, patches):
        np.random.seed(int(patches.sum()))
        return super().describe(patches) + np.random.rand()

class Detects:
    def extract(self, image):
        logged("image")
        rng = np.random.default_rng()
        xy = rng.uniform(5, 60, (20, 2))
        return xy, rng.uniform(1, 2, (20, 4))

class Flows:
    def match(self, image1, image2):
        return np.full((*image1.shape[:2], 2), np.random.rand())

class Matches:
    def match(self, image1, image2):
        points = np.random.rand(9, 2) * 20
        return points, points + np.random.rand()

class Stops(Steady):
    def describe(self, patches):
        if hasattr(Stops, "called"):
            raise ValueError("only once")
        Stops.called = True
        return super().describe(patches)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def evaluated(name: str, patches: Path, **how: Any) -> tp.Run:
    given = {"task": "hpatches/matching", "data": patches, "store": "s", "jobs": 1, "progress": False} | how
    return tp.evaluate(f"mine.py:{name}", **given)


def calls(mine: Path) -> int:
    return len((mine / "mine.calls").read_text().splitlines())


def test_evaluate_deterministic_method_computes_one_item_twice(
    mine: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_pipeline, "SHARE", 0.0)
    monkeypatch.setattr(repeat_check, "RECHECK_S", 0.0)
    for name in ("Steady", "Seeded"):
        run = evaluated(name, patches)
        assert run.manifest.nondeterministic_items == 0
        assert "nondeterministic_items" not in run.manifest.plain()
        assert not any("determin" in w for w in run.warnings)
        assert not any("determin" in (s.note or "") for s in run.score_rows)
    assert calls(mine) == 2 * (48 + 1)
    evaluated("Steady", patches, protocol="hpatches-python")
    assert calls(mine) == 2 * (48 + 1) + 1  # one item before the cache is used


def test_evaluate_nondeterministic_method_is_marked_and_stored(mine: Path, patches: Path) -> None:
    with pytest.warns(UserWarning, match="Noisy is not deterministic: the features of"):
        run = evaluated("Noisy", patches)
    count = run.manifest.nondeterministic_items
    assert count >= 1
    with Store.open(mine / "s") as store:
        (stored,) = load_runs(store)
    assert stored.manifest.nondeterministic_items == count
    assert all("caution: Noisy is not deterministic" in (s.note or "") for s in stored.scores)
    again = evaluated("Noisy", patches)
    assert again.id == run.id
    assert sum("is not deterministic" in w for w in again.warnings) == 1
    other = evaluated("Noisy", patches, task="hpatches/verification")  # the features are cached
    assert other.manifest.nondeterministic_items >= 1


def test_evaluate_another_protocol_keeps_the_mark(mine: Path, patches: Path) -> None:
    evaluated("Noisy", patches)
    run = evaluated("Noisy", patches, protocol="hpatches-python")
    assert run.manifest.nondeterministic_items >= 1
    assert all(s.note and s.note.count("is not deterministic") == 1 for s in run.stored.scores)


def test_evaluate_object_and_uncached_method_are_checked(mine: Path, patches: Path) -> None:
    class Here:
        def describe(self, p: Any) -> Any:
            return p.reshape(len(p), -1)[:, :9] + np.random.rand()

    run = tp.evaluate(Here(), task="hpatches/matching", data=patches, store="s", jobs=1, progress=False)
    assert run.manifest.nondeterministic_items >= 1


IMAGE = np.zeros((80, 90, 3), np.uint8)


@pytest.mark.parametrize(
    ("name", "family", "payload"),
    [
        ("Noisy", "patches", np.ones((3, 9, 9), np.uint8)),
        ("Stops", "patches", np.ones((3, 9, 9), np.uint8)),
        ("Detects", "keypoints", IMAGE),
        ("Flows", "dense", (IMAGE, IMAGE)),
        ("Flows", "pairs", (IMAGE, IMAGE)),
        ("Matches", "pairs", (IMAGE, IMAGE)),
        ("Matches", "dense", (IMAGE, IMAGE)),
    ],
)
def test_repeat_items_every_family_differs(mine: Path, name: str, family: str, payload: Any) -> None:
    """Also a method that fails the second time."""
    item = Item("v_a/ref", "c", 3, (ImageFacts("a.png", (90, 80)), ImageFacts("b.png", (90, 80))))
    opened: Any = SimpleNamespace(items=[item], read_item=lambda key: payload)
    method = resolve(f"mine.py:{name}", family=family)
    task: Any = None
    context = RunContext(task, opened, method, FeatureCache(mine / "f"), RecordStore(mine / "r"))
    keys = dict(context.feature_keys)
    context.extract("v_a/ref", keys["v_a/ref"])
    assert repeat_check.to_repeat(context, {}) == keys
    found = repeat_check.repeat_items(context, (keys, 0.0))
    assert found == {"v_a/ref": "differs"}
    repeat_check.note_repeats(context, found)
    assert context.summary().differing == 1
    assert context.features.verify(keys["v_a/ref"])["repeated"] == "differs"
    assert repeat_check.to_repeat(context, {}) == {}


@pytest.mark.parametrize(("name", "task"), [("Detects", "keypoints/matching")])
def test_evaluate_keypoint_methods_are_checked(mine: Path, sequences: Path, name: str, task: str) -> None:
    run = evaluated(name, sequences, task=task)
    assert run.manifest.nondeterministic_items >= 1


def test_evaluate_pairs_of_keypoints_do_not_hide_behind_the_memo(mine: Path, sequences: Path) -> None:
    run = evaluated("Detects?matcher=mnn", sequences, task="keypoints/geometry")
    assert run.manifest.nondeterministic_items >= 1


def test_evaluate_pair_matchers_are_checked(mine: Path, sequences: Path) -> None:
    run = evaluated("Matches", sequences, task="keypoints/geometry")
    assert run.manifest.nondeterministic_items >= 1


@pytest.mark.slow
def test_evaluate_workers_check_and_agree(mine: Path, patches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", 0.0)
    assert evaluated("Noisy", patches, jobs=2).manifest.nondeterministic_items >= 1
    assert evaluated("Steady", patches, jobs=2).manifest.nondeterministic_items == 0


@pytest.mark.slow
def test_evaluate_cluster_checks(mine: Path, patches: Path) -> None:
    pytest.importorskip("distributed")
    given = ["--task", "hpatches/matching", "--data", str(patches), "--store", "s", "--cluster", "local:1"]
    assert command(["run", "mine.py:Noisy", "mine.py:Steady", *given]) == 0
    with Store.open(mine / "s") as store:
        found = {r.method: r.manifest.nondeterministic_items for r in load_runs(store)}
    assert found["Noisy"] >= 1
    assert found["Steady"] == 0


def test_repeat_items_budget_limits_further_items(mine: Path) -> None:
    seen: list[str] = []

    def header(key: str) -> dict[str, Any]:
        rows = 0 if key == "ka" else 2  # an item without features shows nothing
        return {"arrays": {"values": [rows, 4]}, "content": "x", "time_s": {"kc": 0.5}.get(key, 1.0)}

    def extract(item: str, payload: Any) -> dict[str, Any]:
        seen.append(item)
        return {}

    context: Any = SimpleNamespace(
        method=SimpleNamespace(needs_payload=True, config={}, extract=extract),
        features=SimpleNamespace(meta=header),
        items={name: name for name in "abcd"},
        payload=lambda key: None,
    )
    keys = {name: f"k{name}" for name in "abcd"}
    repeat_check.repeat_items(context, (keys, 0.5))
    assert seen == ["c"]
    seen.clear()
    repeat_check.repeat_items(context, (keys, 60.0))
    assert seen == ["c", "a", "b", "d"]


@pytest.fixture
def both(mine: Path, patches: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    given = ["--task", "hpatches/matching", "--data", str(patches), "--store", "s"]
    assert command(["run", "mine.py:Noisy", "mine.py:Steady", *given]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("Noisy is not deterministic") == 1
    noisy = [line for line in printed.out.splitlines() if "Noisy" in line]
    steady = [line for line in printed.out.splitlines() if "Steady" in line]
    assert noisy[0].split()[3].endswith("*")
    assert "*" not in steady[0]
    assert "* Noisy is not deterministic (" in printed.out
    return mine / "s"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command([*arguments, "--store", "s"]) == 0
    return capsys.readouterr().out


def test_tables_of_every_kind_show_the_mark(
    both: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(both) as store:
        ids = {r.method: r.id for r in load_runs(store)}
    listed = shown(capsys, "list", "runs").splitlines()
    assert [line for line in listed if "Noisy *" in line]
    assert not [line for line in listed if "Steady *" in line]
    assert listed[-1].strip().startswith("* Noisy is not deterministic")
    rows = {row["method"]: row for row in json.loads(shown(capsys, "list", "runs", "--json"))}
    assert "not deterministic" in rows["Noisy"]["caution"]
    assert "caution" not in rows["Steady"]
    assert rows["Noisy"]["name"] == "Noisy"
    card = shown(capsys, "show", ids["Noisy"])
    assert "is not deterministic" in card
    assert " *" in card
    assert "determin" not in shown(capsys, "show", ids["Steady"])
    compared = shown(capsys, "compare", "--task", "hpatches/matching")
    assert "* Noisy is not deterministic" in compared
    line = next(line for line in compared.splitlines() if line.startswith("Noisy  "))
    assert " *" in line
    found = json.loads(shown(capsys, "compare", "--task", "hpatches/matching", "--json"))
    assert "not deterministic" in json.dumps(found)
    for form in ("html", "md", "latex", "csv", "json"):
        out = mine / f"report.{form}"
        shown(capsys, "report", "--format", form, "--out", str(out))
        text = out.read_text()
        assert "is not deterministic" in text, form
        assert "Steady is not" not in text
    for form in ("md", "latex"):
        out = mine / f"scores.{form}"
        shown(capsys, "report", "--format", form, "--table", "scores", "--out", str(out))
        assert "Noisy is not deterministic" in out.read_text()


def test_report_without_marked_runs_has_no_trace(
    mine: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--task", "hpatches/matching", "--data", str(patches), "--store", "s"]
    assert command(["run", "mine.py:Steady", *given]) == 0
    capsys.readouterr()
    for form in ("html", "md", "latex", "csv", "json"):
        shown(capsys, "report", "--format", form, "--out", f"report.{form}")
        assert "determin" not in Path(f"report.{form}").read_text().lower().replace("undetermined", "")
    assert "cautions" not in shown(capsys, "compare", "--task", "hpatches/matching", "--json")


def test_merged_runs_keep_the_mark(mine: Path, patches: Path) -> None:
    from tiepoint.run.finish import merge_runs

    run = evaluated("Noisy", patches)
    merged = merge_runs([run])
    assert merged.manifest.nondeterministic_items == run.manifest.nondeterministic_items
    assert all("is not deterministic" in (s.note or "") for s in merged.score_rows)


def test_evaluate_cached_features_that_nobody_checked_are_checked_once(
    mine: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on features of other runs, none of whose items was computed twice."""
    with monkeypatch.context() as patch:
        patch.setattr(feature_pipeline, "repeat_items", lambda context, computed: {})
        run = evaluated("Noisy", patches)
    assert run.manifest.nondeterministic_items == 0
    monkeypatch.setattr(session, "irreproducible", lambda context: None)
    before = calls(mine)
    other = evaluated("Noisy", patches, task="hpatches/verification")
    assert other.manifest.nondeterministic_items == 1
    assert calls(mine) == before + 1
