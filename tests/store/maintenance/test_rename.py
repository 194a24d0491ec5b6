# SPDX-License-Identifier: BSD-3-Clause
"""A renamed method has the runs that it would have had under the new name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from store_world import a_run

from tiepoint.core.errors import InputError
from tiepoint.store.maintenance.edit_runs import rename_method
from tiepoint.store.maintenance.journal import FOLDER, remove_leftovers
from tiepoint.store.maintenance.space import store_size
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.run_queries import load_heads, load_runs
from tiepoint.store.store import Store
from tiepoint.store.writers import save_run


def test_a_renamed_run_is_found_by_a_run_with_that_name(where: Path, again: Callable[..., str]) -> None:
    with Store.open(where) as store:
        before = {r.method: r for r in load_runs(store)}["pixels"]
        planned = rename_method(store, "pixels", "Pixels, 64", dry_run=True)
        assert {h.method for h in load_heads(store)} == {"pixels", "meanstd", "also meanstd"}
        told = rename_method(store, "pixels", "Pixels, 64")
        assert told.ids == planned.ids
        assert list(told.ids) == [before.id]
        after = {r.method: r for r in load_runs(store)}["Pixels, 64"]
        assert after.id == told.ids[before.id]
        assert after.id != before.id
        assert after.scores == before.scores
        assert after.created_at == before.created_at
        assert again(store, "pixels", name="Pixels, 64") == after.id
        assert [r.created_at for r in load_runs(store) if r.id == after.id] == [before.created_at]
        assert check_store(store, rebuild=True).ok
        assert len(load_runs(store)) == 3
        assert not (where / FOLDER).exists()
        assert again(store, "pixels") == before.id  # the method itself has its own name still


def test_features_of_runs_that_noted_none_follow_the_name(where: Path) -> None:
    for path in (where / "uses").iterdir():
        path.unlink()
    with Store.open(where) as store:
        size = store_size(store).methods["pixels"].only_bytes
        rename_method(store, "pixels", "new")
        found = store_size(store)
        assert abs(found.methods["new"].only_bytes - size) < 1000
        assert found.unused_bytes == 0


def test_collisions_and_odd_names_are_errors(where: Path) -> None:
    with Store.open(where) as store:
        for old, new, words in (
            ("nosuch", "a", "nosuch"),
            ("pixels", "meanstd", "already"),
            ("pixels", "pixels", "already"),
            ("pixels", " ", "cannot be the name"),
            ("pixels", "a\x1b[1m", "cannot be the name"),
            ("pixels", "x" * 300, "cannot be the name"),
        ):
            with pytest.raises(InputError, match=words):
                rename_method(store, old, new)
        assert {h.method for h in load_heads(store)} == {"pixels", "meanstd", "also meanstd"}
        assert check_store(store, rebuild=True).ok


class Killed(BaseException):
    """Stands for a kill."""


STEPS = ("written down", "run files", "rows", "committed", "discarded")


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_leaves_one_name(where: Path, step: str) -> None:
    def stop(done: str) -> None:
        if done == step:
            raise Killed(step)

    with Store.open(where) as store:
        save_run(store, a_run("odd", method="odd"))
        with pytest.raises(Killed):
            rename_method(store, "pixels", "new", step=stop)
    with Store.open(where) as store:
        remove_leftovers(store)
        names = {h.method for h in load_heads(store)}
        assert names == {"pixels", "meanstd", "also meanstd", "odd"} - (
            {"pixels"} if STEPS.index(step) >= 3 else set()
        ) | ({"new"} if STEPS.index(step) >= 3 else set())
        found = check_store(store, rebuild=True)
        assert found.ok, str(found)
        assert {h.method for h in load_heads(store)} == names
        assert len(load_heads(store)) == 4
        assert len(list((where / "runs").iterdir())) == 4
