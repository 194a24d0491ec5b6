# SPDX-License-Identifier: BSD-3-Clause
"""The published definition files: read without complaint, written back byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.file_io import write_bytes
from tiepoint.formats.hpatches.patch_strip import read_strip
from tiepoint.formats.hpatches.task_lists import (
    patches_csv_chunks,
    read_patches_csv,
    read_splits,
    write_splits,
)
from tiepoint.formats.hpatches_v1 import definitions
from tiepoint.formats.hpatches_v1.classification import (
    load_classification,
    read_classification_labels,
    read_patch_pairs,
    same_patch,
    write_classification_labels,
    write_patch_pairs,
)
from tiepoint.formats.hpatches_v1.definitions import find_benchmarks
from tiepoint.formats.hpatches_v1.matching import matching_truth, write_matching_labels
from tiepoint.formats.hpatches_v1.retrieval import retrieval_truth, write_retrieval_labels

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
V1, V2 = DATA / "hpatches_v1", DATA / "hpatches_tasks"

pytestmark = pytest.mark.skipif(
    not V1.is_dir(), reason="the published files are not here (TIEPOINT_TEST_DATA)"
)


def same(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


@pytest.mark.parametrize("name", ["test_easy_pos", "test_hard_pos", "train_example_pos", "train_example_neg"])
def test_pairs(tmp_path, name):
    source = V1 / "classification" / f"{name}.pairs"
    pairs = read_patch_pairs(source)
    assert same_patch(pairs).all() == name.endswith("pos")
    write_patch_pairs(tmp_path / "x", pairs)
    assert same(tmp_path / "x", source)


def test_classification_example_and_labels(tmp_path):
    path = V1 / "classification" / "train_example.benchmark"
    loaded = load_classification(path)
    assert (loaded.sizes, int(loaded.labels.sum())) == ((1000, 2000), 1000)
    assert (same_patch(loaded.pairs) == loaded.labels).all()
    write_classification_labels(tmp_path / "x", loaded.labels)
    assert same(tmp_path / "x", path.with_suffix(".labels"))
    full = read_classification_labels(V1 / "classification" / "train_diffseq_easy.labels", 1_200_000)
    assert full[:200_000].all()
    assert not full[200_000:].any()
    with pytest.raises(FormatError, match="is not in"):
        definitions.read_classification(V1 / "classification" / "train_diffseq_easy.benchmark")


def test_matching(tmp_path):
    for path in find_benchmarks(V1, "matching"):
        b = definitions.read_matching(path)
        definitions.write_matching(tmp_path / "x", b.pairs)
        assert same(tmp_path / "x", path)
        if path.with_suffix(".labels").is_file():
            lines = path.with_suffix(".labels").read_bytes().splitlines()
            counts = {im: lines[3 * i + 1].count(b",") + 1 for i, pair in enumerate(b.pairs) for im in pair}
            truth = matching_truth(b, counts, path.with_suffix(".labels"))
            write_matching_labels(tmp_path / "y", b, truth)
            assert same(tmp_path / "y", path.with_suffix(".labels"))


def test_retrieval(tmp_path):
    for path in find_benchmarks(V1, "retrieval"):
        b = definitions.read_retrieval(path)
        definitions.write_retrieval(tmp_path / "x", b)
        assert same(tmp_path / "x", path)
        if path.with_suffix(".labels").is_file():
            truth = retrieval_truth(b, path.with_suffix(".labels"))
            assert truth.patches.ids() == retrieval_truth(b).patches.ids()
            write_retrieval_labels(tmp_path / "y", b, truth)
            assert same(tmp_path / "y", path.with_suffix(".labels"))


def test_second_generation_files(tmp_path):
    splits = read_splits(V2 / "splits.json")
    assert {name: len(s.test) for name, s in splits.items()} == {
        "a": 40, "b": 40, "c": 40, "illum": 57, "view": 59, "full": 116,
    }  # fmt: skip
    assert [name for name, s in splits.items() if s.train is None] == ["illum", "full", "view"]
    write_splits(tmp_path / "x", splits)
    assert same(tmp_path / "x", V2 / "splits.json")
    for path in sorted(V2.glob("retr_*.csv")):
        write_bytes(tmp_path / "y", patches_csv_chunks(read_patches_csv(path)))
        assert same(tmp_path / "y", path)


def test_genuine_strip():
    assert read_strip(DATA / "patches" / "v_graffiti" / "ref.png").shape == (1123, 65, 65)
