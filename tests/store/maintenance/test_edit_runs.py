# SPDX-License-Identifier: BSD-3-Clause
"""Deleting a run takes what only it used, and a kill at any step leaves a whole store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from store_world import look

from tiepoint.core.errors import InputError
from tiepoint.store.maintenance.edit_runs import remove_runs
from tiepoint.store.maintenance.journal import FOLDER, remove_leftovers
from tiepoint.store.maintenance.space import list_runs, store_size
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.run_queries import load_heads, load_runs
from tiepoint.store.status_files import track_progress
from tiepoint.store.store import Store

STEPS = ("written down", "run files", "rows", "committed", "forgotten", "discarded")


def _id(store: Store, method: str) -> str:
    return next(h.id for h in load_heads(store) if h.method == method)


def _files(where: Path) -> set[str]:
    kinds = ("records", "values", "features", "runs", "uses")
    return {str(p.relative_to(where)) for k in kinds for p in (where / k).rglob("*") if p.is_file()}


def test_what_only_the_run_used_goes_with_it(where: Path) -> None:
    with Store.open(where) as store:
        size = {r.method: r for r in list_runs(store)}["pixels"]
        planned = remove_runs(store, [size.run[:6]], dry_run=True)
        before = look(where)
        assert look(where) == before
        told = remove_runs(store, [size.run])
        assert told.files == planned.files
        assert set(told.files) == {"records", "values", "features"}
        assert told.files["features"].files == 6
        assert told.size_bytes < size.only_bytes  # which has the files of the run too
        assert {h.method for h in load_heads(store)} == {"meanstd", "also meanstd"}
        assert "pixels" not in store_size(store).methods
        assert store_size(store).unused_bytes == 0
        found = check_store(store, rebuild=True)
        assert found.ok, str(found)
        assert found.files["features"] == 6
        assert not (where / FOLDER).exists()


def test_what_another_run_uses_stays(where: Path, again: Callable[..., str]) -> None:
    with Store.open(where) as store:
        left = _files(where)
        told = remove_runs(store, [_id(store, "meanstd")])
        assert told.files == {}
        assert len(left - _files(where)) == 2  # the files of the run
        before = store.features.root.stat().st_mtime_ns
        again(store, "meanstd")
        assert store.features.root.stat().st_mtime_ns == before
        assert check_store(store, rebuild=True).ok
        assert (
            remove_runs(store, [_id(store, "meanstd"), _id(store, "also meanstd")]).files["features"].files
            == 6
        )


def test_wrong_ids_are_refused_before_anything_goes(where: Path) -> None:
    with Store.open(where) as store:
        own = _id(store, "pixels")
        before = _files(where)
        for wanted, words in (
            (["nosuch"], "`store ls`"),
            ([own, "pixels"], f"'pixels' is a method; pass the ids of its runs: {own}"),
            ([""], "no run ''"),
            ([], "no runs to delete"),
        ):
            with pytest.raises(InputError, match=words):
                remove_runs(store, wanted)
        assert _files(where) == before
        assert len(load_heads(store)) == 3


class Killed(BaseException):
    """Stands for a kill: no handler of ours may catch it."""


def _until(step: str) -> Callable[[str], None]:
    def stop(done: str) -> None:
        if done == step:
            raise Killed(step)

    return stop


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("next_one", ["tidy", "run", "rebuild"])
def test_a_failure_at_any_step_leaves_a_whole_store(
    where: Path, again: Callable[..., str], step: str, next_one: str
) -> None:
    with Store.open(where) as store:
        own = _id(store, "pixels")
        before = _files(where)
        with pytest.raises(Killed):
            remove_runs(store, [own], step=_until(step))
    with Store.open(where) as store:
        if next_one == "tidy":
            remove_leftovers(store)
        elif next_one == "run":
            again(store, "meanstd", name="third")
            remove_runs(store, [_id(store, "third")])
        found = check_store(store, rebuild=True)
        assert found.ok, str(found)
        assert not found.leftovers
        there = own in {h.id for h in load_heads(store)}
        assert there == (STEPS.index(step) < STEPS.index("committed"))
        assert not (where / FOLDER).exists()
        if there:
            assert _files(where) == before
        else:
            assert store_size(store).unused_bytes == 0
            assert again(store, "pixels") == own
            assert _files(where) == before
        assert len(load_runs(store)) == 3


def test_a_process_killed_in_the_middle(where: Path) -> None:
    code = (
        "import os, sys; from tiepoint.store.store import Store\n"
        "from tiepoint.store.maintenance.edit_runs import remove_runs\n"
        "with Store.open(sys.argv[1]) as s:\n"
        "    remove_runs(s, [sys.argv[2]], step=lambda d: os._exit(9) if d == sys.argv[3] else None)"
    )
    for step in ("rows", "discarded"):
        with Store.open(where) as store:
            own = _id(store, "pixels")
        done = subprocess.run([sys.executable, "-c", code, str(where), own, step], check=False)
        assert done.returncode == 9
    with Store.open(where) as store:
        remove_leftovers(store)
        assert check_store(store, rebuild=True).ok
        assert {h.method for h in load_heads(store)} == {"meanstd", "also meanstd"}
        assert store_size(store).unused_bytes == 0
        assert "temporaries" not in store_size(store).kinds


OTHER = """
import sys, time
from pathlib import Path
from tiepoint.store.status_files import track_progress
from tiepoint.store.store import Store
from tiepoint.store.maintenance.usage import note_uses, uses_of, uses_file
import numpy as np
where, run = Path(sys.argv[1]), sys.argv[2]
with Store.open(where) as store, track_progress(where, "at work"):
    note_uses(store, run, sys.argv[3], [])
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_what_a_process_at_work_uses_stays(where: Path) -> None:
    for path in where.rglob("*"):
        os.utime(path, (1e9, 1e9))
    with Store.open(where) as store:
        own = next(h for h in load_heads(store) if h.method == "pixels")
        features = {p for p in _files(where) if p.startswith(("features", "records"))}
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(where), own.id, own.task],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "ready\n"
        told = remove_runs(store, [own.id])
        assert told.kept > 0
        assert told.files == {}
        assert {p for p in _files(where) if p.startswith(("features", "records"))} == features
        other.stdin.close()
        assert other.wait() == 0
        other.stdout.close()
        with track_progress(where, "this process itself"):
            assert store_size(store).unused_bytes > 0
