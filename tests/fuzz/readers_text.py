"""Readers of text: JSON, YAML, CSV, lists of pairs, databases and results of other tools."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from fuzz.reader import Reader
from tiepoint.compat.hpatches_results import read_results, text_of
from tiepoint.core.errors import FormatError
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.formats.flow.tss import read_corr, read_flip, read_pair_names
from tiepoint.formats.hpatches.task_lists import read_splits
from tiepoint.formats.json_yaml import read_json, read_mapping
from tiepoint.formats.keypoints.features import read_features, read_keypoint_csv
from tiepoint.formats.matches.native import AnswerFiles
from tiepoint.formats.matches.table import MatchTables, is_match_table
from tiepoint.formats.text.numbers import read_homography
from tiepoint.report.runs.names import read_names
from tiepoint.run.executors.cluster_spec import read_spec
from tiepoint.run.experiment.config import read_experiment
from tiepoint.run.experiment.grid import plan
from tiepoint.run.importers import reader as importer
from tiepoint.run.importers.workbench.database import read_sets
from tiepoint.run.importers.workbench.importer import is_workbench, read_workbench

Seeds = Callable[[Path], list[Path]]


def _files(**texts: str) -> Seeds:
    """Seeds that are files, by names whose last ``_`` is the dot of the ending."""

    def make(root: Path) -> list[Path]:
        paths = [root / ".".join(name.rsplit("_", 1)) for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    return make


def _picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((30, 40), np.uint8)).save(path)


def _folder(texts: dict[str, str], pictures: tuple[str, ...] = ()) -> Seeds:
    """One seed: a folder of these texts, with pictures of 40 x 30 pixels."""

    def make(root: Path) -> list[Path]:
        folder = root / "v_set"
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for name in pictures:
            _picture(folder / name)
        return [folder]

    return make


_H = "1 0.1 2\n0 1.1 -3\n1e-5 0 1\n"
_K = "50 0 20 0 50 15 0 0 1"
_T = "1 0 0 0.5 0 1 0 0 0 0 1 0.1 0 0 0 1"
_ENTRY = {
    "image0": "a.png", "image1": "b.png", "K0": [[50, 0, 20], [0, 50, 15], [0, 0, 1]],
    "K1": [50, 0, 20, 0, 50, 15, 0, 0, 1], "T_0to1": [float(v) for v in _T.split()], "scene": "room",
    "size0": [40, 30], "centre": 0.5, "turns": [0, 1], "name": "one", "corrs": [[1, 2, 3, 4]],
    "points0": [[1, 2]], "points1": [[3, 4]], "ids": [0], "box0": [0, 0, 5, 5], "light": "day",
}  # fmt: skip
_SPAIR = {
    "src_imname": "a.png", "trg_imname": "b.png", "src_imsize": [40, 30, 3], "trg_imsize": [40, 30, 3],
    "src_kps": [[1, 2], [3, 4]], "trg_kps": [[5, 6], [7, 8]], "kps_ids": ["0", "9"],
    "src_bndbox": [0, 0, 20, 20], "trg_bndbox": [1, 2, 30, 29], "category": "cat", "truncation": 1,
}  # fmt: skip
_VISIBLE = {"kps": {"0": [1, 2], "9": None}}
_MODEL = {
    "sparse/cameras.txt": "# n\n1 PINHOLE 40 30 50 50 20 15\n2 SIMPLE_RADIAL 40 30 50 20 15 0\n",
    "sparse/images.txt": "# n\n1 1 0 0 0 0 0 0 1 a.png\n"
    + " ".join(f"1 2 {i}" for i in range(40))
    + "\n2 1 0 0 0 1 0 0 2 b.png\n"
    + " ".join(f"1 2 {i}" for i in range(-1, 40))
    + "\n",
}
_VIEWS = {
    "views.txt": f"a.png {' '.join(_T.split()[i] for i in (0, 1, 2, 4, 5, 6, 8, 9, 10))} 0 0 0 PINHOLE 40 30 "
    "50 50 20 15\nb.png 1 0 0 0 1 0 0 0 1 1 0 0 PINHOLE 40 30 50 50 20 15\n",
    "pairs.txt": "a.png b.png\n",
}
_TWO = ("a.png", "b.png")
_EXPERIMENT = """experiment: {name: grid, version: "1.0", author: me}
dataset: {path: data, scenes: [v_a]}
keypoints:
  generator: [sift, orb]
  max_features: 500
  source: homography_projection
descriptors:
  - &one {name: s, type: sift, pooling: dsp, scales: [0.8, 1.0], rooting_stage: [none, after_pooling]}
  - {name: c, type: composite, components: [{descriptor: sift}, {descriptor: surf}], aggregation: concat}
evaluation:
  protocols: [exact]
  tau_px: 3.0
  gallery: [250, 500]
  matching: {method: ratio_test, ratio_threshold: 0.8}
  image_retrieval: {enabled: true}
