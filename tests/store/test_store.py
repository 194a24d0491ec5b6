"""Opening, refusing; records and features on disk; runs and their rebuilding."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from store_world import a_run, check_results, look

from tiepoint.cli.main import run
from tiepoint.core.errors import InputError, StoreError
from tiepoint.core.records import Records
from tiepoint.core.scores import ScoreRow
from tiepoint.store import schema, status_files
from tiepoint.store.atomic_files import atomic_file, atomic_folder, remove_temporaries
from tiepoint.store.rebuild import rebuild
from tiepoint.store.record_files import RecordStore
from tiepoint.store.run_queries import load_run, load_runs
from tiepoint.store.sql_query import select_all
from tiepoint.store.store import Mode, Store, store_root
from tiepoint.store.stored_run import StoredRun
from tiepoint.store.urls import read_url
from tiepoint.store.writers import Merge, save_run


def test_a_run_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
        back = load_run(store, "abc")
    assert back.method == "m"
    assert back.scores[0].value == 0.5
    assert back.scores[0].n == 7
    assert back.time_s == 1.5


def test_nan_is_stored_as_null(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(value=float("nan")))
        assert select_all(store.engine, "select value from scores") == (["value"], [(None,)])


def test_saving_again_replaces_the_scores(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(value=0.1))
        save_run(store, a_run(value=0.2))
        assert [r.scores[0].value for r in load_runs(store)] == [0.2]


def _add_protocol(run: StoredRun) -> Merge:
    """A merge that keeps what is stored, as adding a protocol to a run does."""

    def merge(stored: StoredRun | None) -> StoredRun:
        return replace(run, scores=[*(stored.scores if stored else ()), *run.scores])

    return merge


def test_what_is_stored_is_merged_from_rows_or_from_the_file(tmp_path: Path) -> None:
    first, second, third = (
        replace(a_run(), scores=[replace(a_run().scores[0], protocol=p)]) for p in ("exact", "old", "older")
    )
    with Store.open(tmp_path / "s") as store:
        save_run(store, first, _add_protocol(first))
        merged = save_run(store, second, _add_protocol(second))
        assert [s.protocol for s in merged.scores] == ["exact", "old"]
        assert [s.protocol for s in load_run(store, first.id).scores] == ["exact", "old"]
    (tmp_path / "s" / "tiepoint.sqlite").unlink()
    with Store.open(tmp_path / "s") as store:
        save_run(store, third, _add_protocol(third))
        assert [s.protocol for s in load_run(store, first.id).scores] == ["exact", "old", "older"]
        (store.root / "runs" / f"{first.id}.json").write_text("{damaged")
        save_run(store, first, lambda stored: stored or first)
        rebuild(store)
        assert [s.protocol for s in load_run(store, first.id).scores] == ["exact", "old", "older"]


def test_a_merge_that_fails_changes_nothing(tmp_path: Path) -> None:
    def fail(stored: StoredRun | None) -> StoredRun:
        raise InputError("no")

    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
        before = (store.root / "runs" / "abc123.json").read_bytes()
        with pytest.raises(InputError):
            save_run(store, a_run(value=0.9), fail)
        assert (store.root / "runs" / "abc123.json").read_bytes() == before
        assert load_run(store, "abc123").scores[0].value == 0.5
        save_run(store, a_run("later"))


def test_a_merge_may_read_the_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        saved = save_run(store, a_run("bbb"), lambda _: replace(load_run(store, "aaa"), id="bbb"))
        assert saved.id == "bbb"


def test_a_lost_database_is_rebuilt_from_files(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run("aaa"))
        save_run(store, a_run("bbb", method="other"))
    (tmp_path / "s" / "tiepoint.sqlite").unlink()
    with Store.open(tmp_path / "s") as store:
        assert [r.id for r in load_runs(store)] == ["aaa", "bbb"]
        assert rebuild(store) == []
        assert {r.id for r in load_runs(store)} == {"aaa", "bbb"}


def test_an_unknown_or_ambiguous_run_is_a_sentence(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        with pytest.raises(InputError, match="has no run 'zz'"):
            load_run(store, "zz")
        save_run(store, a_run("aaa1"))
        save_run(store, a_run("aaa2"))
        with pytest.raises(InputError, match="several run ids begin"):
            load_run(store, "aaa")


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
@pytest.mark.parametrize("mode", ["read", "write"])
def test_store_of_another_format_version_is_refused(
    tmp_path: Path, version: int, mode: Mode, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "s"
    with Store.open(where) as store, store.begin() as connection:
        connection.execute(sa.update(schema.versions).values(version=version))
    before = look(tmp_path)
    with pytest.raises(StoreError) as refused:
        Store.open(where, mode=mode)
    needed = f"but this version of tiepoint needs {schema.VERSION}"
    told = f"{where}: the store has format version {version}, {needed}"
    assert str(refused.value) == f"{told}; pass a new `store` and run again"
    for command in (["list", "runs"], ["store", "check"], ["store", "size"]):
        assert run([*command, "--store", str(where)]) == 2
        assert capsys.readouterr().err.count(f"{told}; pass a new --store and run again") == 1
    assert look(tmp_path) == before


def test_the_results_have_a_row_for_each_protocol(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        check_results(store)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_store_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot write"):
        Store.open(tmp_path / "s")


def test_a_store_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(StoreError, match="cannot write"):
        Store.open(tmp_path / "f" / "s")
    with pytest.raises(StoreError, match="is a file"):
        Store.open(tmp_path / "f")


def test_a_store_without_a_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="`store` is empty"):
        Store.open("")
    monkeypatch.setenv("TIEPOINT_STORE", "")
    assert store_root() == Path("tiepoint-store")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_url_is_a_sentence() -> None:
    with pytest.raises(StoreError, match="store URL"):
        Store.open("nosuchdatabase://x/y?files=z")


def test_a_database_url_without_a_folder_for_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (Store.open, read_url, store_root):
        with pytest.raises(StoreError, match=r"postgresql://h/db\?files=DIR") as found:
            use("postgresql://user:secret@h/db?connect_timeout=3")
        assert "secret" not in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_sql_only_reads(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run())
        for query in ("delete from scores", "drop table scores", "update runs set task = 'x'", "selec 1"):
            with pytest.raises(InputError):
                select_all(store.engine, query)
        assert len(load_runs(store)) == 1
        save_run(store, a_run("later"))
        assert len(load_runs(store)) == 2


@pytest.mark.parametrize("name", ["<script>x</script>", "'; drop table runs; --", "\\textbf{x}", "ä" * 5000])
def test_hostile_names_are_only_text(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / "s") as store:
        save_run(store, a_run(method=name))
        assert load_runs(store, method=name)[0].method == name


def test_records_keep_bits_shapes_and_header(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "distance": rng.normal(size=5),
        "wide": rng.integers(0, 9, (5, 3)),
        "flag": np.array([True, False, True, True, False]),
        "small": rng.integers(0, 9, 5).astype(np.int16),
        "odd": np.array([np.nan, -np.inf, np.inf, -0.0, 1e-45], np.float32),
        "sliced": np.arange(20, dtype=np.uint8)[3:18:3],
        "flags": np.arange(35).reshape(5, 7) % 3 == 0,
        "half": np.arange(5, dtype=np.float16),
        "name": np.array(["a", "b", "", "ä", "e"], object),
    }
    kinds = {"i1": 1, "i4": 2, "i8": 3, "u2": 4, "u4": 5, "u8": 6, "f8": 7}
    columns |= {code: np.full(5, value, code) for code, value in kinds.items()}
    written = Records("rank", columns, {"scene": "v_x", "n": 5, "at": (1, 2)})
    numbers = Records("rank", {k: v for k, v in columns.items() if k != "name"}, written.meta)
    nothing = Records("rank", {"x": np.empty(0, np.int32), "y": np.empty((0, 3))}, {})
    with Store.open(tmp_path / "s") as store:
        for key, records in {"ab12": written, "cd34": numbers, "ef56": nothing}.items():
            store.records.put(key, records)
            for back in (store.records.get(key), store.records.get(key)):  # from memory, from the file
                assert back.kind == "rank"
                assert back.meta == ({"scene": "v_x", "n": 5, "at": [1, 2]} if records.meta else {})
                assert list(back.columns) == list(records.columns)
                for name, column in records.columns.items():
                    assert (back[name].dtype, back[name].shape) == (column.dtype, column.shape)
                    np.testing.assert_array_equal(back[name], column)


def test_records_are_written_and_read_without_pandas(tmp_path: Path) -> None:
    program = f"""
