# SPDX-License-Identifier: BSD-3-Clause
"""Match files that mislead: sizes that are not there, groups that hold each other, data in other files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.core.hashing import hash_file
from tiepoint.core.keypoints import Keypoints
from tiepoint.formats import hdf5
from tiepoint.formats.keypoints.features import read_hdf5_features
from tiepoint.formats.keypoints.set_folder import KeypointSet, read_keypoint_set, write_keypoint_set
from tiepoint.formats.matches.benchmark_dumps import GlueFactoryFiles
from tiepoint.formats.matches.hloc import feature_groups
from tiepoint.formats.matches.table import MatchTables, header_columns, read_table
from tiepoint.methods.networks.onnx import weight_hashes

POINTS = np.arange(8.0).reshape(4, 2)


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="h5py is not installed")


def features(h5py, path: Path, **data: object) -> Path:
    with h5py.File(path, "w") as f:
        group = f.create_group("a.png")
        group["keypoints"] = POINTS
        for name, value in data.items():
            group[name] = value
    return path


def test_an_hdf5_dataset_cannot_announce_more_than_its_file_has(h5py, tmp_path: Path) -> None:
    path = features(h5py, tmp_path / "f.h5")
    with h5py.File(path, "a") as f:
        f["a.png"].create_dataset("descriptors", (1 << 20, 1 << 12), "f8", chunks=(64, 64))
    with pytest.raises(FormatError, match="would unpack from"):
        read_hdf5_features(path, "a.png")


def test_nor_can_a_chunk(h5py, tmp_path: Path) -> None:
    path = features(h5py, tmp_path / "f.h5")
    with h5py.File(path, "a") as f:
        f["a.png"].create_dataset(
            "descriptors", (4, 4), "f8", chunks=(1 << 13, 1 << 13), maxshape=(None, None), compression="gzip"
        )
    with pytest.raises(FormatError, match="would unpack from"):
        read_hdf5_features(path, "a.png")


def test_groups_that_hold_each_other_are_seen_once(h5py, tmp_path: Path) -> None:
    path = features(h5py, tmp_path / "f.h5")
    with h5py.File(path, "a") as f:
        f["a.png/again"] = f["a.png"]
        f["root"] = f["/"]
        f["soft"] = h5py.SoftLink("/a.png")
    assert set(feature_groups(path).values()) == {"a.png"}


def test_links_to_other_files_are_not_followed(h5py, tmp_path: Path) -> None:
    features(h5py, tmp_path / "other.h5")
    path = features(h5py, tmp_path / "f.h5")
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(path, "a") as f:
        f["b.png"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/a.png")
        f["a.png"].create_dataset("descriptors", (4, 2), "f8", external=[(str(tmp_path / "secret"), 0, 64)])
    assert set(feature_groups(path).values()) == {"a.png"}
    with pytest.raises(FormatError, match="stored outside this file"):
        read_hdf5_features(path, "a.png")


@pytest.mark.parametrize("value", [["a", "b"], np.zeros(3, complex)])
def test_what_is_no_number_is_a_sentence(h5py, tmp_path: Path, value: object) -> None:
    path = features(h5py, tmp_path / "f.h5", descriptors=value)
    with pytest.raises(FormatError, match="expected numbers"):
        read_hdf5_features(path, "a.png")


def test_a_damaged_link_is_a_sentence(h5py, tmp_path: Path) -> None:
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as f:
        group = f.create_group("a/b")
        group["keypoints0"] = group["keypoints1"] = POINTS
        group["matches0"] = np.zeros(4, int)
    data = path.read_bytes()
    wrong = 0
    for at in range(96, len(data), 28):
        path.write_bytes(data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :])
        try:
            source = GlueFactoryFiles(path)
            for place in source.pairs.values():
                source.read(place)
        except FormatError:
            wrong += 1
    assert wrong


def test_a_parquet_table_cannot_announce_more_than_its_file_has(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    one = pa.array(np.zeros(4_000_000))
    pq.write_table(pa.table(dict.fromkeys(("x0", "y0", "x1", "y1", "a", "b", "c", "d", "e"), one)), path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(FormatError, match="would unpack from"):
        read_table(path)


def test_what_pandas_notes_about_its_index_is_not_trusted(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"pair": ["s/a"], **{n: [1.0] for n in ("x0", "y0", "x1", "y1")}})
    pq.write_table(table.replace_schema_metadata({b"pandas": b'{"columns": [{"name": "x0"}]}'}), path)
    source = MatchTables([path])
    assert [source.read(p)["points0"].tolist() for p in source.pairs.values()] == [[[1.0, 1.0]]]
    bad = pa.array([b"\xff\xfe"]).cast(pa.binary()).view(pa.string())
    pq.write_table(table.set_column(0, "pair", bad), path)
    with pytest.raises(FormatError, match="not a readable Parquet file"):
        read_table(path)


@pytest.mark.parametrize("text", [b"", b"\x93NUMPY\x01\0\x04\0(((("])
def test_a_damaged_keypoint_set_is_a_sentence(tmp_path: Path, text: bytes) -> None:
    write_keypoint_set(tmp_path, KeypointSet("a", {"s/a": Keypoints.at(POINTS)}))
    (tmp_path / "keypoints.npy").write_bytes(text)
    with pytest.raises(FormatError, match=r"keypoints\.npy: "):
        read_keypoint_set(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_are_refused(h5py, tmp_path: Path) -> None:
    for name in ("a.h5", "a.parquet", "a.csv", "a.onnx"):
        os.mkfifo(tmp_path / name)

    def opened(path: Path) -> None:
        with hdf5.open_hdf5(path):
            pass

    cases = (("a.h5", opened), ("a.parquet", read_table), ("a.csv", read_table), ("a.csv", header_columns))
    for name, read in (*cases, ("a.onnx", weight_hashes), ("a.onnx", hash_file)):
        with pytest.raises(InputError, match="is a pipe"):
            read(tmp_path / name)
