# SPDX-License-Identifier: BSD-3-Clause
"""Wrong inputs of the 2017 tasks as users hit them: found before any computation, all at once."""

import json
import shutil

import numpy as np
import pytest
from hpatches_world import IMAGES, LENGTHS, SPLITS, features_of, make_descriptors, make_world, run_task

from tiepoint.cli.commands.data import _given_files
from tiepoint.compat.hpatches_eval import _split
from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.datasets.hpatches.splits import official_lengths, official_splits
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store
from tiepoint.tasks.hpatches.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification.task import TASK as VERIFICATION

TASKS = (VERIFICATION, MATCHING, RETRIEVAL)


@pytest.fixture
def world(tmp_path):
    return make_world(tmp_path / "w")


def open_all(world, **options):
    return [t.open(world.data, {"tasks": world.tasks, **options}) for t in TASKS]


def write_csv(folder, delimiter=","):
    for key, values in make_descriptors("noisy").items():
        path = folder / f"{key}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, values, fmt="%.6f", delimiter=delimiter)
    return folder


def run_files(world, folder, tmp_path, task="hpatches/matching", query=""):
    with Store.open(tmp_path / "store") as store:
        request = RunRequest(f"files:{folder}{query}", task, world.data, (), {"tasks": str(world.tasks)})
        return evaluate(request, store)


@pytest.mark.parametrize("task", TASKS)
def test_missing_sequences_are_all_named(world, task):
    lengths = {k: v for k, v in LENGTHS.items() if k not in ("v_cat", "v_dog")}
    world.data.write_text(json.dumps(lengths))
    with pytest.raises(ProblemsError) as e:
        task.open(world.data, {"tasks": world.tasks, "split": "a"})
    text = str(e.value)
    assert "'v_cat'" in text
    assert "'v_dog'" in text
    assert "split 'a'" in text


def test_a_split_that_names_an_unknown_sequence(world):
    splits = SPLITS | {"mine": {"name": "mine", "test": ["v_cat", "v_cta", "i_be"]}}
    (world.tasks / "splits.json").write_text(json.dumps(splits))
    with pytest.raises(ProblemsError, match="did you mean 'v_cat'") as e:
        MATCHING.open(world.data, {"tasks": world.tasks, "split": "mine"})
    assert len(e.value.problems) == 2


def test_splits_where_the_published_tool_has_them(world):
    own = SPLITS | {"mine": {"name": "mine", "test": ["v_cat", "i_bee"]}}
    (world.tasks / "splits").mkdir()
    (world.tasks / "splits" / "splits.json").write_text(json.dumps(own))
    options = {"tasks": world.tasks, "split": "mine"}
    with pytest.raises(UnknownNameError, match="'mine'"):  # the file in the folder itself comes first
        MATCHING.open(world.data, options)
    (world.tasks / "splits.json").unlink()
    opened = MATCHING.open(world.data, options)
    assert {item.split("/")[0] for unit in opened.units for item in unit.items} == {"v_cat", "i_bee"}
    assert _given_files(world.tasks) == (world.tasks / "splits" / "splits.json", world.tasks)
    assert _split(world.tasks, "mine").test == ("v_cat", "i_bee")


@pytest.mark.parametrize("task", TASKS)
def test_an_unknown_split(world, task):
    with pytest.raises(UnknownNameError, match="'ful'; did you mean 'full'"):
        task.open(world.data, {"tasks": world.tasks, "split": "ful"})


def test_task_files_made_for_other_lengths(world):
    world.data.write_text(json.dumps(LENGTHS | {"i_bee": 4, "v_elk": 2}))
    with pytest.raises(ProblemsError, match="does not exist: the sequence has") as e:
        VERIFICATION.open(world.data, {"tasks": world.tasks})
    files = " ".join(e.value.problems)
    assert all(f"verif_{k}_split-full.csv" in files for k in ("pos", "neg_intra", "neg_inter"))
    with pytest.raises(ProblemsError, match="the file may belong to another dataset") as e:
        RETRIEVAL.open(world.data, {"tasks": world.tasks})
    assert len(e.value.problems) == 2


def test_half_of_the_task_files(world):
    (world.tasks / "verif_pos_split-full.csv").unlink()
    (world.tasks / "retr_queries_split-full.csv").unlink()
    for task, name in ((VERIFICATION, "verif_pos"), (RETRIEVAL, "retr_queries")):
        with pytest.raises(ProblemsError, match=f"but not {name}_split-full.csv"):
            task.open(world.data, {"tasks": world.tasks})


