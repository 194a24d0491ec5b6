# SPDX-License-Identifier: BSD-3-Clause
"""One run by the name of its method: the newest of a task, and a list where several tasks fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_world import make_patches

import tiepoint as tp
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report.runs.names import distinct_names

SCENES = ("i_a", "i_b", "v_c")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One method on two datasets of one task, and another that ran once."""
    root = tmp_path_factory.mktemp("select")
    for k, name in ((0, "one"), (1, "two")):
        data = make_patches(root / name, SCENES, seed=k, count=6)
        for method in ("pixels", "meanstd") if k else ("pixels",):
            options = {"tasks": str(root / name), "store": root / "store"}
            tp.evaluate(method, task="hpatches-v1/matching", data=data, **options)
    return root / "store"


def test_a_name_means_the_newest_run_and_the_others_are_told(store: Path) -> None:
    every = tp.load(store=store)
    assert isinstance(every, list)
    newest = [r for r in every if r.method == "pixels"][-1]
    with pytest.warns(UserWarning, match="newest of 2 runs of pixels") as told:
        assert tp.load("pixels", store=store).id == newest.id
    assert all(r.id in str(told[0].message) for r in every if r.method == "pixels")
    assert tp.load("meanstd", store=store).method == "meanstd"
    assert tp.load(every[0].id[:8], store=store).id == every[0].id


def test_names_that_lists_print_are_understood(store: Path) -> None:
    every = tp.load(store=store)
    assert isinstance(every, list)
    both = [r for r in every if r.method == "pixels"]
    labels = dict(zip(distinct_names(both), both, strict=True))
    assert len(labels) == 2
    for label, run in labels.items():
        assert tp.load(label, store=store).id == run.id
        found = tp.compare([label], task="hpatches-v1/matching", store=store)
        assert [r.run for r in found.rows] == [run.id]


def test_several_tasks_are_listed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from tiepoint.report.runs import selection
    from tiepoint.store.store import Store

    with Store.open(store, mode="read") as opened:
        heads = selection.load_heads(opened)
        (alone,) = [h for h in heads if h.method == "meanstd"]
        monkeypatch.setattr(selection, "load_heads", lambda *_, **__: [*heads, replace(alone, task="t/b")])
        with pytest.raises(InputError, match="has runs of 2 tasks; choose one with `task`") as refused:
            selection.one_run(opened, "meanstd")
    assert f"{alone.id}  t/b" in str(refused.value)


def test_an_unknown_name_and_a_run_of_another_task_are_refused(store: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'pixels'"):
        tp.load("pixel", store=store)
    with pytest.raises(UnknownNameError, match="of tss"):
        tp.load("pixels", task="tss", store=store)
