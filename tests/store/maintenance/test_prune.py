# SPDX-License-Identifier: BSD-3-Clause
"""Features go by their last use, the oldest first, and never what is in use; scores stay."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from store_world import look

from tiepoint.core.array_cache import cached_arrays
from tiepoint.core.errors import InputError
from tiepoint.store import status_files
from tiepoint.store.maintenance.space import prune_store, store_size
from tiepoint.store.maintenance.usage import uses_file
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.run_queries import load_heads, load_runs
from tiepoint.store.store import Store

DAY = 86400.0


@pytest.fixture
def aged(where: Path) -> Path:
    """The store with features written 100 days ago; runs of meanstd used theirs 10 days ago."""
    now = time.time()
    for path in (where / "features").rglob("*"):
        os.utime(path, (now - 100 * DAY,) * 2)
    with Store.open(where, mode="read") as store:
        for head in load_heads(store):
            days = 100 if head.method == "pixels" else 10
            os.utime(uses_file(where, head.id), (now - days * DAY,) * 2)
    return where


def test_by_age_of_the_last_use(aged: Path, again: Callable[..., str]) -> None:
    with Store.open(aged) as store:
        assert prune_store(store, older_than_s=200 * DAY).files == {}
        before = look(aged)
        planned = prune_store(store, older_than_s=30 * DAY, dry_run=True)
        assert look(aged) == before
        told = prune_store(store, older_than_s=30 * DAY)
        assert told.files == planned.files
        assert told.files["features"].files == 6
        assert [(a.method, a.features, a.runs) for a in told.again] == [("pixels", 6, 1)]
        assert len(load_runs(store)) == 3
        assert all(r.scores for r in load_runs(store))
        assert check_store(store, rebuild=True).ok
        told = prune_store(store, older_than_s=5 * DAY)
        assert [(a.method, a.runs) for a in told.again] == [("also meanstd", 1), ("meanstd", 1)]
        assert "features" not in store_size(store).kinds
        values = {r.id: r.scores for r in load_runs(store)}
        new = again(store, "pixels", name="once more")
        assert {r.id: r.scores for r in load_runs(store) if r.id != new} == values


def test_until_the_store_is_small_enough(aged: Path) -> None:
    with Store.open(aged) as store:
        total = store_size(store).total_bytes
        assert prune_store(store, larger_than_bytes=total).files == {}
        told = prune_store(store, larger_than_bytes=total - 1)
        assert told.files["features"].files == 1
        assert [a.method for a in told.again] == ["pixels"]  # used longest ago
        assert store_size(store).total_bytes <= total - 1
        told = prune_store(store, larger_than_bytes=10, older_than_s=30 * DAY)
        assert [a.method for a in told.again] == ["pixels"]
        told = prune_store(store, larger_than_bytes=10)
        assert told.wanted_bytes == 10
        assert told.before_bytes - told.size_bytes > 10
        assert len(load_heads(store)) == 3


def test_records_of_no_run_go_too(aged: Path) -> None:
    with Store.open(aged) as store:
        kept = next((aged / "records").rglob("*.parquet"))
        stray = kept.with_name("ab" * 32 + ".parquet")
        shutil.copyfile(kept, stray)
        os.utime(stray, (0, 0))
        told = prune_store(store, older_than_s=150 * DAY)
        assert {k: a.files for k, a in told.files.items()} == {"records": 1}
        assert not stray.exists()
        assert kept.exists()


def test_cached_lists_go_by_when_they_were_last_read(aged: Path) -> None:
    with Store.open(aged) as store:
        made = {}
        for key in ("old", "read"):
            before = set((aged / "lists").iterdir()) if (aged / "lists").exists() else set()
            cached_arrays("sfm-model", key, lambda: {"x": np.arange(9)})
            (made[key],) = set((aged / "lists").iterdir()) - before
            os.utime(made[key], (time.time() - 50 * DAY,) * 2)
        again = cached_arrays("sfm-model", "read", lambda: pytest.fail("computed again"))
        assert again["x"].tolist() == list(range(9))
        (aged / "hashes.json").write_text("{}")
        os.utime(aged / "hashes.json", (0, 0))
        told = prune_store(store, older_than_s=30 * DAY)
        assert told.files["kept lists"].files == 1
        assert told.files["kept lists"].size_bytes > 9 * 8
        assert not made["old"].exists()
        assert made["read"].exists()
        assert (aged / "hashes.json").exists()


def test_what_a_process_at_work_uses_stays(aged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(aged) as store, status_files.track_progress(aged, "at work"):
        monkeypatch.setattr(status_files, "is_this_process", lambda _: False)
        own = next(h.id for h in load_heads(store) if h.method == "pixels")
        os.utime(uses_file(aged, own))  # as a run does that begins
        told = prune_store(store, older_than_s=0, now=time.time() + DAY)
        assert told.in_use >= 6
        assert [a.method for a in told.again] == ["also meanstd", "meanstd"]
    with Store.open(aged) as store:
        monkeypatch.undo()
        assert prune_store(store, older_than_s=0, now=time.time() + DAY).in_use == 0
        assert "features" not in store_size(store).kinds


def test_runs_that_noted_nothing_count_by_when_they_were_made(aged: Path) -> None:
    shutil.rmtree(aged / "uses")
    with Store.open(aged) as store:
        assert prune_store(store, older_than_s=30 * DAY).files == {}
        assert len(prune_store(store, older_than_s=30 * DAY, now=time.time() + 40 * DAY).again) == 3


def test_neither_age_nor_size_is_an_error(aged: Path) -> None:
    with Store.open(aged) as store, pytest.raises(InputError, match="`older_than`, `larger_than_total`"):
        prune_store(store)
