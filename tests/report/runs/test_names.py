# SPDX-License-Identifier: BSD-3-Clause
"""Runs that share the name of a method are told apart in every table, and none is dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_world import make_patches

from tiepoint.cli.main import run as command
from tiepoint.report.runs.names import distinct_names
from tiepoint.run.result import Run
from tiepoint.store.stored_run import DatasetFacts, Manifest, MethodFacts, StoredRun

TASK = "hpatches-v1/matching"
KP = "keypoints/geometry"


def made(
    number: int,
    config: dict[str, Any] | None = None,
    *,
    name: str = "m",
    task: str = "t",
    data: str = "d" * 64,
    at: str = "2026-01-01T00:00:00Z",
    imported: bool = False,
    **facts: Any,
) -> Run:
    """A run that holds nothing but what may tell it from others."""
    method = MethodFacts(
        name=name, family="patches", config=config or {}, distance=facts.pop("distance", None)
    )
    dataset = DatasetFacts(hash=data, name=facts.pop("dataset", "set"), imported=imported)
    manifest = Manifest(task=task, method=method, dataset=dataset, **facts)
    return Run(StoredRun(f"run{number:09d}", task, "done", manifest, (), None, at))


@pytest.mark.parametrize(
    ("one", "two", "names"),
    [
        (
            {"config": {"params": {"sigma": 1.6}}},
            {"config": {"params": {"sigma": 2}}},
            ("sigma=1.6", "sigma=2"),
        ),
        ({"config": {}}, {"config": {"params": {"k": 1}}}, ("default k", "k=1")),
        ({"distance": "l2"}, {"distance": "cosine"}, ("distance=l2", "distance=cosine")),
        ({"options": {"matcher": "nn"}}, {"options": {}}, ("matcher=nn", "default matcher")),
        ({"options": {"ratio": 0.9}, "task": KP}, {"task": KP}, ("ratio=0.9", "ratio=0.8")),
        (
            {"options": {"tasks": "a"}, "split": "a"},
            {"options": {"tasks": "b"}, "split": "b"},
            ("split a", "split b"),
        ),
        ({"dataset": "x"}, {"dataset": "y", "data": "e" * 64}, ("on x", "on y")),
        ({}, {"data": "e" * 64}, ("data dddddddd", "data eeeeeeee")),
        ({}, {"imported": True}, ("own run", "imported")),
        (
            {"config": {"libraries": {"cv2": "4.9"}}},
            {"config": {"libraries": {"cv2": "5.0"}}},
            ("cv2 4.9", "cv2 5.0"),
        ),
        (
            {"config": {"source": "a" * 64}},
            {"config": {"source": "b" * 64}},
            ("source aaaaaaaa", "source bbbbbbbb"),
        ),
        ({"lists": "1" * 64}, {"lists": "2" * 64}, ("lists 11111111", "lists 22222222")),
        ({}, {"at": "2026-01-02T00:00:00Z"}, ("2026-01-01", "2026-01-02")),
        ({}, {"at": "2026-01-01T10:00:00Z"}, ("2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z")),
        ({}, {}, ("run000000001", "run000000002")),
    ],
)
def test_what_differs_stands_behind_the_name(
    one: dict[str, Any], two: dict[str, Any], names: tuple[str, str]
) -> None:
    found = distinct_names([made(1, **one), made(2, **two)])
    assert found == [f"m ({n})" for n in names]


def test_the_fewest_facts_are_told_and_others_keep_their_names() -> None:
    runs = [
        made(1, {"params": {"a": 1, "b": 1}, "source": "0" * 64}, options={"o": 1}),
        made(2, {"params": {"a": 1, "b": 2}, "source": "1" * 64}, options={"o": 2}),
        made(3, {"params": {"a": 2, "b": 2}, "source": "2" * 64}, options={"o": 2}),
        made(4, name="other"),
        made(5, task="u"),
        made(5, task="u"),
    ]
    names = distinct_names(runs)
    assert names[:3] == ["m (a=1, b=1)", "m (a=1, b=2)", "m (a=2, b=2)"]
    assert names[3:] == ["other", "m", "m"]


SOURCE = """
import numpy as np

class Mine:
    name = "mine"
    def describe(self, patches):
        return patches[:, ::4, ::4].reshape(len(patches), -1).astype(np.float32) {more}
"""


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a method of a file, and with the same after an edit of the file."""
    root = tmp_path_factory.mktemp("edited")
    data = make_patches(root, [f"{'iv'[s % 2]}_s{s}" for s in range(7)])
    words = ["run", f"{root}/my.py:Mine", "--task", TASK, "--data", str(data), "--tasks", str(root)]
    for more in ("", "** 0.1"):
        (root / "my.py").write_text(SOURCE.format(more=more))
        assert command([*words, "--store", str(root / "store")]) == 0
    return root / "store"


def test_a_run_of_edited_source_is_never_dropped(
    edited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert command(["list", "runs", "--store", str(edited), "--json"]) == 0
    listed = {r["run"]: r["name"] for r in json.loads(capsys.readouterr().out)}
    assert len(listed) == len(set(listed.values())) == 2
    assert command(["compare", "--task", TASK, "--store", str(edited), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["methods"]
    assert {m["run"]: m["name"] for m in compared} == listed
    assert [m["method"] for m in compared] == ["mine", "mine"]
    for form in ("html", "md", "latex", "csv", "json"):
        out = tmp_path / f"r.{form}"
        assert command(["report", "--format", form, "--out", str(out), "--store", str(edited)]) == 0
        text = out.read_text(encoding="utf-8").replace("\\_", "_")
        assert all(name in text for name in listed.values()), form
