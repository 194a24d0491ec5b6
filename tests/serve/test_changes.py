# SPDX-License-Identifier: BSD-3-Clause
"""Pages follow every change of the store, in a folder and at a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from visitors import visitor

import tiepoint as tp
from tiepoint.serve import run_index
from tiepoint.serve.app import application
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.maintenance.edit_runs import rename_method
from tiepoint.store.store import Store


@pytest.mark.parametrize("kind", ["folder", "url"])
def test_snapshot_run_extended_or_renamed_is_reloaded(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(run_index, "FRESH_S", 0.0)
    where = str(tmp_path / "s") if kind == "folder" else f"sqlite:///{tmp_path}/runs.sqlite"
    given: Any = {"task": "hpatches/matching", "data": patches, "store": where, "jobs": 1}
    tp.evaluate("meanstd", protocol="exact", **given)
    with Store.open(where, mode="read") as store:
        library = RunIndex(store)
        first = library.snapshot()
        assert library.snapshot() is first
        tp.evaluate("meanstd", protocol=["exact", "hpatches-python"], **given)
        (run,) = library.snapshot().runs
        assert {row["protocol"] for row in run.rows()} == {"exact", "hpatches-python"}
        with Store.open(where) as writer:
            rename_method(writer, "meanstd", "renamed")
        assert [r.method for r in library.snapshot().runs] == ["renamed"]


@pytest.mark.parametrize(
    ("kind", "address", "words"),
    [("values", "/run/{id}", "scenes not shown"), ("records", "/task/{task}?curves=1", "curves not shown")],
)
def test_page_corrupt_file_shows_rest_with_note(
    patches: Path, tmp_path: Path, kind: str, address: str, words: str
) -> None:
    where = tmp_path / "s"
    run = tp.evaluate("meanstd", task="hpatches/matching", data=patches, store=where, jobs=1)
    for path in (where / kind).rglob("*"):
        if path.is_file():
            path.write_bytes(b"junk")
    with Store.open(where, mode="read") as store, visitor(application(RunIndex(store, wait_s=60))) as client:
        answer = client.get(address.format(id=run.id, task=run.task))
    assert answer.status_code == 200
    assert words in answer.text
