"""Readers of the text files of HPatches that are parsed by compiled code: benchmarks, results, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fuzz.reader import Reader
from tiepoint.formats.hpatches.descriptors import read_descriptors, table_shape, write_descriptors
from tiepoint.formats.hpatches.task_lists import read_pairs_csv, read_patches_csv
from tiepoint.formats.hpatches_v1.classification import load_classification, read_distances, read_patch_pairs
from tiepoint.formats.hpatches_v1.definitions import (
    read_classification,
    read_matching,
    read_retrieval,
    task_of,
)
from tiepoint.formats.hpatches_v1.matching import matching_truth, read_matching_results
from tiepoint.formats.hpatches_v1.retrieval import check_relevant, read_retrieval_results, retrieval_truth

_COUNTS = {"v_a.ref": 3, "v_a.e1": 3, "i_b.ref": 3}
_PAIRS = "v_a.ref.0,v_a.e1.0\nv_a.ref.1,v_a.e1.2\nv_a.ref.2,i_b.ref.2\n"
_POOL = "v_a.ref,v_a.e1,i_b.ref\n"


def _texts(root: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (root / name).write_text(text)
    return [root / name for name in texts]


def _pairs(root: Path) -> list[Path]:
    return _texts(
        root, {"a.pairs": _PAIRS, "b.pairs": "# x\nv_a.ref.0,v_a.e1.0,1 # y\nv_a.ref.0,v_a.e1.1,0\n"}
    )


def _classification(root: Path) -> list[Path]:
    folder = root / "c"
    folder.mkdir()
    _texts(
        folder, {"c.benchmark": "p.pairs\nn.pairs\n", "p.pairs": _PAIRS, "n.pairs": "v_a.ref.0,v_a.e1.1\n"}
    )
    _texts(folder, {"c.labels": "1\n0\n0\n0"})
    return [folder]


def _benchmarks(root: Path) -> list[Path]:
    return _texts(
        root,
        {"m.benchmark": "v_a.ref,v_a.e1\nv_a.ref,i_b.ref\n", "r.benchmark": _POOL + "v_a.ref.0\nv_a.e1.2\n"},
    )


def _read_benchmark(path: Path) -> object:
    task = task_of(path)
    if task == "classification":
        return read_classification(path)
    return (read_matching if task == "matching" else read_retrieval)(path, _COUNTS)


def _matching(root: Path) -> list[Path]:
    folder = root / "m"
    folder.mkdir()
    _texts(
        folder,
        {
            "m.benchmark": "v_a.ref,v_a.e1\n",
            "m.labels": "v_a.ref,v_a.e1\n0,1,2\n2,1,0\n",
            "m.results": "v_a.ref,v_a.e1\n0,1,2\n0.5,1,1e-3\n1,2,0\n0.75,2,Inf\n",
        },
    )
    return [folder]


def _read_matching(folder: Path) -> object:
    benchmark = read_matching(folder / "m.benchmark", _COUNTS)
    truth = matching_truth(benchmark, _COUNTS, folder / "m.labels")
    return [truth, read_matching_results(folder / "m.results", benchmark, _COUNTS)]


def _retrieval(root: Path) -> list[Path]:
    folder = root / "r"
    folder.mkdir()
    _texts(
        folder,
        {
            "r.benchmark": _POOL + "v_a.ref.0\nv_a.e1.2\n",
            "r.labels": _POOL + "v_a.ref.0,v_a.e1.0\nv_a.e1.2,v_a.ref.2\n",
            "r.results": _POOL + "v_a.ref.0,v_a.e1.0,i_b.ref.1\nv_a.e1.2,v_a.ref.2,i_b.ref.2\n",
        },
    )
    return [folder]


def _read_retrieval(folder: Path) -> object:
    benchmark = read_retrieval(folder / "r.benchmark", _COUNTS)
    relevant = retrieval_truth(benchmark, folder / "r.labels")
    check_relevant(folder / "r.labels", relevant, _COUNTS)
    return [relevant, read_retrieval_results(folder / "r.results", benchmark, _COUNTS, neighbours=3)]


def _results(root: Path) -> list[Path]:
    return _texts(
        root, {"a.results": "0.5\n1e-3\nInf\n", "b.results": "0.25,1\n3,0\n1.7976931348623157e308,1\n"}
    )


def _tables(root: Path) -> list[Path]:
    values = np.random.default_rng(1).normal(0, 1, (3, 4)).astype(np.float32)
    write_descriptors(root / "a.csv", values)
    return [root / "a.csv", *_texts(root, {"b.csv": "1;2.5\n-3e-5;nan\n", "c.desc": "1 2 3\n4 5 6\n"})]


def _task_csv(root: Path) -> list[Path]:
    return _texts(
        root,
        {
            "p.csv": "s1,t1,idx1,s2,t2,idx2\nv_a,0,1,v_a,5,2\ni_b,1,0,v_a,0,0\n",
            "q.csv": "s,idx\nv_a,0\ni_b,2\n",
        },
    )


def _read_task_csv(path: Path) -> object:
    return (read_pairs_csv if path.name == "p.csv" else read_patches_csv)(path, {"v_a": 3, "i_b": 3})


READERS = [
    Reader("pairs", _pairs, lambda p: read_patch_pairs(p, _COUNTS)),
    Reader("classification", _classification, lambda p: load_classification(p / "c.benchmark", _COUNTS)),
    Reader("benchmark", _benchmarks, _read_benchmark),
    Reader("matching", _matching, _read_matching),
    Reader("retrieval", _retrieval, _read_retrieval),
    Reader("results", _results, lambda p: read_distances(p, 3)),
    Reader("descriptor text", _tables, lambda p: [table_shape(p), read_descriptors(p)]),
    Reader("task csv", _task_csv, _read_task_csv),
]
