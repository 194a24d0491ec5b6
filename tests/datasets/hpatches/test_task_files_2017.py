# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.hpatches.sampling_2017 import (
    LegacyStream,
    draw_clean,
    draw_retrieval_lists,
    draw_verification,
    list_facts,
)
from tiepoint.datasets.hpatches.splits import (
    git_blob_sha1,
    official_lengths,
    official_sha1,
    official_splits,
    open_lengths,
    scene_groups,
)
from tiepoint.datasets.hpatches.task_files_2017 import write_v2_tasks
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.hpatches.task_lists import (
    Split,
    pairs_csv_chunks,
    patches_csv_chunks,
    read_pairs_csv,
    read_patches_csv,
    read_splits,
)

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
TASKS = DATA / "hpatches_tasks"
needs_tasks = pytest.mark.skipif(not TASKS.is_dir(), reason="the published task files are not here")

PUBLISHED = HPatchesDataset.from_lengths(official_lengths(), unsure=open_lengths())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 3000), min_size=1, max_size=40))
def test_the_stream_is_numpys(seed, sizes):
    stream, state = LegacyStream(seed), np.random.RandomState(seed)
    tops = np.array(sizes)
    for _ in range(2):
        assert stream.integers(tops).tolist() == [state.randint(n) for n in sizes]
        first, second = stream.first_two(tops + 1)
        expected = [state.permutation(n + 1)[:2].tolist() for n in sizes]
        assert np.stack([first, second], axis=1).tolist() == expected


def test_two_patches_are_needed():
    with pytest.raises(InputError, match="only one patch"):
        LegacyStream(0).first_two(np.array([5, 1]))


def test_verification_is_the_recipe_written_out():
    test, lengths, n = ["a", "b", "c"], {"a": 20, "b": 3, "c": 50}, 300
    lists = draw_verification(test, lengths, rows=n)
    rs = np.random.RandomState(42)
    s = rs.randint(3, size=n)
    i = [rs.permutation(lengths[test[k]])[:2] for k in s]
    t = [rs.permutation(5)[:2] for _ in range(n)]
    other = rs.randint(3, size=n)
    last = [rs.randint(lengths[test[k]]) for k in other]
    for r in range(n):
        anchor = (s[r], t[r][0], i[r][0])
        for table, second in (
            (lists.pos, (s[r], t[r][1], i[r][0])),
            (lists.intra, (s[r], t[r][1], i[r][1])),
            (lists.inter, (other[r], t[r][1], last[r])),
        ):
            assert (table.seq1[r], table.image1[r], table.index1[r]) == anchor
            assert (table.seq2[r], table.image2[r], table.index2[r]) == second


@pytest.mark.slow
def test_split_b_is_the_published_one():
    """The published pairs of a split, without any image, and what the report says against them."""
    split = official_splits()["b"]
    lists = draw_verification(split.test, official_lengths())
    for table, name in ((lists.pos, "pos"), (lists.intra, "neg_intra"), (lists.inter, "neg_inter")):
        assert git_blob_sha1(pairs_csv_chunks(table)) == official_sha1(f"verif_{name}_split-b.csv")
    assert list_facts(lists) == {
        "rows": 1_000_000,
        "repeated_rows_pos": 418_707,
        "repeated_rows_intra": 1014,
        "repeated_rows_inter": 20,
        "distinct_positive_pairs": 397_414,
        "inter_rows_of_one_sequence": 25_132,
        "inter_rows_of_one_patch": 28,
        "inter_rows_of_one_scene": 0,
        "images_used": 5,
    }


def test_clean_lists_have_none_of_the_traps():
    lengths = {"a": 40, "b": 30, "c": 3}
    lists = draw_clean(list(lengths), lengths)
    facts = list_facts(lists)
    rows = facts.pop("rows")
    assert rows == 73 * 15 // 2
    assert facts == {
        "repeated_rows_pos": 0,
        "repeated_rows_intra": 0,
        "repeated_rows_inter": 0,
        "distinct_positive_pairs": rows,
        "inter_rows_of_one_sequence": 0,
        "inter_rows_of_one_patch": 0,
        "inter_rows_of_one_scene": 0,
        "images_used": 6,
    }
    assert (lists.pos.index1 == lists.pos.index2).all()
    assert (lists.intra.seq1 == lists.intra.seq2).all()
    assert (lists.intra.index1 != lists.intra.index2).all()
    assert np.array_equal(draw_clean(list(lengths), lengths).pos.index1, lists.pos.index1)
    assert not np.array_equal(draw_clean(list(lengths), lengths, seed=1).pos.index1, lists.pos.index1)


