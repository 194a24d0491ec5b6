# SPDX-License-Identifier: BSD-3-Clause
"""An import that is refused leaves the store as it was, and its database can be made again from the files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tiepoint.cli.main import run
from tiepoint.core.errors import InputError, StoreError
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.methods.networks.batches import checked_file
from tiepoint.run.importers import expand_paths, import_files
from tiepoint.store import writers
from tiepoint.store.rebuild import rebuild
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import write_run_file
from tiepoint.store.writers import save_run

HEADER = "descriptor_type,dataset_name,true_map_micro,total_queries_processed,keypoint_set_name,max_features"
HEADER += ",tolerance_px"
GOOD = "sift,hp,0.5,7,set,100,3"
HUGE = "surf,hp,0.5,1e30,other,1e30,x"
"""A row with numbers that are finite, and that no database has room for, and with a word for a number."""


def _csv(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEADER, *rows, ""]))
    return path


def test_a_refused_import_leaves_nothing_and_poisons_no_rebuild(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(tmp_path / "s")]
    assert run(["import", str(_csv(tmp_path / "first.csv", GOOD)), *where]) == 0
    assert run(["import", str(_csv(tmp_path / "next.csv", GOOD, HUGE)), *where]) == 2
    assert "cannot be stored" in capsys.readouterr().err
    assert len(list((tmp_path / "s" / "runs").iterdir())) == 1
    assert run(["data", "check", *where]) == 0
    assert "no problems" in capsys.readouterr().out
    with Store.open(tmp_path / "s") as store:
        assert [r.method for r in load_runs(store)] == ["sift"]
        assert rebuild(store) == []


def test_a_run_that_was_there_stays_when_it_is_imported_again_with_a_refused_one(tmp_path: Path) -> None:
    files = [_csv(tmp_path / "first.csv", GOOD), _csv(tmp_path / "next.csv", HUGE)]
    with Store.open(tmp_path / "s") as store:
        (kept,), _ = import_files(files[:1], store)
        with pytest.raises(InputError, match="cannot be stored"):
            import_files(files, store)
        assert [r.id for r in load_runs(store)] == [kept.id]


def test_the_file_of_a_run_is_written_after_the_database_took_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "s") as store:
        (made,), _ = import_files([_csv(tmp_path / "first.csv", GOOD)], store)
        stored = load_runs(store)[0]
        before = (tmp_path / "s/runs" / f"{made.id}.json").read_bytes()
        wrong = replace(stored, scores=[replace(stored.scores[0], n=2**70)])
        with pytest.raises(InputError, match=f"run {made.id} \\(sift\\) cannot be stored"):
            save_run(store, wrong)
        assert (tmp_path / "s/runs" / f"{made.id}.json").read_bytes() == before

        def full(*_: object) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(writers, "write_run_file", full)
        with pytest.raises(StoreError, match="full"):
            save_run(store, replace(stored, id="new"))
        assert [r.id for r in load_runs(store)] == [made.id]


def test_a_file_that_an_older_version_left_is_named_and_the_rest_rebuilt(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        import_files([_csv(tmp_path / "first.csv", GOOD)], store)
        stored = load_runs(store)[0]
        write_run_file(store, replace(stored, id="bad", scores=[replace(stored.scores[0], n=2**70)]))
        (told,) = rebuild(store)
        assert "run bad (sift) cannot be stored" in told
        assert "bad.json" in told
        assert [r.id for r in load_runs(store)] == [stored.id]


def test_a_device_or_a_pipe_is_called_so(tmp_path: Path) -> None:
    pipe = tmp_path / "x.csv"
    os.mkfifo(pipe)
    for path, words in (
        (pipe, "is a pipe"),
        (Path("/dev/zero"), "is a device"),
        (tmp_path / "no", "does not exist"),
    ):
        with pytest.raises(InputError, match=words):
            expand_paths([path])
    for path, words in (
        (pipe, "is a pipe"),
        (Path("/dev/zero"), "is a device"),
        (tmp_path / "no", "not found"),
    ):
        with pytest.raises(InputError, match=words):
            checked_file(str(path), "ONNX file")
    for path, words in ((pipe, "is a pipe"), (Path("/dev/zero"), "is a device")):
        with pytest.raises(InputError, match=words):
            read_pairs(path)
        assert words in str(check_dataset(path))