def test_lists_that_use_an_image_the_dataset_lacks(world):
    few = [m for m in IMAGES if not m.endswith("5")]
    world.data.write_text(json.dumps({"lengths": LENGTHS, "images": few}))
    with pytest.raises(ProblemsError, match="uses image 5"):
        VERIFICATION.open(world.data, {"tasks": world.tasks})


def test_clean_lists_contradict_files_of_another_kind(world):
    with pytest.raises(ProblemsError, match="are of an unknown kind, expected clean lists"):
        VERIFICATION.open(world.data, {"tasks": world.tasks, "lists": "clean"})
    files = {"files": {"verif_pos_split-full.csv": {"lists": "clean"}}}
    (world.tasks / "tasks.json").write_text(json.dumps(files))
    VERIFICATION.open(world.data, {"tasks": world.tasks, "lists": "clean"})


def test_options_that_do_not_exist(world):
    for task, key in ((MATCHING, "lists"), (RETRIEVAL, "sequences"), (VERIFICATION, "benchmark")):
        with pytest.raises(UnknownNameError, match=key):
            task.open(world.data, {key: "x"})
    with pytest.raises(InputError, match=r"unknown value of lists .*clean, official"):
        VERIFICATION.open(world.data, {"lists": "tidy"})
    with pytest.raises(InputError, match="does not exist"):
        MATCHING.open(world.data, {"tasks": world.root / "nowhere"})


def test_a_row_too_few_and_a_missing_file_are_reported_together(world, tmp_path):
    folder = write_csv(tmp_path / "desc")
    short = folder / "v_cat" / "h3.csv"
    short.write_text("\n".join(short.read_text().split("\n")[1:]))
    (folder / "i_ant" / "t2.csv").unlink()
    with pytest.raises(ProblemsError) as e:
        run_files(world, folder, tmp_path)
    assert any("v_cat/h3" in p and " 10 " in p and " 11 " in p for p in e.value.problems)
    assert any("i_ant/t2" in p and "missing" in p for p in e.value.problems)
    assert not list((tmp_path / "store" / "features").glob("*/*"))


def test_a_wrong_delimiter(world, tmp_path):
    folder = write_csv(tmp_path / "desc", delimiter=";")
    run_files(world, folder, tmp_path)
    with pytest.raises(InputError, match=r"separated by|column"):
        run_files(world, folder, tmp_path, query="?delimiter=,")
    one = folder / "v_dog" / "e1.csv"
    one.write_text(one.read_text().replace(";", ",", 3))
    with pytest.raises(ProblemsError, match="v_dog/e1 has 5 columns, but most files have 8"):
        run_files(world, folder, tmp_path)


def test_a_descriptor_folder_one_level_too_deep(world, tmp_path):
    write_csv(tmp_path / "outer" / "desc")
    with pytest.raises(InputError, match=r"one level deeper; use files:.*outer/desc"):
        run_files(world, tmp_path / "outer", tmp_path)
    (tmp_path / "top").mkdir()
    (tmp_path / "outer").rename(tmp_path / "top" / "outer")
    with pytest.raises(InputError, match=r"two levels deeper; use files:.*top/outer/desc"):
        run_files(world, tmp_path / "top", tmp_path)


def test_missing_descriptor_files_are_one_line_a_sequence(world, tmp_path):
    folder = write_csv(tmp_path / "desc")
    shutil.rmtree(folder / "v_dog")
    for image in ("e1", "t4"):
        (folder / "v_cat" / f"{image}.csv").unlink()
    with pytest.raises(ProblemsError) as e:
        run_files(world, folder, tmp_path)
    assert sorted(e.value.problems) == [
        "v_cat: e1, t4 are missing (.csv|.npy|.npz)",
        "v_dog: all its files are missing (ref to t5, .csv|.npy|.npz)",
    ]


def test_retrieval_without_patches_needs_files(world):
    with pytest.raises(ProblemsError, match=r"retr_queries_split-full\.csv and retr_distractors"):
        RETRIEVAL.open(world.data, {})


