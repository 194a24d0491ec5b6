# SPDX-License-Identifier: BSD-3-Clause
"""Bits that a disk flips and blocks that it loses: an error, or the same scores; never other scores."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import damage_world as world
import numpy as np
import pytest
from damage_world import flip, forget, run_all, scores_of, zero

import tiepoint
from tiepoint.core import file_stamps, hashing
from tiepoint.core.errors import StoreError, TiepointError
from tiepoint.core.hashing import verify_checksum
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.maintenance.verify import check_store
from tiepoint.store.record_files import RecordStore
from tiepoint.store.scene_values import ValueStore
from tiepoint.store.store import Store
from tiepoint.store.stored_run import read_run

PLACES = {flip: 24, zero: 6}
"""How often every file is damaged, in each way."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, world.Scores]:
    """Data, a store of all families, and its scores."""
    root = tmp_path_factory.mktemp("damage")
    world.make_data(root)
    scores = scores_of(run_all(root, root / "store"))
    assert len(scores) > 1000
    return root, scores


@pytest.fixture
def store(made: tuple[Path, world.Scores], tmp_path: Path) -> Path:
    """A copy of the store, to be damaged."""
    shutil.copytree(made[0] / "store", tmp_path / "store")
    return tmp_path / "store"


def _bits(found: Any) -> Any:
    """What was read, so that it can be compared bit for bit."""
    if isinstance(found, np.ndarray):
        return found.dtype.str, found.shape, found.tobytes()
    if hasattr(found, "__dict__") or hasattr(found, "__slots__"):
        return repr({k: _bits(v) for k, v in getattr(found, "__dict__", {}).items()})
    if isinstance(found, dict):
        return {str(k): _bits(v) for k, v in found.items()}
    return [_bits(v) for v in found] if isinstance(found, list | tuple) else repr(found)


def _features(folder: Path, of: Path) -> Any:
    cache = FeatureCache(folder.parent.parent)
    return [cache.meta(folder.name), dict(cache.get(folder.name))]


READ: dict[str, Callable[[Path, Path], Any]] = {
    "records/??/*.parquet": lambda path, top: vars(RecordStore(top / "records").get(path.stem)),
    "features/??/*/*": lambda path, top: _features(path.parent, path),
    "values/??/*.npz": lambda path, top: dict(ValueStore(top / "values").get(path.stem)),
    "runs/*.json": lambda path, top: read_run(path),
}


