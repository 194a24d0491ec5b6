# SPDX-License-Identifier: BSD-3-Clause
"""`time`: times of all items, memory and conditions are stored with the run; other machines are marked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiepoint as tp
from tiepoint.cli.main import run as cli
from tiepoint.methods.pairs.image_memo import FeatureMemo
from tiepoint.report.figures.pareto import pareto_figure
from tiepoint.report.html_page import cost_text
from tiepoint.report.leaderboard import other_machines
from tiepoint.report.runs.card import conditions, cost, times_differ
from tiepoint.report.runs.sections import sections
from tiepoint.run import costs
from tiepoint.run.costs import time_items

TASK = "hpatches/matching"


def evaluate(patches: Path, store: Path, *methods: Any, **options: Any) -> Any:
    return tp.evaluate(
        list(methods), task=TASK, data=patches, store=store, split="full", progress=False, **options
    )


def test_run_without_time_measures_nothing(patches: Path, tmp_path: Path) -> None:
    (run,) = evaluate(patches, tmp_path / "s", "meanstd")
    assert run.manifest.efficiency == {"bytes_per_descriptor": 8, "dimension": 2}
    assert not (tmp_path / "s" / "efficiency").exists()


def test_time_is_measured_on_every_item_and_stays_with_the_run(patches: Path, tmp_path: Path) -> None:
    store = tmp_path / "s"
    (plain,) = evaluate(patches, store, "meanstd")
    (timed,) = evaluate(patches, store, "meanstd", time=True)
    assert timed.id == plain.id
    assert timed.scores.equals(plain.scores)
    e = timed.manifest.efficiency
    assert e["n"] == 48
    assert e["per"] == "patch"
    assert 0 < e["time_s"] <= e["time_p90_s"]
    assert e["sizes"] == [[9, 9]]
    assert e["device"] == "cpu"
    assert e["machine"] == costs.machine()
    assert {"threads", "load", "peak_memory_bytes", "bytes_per_descriptor"} <= e.keys()
    (other,) = evaluate(patches, store, "meanstd", protocol=["exact", "hpatches-python"])
    assert other.id == plain.id
    assert other.manifest.efficiency == e
    assert tp.load(plain.id, store=store).manifest.efficiency == e  # type: ignore[union-attr]


class Context:
    """What `time_items` needs of a run: three items, and a method that moves a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, family: str = "keypoints") -> None:
        self.calls: list[str] = []
        self.now = 0.0
        self.sizes = {"a": (10, 20), "b": (30, 20), "c": (10, 20)}
        self.opened = SimpleNamespace(items=[SimpleNamespace(key=k) for k in self.sizes])
        self.method = SimpleNamespace(name="m", family=family, extract=self.extract)
        monkeypatch.setattr(costs.time, "perf_counter", lambda: self.now)

    def payload(self, key: str) -> Any:
        self.now += 100.0  # reading is not timed
        return np.zeros((*self.sizes[key], 3), np.uint8)

    def extract(self, item: Any, payload: Any) -> Any:
        self.calls.append(item.key)
        self.now += {"a": 1.0, "b": 4.0, "c": 2.0}[item.key]
        return {"keypoints": np.zeros((5, 7))}


def test_times_exclude_reading_and_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(monkeypatch)
    found = time_items(context, "cpu")  # type: ignore[arg-type]
    assert "".join(context.calls) == "aaaabc"
    assert found.seconds == [1.0, 4.0, 2.0]
    assert found.keypoints == [5, 5, 5]
    assert list(found.sizes) == [(20, 10), (20, 30)]
    assert found.largest == "b"


def test_limited_times_use_evenly_spaced_items(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(monkeypatch)
    found = time_items(context, "cpu", limit=2)  # type: ignore[arg-type]
    assert "".join(context.calls) == "aaaab"
    assert found.seconds == [1.0, 4.0]


def test_gpu_is_warmed_up_for_every_size_and_synchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    context, waited = Context(monkeypatch), []
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: waited.append(context.now)))
    monkeypatch.setitem(costs.sys.modules, "torch", torch)
    found = time_items(context, "cuda:0")  # type: ignore[arg-type]
    assert "".join(context.calls) == "aaaabbc"
    assert found.seconds == [1.0, 4.0, 2.0]
    assert len(waited) == 6


