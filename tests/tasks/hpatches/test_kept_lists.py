# SPDX-License-Identifier: BSD-3-Clause
"""Lists that were drawn or parsed are kept in the store: read again, checked by hash, never trusted."""

import json

import numpy as np
import pytest
from hpatches_world import features_of, make_descriptors, make_world

from tiepoint.core.array_cache import array_cache_folder, cached_arrays, use_array_cache_folder
from tiepoint.core.errors import ProblemsError
from tiepoint.datasets.hpatches import sampling_2017
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.store.atomic_files import atomic_file
from tiepoint.store.store import Store
from tiepoint.tasks.hpatches import pair_lists as lists_module
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification.task import TASK as VERIFICATION


@pytest.fixture
def world(tmp_path):
    return make_world(tmp_path / "w")


@pytest.fixture
def folder(tmp_path):
    """A folder that arrays are kept in."""
    (tmp_path / "store").mkdir()
    use_array_cache_folder(tmp_path / "store" / "lists", atomic_file)
    yield tmp_path / "store" / "lists"
    use_array_cache_folder(None)


def columns_of(lists):
    tables = lists if isinstance(lists, tuple) else (lists.pos, lists.intra, lists.inter)
    return [
        (name, value if isinstance(value, tuple) else (value.dtype.str, value.tolist()))
        for t in tables
        for name, value in vars(t).items()
    ]


def records_of(opened):
    features = features_of(make_descriptors("noisy"))
    found = [opened.compare(u, features, "reference") for u in opened.units]
    return [{name: (x.dtype.str, x.tolist()) for name, x in r.columns.items()} | dict(r.meta) for r in found]


@pytest.mark.parametrize("given", ["files", "drawn"])
def test_kept_lists_and_plans_give_the_same_records(world, folder, monkeypatch, given):
    options = {"tasks": world.tasks} if given == "files" else {}
    use_array_cache_folder(None)
    plain = VERIFICATION.open(world.data, options)
    wanted, lists = records_of(plain), columns_of(plain.content.lists)
    use_array_cache_folder(folder, atomic_file)
    assert records_of(VERIFICATION.open(world.data, options)) == wanted
    assert {p.name.split("-")[0] for p in folder.iterdir()} == {
        "plan",
        given if given == "files" else "pairs",
    }

    def never(*_args, **_kwargs):
        raise AssertionError("made again")

    monkeypatch.setattr(lists_module, "draw_verification", never)
    monkeypatch.setattr(lists_module, "read_pairs_csv", never)
    again = VERIFICATION.open(world.data, options)
    assert records_of(again) == wanted
    assert columns_of(again.content.lists) == lists


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "text"])
def test_a_damaged_file_is_made_anew(folder, damage):
    made = []

    def make(value):
        made.append(value)
        return {"x": np.arange(value), "y": np.zeros((0, 2), np.uint8)}

    cached_arrays("numbers", [3], lambda: make(3))
    cached_arrays("numbers", [4], lambda: make(4))
    three, four = (
        next(p for p in folder.iterdir() if json.loads(p.read_bytes().split(b"\n")[1])["arrays"][0][2] == [n])
        for n in (3, 4)
    )
    data = three.read_bytes()
    flipped = bytearray(data)
    flipped[-65] ^= 1
    three.write_bytes(
        {
            "cut": data[:-7],
            "flip": bytes(flipped),
            "empty": b"",
            "other": four.read_bytes(),
            "text": b"\n" * 200,
        }[damage]
    )
    found = cached_arrays("numbers", [3], lambda: make(3))
    assert made == [3, 4, 3]
    assert (found["x"].tolist(), found["y"].shape) == ([0, 1, 2], (0, 2))
    assert three.read_bytes() == data
    assert cached_arrays("numbers", [3], lambda: make(3))["x"].tolist() == [0, 1, 2]
    assert made == [3, 4, 3]


def test_changed_files_and_lengths_are_read_again_and_wrong_ones_never_kept(world, folder):
    VERIFICATION.open(world.data, {"tasks": world.tasks})
    path = next(world.tasks.glob("verif_pos_split-full.csv"))
    text = path.read_text().splitlines()
    first = text[1].split(",")
    path.write_text("\n".join([text[0], *text[2:], ",".join(first)]) + "\n")
    opened = VERIFICATION.open(world.data, {"tasks": world.tasks})
    pos = opened.content.lists.pos
    assert [pos.sequences[pos.seq1[-1]], str(pos.index1[-1])] == [first[0], first[2]]
    count = len(list(folder.iterdir()))
    path.write_text("\n".join([text[0], "v_cat,0,99,v_cat,1,99"]) + "\n")
    for _ in range(2):
        with pytest.raises(ProblemsError, match="99"):
            VERIFICATION.open(world.data, {"tasks": world.tasks})
    assert len(list(folder.iterdir())) == count


def test_drawn_retrieval_lists_follow_the_pixels(tmp_path, folder, monkeypatch):
    rng = np.random.default_rng(0)
    for s in ("i_a", "v_b"):
        for m in ("ref", "e1"):
            write_strip(tmp_path / "d" / s / f"{m}.png", rng.integers(0, 256, (12, 65, 65)).astype(np.uint8))
    first = columns_of(RETRIEVAL.open(tmp_path / "d", {}).content.lists)
    drawn = []
    draw = sampling_2017.draw_retrieval_lists
    task_files = "tiepoint.datasets.hpatches.task_files_2017.draw_retrieval_lists"
    monkeypatch.setattr(task_files, lambda *a, **k: drawn.append(1) or draw(*a, **k))
    assert columns_of(RETRIEVAL.open(tmp_path / "d", {}).content.lists) == first
    assert not drawn
    flat = np.zeros((12, 65, 65), np.uint8)
    write_strip(tmp_path / "d" / "v_b" / "ref.png", flat)
    queries, distractors = RETRIEVAL.open(tmp_path / "d", {}).content.lists
    assert drawn
    assert {t.sequences[i] for t in (queries, distractors) for i in t.seq} == {"i_a"}


def test_a_store_keeps_lists_while_it_is_open_and_one_that_is_read_writes_none(world, tmp_path):
    where = tmp_path / "store"
    with Store.open(where):
        assert array_cache_folder() == where / "lists"
        VERIFICATION.open(world.data, {"tasks": world.tasks})
    assert array_cache_folder() is None
    found = {p.name for p in (where / "lists").iterdir()}
    assert len(found) == 1
    with Store.open(where, mode="read"):
        VERIFICATION.open(world.data, {"tasks": world.tasks, "split": "a"})
    assert {p.name for p in (where / "lists").iterdir()} == found


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    use_array_cache_folder(blocked / "lists", atomic_file)
    try:
        assert cached_arrays("numbers", 1, lambda: {"x": np.arange(2)})["x"].tolist() == [0, 1]
    finally:
        use_array_cache_folder(None)