def test_without_a_name_the_split_is_full_or_everything(world, tmp_path):
    assert MATCHING.open(world.data, {}).setting.split.name == "full"
    lengths = official_lengths()
    some = {s: lengths[s] for s in official_splits()["a"].test[:5]}
    path = tmp_path / "some.json"
    path.write_text(json.dumps(some))
    opened = MATCHING.open(path, {})
    assert opened.setting.split.name == "all"
    assert len(opened.units) == 5
    assert any("`split`" in w for w in opened.warnings)
    with pytest.raises(
        ProblemsError, match=r"lacks 35 of the split's 40 sequences .* use the split 'all', which has all"
    ):
        MATCHING.open(path, {"split": "a"})
    path.write_text(json.dumps(some | {"v_wall": [1777, 1781]}))
    assert any("not known exactly: v_wall" in w for w in MATCHING.open(path, {}).warnings)


def test_a_published_split_for_a_dataset_of_ones_own(world):
    with pytest.raises(
        InputError, match=r"'b' is a published split .* known splits are all, full, illum, view"
    ):
        MATCHING.open(world.data, {"split": "b"})


def test_a_dataset_with_fewer_images_is_scored_with_what_it_has(world):
    few = ["ref", "e1", "e2", "h1", "h2"]
    world.data.write_text(json.dumps({"lengths": LENGTHS, "images": few}))
    opened = MATCHING.open(world.data, {})
    assert (opened.setting.noises, opened.setting.levels) == (("easy", "hard"), 2)
    assert any("2 images" in w for w in opened.warnings)
    features = features_of(make_descriptors("noisy"))
    records = [opened.compare(u, features, "reference") for u in opened.units]
    groups = {s.group for s in MATCHING.score(records, "exact")}
    assert "kind=v,noise=hard" in groups
    assert not any("tough" in g for g in groups)


def test_lists_are_drawn_for_a_dataset_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    for scene, n in {"v_x": 40, "i_y": 50, "v_z": 30}.items():
        for image in IMAGES:
            write_strip(tmp_path / "data" / scene / f"{image}.png", rng.integers(0, 255, (n, 9, 9), np.uint8))
    lengths = {"v_x": 40, "i_y": 50, "v_z": 30}
    features = features_of(make_descriptors("noisy", lengths=lengths))
    for task in TASKS:
        opened = task.open(tmp_path / "data", {})
        records = [opened.compare(u, features, "reference") for u in opened.units]
        assert task.score(records, "exact")
    official = VERIFICATION.open(tmp_path / "data", {})
    clean = VERIFICATION.open(tmp_path / "data", {"lists": "clean"})
    assert official.units[0].definition != clean.units[0].definition
    assert {i.key.split("/")[1] for i in clean.items} - {i.key.split("/")[1] for i in official.items} == {
        "e5", "h5", "t5"
    }  # fmt: skip


def test_block_size_and_threads_change_no_bit(world, monkeypatch):
    from tiepoint.kernels import set_threads
    from tiepoint.tasks.hpatches import data as v2_opened
    from tiepoint.tasks.hpatches.verification import compare as v2_verification_compare

    features = features_of(make_descriptors("noisy"))

    def bits():
        return [
            [r[c].tobytes() for c in sorted(r.columns)]
            for t in TASKS
            for r in run_task(t, world, features)[1]
        ]

    before = bits()
    monkeypatch.setattr(v2_opened, "SPARE_FILES", 1 << 40)  # as if no file could be opened
    assert bits() == before
    monkeypatch.setattr(v2_verification_compare, "BLOCK_BYTES", 700)
    set_threads(1)
    try:
        assert bits() == before
    finally:
        set_threads(None)


def test_float64_features_score_nearly_the_same(world):
    rng = np.random.default_rng(7)
    double = {k: v + 1e-8 * rng.normal(size=v.shape) for k, v in make_descriptors("noisy").items()}
    single = {k: v.astype(np.float32) for k, v in double.items()}
    for task in TASKS:
        a, b = (task.score(run_task(task, world, features_of(d))[1], "exact") for d in (single, double))
        assert max(abs(x.value - y.value) for x, y in zip(a, b, strict=True)) < 1e-4


def test_whole_numbers_are_kept_in_half_the_space(world):
    for kind, size in (("integer", 4), ("noisy", 8)):
        _, records = run_task(VERIFICATION, world, features_of(make_descriptors(kind)))
        assert records[0]["distance"].dtype.itemsize == size
