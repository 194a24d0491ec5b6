# SPDX-License-Identifier: BSD-3-Clause
"""Facts of tasks: declared once, complete, and what tables and intervals take from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import hpatches_v1_world
import hpatches_world
import pytest
from keypoint_world import make_features, make_scenes, run_task
from tss_world import score_results

from tiepoint.core.errors import InputError
from tiepoint.report.figures.curves import group_axis
from tiepoint.report.figures.figure import axis_label
from tiepoint.report.leaderboard import column_title
from tiepoint.run.fit_transforms import TransformFitter
from tiepoint.run.result_files import has_result_files
from tiepoint.run.scoring import time_scores
from tiepoint.store.schema import WORKBENCH_COLUMNS
from tiepoint.tasks import TASKS, capabilities, stored_task
from tiepoint.tasks.base import BaseTask, BaseTaskData, MetricInfo, Task, TaskInfo
from tiepoint.tasks.info import (
    headline_column,
    metric_info,
    metric_label,
    score_title,
    summary_metrics,
    table_columns,
)

KIT = Path(__file__).parents[1] / "data" / "synthetic_tss"
CAPABILITIES = [
    c for c in vars(capabilities).values() if isinstance(c, type) and c.__module__ == capabilities.__name__
]
TASK_NAMES = [entry.name for entry in TASKS if entry.package is None]


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_facts_of_a_task_are_complete(name: str) -> None:
    task = TASKS.load(name)
    info = task.info
    assert info.sentence.endswith("?")
    assert info.licence
    assert info.cite or name in ("dense/flow", "homography/pairs") or name.startswith("stress/")
    assert all(entry.startswith("@") for entry in info.cite)
    assert info.headline[0] in info.metrics
    assert info.metrics.keys() >= {*info.columns, *info.summary_metrics}
    assert task.protocols[0] == "exact"
    for metric, facts in info.metrics.items():
        assert metric == "metadata" or facts.sentence()
        assert facts.better in ("higher", "lower", None)
        assert facts.scale[0] in (1.0, 100.0)
        if facts.unit in ("px", "ms") and facts.better is not None:  # None: not a score of the method
            assert facts.lower


@pytest.mark.parametrize("name", TASK_NAMES)
def test_error_metrics_say_lower_is_better_in_every_caption(name: str) -> None:
    task = TASKS.load(name)
    for metric, facts in task.info.metrics.items():
        captions = [
            facts.sentence(),
            column_title(task, metric, "all"),
            axis_label(score_title(task.info, metric), facts),
        ]
        for caption in captions:
            assert ("lower is better" in caption) is facts.lower, (metric, caption)
            assert not (facts.lower and "higher is better" in caption)


UNITS_OF_THRESHOLDS = ("px", "pixels", "°", "degrees", "%", "length", "larger side", "units")


@pytest.mark.parametrize("name", TASK_NAMES)
@pytest.mark.parametrize(
    "group", ["tau_px=3", "threshold_px=5", "threshold_deg=10", "threshold=0.001", "alpha=0.1"]
)
def test_threshold_groups_have_unit_in_every_caption(name: str, group: str) -> None:
    task = TASKS.load(name)
    value = group.partition("=")[2]
    for metric, facts in task.info.metrics.items():
        title = column_title(task, metric, group)
        assert any(unit in title.partition(value)[2] for unit in UNITS_OF_THRESHOLDS), (metric, title)
        if not isinstance(facts.words, str) and value in (words := facts.sentence(group)):
            assert any(unit in words.partition(value)[2] for unit in UNITS_OF_THRESHOLDS), (metric, words)


def test_pose_precision_threshold_is_not_shown_in_percent() -> None:
    info = TASKS.load("pose/relative").info
    assert score_title(info, "precision", "threshold=0.001") == "precision at 0.001 focal lengths"
    assert "0.001 focal lengths" in info.metrics["precision"].sentence("threshold=0.001")
    tss = TASKS.load("tss").info
    assert score_title(tss, "flow_accuracy", "threshold=5") == "flow accuracy at 5 %"


@pytest.mark.parametrize(
    ("name", "metric", "words"),
    [
        ("evd/homography", "failures", "under some seed"),
        ("wxbs/fundamental", "failures", "without F under some seed"),
        ("wxbs/points", "failures", "in one of the directions"),
        ("homography/pairs", "without_model", "share of estimates"),
        ("homography/pairs", "auc", "mean over pairs;"),
        ("mmim/homography", "auc", "then over categories"),
        ("mmim/homography", "mma", "then over categories"),
        ("hpatches/matching", "map", "noise levels and kinds of scenes"),
        ("keypoints/matching", "map", "re-detected keypoints"),
        ("sfm/poses", "auc", "mean over scenes"),
        ("sfm/poses", "rotation_error_deg", "mean over scenes"),
    ],
)
def test_caption_names_what_its_mean_is_over(name: str, metric: str, words: str) -> None:
    assert words in TASKS.load(name).info.metrics[metric].sentence()


@pytest.mark.parametrize(
    ("name", "metric", "unit"),
    [
        ("tss", "flow_accuracy", "% of the larger side"),
        ("pose/relative", "precision", "focal lengths"),
        ("sfm/poses", "absolute_auc", "units"),
    ],
)
def test_axis_of_thresholds_has_the_unit_of_its_metric(name: str, metric: str, unit: str) -> None:
    assert group_axis(TASKS.load(name).info.metrics[metric], "threshold") == (f"threshold ({unit})", False)


def test_every_score_is_declared_by_its_task(tmp_path: Path) -> None:
    found: dict[str, set[str]] = {}
    make_scenes(tmp_path / "s", names=("i_one", "v_two"), images=3)
    few = {"iterations": 1, "queries": 3}
    for entry in TASKS:
        task = TASKS.load_entry(entry)
        if task.family == "keypoints":
            options = {k: v for k, v in few.items() if k in task.options.model_fields}
            for protocol in task.protocols:
                scores, _ = run_task(task, tmp_path / "s", make_features, protocol, **options)
                found.setdefault(task.name, set()).update(metric for metric, _ in scores)
                found[task.name] |= {s.metric for s in time_scores(task, protocol, 1.0, 1.0)}
    world = hpatches_v1_world.make_world(tmp_path / "v1")
    features = hpatches_world.features_of(hpatches_v1_world.make_descriptors(world, "noisy"))
    for name in ("classification", "matching", "retrieval"):
        task = TASKS.load(f"hpatches-v1/{name}")
        _, records = hpatches_v1_world.run_task(task, world, features)
        found[task.name] = {s.metric for p in task.protocols for s in task.score(records, p)}
    other = hpatches_world.make_world(tmp_path / "v2")
    for name in ("verification", "matching", "retrieval"):
        task = TASKS.load(f"hpatches/{name}")
        _, records = hpatches_world.run_task(
            task, other, hpatches_world.features_of(hpatches_world.make_descriptors("noisy"))
        )
        found[task.name] = {s.metric for p in task.protocols for s in task.score(records, p)}
    records, _ = score_results(KIT / "Results", KIT / "Dataset", "exact", {"missing": "skip"})
    found["tss"] = {s.metric for s in TASKS.load("tss").score(records, "exact")}
    for task_name, metric in WORKBENCH_COLUMNS.values():
        found.setdefault(task_name, set()).add(metric)
    assert len(found) == 13
    for name, metrics in found.items():
        assert metrics <= TASKS.load(name).info.metrics.keys(), name


def test_the_columns_of_a_table() -> None:
    tss, ranking = TASKS.load("tss").info, TASKS.load("keypoints/ranking").info
    have = [("aepe", "all"), ("iou", "all"), ("flow_accuracy", "all"), ("iou", "flip=0")]
    assert table_columns(tss, have) == [("flow_accuracy", "all"), ("iou", "all")]
    assert headline_column(tss, have) == ("flow_accuracy", "all")
    assert headline_column(tss, have[:2]) == ("aepe", "all")
    assert headline_column(tss, []) is None
    assert metric_label(tss, "flow_accuracy", "flip=0") == "flow_accuracy T5"
    assert metric_label(tss, "flow_accuracy", "threshold=10") == "flow_accuracy"
    assert summary_metrics(ranking, ["mrr", "precision_at_1"]) == ranking.summary_metrics
    assert summary_metrics(TASKS.load("keypoints/retrieval").info, ["ap", "keypoint_retrieval_ap"]) == ("ap",)


def test_pck_is_spelled_out_from_the_options_of_a_run() -> None:
    task = TASKS.load("dense/pck")
    assert task.expand_column(("pck", "all"), {}) == ("pck", "alpha=0.1,per=pair,scale=keypoints")
    assert task.expand_column(("pck", "all"), {"scale": "box"}) == ("pck", "alpha=0.1,per=pair,scale=box")
    assert task.expand_column(("pck", "kind=a"), {"scale": "box"}) == ("pck", "kind=a")


def test_a_task_without_facts_has_defaults() -> None:
    class Bare(BaseTask):
        name, family = "my/bare", "patches"

    task: Any = Bare()
    info = task.info
    assert metric_info(info, "anything") == MetricInfo()
    assert headline_column(info, [("b", "scene=x"), ("a", "all")]) == ("a", "all")
    assert table_columns(info, [("a", "all")]) == [("a", "all")]
    assert info == TaskInfo()
    assert isinstance(task, Task)
    assert not [c for c in CAPABILITIES if isinstance(task, c) or isinstance(BaseTaskData(), c)]
    with pytest.raises(InputError, match="unknown protocol of my/bare 'exakt'; did you mean 'exact'"):
        task.comparison("exakt")
    with pytest.raises(InputError, match="cannot write result files"):
        has_result_files(task)
    with pytest.raises(InputError, match="`fit_on`"):
        TransformFitter(BaseTaskData(), Path())(cast(Any, None), cast(Any, None))


def test_a_task_that_is_not_installed_knows_its_name_only() -> None:
    task = stored_task("gone/task")
    assert (task.name, task.protocols) == ("gone/task", ())
    with pytest.raises(InputError, match="'gone/task' is not installed"):
        task.open(Path(), {})