import sys
import numpy as np
from pathlib import Path
from tiepoint.core.records import Records
from tiepoint.store.record_files import RecordStore
store = RecordStore(Path({str(tmp_path)!r}))
wide = np.ones((3, 2), np.int16)
store.put("ab12", Records("pair", {{"d": np.arange(3.0), "w": wide, "b": np.arange(3) > 1}}))
assert store.get("ab12")["w"].shape == (3, 2)
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_records_in_relative_folder_with_colon_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = RecordStore(Path("lab:2"))
    store.put("ab12", Records("pair", {"d": np.arange(3.0)}))
    assert store.get("ab12")["d"].tolist() == [0.0, 1.0, 2.0]


def test_features_that_are_replaced_or_removed_are_seen(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        cache = store.features
        cache.put("ab12", {"values": np.zeros((4, 2)), "valid": np.array([True, False, True, False])})
        assert ("ab12" in cache, cache.failed_count("ab12"), cache.failed_count("none")) == (True, 2, 0)
        first = cache.content("ab12")
        shutil.rmtree(cache.folder("ab12"))
        assert "ab12" not in cache
        assert cache.meta("ab12") is None
        cache.put("ab12", {"values": np.ones((3, 2)), "valid": np.ones(3, bool)})
        assert cache.content("ab12") != first
        assert cache.failed_count("ab12") == 0


def test_damaged_records_are_a_sentence(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.records.put("ab12", Records("pair", {"d": np.arange(3.0)}))
        store.records.path("ab12").write_bytes(b"PAR1 but not really")
        with pytest.raises(StoreError, match="run again"):
            store.records.get("ab12")


@pytest.mark.parametrize("damage", ["cut", "gone", "text"])
def test_damaged_features_are_a_sentence(tmp_path: Path, damage: str) -> None:
    with Store.open(tmp_path / "s") as store:
        store.features.put("k1", {"values": np.zeros((4, 8), np.float32)})
        file = store.features.folder("k1") / "values.npy"
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:150] if damage == "cut" else b"not an array at all")
        with pytest.raises(StoreError, match="run again"):
            store.features.get("k1")