def test_facts_of_a_small_list_by_hand():
    lists = draw_verification(["a", "b"], {"a": 2, "b": 2}, rows=60)
    facts = list_facts(lists)
    table = lists.inter
    rows = list(
        zip(table.seq1, table.image1, table.index1, table.seq2, table.image2, table.index2, strict=True)
    )
    assert facts["repeated_rows_inter"] == 60 - len(set(rows))
    assert facts["inter_rows_of_one_sequence"] == sum(r[0] == r[3] for r in rows)
    assert facts["inter_rows_of_one_patch"] == sum(r[0] == r[3] and r[2] == r[5] for r in rows)
    pos = lists.pos
    ends = zip(pos.seq1, pos.image1, pos.index1, pos.image2, strict=True)
    assert facts["distinct_positive_pairs"] == len({(s, i, frozenset((a, b))) for s, a, i, b in ends})


@needs_tasks
@pytest.mark.parametrize("name", ["a", "illum"])
def test_retrieval_lists_are_the_published_ones(name):
    """The pixels are not here, but the lists tell which of the patches drawn lacked contrast."""
    split, lengths = official_splits()[name], official_lengths()
    published = []
    for kind in ("queries", "distractors"):
        table = read_patches_csv(TASKS / f"retr_{kind}_split-{name}.csv", lengths)
        published.append([(table.sequences[s], int(i)) for s, i in zip(table.seq, table.index, strict=True)])
    kept = set(published[0]) | set(published[1])
    usable = {s: np.ones(n, bool) for s, n in lengths.items()}
    rs = np.random.RandomState(42)
    for rows, draws in zip(published, (40_000, 200_000), strict=True):
        seq = rs.randint(len(split.test), size=draws)
        drawn = [(split.test[k], rs.randint(lengths[split.test[k]])) for k in seq]
        for s, i in drawn[: drawn.index(rows[-1])]:
            usable[s][i] &= (s, i) in kept
    lists = draw_retrieval_lists(split.test, lengths, usable)
    for table, kind in zip(lists, ("queries", "distractors"), strict=True):
        assert git_blob_sha1(patches_csv_chunks(table)) == official_sha1(f"retr_{kind}_split-{name}.csv")


def test_retrieval_recipe_written_out():
    test, lengths = ["a", "b"], {"a": 60, "b": 90}
    rng = np.random.default_rng(3)
    usable = {s: rng.random(n) < 0.7 for s, n in lengths.items()}
    queries, distractors = draw_retrieval_lists(test, lengths, usable, queries=15, distractors=30)
    rs = np.random.RandomState(42)
    lists = []
    for size, draws in ((15, 60), (30, 300)):
        s = rs.randint(2, size=draws)
        rows = [(test[k], rs.randint(lengths[test[k]])) for k in s]
        rows = list(dict.fromkeys(r for r in rows if usable[r[0]][r[1]]))
        lists.append([r for r in rows if not lists or r not in lists[0]][:size])
    for table, expected in zip((queries, distractors), lists, strict=True):
        assert [(table.sequences[s], int(i)) for s, i in zip(table.seq, table.index, strict=True)] == expected


@needs_tasks
def test_our_split_lists_are_the_published_ones():
    assert official_splits() == read_splits(TASKS / "splits.json")
    for path in TASKS.glob("retr_*.csv"):
        assert git_blob_sha1([path.read_bytes()]) == official_sha1(path.name)


def test_known_lengths():
    known, unsure = official_lengths(), open_lengths()
    assert len(known) + len(unsure) == 116
    splits = official_splits()
    assert set(splits["full"].test) == set(known) | set(unsure)
    for name in ("a", "b", "c", "illum"):
        assert set(splits[name].test) <= set(known)
    assert all(low < high for low, high in unsure.values())


def make_strips(root, lengths):
    rng = np.random.default_rng(0)
    for s, n in lengths.items():
        for m in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
            patches = rng.integers(0, 256, (n, 7, 7)).astype(np.uint8)
            patches[0] = 9
            write_strip(root / s / f"{m}.png", patches)
    return HPatchesDataset(root)


