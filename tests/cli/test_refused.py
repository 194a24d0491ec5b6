# SPDX-License-Identifier: BSD-3-Clause
"""What is refused leaves nothing where there was no store."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
from store_world import TASK, make_patches

import tiepoint
from tiepoint.cli.main import run
from tiepoint.core.array_cache import cached_arrays
from tiepoint.core.errors import InputError, StoreError
from tiepoint.store.status_files import running, track_progress
from tiepoint.store.store import Store


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_patches(tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run sift --task nonsense --data DATA", "unknown task"),
        (f"run sift --task {TASK} --data nowhere", "does not exist"),
        (f"run siftt --task {TASK} --data DATA --tasks TASKS", "unknown method"),
        (f"run sift?foo=3 --task {TASK} --data DATA --tasks TASKS", "unknown parameter"),
        (f"run sift --task {TASK} --data DATA --tasks TASKS -o bogus=1", "unknown option"),
        (f"run sift --task {TASK} --data DATA --tasks TASKS --protocol zz", "unknown protocol"),
        (f"run files:nowhere --task {TASK} --data DATA --tasks TASKS", "nowhere"),
        (f"score {TASK} --results nowhere --data DATA", "does not exist"),
        ("import nowhere.p", "does not exist"),
        (f"compare --task {TASK}", "there is no store"),
        ("list runs", "there is no store"),
        ("report --out r.html", "there is no store"),
        ("show x", "there is no store"),
        ("plot ranks", "there is no store"),
        ("sql select", "there is no store"),
        ("store size", "there is no store"),
    ],
)
def test_nothing_is_left(
    words: str,
    said: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [w.replace("DATA", str(data)).replace("TASKS", str(data.parent)) for w in words.split()]
    assert run([*given, "--store", "new/store"]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_from_python_and_a_run_makes_the_store(data: Path, tmp_path: Path) -> None:
    where = tmp_path / "new" / "store"
    with pytest.raises(InputError, match="unknown method"):
        tiepoint.evaluate("siftt", task=TASK, data=data, store=where, tasks=data.parent)
    assert list(tmp_path.iterdir()) == []
    tiepoint.evaluate("pixels", task=TASK, data=data, store=where, tasks=data.parent)
    with Store.open(where, mode="read") as store:
        assert store.exists


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write"):
        Store.open(tmp_path / "file" / "store", later=True)


def test_what_is_made_before_the_store_is_kept_and_announced_with_it(tmp_path: Path) -> None:
    where = tmp_path / "store"
    with Store.open(where, later=True) as store, track_progress(where, "a run") as progress:
        cached_arrays("some", [1], lambda: {"x": np.arange(3)})
        progress("input", 1, 2)
        assert not where.exists()
        with store.reading():
            pass
        assert store.exists
        assert len(list((where / "lists").iterdir())) == 1
        assert [w.what for w in running(where)] == ["a run"]
        assert cached_arrays("some", [1], dict).keys() == {"x"}
    assert not list((where / "running").iterdir())


def test_progress_from_python_is_asked_for_once_and_can_be_left_out(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @contextlib.contextmanager
    def bars(wanted: bool) -> Iterator[Callable[[str, int, int], None]]:
        yield lambda stage, _done, _total: told.append(stage) if wanted else None

    monkeypatch.setattr("tiepoint.cli.shell.console.bars_on_a_terminal", bars)
    for wanted in (False, True):
        store = tmp_path / f"store {wanted}"
        tiepoint.evaluate("pixels", task=TASK, data=data, store=store, tasks=data.parent, progress=wanted)
        assert bool(told) == wanted