@pytest.mark.parametrize("pattern", READ)
def test_no_file_is_read_as_something_else(store: Path, pattern: str) -> None:
    rng = np.random.default_rng(7)
    files = sorted(store.glob(pattern))
    assert files
    wrong: list[Path] = []
    unnamed: list[Path] = []
    refused = 0
    for path in files[:: max(1, len(files) // 12)]:
        whole, before = path.read_bytes(), _bits(READ[pattern](path, store))
        for damage, count in PLACES.items():
            for _ in range(count):
                damage(path, rng)
                try:
                    if _bits(READ[pattern](path, store)) != before:
                        wrong.append(path)
                except TiepointError as e:
                    refused += 1
                    unnamed += [path] * (path.name not in str(e) and path.parent.name not in str(e))
                path.write_bytes(whole)
    assert not wrong
    assert not unnamed
    assert refused > 10 * len(PLACES)


KINDS = {
    "features": (
        ["features/??/*/*", "lists/*", "transforms/*"],
        ["runs", "records", "values"],
    ),
    "records": (["records/??/*"], ["runs", "values"]),
    "values": (["values/??/*", "runs/*"], ["features"]),
}
"""Files that are damaged, and what has to be gone for a run to need them."""


@pytest.mark.parametrize("damage", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_makes_anew_what_is_damaged(
    made: tuple[Path, world.Scores], store: Path, kind: str, damage: Callable[..., None]
) -> None:
    rng = np.random.default_rng(3)
    patterns, gone = KINDS[kind]
    for pattern in patterns:
        files = sorted(store.glob(pattern))
        assert files
        for path in files:
            damage(path, rng)
    if kind != "values":
        forget(store, *gone)
    runs = run_all(made[0], store)
    assert scores_of(runs) == made[1]
    if kind != "values":
        assert "were recomputed" in " ".join(w for run in runs for w in run.warnings)
        forget(store, "runs", "values")
        again = run_all(made[0], store)
        assert scores_of(again) == made[1]
        assert "were recomputed" not in " ".join(w for run in again for w in run.warnings)


@pytest.mark.parametrize("damage", PLACES)
def test_readers_say_which_run_to_make_again_or_show_the_same_scores(
    made: tuple[Path, world.Scores], store: Path, damage: Callable[..., None], tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    before = [(r.method, r.value) for r in tiepoint.compare(task="tss", store=store).rows]
    for folder in ("features", "records", "values", "runs", "lists", "transforms"):
        for path in (store / folder).rglob("*"):
            if path.is_file():
                damage(path, rng)
    loaded = tiepoint.load(store=store)
    assert isinstance(loaded, list)
    assert scores_of(loaded) == made[1]
    run = next(r for r in loaded if r.task == "tss" and r.method == "zero")
    again = r"run \w+: .*; remove the file, then run \S+ on \S+ again"
    with contextlib.suppress(StoreError):  # where the place that was damaged does not matter, as it was
        assert [(r.method, r.value) for r in tiepoint.compare(task="tss", store=store).rows] == before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        tiepoint.write_report(loaded, tmp_path / "report")
    assert any(re.match(again, str(w.message)) for w in caught)
    assert "not shown" in (tmp_path / "report").read_text()
    with pytest.raises(StoreError, match=rf"run {run.id}: .*run zero on tss again"):
        assert run.records is None


def test_a_pack_of_patches_with_a_flipped_bit_is_refused(
    made: tuple[Path, world.Scores], tmp_path: Path
) -> None:
    data = tmp_path / "patches"
    shutil.copytree(made[0] / "patches", data)
    pack = data / "patches.tiepack"
    whole = bytearray(pack.read_bytes())
    at = 65_536 + 100  # among the pixels of the first strip
    whole[at] ^= 4
    pack.write_bytes(whole)
    with pytest.raises(TiepointError, match=r"do not match their checksum; pack the dataset again"):
        tiepoint.evaluate("resize", task="hpatches/matching", data=data, store=tmp_path / "s", split="a",
                          tasks=str(made[0] / "tasks"))  # fmt: skip


def test_a_check_names_every_damaged_file_and_no_other(
    made: tuple[Path, world.Scores], store: Path, tmp_path: Path
) -> None:
    with Store.open(store, mode="read") as opened:
        whole = check_store(opened)
    assert whole.ok
    assert set(whole.files) >= {"records", "values", "features", "lists", "transforms", "run files"}
    rng = np.random.default_rng(11)
    damaged = {}
    for kind in ("records", "values", "features", "lists", "transforms", "runs"):
        path = next(p for p in sorted((store / kind).rglob("*")) if p.is_file())
        zero(path, rng)
        damaged[kind] = path
    seen: list[tuple[str, int, int]] = []
    with Store.open(store, mode="read") as opened:
        found = check_store(opened, progress=lambda *step: seen.append(step))
    assert seen[-1][1] == seen[-1][2] == sum(found.files.values())
    told = [str(problem) for problem in found.problems]
    assert len(told) == len(damaged)
    for path in damaged.values():
        assert any(path.name in text or path.parent.name in text for text in told)
    record = next(text for text in told if damaged["records"].name in text)
    assert record.endswith(" again")
    assert " on " in record.rpartition(": ")[2]


@pytest.mark.parametrize("statement", [
    "update scores set value = value + 1e-9 where rowid = 5",
    "update runs set manifest = replace(manifest, '\"tss\"', '\"tst\"')",
    "update methods set name = 'zerp' where name = 'zero'",
    "drop view results",
])  # fmt: skip
def test_a_check_holds_the_database_against_the_files(store: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(store / "tiepoint.sqlite")) as connection, connection:
        connection.execute(statement)
    with Store.open(store, mode="read") as opened:
        assert not check_store(opened).ok


@pytest.mark.slow
def test_flipped_bits_of_the_database_are_found_or_change_no_score(
    made: tuple[Path, world.Scores], store: Path
) -> None:
    rng = np.random.default_rng(2)
    path = store / "tiepoint.sqlite"
    whole = path.read_bytes()
    found = 0
    for _ in range(24):
        flip(path, rng)
        try:
            with Store.open(store, mode="read") as opened:
                found += not check_store(opened).ok
            same = scores_of(tiepoint.load(store=store)) == made[1]  # type: ignore[arg-type]
        except TiepointError:
            found, same = found + 1, True
        with Store.open(store, mode="read") as opened:
            assert same or not check_store(opened).ok
        path.write_bytes(whole)
    assert found > 3


def test_a_check_reads_files_of_datasets_whose_hash_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)
    data = tmp_path / "large.bin"
    data.write_bytes(bytes(100_000))
    with Store.open(tmp_path / "s") as store:
        hashing.hash_file(data)
    flip(data, np.random.default_rng(0))
    with Store.open(tmp_path / "s", mode="read") as store:
        (problem,) = check_store(store).problems
        assert "the content has changed since the first read" in str(problem)
    memo = tmp_path / "s" / "hashes.json"
    flip(memo, np.random.default_rng(0))
    assert hashing.unchanged_file_hashes(memo) == []


def test_file_without_checksum_is_corrupt(store: Path) -> None:
    import pyarrow.parquet as pq

    with Store.open(store, mode="read") as opened:
        record = next((store / "records").glob("??/*.parquet"))
        table = pq.ParquetFile(record).read()
        header = {b"tiepoint": table.schema.metadata[b"tiepoint"]}
        pq.write_table(table.replace_schema_metadata(header), record, compression="zstd")
        folder = next((store / "features").glob("??/*"))
        run = next((store / "runs").glob("*.json"))
        for path in (folder / "meta.json", run):
            path.write_text(json.dumps(verify_checksum(path.read_bytes())))
        found = check_store(opened)
        assert {problem.path for problem in found.problems} == {record, folder, run}
        assert all("it has no checksum" in problem.what for problem in found.problems)
