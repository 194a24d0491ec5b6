"""Executors: the same results wherever jobs run, contexts made once, threads shared out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiepoint.core.errors import InputError
from tiepoint.kernels import get_threads, set_threads
from tiepoint.run import compute
from tiepoint.run.context import ContextRecipe, RunContext
from tiepoint.run.engine import evaluate
from tiepoint.run.executors import Done, Executor, InProcess, Job, Outcome
from tiepoint.run.executors.process_pool import ProcessPool
from tiepoint.run.repeat_check import REPEATS
from tiepoint.run.request import RunRequest
from tiepoint.run.session import RunSession
from tiepoint.store.store import Store

MINE = """
import os
import numpy as np

class Mine:
    def __init__(self):
        self.process = os.getpid()  # part of the key, and another one in every worker

    def extract(self, image):
        xy = np.stack(np.meshgrid(np.arange(20, 140, 24.0), np.arange(20, 140, 24.0)), -1).reshape(-1, 2)
        values = [image[int(y) - 3 : int(y) + 4, int(x) - 3 : int(x) + 4].ravel()[:64] for x, y in xy]
        return xy, np.array(values, np.float32) + 1
"""


@pytest.fixture(autouse=True)
def all_threads() -> Iterator[None]:
    yield
    set_threads(None)


@pytest.fixture
def recipe(patches: Path, tmp_path: Path) -> ContextRecipe:
    return ContextRecipe("hpatches/matching", str(patches), {}, "pixels", {}, str(tmp_path / "s"), 1)


@pytest.fixture
def three(sequences: Path, tmp_path: Path) -> Path:
    """Three scenes, so that more than one is left for workers after the first."""
    shutil.copytree(sequences, tmp_path / "three")
    shutil.copytree(sequences / "v_a", tmp_path / "three" / "v_c")
    return tmp_path / "three"


def _about(context: RunContext, argument: int) -> tuple[int, int, int, int]:
    if argument == 3:
        raise InputError("three is wrong")
    return os.getpid(), id(context), get_threads(), argument * argument


ARGUMENTS = {str(i): i for i in range(6)}


def test_a_context_takes_its_share_of_the_threads(recipe: ContextRecipe) -> None:
    replace(recipe, threads=1).build()
    assert get_threads() == 1


def test_workers_keep_their_context_and_their_share_of_the_threads(recipe: ContextRecipe) -> None:
    pool = ProcessPool(2)
    try:
        found = [pool.run(_about, ARGUMENTS, recipe, lambda: None, None) for _ in range(2)]
    finally:
        pool.close()
    made = {(pid, context) for results, _ in found for pid, context, _, _ in results.values()}
    assert len({pid for pid, _ in made}) <= 2
    assert len(made) == len({pid for pid, _ in made})
    assert {threads for results, _ in found for _, _, threads, _ in results.values()} == {1}


def test_executors_agree(recipe: ContextRecipe) -> None:
    pool = ProcessPool(2)
    context = recipe.build()
    executors: list[Executor] = [InProcess(context), InProcess(context, threads=3), pool]
    done: list[int] = []
    try:
        found = [e.run(_about, ARGUMENTS, recipe, lambda: done.append(1), None) for e in executors]
    finally:
        pool.close()
    assert len(done) == 3 * len(ARGUMENTS)
    for results, failures in found:
        assert {name: r[3] for name, r in results.items()} == {"0": 0, "1": 1, "2": 4, "4": 16, "5": 25}
        assert [(f.name, f.error) for f in failures] == [("3", "three is wrong")]


def test_threads_stop_when_enough_is_wrong(recipe: ContextRecipe) -> None:
    started: list[int] = []

    def job(_: RunContext, argument: int) -> int:
        started.append(argument)
        if argument == 0:
            raise InputError("the first is wrong")
        time.sleep(0.05)
        return argument

    found = InProcess(recipe.build(), threads=2).run(
        job, {str(i): i for i in range(40)}, None, lambda: None, 1
    )
    assert found[0] == {}
    assert [f.name for f in found[1]] == ["0"]
    assert len(started) < 40


class Recording:
    """An executor of somebody else: this file is all that it takes."""

    def __init__(self) -> None:
        self.jobs: list[str] = []

    def run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        recipe: ContextRecipe | None,
        done: Done,
        patience: int | None,
    ) -> Outcome:
        assert recipe is not None
        self.jobs += arguments
        return InProcess(recipe.build()).run(job, arguments, recipe, done, patience)


def test_another_executor_can_take_the_place(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cv2")
    own = Recording()
    request = RunRequest("orb", "keypoints/matching", three, jobs=2)
    with Store.open(tmp_path / "a") as store:
        usual = evaluate(replace(request, jobs=1), store)
    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", 0.0)
    monkeypatch.setattr(RunSession, "pool", lambda self, jobs: own)
    with Store.open(tmp_path / "b") as store:
        assert evaluate(request, store).rows() == usual.rows()
    assert own.jobs == ["i_b/2", "v_a/1", "v_a/2", "v_c/1", "v_c/2", REPEATS, "v_a (exact)", "v_c (exact)"]


@pytest.mark.slow
def test_features_are_found_by_workers_that_would_name_them_otherwise(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    request = RunRequest(f"{tmp_path / 'mine.py'}:Mine", "keypoints/matching", three)
    with Store.open(tmp_path / "a") as store:
        alone = evaluate(request, store)
    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", 0.0)
    with Store.open(tmp_path / "b") as store:
        assert evaluate(replace(request, jobs=2), store).rows() == alone.rows()