def test_extraction_and_matching_are_separate() -> None:
    memo = FeatureMemo()
    with memo.bypassed():
        memo.get("a", lambda: {"a": np.zeros(3)})
        first = memo.spent_s
        memo.get("a", lambda: {"a": np.zeros(3)})
    assert 0 < first < memo.spent_s


def measured(low: float, high: float, **more: Any) -> dict[str, Any]:
    found = {"per": "patch", "time_s": (low + high) / 2, "time_quartiles_s": [low, high], "threads": 1}
    return found | {"machine": {"cpu": "X", "cores": 2}, "device": "cpu", "peak_memory_bytes": 2 << 20} | more


def test_times_differ_only_under_the_same_conditions() -> None:
    assert times_differ(measured(1.0, 1.1), measured(1.5, 1.6))
    assert times_differ(measured(1.0, 1.1), measured(1.05, 3.2)) is False
    assert times_differ(measured(1.0, 1.1), measured(1.5, 1.6, threads=2)) is None
    assert times_differ(measured(1.0, 1.1), measured(1.5, 1.6, device="GPU")) is None
    assert times_differ(measured(1.0, 1.1), measured(1.5, 1.6, per="image")) is None
    assert conditions(measured(1, 2, device="GPU")) == "X, 2 cores, 1 thread, GPU"
    assert "including 100 ms extraction and 20 ms matching" in cost({"extract_s": 0.1, "match_s": 0.02})


@pytest.fixture(scope="module")
def runs(patches: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return list(
        evaluate(patches, tmp_path_factory.mktemp("timed") / "s", "meanstd", "resize", "pixels", "orb")
    )


def with_costs(run: Any, **values: Any) -> Any:
    manifest = run.manifest.model_copy(update={"efficiency": {**run.manifest.efficiency, **values}})
    return replace(run, stored=replace(run.stored, manifest=manifest))


def test_figures_mark_other_machines(runs: list[Any]) -> None:
    times = [measured(1e-5 * n, 1.1e-5 * n) for n in (1, 2, 3)]
    other = {"machine": {"cpu": "Fast", "cores": 8}}
    timed = [with_costs(r, **t) for r, t in zip(runs, [*times, measured(1e-6, 2e-6, **other)], strict=True)]
    (section,) = sections(timed, "exact", None)
    for kind in ("time_s", "peak_memory_bytes"):
        figure = pareto_figure(section, kind)
        assert figure is not None
        assert "Measured on X, 2 cores, 1 thread." in figure.caption
        assert (
            "* Measured under other conditions, not ranked: orb (Fast, 8 cores, 1 thread)" in figure.caption
        )
        assert figure.csv.splitlines()[0].endswith("conditions")
        assert "orb *" in figure.svg
        assert "meanstd *" not in figure.svg
    assert pareto_figure(section, "bytes_per_descriptor") is not None
    assert cost_text(timed[0], timed[1], "b")[1] == "1/2 of b's time"
    assert cost_text(timed[0], timed[3], "b")[1] == "* b was timed under other conditions"


def test_machines_of_timed_columns_are_named(runs: list[Any]) -> None:
    def on(run: Any, cpu: str) -> Any:
        manifest = run.manifest.model_copy(update={"machine": {"cpu": cpu, "cores": 2}})
        return replace(run, stored=replace(run.stored, manifest=manifest))

    assert other_machines([on(r, "A") for r in runs]) == ""
    assert other_machines([on(runs[0], "A"), on(runs[1], "B")]) == "A, 2 cores; B, 2 cores"


def test_memory_of_a_gpu_is_drawn(runs: list[Any]) -> None:
    more = {"device": "GPU", "gpu_peak_memory_bytes": 64 << 20}
    timed = [with_costs(r, **measured(n, n + 1, **more)) for n, r in enumerate(runs, start=1)]
    figure = pareto_figure(sections(timed, "exact", None)[0], "peak_memory_bytes")
    assert figure is not None
    assert str(64 << 20) in figure.csv


def test_command_times_and_plots(patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on = ["--store", str(tmp_path / "s")]
    words = ["run", "meanstd", "resize", "pixels", "--task", TASK, "--data", str(patches), "-o", "split=full"]
    assert cli([*words, *on]) == 0
    assert cli(["plot", "time", *on, "--out", str(tmp_path / "t.csv")]) == 2
    assert "rerun the methods with `run --time`" in capsys.readouterr().err
    assert cli([*words, "--time", *on]) == 0
    assert cli(["plot", "time", *on, "--out", str(tmp_path / "t.csv")]) == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 4
