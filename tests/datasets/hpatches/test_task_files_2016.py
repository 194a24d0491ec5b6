# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import filecmp

import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.hpatches.sampling_2016 import PatchSpace, draw_pairs
from tiepoint.datasets.hpatches.task_files_2016 import V1Sizes, high_contrast_indices, write_v1_tasks
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.hpatches_v1 import definitions as benchmarks
from tiepoint.formats.hpatches_v1.classification import load_classification, read_patch_pairs, same_patch
from tiepoint.formats.hpatches_v1.definitions import find_benchmarks
from tiepoint.formats.hpatches_v1.matching import matching_truth
from tiepoint.formats.hpatches_v1.retrieval import retrieval_truth

V1_IMAGES = ["ref", *(f"{z}{k}" for z in "eh" for k in range(1, 6))]


def lengths_data(n_i=4, n_v=3):
    lengths = {f"i_s{i}": 30 + 7 * i for i in range(n_i)} | {f"v_s{i}": 25 + i for i in range(n_v)}
    return HPatchesDataset.from_lengths(lengths, V1_IMAGES)


@pytest.mark.parametrize("kind", ["pos", "sameseq", "diffseq"])
def test_drawn_pairs_are_distinct_and_of_their_kind(kind):
    space = PatchSpace(("a", "b", "c"), np.array([5, 8, 2]), 3)
    size = space.available(kind)  # all of them: only then must every single pair turn up
    pairs = draw_pairs(space, kind, size, ["ref", "e1", "e2"], np.random.default_rng(0))
    ids = {frozenset(x) for x in zip(pairs.a.ids(), pairs.b.ids(), strict=True)}
    assert len(ids) == size
    for a, b in map(tuple, ids):
        (sa, ma, ia), (sb, mb, ib) = a.split("."), b.split(".")
        assert ma != mb
        assert (sa == sb) == (kind != "diffseq")
        assert (sa == sb and ia == ib) == (kind == "pos")
    with pytest.raises(InputError, match="the dataset has"):
        draw_pairs(space, kind, size + 1, ["ref", "e1", "e2"], np.random.default_rng(0))


def test_sequences_and_images_are_drawn_uniformly():
    space = PatchSpace(("a", "b"), np.array([300, 3000]), 6)
    pairs = draw_pairs(space, "pos", 2000, ["ref", "e1", "e2", "e3", "e4", "e5"], np.random.default_rng(1))
    share = np.bincount(pairs.image_a // 6) / 2000
    assert abs(share[0] - 0.5) < 0.06
    assert np.bincount(pairs.image_b % 6, minlength=6).min() > 250


def test_all_files_are_there_and_valid(tmp_path):
    data = lengths_data()
    report = write_v1_tasks(data, tmp_path)
    names = {task: {p.stem for p in find_benchmarks(tmp_path, task)} for task in benchmarks.TASKS}
    assert names["classification"] == {
        f"all_{k}_{z}" for k in ("diffseq", "sameseq") for z in ("easy", "hard")
    }
    assert names["matching"] == {f"all_{z}_{k}" for k in ("illum", "viewpoint") for z in ("easy", "hard")}
    assert names["retrieval"] == {
        "all_easy_5s_0", "all_hard_5s_0", "all_easy_7s_0", "all_hard_7s_0",
    }  # fmt: skip
    total = sum(data.lengths.values())
    for path in find_benchmarks(tmp_path, "classification"):
        loaded = load_classification(path, data.counts)
        assert loaded.sizes == (3 * total, 15 * total)
        assert np.array_equal(loaded.labels, same_patch(loaded.pairs))
        assert report.rows[f"classification/{path.name}"] == 18 * total
    for path in find_benchmarks(tmp_path, "matching"):
        benchmark = benchmarks.read_matching(path, data.counts)
        assert len(benchmark.pairs) == 5 * (4 if "illum" in path.stem else 3)
        matching_truth(benchmark, data.counts, path.with_suffix(".labels"))
    for path in find_benchmarks(tmp_path, "retrieval"):
        benchmark = benchmarks.read_retrieval(path, data.counts)
        letter = path.stem.split("_")[1][0]
        assert {name.split(".")[1] for name in benchmark.pool} == {
            "ref",
            *(f"{letter}{k}" for k in range(1, 6)),
        }
        assert all(".ref." in q for q in benchmark.queries.ids())
        truth = retrieval_truth(benchmark, path.with_suffix(".labels"))
        assert (np.diff(truth.offsets) == 5).all()
    assert any("not filtered by contrast" in note for note in report.notes)
    easy, hard = (
        read_patch_pairs(tmp_path / "classification" / f"all_{z}_pos.pairs") for z in ("easy", "hard")
    )
    assert [i.replace(".e", ".h") for i in easy.a.ids()] == hard.a.ids()


def test_draws_are_repeatable_and_depend_on_the_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_v1_tasks(lengths_data(), tmp_path / name, seed=seed, sizes=V1Sizes(positives=50, negatives=80))
    files = [str(p.relative_to(tmp_path / "a")) for p in (tmp_path / "a").rglob("*.*")]
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", files, shallow=False)[1:] == ([], [])
    drawn = [f for f in files if f.endswith(".pairs") or "5s" in f]
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "c", drawn, shallow=False)[0] == []


def test_sets_follow_the_test_list_and_queries_need_contrast(tmp_path):
    rng = np.random.default_rng(0)
    for s in ("i_a", "v_b", "v_c"):
        for m in ("ref", "e1", "e2"):
            patches = rng.integers(0, 256, (12, 9, 9)).astype(np.uint8)
            patches[::2] = 100
            write_strip(tmp_path / "set" / s / f"{m}.png", patches)
    (tmp_path / "set" / "test_set.txt").write_text("some/where/v_c\n")
    data = HPatchesDataset(tmp_path / "set")
    report = write_v1_tasks(data, tmp_path / "tasks")
    assert {p.stem for p in find_benchmarks(tmp_path / "tasks", "matching")} == {
        "train_easy_illum", "train_easy_viewpoint", "test_easy_viewpoint",
    }  # fmt: skip
    assert any("no diffseq negatives" in note for note in report.notes)
    benchmark = benchmarks.read_retrieval(tmp_path / "tasks" / "retrieval" / "train_easy_2s_0.benchmark")
    assert len(benchmark.queries) == 12
    assert (benchmark.queries.index % 2 == 1).all()
    (tmp_path / "set" / "test_set.txt").write_text("v_x\n")
    with pytest.raises(ProblemsError, match="unknown sequence 'v_x'"):
        write_v1_tasks(data, tmp_path / "tasks")


def test_contrast_is_the_standard_deviation():
    patches = np.random.default_rng(0).integers(90, 140, (700, 5, 5)).astype(np.uint8)
    expected = [i for i, p in enumerate(patches) if p.astype(float).std() > 14]
    assert high_contrast_indices(patches, 14).tolist() == expected


def test_a_dataset_without_noise_levels_is_refused():
    with pytest.raises(InputError, match="easy or hard"):
        write_v1_tasks(HPatchesDataset.from_lengths({"i_a": 3}, ["ref"]), "nowhere")
