# SPDX-License-Identifier: BSD-3-Clause
"""The database follows the files: what is gone disappears, what is damaged is named."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from store_world import a_run

from tiepoint.cli.main import run
from tiepoint.core.errors import DamagedError, StoreError
from tiepoint.core.hashing import add_checksum, verify_checksum
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Records
from tiepoint.core.scores import SceneValues, Score
from tiepoint.formats.keypoints.set_folder import KeypointSet
from tiepoint.store import schema
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.maintenance.edit_runs import remove_runs, rename_method
from tiepoint.store.maintenance.journal import finish_changes
from tiepoint.store.maintenance.verify import StoreCheck, StoreProblem, check_store
from tiepoint.store.rebuild import rebuild, replace_damaged
from tiepoint.store.record_files import RecordStore
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.stored_run import StoredRun, read_run
from tiepoint.store.writers import save_keypoint_set, save_run


def _count(store: Store) -> dict[str, int]:
    tables = (schema.runs, schema.scores, schema.methods, schema.datasets)
    with store.reading() as c:
        return {t.name: c.execute(sa.select(sa.func.count()).select_from(t)).scalar() or 0 for t in tables}


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "s")
    return str(request.getfixturevalue("url"))


def test_a_run_whose_file_is_gone_disappears_with_what_was_only_its_own(where: str) -> None:
    other = {"hash": "e" * 64, "name": "other", "path": "p"}
    with Store.open(where) as store:
        save_run(store, a_run("aaa"))
        save_run(store, a_run("bbb", method="gone", dataset=other))
        assert _count(store) == {"runs": 2, "scores": 2, "methods": 2, "datasets": 2}
        (store.root / "runs" / "bbb.json").unlink()
        found = check_store(store, rebuild=True)
        assert [p.what for p in found.problems] == ["run bbb is in the database and has no file"]
        assert found.runs == 1
        assert [r.id for r in load_runs(store)] == ["aaa"]
        assert _count(store) == {"runs": 1, "scores": 1, "methods": 1, "datasets": 1}


def test_a_damaged_file_is_named_and_its_rows_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        save_run(store, a_run("bbb"))
        (store.root / "runs" / "aaa.json").write_text('{"id": "aaa"')
        (store.root / "runs" / "bbb.json").rename(store.root / "runs" / "ccc.json")
        (problem, named) = rebuild(store)
        assert "aaa.json is not a run file" in problem
        assert "ccc.json contains the run bbb" in named
        assert [r.id for r in load_runs(store)] == ["aaa"]
    assert run(["data", "check", "--store", str(tmp_path / "s")]) == 2
    assert "aaa.json is not a run file" in capsys.readouterr().out


WRONG: dict[str, bytes | dict[str, object]] = {
    "nested": b"[" * 100_000,
    "no object": b"[]",
    "no text": b'{"id": "aaa\xe9"}',
    "manifest": {"manifest": 5},
    "method": {"manifest": {"task": "t", "method": [], "dataset": {}}},
    "scores": {"scores": 5},
    "a score": {"scores": ["x"]},
    "keypoint set": {"keypoint_set": 5},
    "its id": {"keypoint_set": {"name": "a"}},
    "another key": {"more": 1},
}


def test_what_is_no_run_is_named_wherever_it_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        file = store.root / "runs" / "aaa.json"
        whole = verify_checksum(file.read_bytes())
        for name, content in WRONG.items():
            made = content if isinstance(content, bytes) else add_checksum({**whole, **content}).encode()
            file.write_bytes(made)
            (said,) = rebuild(store)
            assert "aaa.json is not a run file" in said, name
        assert [r.id for r in load_runs(store)] == ["aaa"]
    assert run(["data", "check", "--store", str(tmp_path / "s")]) == 2
    assert "aaa.json is not a run file" in capsys.readouterr().out


def test_checking_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", "--store", str(tmp_path / "s")]) == 2
    assert "there is no store at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_missing_records_and_values_are_named(tmp_path: Path) -> None:
    table = SceneValues(("a",), ("v",), np.array([[0.5]]))
    with Store.open(tmp_path / "s") as store:
        store.records.put("ab12", Records("pair", {"d": np.arange(3.0)}))
        key = store.values.put([Score("ap", "all", 0.5, 1, scenes=table)])
        save_run(store, a_run(units={"u": {"c": "ab12"}}, values={"exact": key}))
        assert check_store(store).ok
        store.records.path("ab12").unlink()
        store.values.path(key).write_bytes(b"")
        found = check_store(store)
    assert found.runs == 1
    one, two = map(str, found.problems)
    assert "unit u" in one
    assert one.endswith("(run abc123): run m on t/a again")
    assert "protocol exact" in two


def test_a_run_is_done_or_failed() -> None:
    with pytest.raises(ValueError, match="done or failed"):
        StoredRun("a", "t/a", "finished", a_run().manifest)


@pytest.mark.parametrize("damage", ["pages", "later pages", "cut"])
def test_a_damaged_database_is_set_aside_and_made_anew_by_a_check(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "s"
    with Store.open(where) as store:
        save_run(store, a_run("aaa"))
        save_run(store, a_run("bbb"))
        before = _count(store)
    path = where / "tiepoint.sqlite"
    broken = bytearray(path.read_bytes())
    for at in range(4096 if damage == "later pages" else 0, len(broken), 4096):
        broken[at : at + 100] = b"\xa5" * 100
    broken = broken if damage != "cut" else bytearray(path.read_bytes()[:3000])
    path.write_bytes(broken)
    (where / "tiepoint.sqlite-wal").write_bytes(b"of the old one")
    assert run(["store", "ls", "--store", str(where)]) == 2
    assert "`tiepoint store check` rebuilds the database from the run files" in capsys.readouterr().err
    assert run(["store", "check", "--store", str(where)]) == 2
    told = capsys.readouterr().out
    assert "the database was corrupt and is now tiepoint.sqlite.damaged: it was rebuilt from the run" in told
    assert "differ" not in told
    assert (where / "tiepoint.sqlite.damaged").read_bytes() == broken
    with Store.open(where, mode="read") as store:
        assert _count(store) == before
        assert [r.id for r in load_runs(store)] == ["aaa", "bbb"]
    path.write_bytes(broken)
    assert run(["store", "check", "--store", str(where)]) == 2
    assert (where / "tiepoint.sqlite.damaged-2").is_file()
    capsys.readouterr()
    run(["store", "check", "--store", str(where)])
    assert "the database was corrupt" not in capsys.readouterr().out


def test_a_database_that_is_whole_newer_or_only_read_is_not_made_anew(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        assert replace_damaged(store.root) is None
        with store.begin() as connection:
            assert replace_damaged(store.root) is None
            connection.execute(sa.update(schema.versions).values(version=schema.VERSION + 1))
    assert replace_damaged(tmp_path / "s") is None
    assert replace_damaged(tmp_path / "none") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")
def test_a_pipe_in_place_of_any_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    root = tmp_path / "s"
    transform = root / "transforms" / f"{'0' * 64}.npz"
    with Store.open(root) as store:
        store.records.put("ab12", Records("pair", {"d": np.arange(3.0)}))
        store.features.put("c" * 64, {"values": np.zeros((2, 3))}, method="m")
        save_run(store, a_run("aaa", units={"u": {"c": "ab12"}}))
        names = ("lists/a.bin", "running/a.json", "uses/aaa.bin", "changing/a.json")
        places = [
            *(store.records.path("ab12"), store.features.folder("c" * 64) / "values.npy", transform),
            *(root / "runs" / "bbb.json", root / "hashes.json", *(root / name for name in names)),
        ]
        for path in places:
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        found = check_store(store, rebuild=True)
        told = " ".join(p.what for p in found.problems)
        assert all(str(path) in told for path in (*places[:4], places[5])), told
        assert not (root / "changing").exists()
        assert "it is a pipe" in told


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_who_reads_a_pipe_in_place_of_a_file_does_not_wait(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.records.put("ab12", Records("pair", {"d": np.arange(3.0)}))
        store.features.put("c" * 64, {"values": np.zeros((2, 3))}, method="m")
        for path in (store.records.path("ab12"), store.features.folder("c" * 64) / "meta.json"):
            path.unlink()
            os.mkfifo(path)
        with pytest.raises(DamagedError, match="it is a pipe"):
            store.records.get("ab12")
        with pytest.raises(DamagedError, match="it is a pipe"):
            FeatureCache(store.features.root).meta("c" * 64)


def test_what_heals_is_to_be_removed_and_the_check_is_clean_then(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.features.put("c" * 64, {"values": np.zeros((2, 3))}, method="m")
        folder = store.features.folder("c" * 64)
        (folder / "meta.json").write_text("{}")
        (problem,) = check_store(store).problems
        assert problem.again == f"remove {folder}; the next run that needs it recomputes it"
        shutil.rmtree(folder)
        assert check_store(store).ok


@pytest.mark.parametrize("plain", ['{"id": "aaa", "manifest": {"method": []}}', "[" * 100_000])
def test_a_run_file_of_another_shape_is_a_sentence(tmp_path: Path, plain: str) -> None:
    path = tmp_path / "aaa.json"
    path.write_text(plain)
    with pytest.raises(StoreError, match=r"aaa\.json is not a run file"):
        read_run(path)


def test_what_a_check_says_of_a_damaged_run_file_makes_the_store_whole(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        path = store.root / "runs" / "aaa.json"
        before = path.read_bytes()
        path.write_bytes(before.replace(b"0", b"1", 1))
        (problem,) = check_store(store, rebuild=True).problems
        assert problem.again.startswith(f"remove {path}, then `store check`, then run ")
        path.unlink()
        assert not check_store(store, rebuild=True).ok
        save_run(store, a_run("aaa"))  # as a run does that the database does not have
        assert check_store(store, rebuild=True).ok


def test_one_of_something_is_not_told_as_several() -> None:
    told = str(
        StoreCheck([StoreProblem("broken")], 1, {"records": 1}, {"records": 10}, leftovers=[Path("x")])
    )
    assert told.splitlines() == [
        "1 run in the store",
        "records: 1 file, 10 B verified",
        "1 leftover of killed processes; the next run removes them",
        "1 problem:",
        "  - broken",
    ]


class Killed(BaseException):
    """Stands for the end of a process."""


def killed_at(wanted: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name == wanted:
            raise Killed

    return step


def left_by(change: str, where: Path) -> None:
    """A store with three runs and a change of one of them that a killed process did not end."""
    with Store.open(where) as store:
        for name in ("aaa", "bbb", "ccc"):
            save_run(store, a_run(name, method=name))
        with contextlib.suppress(Killed):
            if change.startswith("rm"):
                remove_runs(store, ["aaa"], step=killed_at(change.removeprefix("rm ")))
            elif change:
                rename_method(store, "aaa", "new", step=killed_at(change.removeprefix("rename ")))


CHANGES = ["rm written down", "rm run files", "rename run files", "rename committed"]


def runs_of(where: Path) -> dict[str, str]:
    with Store.open(where, mode="read") as store:
        return {run.id: run.method for run in load_runs(store)}


def is_whole(where: Path, change: str) -> bool:
    """Whether everything agrees, the change was made or not made, and nothing is left over."""
    own = {"": ["aaa"], "rm": [], "rename": ["new"]}[change.partition(" ")[0]]
    own = ["aaa"] if change == "rm written down" else own
    left = [p.name for p in where.iterdir() if p.name.startswith((".tmp", "changing"))]
    same = sorted(runs_of(where).values()) == sorted([*own, "bbb", "ccc"])
    return check_store(where).ok and same and not left


@pytest.mark.parametrize("change", ["rm run files", "rename committed"])
@pytest.mark.parametrize("step", ["made", "kept", "journals", "replaced"])
def test_a_check_that_is_killed_while_it_heals_is_ended_by_the_next(
    step: str, change: str, tmp_path: Path
) -> None:
    where = tmp_path / "s"
    left_by(change, where)
    (where / "tiepoint.sqlite").write_bytes(b"\xa5" * 9000)
    (where / "tiepoint.sqlite-wal").write_bytes(b"of the old one")
    with pytest.raises(Killed):
        replace_damaged(where, killed_at(step))
    told = [p.what for p in check_store(where).problems]
    assert told == (["the database was corrupt and is now tiepoint.sqlite.damaged"] * (step != "replaced"))
    assert (where / "tiepoint.sqlite.damaged").read_bytes() == b"\xa5" * 9000
    assert not (where / "tiepoint.sqlite.damaged-2").exists()
    assert is_whole(where, change)


@pytest.mark.parametrize("change", CHANGES)
def test_a_database_that_is_missing_is_made_anew_by_whoever_writes_next(change: str, tmp_path: Path) -> None:
    where = tmp_path / "s"
    left_by(change, where)
    (where / "tiepoint.sqlite").unlink()
    with Store.open(where, later=True) as store:
        assert store.remade
        assert "was missing: it was rebuilt from the run files" in store.notices[0]
        finish_changes(store)
    assert is_whole(where, change)


def test_a_check_says_that_the_database_was_missing(tmp_path: Path) -> None:
    left_by("", tmp_path / "s")
    (tmp_path / "s" / "tiepoint.sqlite").unlink()
    (problem,) = check_store(tmp_path / "s").problems
    assert str(problem) == "the database was missing: it was rebuilt from the run files"
    assert is_whole(tmp_path / "s", "")


@pytest.mark.parametrize("lost", ["set.json", "keypoints.npy"])
def test_a_damaged_keypoint_set_is_told_once_with_its_runs_and_never_to_be_removed(
    tmp_path: Path, lost: str
) -> None:
    made = KeypointSet("places", {"v_a/1": Keypoints.at([[3.0, 4.0]])})
    with Store.open(tmp_path / "s") as store:
        folder = save_keypoint_set(store, made)
        save_run(store, replace(a_run("aaa"), keypoint_set=made.row()))
        assert check_store(store, rebuild=True).ok
        (folder / lost).unlink()
        for rebuilt in (False, True):
            (problem,) = check_store(store, rebuild=rebuilt).problems
            assert str(folder) in problem.what
            assert problem.runs == ("aaa",)
            again = "create or import the keypoint set places again under its name, with `overwrite`"
            assert problem.again == again
        save_keypoint_set(store, made, overwrite=True)
        assert check_store(store, rebuild=True).ok


def test_what_another_process_removes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `store prune` and `store rm` do between the listing of files and their reading."""
    whole = FeatureCache.verify, RecordStore.verify

    def pruned(cache: FeatureCache, key: str) -> Any:
        shutil.rmtree(cache.folder(key))
        return whole[0](cache, key)

    def deleted(records: RecordStore, key: str) -> Any:
        records.path(key).unlink()
        (tmp_path / "s" / "runs" / "aaa.json").unlink()
        return whole[1](records, key)

    with Store.open(tmp_path / "s") as store:
        store.features.put("c" * 64, {"values": np.zeros((2, 3))}, method="m")
        store.records.put("ab12", Records("pair", {"d": np.arange(3.0)}))
        save_run(store, a_run("aaa", units={"u": {"c": "ab12"}}))
        monkeypatch.setattr(FeatureCache, "verify", pruned)
        monkeypatch.setattr(RecordStore, "verify", deleted)
        assert check_store(store).ok