def test_features_are_mapped_and_addressed_by_content(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        content = store.features.put("k1", {"values": values}, time_s=0.1)
        assert store.features.content("k1") == content
        assert store.features.put("k2", {"values": values.copy()}) == content
        assert store.features.put("k3", {"values": values + 1}) != content
        back = store.features.get("k1")["values"]
        assert not back.flags.owndata
        assert not back.flags.writeable
        np.testing.assert_array_equal(back, values)
        assert store.features.content("none") is None
        assert json.loads((store.features.folder("k1") / "meta.json").read_text())["time_s"] == 0.1


def test_scores_come_back_in_the_order_of_the_task(tmp_path: Path) -> None:
    base = a_run()
    names = [
        ("exact", m, g) for m in ("auc", "ap", "fpr95") for g in ("all", "pool=100", "pool=1000", "pool=500")
    ]
    rows = [ScoreRow(p, m, g, 0.5, 1) for p, m, g in names]
    with Store.open(tmp_path / "s") as store:
        save_run(store, replace(base, scores=rows))
        for _ in range(2):
            back = load_run(store, base.id).scores
            assert [(s.protocol, s.metric, s.group) for s in back] == names
            rebuild(store)


def test_temporaries_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    dead = int(gone.stdout)
    with Store.open(tmp_path / "s") as store, atomic_folder(store.root / "features" / "94" / "key") as mine:
        host = mine.name.split("-")[1]
        left = [
            store.root / f".tmp-{host}-{dead}-1-0",
            store.root / "records" / "1a" / f".tmp-{host}-{dead}-1-7",
            store.root / "features" / "94" / f".tmp-{host}-{dead}-1-1",
        ]
        foreign = store.root / "records" / "1a" / f".tmp-{'0' * 8}-{dead}-1-7"
        for path in (*left, foreign):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("half")
        left[-1].unlink()
        left[-1].mkdir()
        (left[-1] / "values.npy").write_text("half")
        assert remove_temporaries(store.root, [dead + 1]) == 0
        assert remove_temporaries(store.root) == 3
        assert not any(path.exists() for path in left)
        assert foreign.exists()
        assert mine.is_dir()
    assert (tmp_path / "s" / "features" / "94" / "key").is_dir()


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path) -> None:
    for kind in (atomic_file, atomic_folder):
        with pytest.raises(KeyboardInterrupt), kind(tmp_path / "a" / "b"):
            raise KeyboardInterrupt
        assert list((tmp_path / "a").iterdir()) == []


def test_a_full_disk_under_a_savepoint_is_called_that(tmp_path: Path) -> None:
    """SQLite undoes all of a transaction then, and the savepoint is not found: that was told instead."""

    def fill(store: Store) -> None:
        with store.begin() as connection, connection.begin_nested():
            connection.exec_driver_sql("ROLLBACK")  # as SQLite does by itself
            full = sqlite3.OperationalError("database or disk is full")
            raise sa.exc.OperationalError("INSERT", None, full)

    with Store.open(tmp_path / "s") as store, pytest.raises(StoreError, match="disk is full"):
        fill(store)


def test_what_numpy_could_not_write_is_a_full_disk(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_file(tmp_path / "a"):
            raise OSError("2520 requested and 496 written")

    with pytest.raises(StoreError, match=r"cannot write .*: No space left on device; choose another"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with status_files.track_progress(tmp_path, "a run"):
        assert list((tmp_path / status_files.FOLDER).iterdir()) == []