performance: {num_threads: 2, device: cpu}
"""
_CLUSTER = """slurm: {queue: normal, cores: 8, memory: 32GB, walltime: "04:00:00"}
jobs: 10
lifetime: 3h50m
resources: {GPU: 1}
"""
_VERIFICATION = {
    z: {n: {"balanced": {"auc": 0.5}, "imbalanced": {"ap": 0.25}} for n in ("inter", "intra")} for z in "eht"
}
_MATCHING = {"v_a": {z: {str(k): {"ap": 0.5, "sr": 0.25} for k in range(1, 6)} for z in "eht"}}
_RETRIEVAL = {str(q): {z: {"100": {"ap": 0.5}, "200": 0.25} for z in "eht"} for q in range(3)}
_RESULTS = {"verification": _VERIFICATION, "matching": _MATCHING, "retrieval": _RETRIEVAL}
_OWN = {
    f"x_{task}_a.json": json.dumps({"descriptor": "x", "task": task, "split": "a", "results": found})
    for task, found in _RESULTS.items()
}
_WORKBENCH = (
    "descriptor_type,true_map_micro,keypoint_verification_ap,processing_time_s,metadata,parameters\n"
    'sift,0.5,-1,1.5,"success=1;v_a_true_map=0.5;v_a_query_count=20;","norm_type=l1;"\n'
    "surf,0.25,0.5,,,\n"
)
_MATLAB = (
    "descriptor,split,negs,geom_noise,method,pr_auc,pr_ap,roc_auc\n"
    "sift,split-a,inter,easy,imbalanced,0.5,0.5,0.5\nsift,split-a,inter,easy,balanced,0.5,0.5,0.5\n"
)
_TABLES = """create table experiments (id integer primary key, descriptor_type text, dataset_name text,
 timestamp text, parameters text, keypoint_set_id integer);
create table results (id integer primary key, experiment_id integer, true_map_macro real,
 true_map_micro real, keypoint_verification_ap real, processing_time_ms real, metadata text);
create table keypoint_sets (id integer primary key, name text, source_set_a_id integer, tolerance_px real);
create table locked_keypoints (id integer primary key, keypoint_set_id integer, scene_name text,
 image_name text, x real, y real, size real, angle real, response real, octave integer, class_id integer);
