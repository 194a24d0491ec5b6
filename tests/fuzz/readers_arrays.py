"""Readers of arrays: NumPy files, flows, pickles, MATLAB, HDF5, Parquet, and what the store keeps."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
import struct
import zlib
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.reader import Reader
from fuzz.shells import PACK, PNG, ZIP
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Records
from tiepoint.core.scores import SceneValues, Score
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.formats.flow.flo import read_flo, read_flo_size, write_flo
from tiepoint.formats.flow.reader import read_flow_array, read_kitti_flow, write_flow_array, write_kitti_flow
from tiepoint.formats.flow.tss import read_pair_result, write_pair_result
from tiepoint.formats.hpatches.descriptors import read_descriptors, table_shape
from tiepoint.formats.hpatches.patch_pack import PackedStrip, open_pack, write_pack
from tiepoint.formats.keypoints.features import read_features, read_hdf5_features
from tiepoint.formats.keypoints.pf_willow import read_mat5_matrix
from tiepoint.formats.keypoints.set_folder import KeypointSet, read_keypoint_set, write_keypoint_set
from tiepoint.formats.matches.benchmark_dumps import GlueFactoryFiles, LoftrFiles
from tiepoint.formats.matches.colmap_database import ColmapDatabase
from tiepoint.formats.matches.detect_layout import detect_match_layout
from tiepoint.formats.matches.hloc import HlocFiles, feature_groups
from tiepoint.formats.matches.native import read_matches
from tiepoint.formats.matches.table import MatchTables, header_columns
from tiepoint.formats.npy import map_npy
from tiepoint.formats.pickled_arrays import read_arrays
from tiepoint.formats.safe_pickle import read_plain_pickle
from tiepoint.methods.networks.onnx import weight_hashes
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.record_files import RecordStore
from tiepoint.store.scene_values import ValueStore

KEY = "ab" * 32
_RNG = np.random.default_rng(5)
_FLOW = _RNG.normal(0, 3, (5, 6, 2)).astype(np.float32)
_POINTS = _RNG.uniform(0, 50, (4, 2))


def _saved(root: Path, **arrays: Any) -> list[Path]:
    """An ``.npy`` for every array."""
    paths = [root / f"{name}.npy" for name in arrays]
    for path, array in zip(paths, arrays.values(), strict=True):
        np.save(path, array)
    return paths


def _zipped(root: Path, *contents: dict[str, Any]) -> list[Path]:
    """An ``.npz`` for every dictionary, packed and not in turn."""
    paths = [root / f"{i}.npz" for i in range(len(contents))]
    for i, (path, arrays) in enumerate(zip(paths, contents, strict=True)):
        (np.savez_compressed if i % 2 else np.savez)(path, **arrays)
    return paths


def _npy(root: Path) -> list[Path]:
    version = root / "v2.npy"
    with version.open("wb") as f:
        np.lib.format.write_array(f, np.arange(6).reshape(2, 3), version=(2, 0))
    return [
        version,
        *_saved(root, a=np.arange(6.0), b=np.zeros((2, 3), ">i2"), c=np.array(3), t=np.array(["ab"])),
    ]


def _flo(root: Path) -> list[Path]:
    write_flo(root / "a.flo", _FLOW)
    return [root / "a.flo"]


def _kitti(root: Path) -> list[Path]:
    write_kitti_flow(root / "a.png", _FLOW)
    return [root / "a.png"]


def _flow_arrays(root: Path) -> list[Path]:
    for name in ("a.npy", "a.npz"):
        write_flow_array(root / name, _FLOW)
    return [root / "a.npy", root / "a.npz", *_saved(root, half=np.moveaxis(_FLOW, 2, 0).astype("<f2"))]


def _pair_result(root: Path) -> list[Path]:
    mask = _FLOW[..., 0] > 0
    write_pair_result(root / "p", {"flow1": _FLOW, "flow2": -_FLOW, "mask1": mask, "mask2": ~mask})
    return [root / "p"]


def _descriptors(root: Path) -> list[Path]:
    values = _RNG.normal(0, 1, (3, 4))
    plain = _saved(root, f=values.astype("f4"), d=values, u=values.astype(np.uint8), b=values > 0)
    valid = np.array([True, False, True])
    return plain + _zipped(root, {"values": values}, {"bits": values.astype(np.uint8), "valid": valid})


def _features(root: Path) -> list[Path]:
    d = _RNG.normal(0, 1, (4, 8)).astype("f4")
    return _zipped(
        root,
        {"keypoints": _POINTS, "descriptors": d, "scores": np.ones(4)},
        {"keypoints": np.zeros((4, 7)), "descriptors": d.T, "valid": np.ones(4, bool)},
        {"keypoints": np.zeros((4, 3), "f4"), "descriptors": d},
    )


def _matches(root: Path) -> list[Path]:
    return _zipped(
        root,
        {"points0": _POINTS, "points1": _POINTS, "confidence": np.ones(4)},
        {"flow": _FLOW},
        {"F": np.eye(3), "answers": _POINTS},
    )


def _match_folder(root: Path) -> list[Path]:
    """Our own files, dumps of SuperGlue, answers, tables."""
    folders = [root / name for name in ("own", "glue", "json", "csv")]
    for folder in folders:
        folder.mkdir()
    np.savez(folders[0] / "s-a.npz", points0=_POINTS, points1=_POINTS)
    np.savez(
        folders[1] / "a_b_matches.npz", keypoints0=_POINTS, keypoints1=_POINTS,
        matches=np.array([0, -1, 2, 1]), match_confidence=np.ones(4, "f4"),
    )  # fmt: skip
    (folders[2] / "a.json").write_text('{"s/a": [[1, 2.5], null, [3, 4]], "s/b": []}')
    (folders[3] / "a.csv").write_text("pair,x0,y0,x1,y1,confidence\ns/a,1,2,3,4.5,1\ns/b,1,2,3,4,0\n")
    (folders[3] / "b.csv").write_text("image0,image1,x0,y0,x1,y1\nm,n,1,2,3,4.5\n")
    return folders


def _read_source(source: Any) -> object:
    return [[source.read(place), source.remarks(place)] for place in list(source.pairs.values())[:20]]


def _read_match_folder(folder: Path) -> object:
    source = detect_match_layout(folder)
    return None if source is None else _read_source(source)


def _hloc(root: Path) -> list[Path]:
    import h5py

    folder = root / "h"
    folder.mkdir()
    with h5py.File(folder / "features.h5", "w", libver="latest") as f:
        for name in ("s/a.png", "s/b.png"):
            group = f.create_group(name)
            group["keypoints"] = _POINTS.astype(np.float16)
            group["descriptors"] = np.ones((8, 4), np.float16)
            group["scores"] = np.ones(4, np.float16)
    with h5py.File(folder / "matches.h5", "w") as f:
        group = f.create_group("s-a.png/s-b.png")
        group["matches0"] = np.array([0, -1, 2, 1], np.int16)
        group.create_dataset("matching_scores0", data=np.ones(4, np.float16), chunks=(2,), compression="gzip")
    return [folder]


def _read_hloc(folder: Path) -> object:
    features = folder / "features.h5"
    found = [read_hdf5_features(features, g) for g in set(feature_groups(features).values())]
    return [found, _read_source(HlocFiles(features, folder / "matches.h5"))]


def _colmap(root: Path) -> list[Path]:
    path = root / "database.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(
            "create table images (image_id, name); create table keypoints (image_id, rows, cols, data);"
            "create table matches (pair_id, rows, cols, data);"
            "create table two_view_geometries (pair_id, rows, cols, data, F, H);"
        )
        db.executemany("insert into images values (?, ?)", [(1, "s/a.png"), (2, "s/b.png")])
        points = _POINTS.astype("<f4")
        rows = [(i, *points.shape, points.tobytes()) for i in (1, 2)]
        db.executemany("insert into keypoints values (?, ?, ?, ?)", rows)
        both = np.array([[0, 1], [2, 3]], "<u4").tobytes()
        db.execute("insert into matches values (?, 2, 2, ?)", (2147483649, both))
        matrix = np.eye(3).tobytes()
        db.execute(
            "insert into two_view_geometries values (?, 2, 2, ?, ?, ?)", (2147483649, both, matrix, matrix)
        )
    return [path]


def _read_colmap(path: Path) -> object:
    return [_read_source(ColmapDatabase(path, verified=v)) for v in (False, True)]


def _glue_factory(root: Path) -> list[Path]:
    import h5py

    with h5py.File(root / "predictions.h5", "w") as f:
        group = f.create_group("a.jpg/b.jpg")
        group["keypoints0"], group["keypoints1"] = _POINTS, _POINTS.astype(">f4")
        group.create_dataset(
            "matches0", data=np.array([0, -1, 2, 1]), chunks=(2,), shuffle=True, fletcher32=True
        )
    return [root / "predictions.h5"]


def _match_parquet(root: Path) -> list[Path]:
    import pandas as pd

    frame = pd.DataFrame(
        {"pair": ["s/a", "s/a", "s/b"], **{c: [1.0, 2.0, 3.0] for c in ("x0", "y0", "x1", "y1")}}
    )
    frame.to_parquet(root / "a.parquet", index=False)
    frame[["x0", "y0"]].rename(columns={"x0": "x", "y0": "y"}).to_parquet(
        root / "b.parquet", compression=None
    )
    return [root / "a.parquet", root / "b.parquet"]


def _content() -> dict[str, Any]:
    """What results of HPatches look like: nested dictionaries with numbers of NumPy."""
    inner: dict[str, Any] = defaultdict(dict, {"e": {("a", 1): [0.5, np.float64(0.25)], 3: {1, 2}}})
    return {
        "v_wall": OrderedDict(inner),
        "x": (None, True, b"bytes", frozenset({"k"}), 2**70),
        "n": np.int64(7),
    }


def _pickles(root: Path) -> list[Path]:
    paths = []
    for protocol in (0, 2, 3, 4, 5):
        paths.append(root / f"p{protocol}.p")
        paths[-1].write_bytes(pickle.dumps(_content(), protocol))
    return paths


def _array_pickles(root: Path) -> list[Path]:
    content = {
        "a": np.arange(6.0).reshape(2, 3),
        "f": np.ones((2, 2), ">i2", order="F"),
        "o": [np.array(["x"])],
    }
    paths = []
    for protocol in (2, 3, 5):
        paths.append(root / f"a{protocol}.p")
        paths[-1].write_bytes(pickle.dumps(content, protocol))
    return paths


def _loftr(root: Path) -> list[Path]:
    entry = {"mkpts0_f": _POINTS, "mkpts1_f": _POINTS, "mconf": np.ones(4), "identifier": "a#b"}
    np.save(root / "LoFTR_pred_eval.npy", np.array([entry, entry], dtype=object))
    return [root / "LoFTR_pred_eval.npy"]


def mat5(name: bytes, values: np.ndarray[Any, Any], *, packed: bool) -> bytes:
    """A MATLAB 5 file with one matrix."""

    def element(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)

    sizes = element(5, struct.pack("<ii", *values.shape))
    body = element(6, struct.pack("<II", 6, 0)) + sizes + element(1, name) + element(9, values.tobytes("F"))
    matrix = element(14, body)
    inner = struct.pack("<II", 15, len(zlib.compress(matrix))) + zlib.compress(matrix) if packed else matrix
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + inner


def _mat(root: Path) -> list[Path]:
    for packed in (False, True):
        (root / f"{packed}.mat").write_bytes(mat5(b"pts_coord", np.arange(8.0).reshape(2, 4), packed=packed))
    return [root / "False.mat", root / "True.mat"]


def _keypoint_set(root: Path) -> list[Path]:
    points = Keypoints.at(_POINTS, size_px=3.0)
    pairs = {"s/a": np.arange(4), "s/b": np.arange(4)}
    for name, own in (("plain", None), ("paired", pairs)):
        (root / name).mkdir()
        made = KeypointSet(name, {"s/a": points, "s/b": points}, {"detector": "x"}, own, {"s/a": "0"})
        write_keypoint_set(root / name, made)
    return [root / "plain", root / "paired"]


def _cache(root: Path) -> list[Path]:
    FeatureCache(root / "c").put(KEY, {"values": _POINTS, "valid": np.ones(4, bool)}, seconds=1.0)
    return [root / "c"]


def _read_cache(root: Path) -> object:
    cache = FeatureCache(root)
    return [cache.meta(KEY), cache.content(KEY), cache.failed_count(KEY), cache.get(KEY)]


def _records(root: Path) -> list[Path]:
    columns = {
        "a": np.arange(5),
        "b": _RNG.normal(0, 1, (5, 2)),
        "c": np.arange(5) > 2,
        "d": np.array(list("abcde")),
    }
    RecordStore(root / "r").put(KEY, Records("pair", columns, {"x": 1}))
    return [root / "r"]


def _read_records(root: Path) -> object:
    return dict(RecordStore(root).get(KEY).columns)


def _values(root: Path) -> list[Path]:
    table = SceneValues(("a", "b"), ("i", "v"), np.array([[0.25, 0.75]]))
    ValueStore(root / "v").put([Score("ap", "all", 0.5, 2, scenes=table), Score("n", "all", 2.0, 2)])
    return [root / "v"]


def _read_values(root: Path) -> object:
    file = next(root.rglob("*.npz"))
    return [(t.cells) for t in ValueStore(root).get(file.stem).values()]


def _pack(root: Path) -> list[Path]:
    patches = _RNG.integers(0, 255, (3, 5, 5)).astype(np.uint8)
    strips = [PackedStrip("v_a", image, 3, "0" * 64, 99, 1, "0" * 64) for image in ("ref", "e1")]
    write_pack(root / "a.tiepack", 5, [(s, patches) for s in strips])
    return [root / "a.tiepack"]


def _read_pack(path: Path) -> object:
    pack = open_pack(path)
    return [[pack.read(key) for key in pack.strips], list(pack.verify())]


def _onnx(root: Path) -> list[Path]:
    entry = b"\x0a\x08location\x12\x05w.bin"
    tensor = b"\x6a" + bytes([len(entry)]) + entry
    for name, inner in (("a.onnx", tensor), ("b.onnx", b"\x08\x07\x3a" + bytes([len(tensor)]) + tensor)):
        (root / name).write_bytes(inner)
    return [root / "a.onnx", root / "b.onnx"]


def _scannet(root: Path) -> list[Path]:
    folder = root / "s"
    folder.mkdir()
    K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    pose = np.concatenate([np.eye(3), [[1.0], [2.0], [3.0]]], axis=1).reshape(-1)
    np.savez(folder / "test.npz", name=np.array([[1, 2, 3, 4]]), rel_pose=pose[None])
    np.savez(folder / "intrinsics.npz", scene0001_02=K)
    return [folder]


def _megadepth(root: Path) -> list[Path]:
    folder = root / "m"
    folder.mkdir()
    K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    moved = np.eye(4)
    moved[:3, 3] = 1, 2, 3
    index = {
        "image_paths": np.array(["a.jpg", "b.jpg", None], dtype=object),
        "intrinsics": np.array([K, K, None], dtype=object),
        "poses": np.array([np.eye(4), moved, None], dtype=object),
        "pair_infos": [((0, 1), 0.5, np.zeros((1, 4)))],
    }
    (folder / "index.npz").write_bytes(pickle.dumps(index, 2))
    return [folder]


_ZIP, _PNG = ((".npz", ZIP),), ((".png", PNG),)
READERS = [
    Reader("npy", _npy, map_npy),
    Reader("flo", _flo, lambda p: [read_flo(p), read_flo_size(p)]),
    Reader("kitti flow", _kitti, read_kitti_flow, _PNG),
    Reader("flow arrays", _flow_arrays, read_flow_array, _ZIP),
    Reader("tss results", _pair_result, read_pair_result, _PNG),
    Reader("descriptor arrays", _descriptors, lambda p: [read_descriptors(p), table_shape(p)], _ZIP),
    Reader("feature npz", _features, read_features, _ZIP),
    Reader("match npz", _matches, read_matches, _ZIP),
    Reader("match folder", _match_folder, _read_match_folder, _ZIP),
    Reader("hloc", _hloc, _read_hloc, needs="h5py"),
    Reader("glue-factory", _glue_factory, lambda p: _read_source(GlueFactoryFiles(p)), needs="h5py"),
    Reader("colmap database", _colmap, _read_colmap),
    Reader("match parquet", _match_parquet, lambda p: [header_columns(p), _read_source(MatchTables([p]))]),
    Reader("pickle", _pickles, read_plain_pickle),
    Reader("pickled arrays", _array_pickles, read_arrays),
    Reader("loftr", _loftr, lambda p: _read_source(LoftrFiles(p))),
    Reader("scannet index", _scannet, lambda p: read_pairs(p).pairs, _ZIP),
    Reader("megadepth index", _megadepth, lambda p: read_pairs(p).pairs),
    Reader("mat5", _mat, lambda p: read_mat5_matrix(p, "pts_coord")),
    Reader("keypoint set", _keypoint_set, read_keypoint_set),
    Reader("feature cache", _cache, _read_cache),
    Reader("records", _records, _read_records),
    Reader("scene values", _values, _read_values, _ZIP),
    Reader("patch pack", _pack, _read_pack, ((".tiepack", PACK),)),
    Reader("onnx", _onnx, weight_hashes),
]
