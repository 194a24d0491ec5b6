# SPDX-License-Identifier: BSD-3-Clause
"""`tiepoint.evaluate` with lists returns `Runs`, whose tables have the scores of the single runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiepoint as tp
from patch_sets import make_patches
from tiepoint.core.errors import InputError
from tiepoint.report.run_list import Runs
from tiepoint.run.result import Run

TASK = "hpatches-v1/matching"
SCENES = [f"{'iv'[k % 2]}_scene{k}" for k in range(8)]


class Mosaic:
    """Means of a 4 x 4 grid."""

    name, distance = "mosaic", "l2"

    def describe(self, patches: Any) -> Any:
        return patches.reshape(len(patches), 4, 5, 4, 5).mean(axis=(2, 4)).reshape(len(patches), 16)


def evaluate(folder: Path, methods: Any, **how: Any) -> Any:
    data = folder / "set" / "patches"
    if not data.is_dir():
        make_patches(folder / "set", SCENES)
    return tp.evaluate(methods, data=data, tasks=str(folder / "set"), store=folder / "store", **how)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    found = evaluate(folder, ["pixels", Mosaic()], task=TASK, protocol=["exact", "hbench-2016"])
    assert isinstance(found, Runs)
    return found


def test_evaluate_list_of_methods_returns_runs_in_order(runs: Runs) -> None:
    assert [r.method for r in runs] == ["pixels", "mosaic"]
    assert len(runs) == 2
    assert runs[-1].method == "mosaic"
    assert [r.method for r in runs[1:]] == ["mosaic"]
    assert isinstance(runs[1:], Runs)


def test_evaluate_list_equals_single_calls(runs: Runs, tmp_path: Path) -> None:
    single = evaluate(tmp_path, "pixels", task=TASK, protocol=["exact", "hbench-2016"])
    assert isinstance(single, Run)
    assert single.id == runs[0].id
    assert single.score_rows == runs[0].score_rows


def test_evaluate_list_of_tasks_returns_runs(tmp_path: Path) -> None:
    found = evaluate(tmp_path, "pixels", task=[TASK])
    assert isinstance(found, Runs)
    assert [(r.method, r.task) for r in found] == [("pixels", TASK)]


def test_runs_scores_have_all_rows(runs: Runs) -> None:
    assert len(runs.scores) == sum(len(r.score_rows) for r in runs)
    assert list(runs.scores.columns) == list(runs[0].scores.columns)


def test_runs_to_frame_has_main_scores(runs: Runs) -> None:
    frame = runs.to_frame()
    assert list(frame.index) == ["pixels", "mosaic"]
    for run in runs:
        for protocol in ("exact", "hbench-2016"):
            assert frame.loc[run.method, (TASK, protocol, "ap")] == run.value("ap", protocol=protocol)
    assert not np.isnan(frame.to_numpy()).all(axis=0).any()


def test_runs_latex_marks_the_best(runs: Runs) -> None:
    best = max(runs, key=lambda r: r.value("ap"))
    line = next(x for x in runs.to_latex().splitlines() if x.startswith(best.method))
    assert rf"\textbf{{{100 * best.value('ap'):.2f}" in line


def test_runs_plot_saves_a_figure(runs: Runs, tmp_path: Path) -> None:
    runs.plot("scores", out=tmp_path / "scores.svg")
    assert (tmp_path / "scores.svg").read_text(encoding="utf-8").count("mosaic") > 0


def test_runs_print_and_html_show_every_method(runs: Runs) -> None:
    for text in (str(runs), runs._repr_html_()):
        for run in runs:
            assert run.method in text
            assert f"{100 * run.value('ap'):.2f}" in text
    assert max(map(len, str(runs).splitlines())) <= 100
    assert repr(runs) == f"<2 runs: pixels on {TASK}, mosaic on {TASK}>"


def test_evaluate_checks_all_methods_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pixles"):
        evaluate(tmp_path, ["pixels", "pixles"], task=TASK)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("methods", "how", "words"),
    [([], {}, "at least one name"), (["pixels", "sift"], {"name": "x"}, "to a single method")],
)
def test_evaluate_wrong_lists_raise(methods: Any, how: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        evaluate(tmp_path, methods, task=TASK, **how)