def test_files_of_ones_own_dataset(tmp_path):
    lengths = {"i_a": 30, "i_b": 20, "v_c": 25}
    data = make_strips(tmp_path / "set", lengths)
    steps = []
    report = write_v2_tasks(data, tmp_path / "t", progress=steps.append)
    splits = read_splits(tmp_path / "t" / "splits.json")
    assert {n: s.test for n, s in splits.items()} == {"full": ("i_a", "i_b", "v_c"), "illum": ("i_a", "i_b")}
    assert len(steps) == 4
    pairs = read_pairs_csv(tmp_path / "t" / "verif_neg_inter_split-full.csv", lengths)
    assert len(pairs) == 750
    queries = read_patches_csv(tmp_path / "t" / "retr_queries_split-full.csv", lengths)
    distractors = read_patches_csv(tmp_path / "t" / "retr_distractors_split-full.csv", lengths)
    assert len(queries) == 24  # a third of 72: patch 0 of each sequence has no contrast
    assert 40 <= len(distractors) <= 48
    assert (queries.index > 0).all()
    assert json.loads((tmp_path / "t" / "tasks.json").read_text())["files"] == report.files
    assert not any(f["published"] for f in report.files.values())
    again = write_v2_tasks(data, tmp_path / "u")
    assert again.files == report.files


def test_clean_files_say_what_changed(tmp_path):
    data = HPatchesDataset.from_lengths({"i_a": 30, "i_b": 20, "v_c": 25})
    report = write_v2_tasks(data, tmp_path, names=["full"], lists="clean")
    assert report.facts["full"]["clean"]["inter_rows_of_one_sequence"] == 0
    assert report.facts["full"]["official"]["inter_rows_of_one_sequence"] > 0
    note = next(n for n in report.notes if "clean lists" in n)
    assert "images used 5 -> 6" in note
    assert any("no retrieval lists" in n for n in report.notes)
    with pytest.raises(InputError, match="did you mean 'clean'"):
        write_v2_tasks(data, tmp_path, lists="clena")


def test_other_lengths_are_told(tmp_path):
    split = official_splits()["a"]
    data = HPatchesDataset.from_lengths(dict.fromkeys(split.test, 50))
    report = write_v2_tasks(data, tmp_path, names=["a"], rows=2000)
    assert "differ from the published files (the row count was changed)" in report.notes[0]
    assert not report.files["verif_pos_split-a.csv"]["published"]


def test_splits_that_cannot_be_made(tmp_path):
    with pytest.raises(ProblemsError) as e:
        write_v2_tasks(PUBLISHED, tmp_path, names=["view"])
    (problem,) = e.value.problems
    assert problem.startswith("split 'view': the number of patches of v_")
    assert all(f"{s} ({low} to {high})" in problem for s, (low, high) in open_lengths().items())
    for lengths in (PUBLISHED, HPatchesDataset.from_lengths(official_lengths())):
        with pytest.raises(UnknownNameError, match=r"'z'\. Known: a, all, b, c, full, illum, view"):
            write_v2_tasks(lengths, tmp_path, names=["z"])
    data = HPatchesDataset.from_lengths({"i_a": 30, "i_b": 20})
    with pytest.raises(
        InputError, match=r"split 'a' is a published split .* known splits are all, full, illum"
    ):
        write_v2_tasks(data, tmp_path, names=["a"])
    (tmp_path / "splits.json").write_text('{"mine": {"test": ["i_a", "i_x"]}}')
    with pytest.raises(ProblemsError, match="split 'mine': unknown sequence 'i_x'"):
        write_v2_tasks(data, tmp_path, splits=tmp_path / "splits.json")
    with pytest.raises(InputError, match="two sequences"):
        write_v2_tasks(HPatchesDataset.from_lengths({"i_a": 30}), tmp_path)
    twins = HPatchesDataset.from_lengths({"i_objects": 30, "i_table": 30})
    with pytest.raises(ProblemsError, match="split 'all' is a single scene"):
        write_v2_tasks(twins, tmp_path, lists="clean")


def test_part_of_the_release_has_its_own_name_and_not_that_of_a_published_split(tmp_path):
    some = dict.fromkeys(official_splits()["a"].test[:3], 20)
    data = HPatchesDataset.from_lengths(some, unsure={"v_wall": (3, 4)})
    report = write_v2_tasks(data, tmp_path)
    assert list(read_splits(tmp_path / "splits.json")) == ["all"]
    assert "no published split is complete; writing the split 'all' of 3 sequences" in report.notes
    assert any("not known exactly: v_wall" in n for n in report.notes)
    assert write_v2_tasks(data, tmp_path, names=["all"]).files == report.files
    with pytest.raises(ProblemsError, match="lacks 112 of the split's 116 sequences") as e:
        write_v2_tasks(data, tmp_path, names=["full"])
    assert len(e.value.problems) == 2