insert into keypoint_sets values (7, 'sift_a', 1, 3.0);
insert into locked_keypoints values (1, 7, 'v_a', '1ppm.ppm', 1, 2, 3, -1, 0.5, 0, -1);
insert into locked_keypoints values (2, 7, 'v_a', '2.ppm', 4, 5, 6, 90, 0.5, 1, 2);
insert into experiments values (1, 'sift', 'data/hpatches', '2026-01-01', 'norm_type=l1;', 7);
insert into results values (1, 1, 0.5, 0.25, -1, 0, 'success=1;v_a_true_map=0.5;v_a_query_count=20;');
"""


def _database(root: Path) -> list[Path]:
    path = root / "x.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma page_size = 512")
    connection.executescript(_TABLES)
    connection.close()
    return [path]


def _read_database(path: Path) -> object:
    if not is_workbench(path):
        raise FormatError(path, "is not for this importer")
    return [*read_workbench(path), list(read_sets(path))]


def _read_export(path: Path) -> object:
    return read_workbench(path) if is_workbench(path) else importer(path)(path, split=None, tasks=None)


def _import(path: Path) -> object:
    return importer(path)(path, split=None, tasks=None)


def _print(path: Path) -> object:
    task = path.stem.split("_")[1]
    return _printed(task, read_results(path.parent, "x", task, "a"))


def _printed(task: str, results: object) -> str:
    from tiepoint.compat import hpatches_results

    try:
        return text_of(task, results)
    except hpatches_results._INCOMPLETE as e:
        raise FormatError(task, "is incomplete") from e


def _pairs(path: Path) -> object:
    return list(read_pairs(path, needs="any").pairs)


def _answers(path: Path) -> object:
    source = AnswerFiles([path])
    return [source.read(place) for place in source.pairs.values()]


def _match_table(path: Path) -> object:
    if not is_match_table(path):
        raise FormatError(path, "is no table of matches")
    source = MatchTables([path])
    return [source.read(place) for place in source.pairs.values()]


def _sequences(path: Path) -> object:
    found = ImageSequences(path)
    return [found.homography(s, k) for s in found.scenes for k in found.images(s)]


def _tss(path: Path) -> object:
    return [read_flip(path / "flip_gt.txt"), read_pair_names(path / "pair.txt"), read_corr(path / "corr.txt")]


READERS = [
    Reader("json", _files(a_json='{"a": [1, 2.5, "x", null, true], "b": {"c": -1e-3}}'), read_json),
    Reader(
        "yaml",
        _files(a_yaml="a: &x {b: 1, c: [1.5, ~, yes]}\nd: *x\ne: {<<: *x, f: 2001-01-01}\ng: |\n  text\n"),
        lambda path: read_mapping(path, "expected a mapping"),
    ),
    Reader("experiment", _files(a_yaml=_EXPERIMENT), lambda path: plan(read_experiment(path))),
    Reader(
        "cluster file",
        _files(a_yaml=_CLUSTER, b_yaml="scheduler: tcp://h:8786\n"),
        lambda p: read_spec(str(p)),
    ),
    Reader("display names", _files(a_yaml="methods: {sift: SIFT}\nmetrics:\n  map: mAP\n"), read_names),
    Reader(
        "keypoint csv",
        _files(a_csv="x,y,size,angle,response,octave,class_id\n1.5,2,3,-1,0.5,0,-1\n4,5,6,90,1e-3,1,2\n"),
        read_keypoint_csv,
    ),
    Reader("feature csv", _files(a_csv="x,y,size,d0,d1\n1,2,3,0.5,0.25\n4,5,6,-1,1e-3\n"), read_features),
    Reader(
        "splits", _files(a_json='{"a": {"test": ["v_a", "i_b"], "train": ["v_c"], "name": "a"}}'), read_splits
    ),
    Reader(
        "lengths",
        _files(a_json='{"lengths": {"v_a": 30, "i_b": [5, 9]}, "images": ["ref"]}'),
        HPatchesDataset,
    ),
    Reader("homography", _files(a_txt=_H, b_txt=_H.replace(" ", ",")), read_homography),
    Reader("sequences", _folder({"v_a/H_1_2": _H}, ("v_a/1.png", "v_a/2.png")), _sequences),
    Reader(
        "tss texts",
        _folder({"flip_gt.txt": "1\n", "pair.txt": "Image1,Image2\na,b\n", "corr.txt": "1 2 3 4\n"}),
        _tss,
    ),
    Reader("pairs json", _folder({"pairs.json": json.dumps([_ENTRY])}, _TWO), _pairs),
    Reader(
        "pairs text",
        _folder(
            {"pairs_with_gt.txt": f"a.png b.png 0 1 {_K} {_K} {_T}\n# x\nb.png a.png 0 0 {_K} {_K} {_T}\n"},
            _TWO,
        ),
        _pairs,
    ),
    Reader("pairs plain", _folder({"pairs.txt": f"a.png b.png {_K} {_K} {_T}\n"}, _TWO), _pairs),
    Reader(
        "pairs zeb",
        _folder({"s/a.txt": f"a.png b.png 0.5 0.25 {_K} {_K} {_T}\n"}, ("s/a.png", "s/b.png")),
        _pairs,
    ),
    Reader("pairs views", _folder(_VIEWS, _TWO), _pairs),
    Reader("pairs colmap", _folder(_MODEL, ("images/a.png", "images/b.png")), _pairs),
    Reader(
        "pairs spair",
        _folder(
            {
                "PairAnnotation/test/1-a-b:cat.json": json.dumps(_SPAIR),
                "ImageAnnotation/cat/a.json": json.dumps(_VISIBLE),
                "ImageAnnotation/cat/b.json": json.dumps(_VISIBLE),
            },
            ("JPEGImages/cat/a.png", "JPEGImages/cat/b.png"),
        ),
        _pairs,
    ),
    Reader(
        "pairs clicked",
        _folder({"W/p/corrs.txt": "1 2 3 4\n5 6 7 8.5\n"}, ("W/p/01.png", "W/p/02.png")),
        _pairs,
    ),
    Reader("pairs planes", _folder({"h/a.txt": _H}, ("1/a.png", "2/a.png")), _pairs),
    Reader(
        "pairs willow csv",
        _folder(
            {
                "test_pairs.csv": "imageA,imageB,"
                + ",".join(f"c{i}" for i in range(40))
                + "\n"
                + "a.png,b.png,"
                + ",".join(str(i) for i in range(40))
                + "\n"
            },
            _TWO,
        ),
        _pairs,
    ),
    Reader("answers", _files(a_json='{"p": [[1, 2.5], null], "s/q": []}'), _answers),
    Reader(
        "match csv",
        _files(a_csv="pair,x0,y0,x1,y1,confidence\np,1,2,3,4,0.5\nq,5,6,7,8,1e-3\n", b_csv="x,y\n1,2\n,\n"),
        _match_table,
    ),
    Reader("workbench database", _database, _read_database),
    Reader("workbench csv", _files(a_csv=_WORKBENCH), _read_export),
    Reader("matlab csv", _files(a_csv=_MATLAB), _read_export),
    Reader(
        "result json",
        _files(
            **{n.replace(".", "_"): t for n, t in _OWN.items()},
            all_json=json.dumps({"a": {"x": _MATCHING, "y": _VERIFICATION}}),
        ),
        _import,
    ),
    Reader("printed results", _files(**{n.replace(".", "_"): t for n, t in _OWN.items()}), _print),
]