def test_sequences_of_one_scene_are_not_paired_in_clean_lists(tmp_path):
    lengths = {"i_objects": 30, "v_c": 20, "i_table": 30}
    scenes = [("i_objects", "i_table")]
    drawn = draw_clean(list(lengths), lengths)
    assert list_facts(drawn, scenes)["inter_rows_of_one_scene"] > 0
    clean = draw_clean(list(lengths), lengths, same_scene=scenes)
    facts = list_facts(clean, scenes)
    assert facts["inter_rows_of_one_scene"] == facts["inter_rows_of_one_sequence"] == 0
    assert facts["rows"] == list_facts(drawn)["rows"]
    assert np.array_equal(clean.pos.index1, drawn.pos.index1)
    report = write_v2_tasks(HPatchesDataset.from_lengths(lengths), tmp_path, lists="clean")
    assert any("inter rows of one scene" in n and "-> 0" in n for n in report.notes)


def test_equal_strips_are_one_scene(tmp_path):
    make_strips(tmp_path / "set", {"i_a": 30, "i_b": 20})
    shutil.copytree(tmp_path / "set" / "i_b", tmp_path / "set" / "i_c")
    data = HPatchesDataset(tmp_path / "set")
    assert scene_groups(data, Split("x", ("i_c", "i_a", "i_b"))) == [("i_c", "i_b")]
    report = write_v2_tasks(data, tmp_path / "t", names=["full"], lists="clean")
    assert report.facts["full"]["official"]["inter_rows_of_one_scene"] > 0
    assert report.facts["full"]["clean"]["inter_rows_of_one_scene"] == 0


def test_the_lists_of_one_scene_are_another_definition(tmp_path):
    from tiepoint.tasks.hpatches.verification.task import TASK

    def definition(names, **options):
        path = tmp_path / "l.json"
        path.write_text(json.dumps(dict.fromkeys(names, 30)))
        return TASK.open(path, {"split": "all", **options}).content

    twins = definition(["i_objects", "v_c", "i_table"], lists="clean")
    facts = list_facts(twins.lists, [("i_objects", "i_table")])
    assert facts["inter_rows_of_one_scene"] == 0
    without = replace(twins)
    without.__dict__["same_scene"] = []
    assert twins.definition != without.definition


def test_retrieval_files_are_looked_at_before_anything_is_written(tmp_path):
    lengths = {"i_a": 30, "i_b": 20, "v_c": 25, "v_d": 9}
    data, given, out = HPatchesDataset.from_lengths(lengths), tmp_path / "tk", tmp_path / "out"
    given.mkdir()
    (given / "retr_queries_split-full.csv").write_text("s,idx\ni_a,1\n")
    (given / "retr_queries_split-view.csv").write_text("s,idx\nv_c,25\n")
    (given / "retr_distractors_split-view.csv").write_text("s,idx\nv_q,2\n")
    with pytest.raises(ProblemsError) as e:
        write_v2_tasks(data, out, retrieval=given)
    assert len(e.value.problems) == 3
    assert "has retr_queries_split-full.csv but not retr_distractors_split-full.csv" in e.value.problems[0]
    assert not out.exists()
    (given / "retr_distractors_split-full.csv").write_text("s,idx\ni_b,3\n")
    report = write_v2_tasks(data, out, names=["full", "illum"], retrieval=given)
    assert report.files["retr_distractors_split-full.csv"]["rows"] == 1
    assert "verif_pos_split-illum.csv" in report.files
    note = next(n for n in report.notes if n.startswith("split illum: no retrieval lists"))
    assert "retr_queries_split-illum.csv and retr_distractors_split-illum.csv" in note
    strips = make_strips(tmp_path / "set", lengths)
    report = write_v2_tasks(strips, out, names=["full", "illum"], retrieval=given)
    assert report.files["retr_queries_split-full.csv"]["rows"] == 1
    assert report.files["retr_queries_split-illum.csv"]["rows"] > 1


@needs_tasks
def test_retrieval_files_of_the_user_are_taken(tmp_path):
    report = write_v2_tasks(PUBLISHED, tmp_path, names=["a"], retrieval=TASKS, rows=1000)
    assert report.files["retr_queries_split-a.csv"]["published"]
    assert (tmp_path / "retr_queries_split-a.csv").read_bytes() == (
        TASKS / "retr_queries_split-a.csv"
    ).read_bytes()
