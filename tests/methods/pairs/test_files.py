# SPDX-License-Identifier: BSD-3-Clause
"""Matches that other programs wrote: every layout gives the same points; what is wrong is one sentence."""

from __future__ import annotations

import sys

import h5py
import match_world as w
import numpy as np
import pandas as pd
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import ImageFacts, Item
from tiepoint.formats.matches.native import write_matches
from tiepoint.methods.resolve import resolve


def method(folder, query=""):
    return resolve(f"files:{folder}{query}", family="pairs")


def points(folder, query="", items=None):
    found = method(folder, query)
    found.check(items or w.items())
    return [found.extract(item, None) for item in items or w.items()]


def same(given, wanted, atol=1e-9):
    for a, b in zip(given, wanted, strict=True):
        for name in ("points0", "points1", "confidence"):
            order = [np.lexsort(x["points0"].T) for x in (a, b)]
            np.testing.assert_allclose(a[name][order[0]], b[name][order[1]], rtol=0, atol=atol)


@pytest.fixture
def own(tmp_path):
    return points(w.write_own(tmp_path / "own", w.world()))


def test_float64_matches_of_every_layout_are_those_of_our_npz(tmp_path, own):
    pairs = w.world()
    same(points(w.write_hloc(tmp_path / "hloc", pairs)), own)
    same(points(w.write_glue_factory(tmp_path / "gf", pairs)), own)
    same(points(w.write_superglue(tmp_path / "sg", pairs), "?resize=640x480"), own)
    same(points(w.write_loftr(tmp_path / "loftr", pairs), "?resize=none"), own)


def test_in_the_precision_of_the_tools_they_are_our_npz_of_the_rounded_points(tmp_path):
    pairs = w.world()
    half = points(w.write_own(tmp_path / "f16", pairs, np.float16))
    single = points(w.write_own(tmp_path / "f32", pairs, np.float32))
    same(points(w.write_hloc(tmp_path / "hloc", pairs, np.float16)), half, atol=0)
    same(points(w.write_glue_factory(tmp_path / "gf", pairs, np.float32)), single, atol=0)
    dump = points(w.write_superglue(tmp_path / "sg", pairs, np.float32), "?resize=640x480")
    scale = np.array([640, 480]) / np.array(w.SIZE)
    for (_, pair), found in zip(pairs.items(), dump, strict=True):
        rounded = (w.matched(pair)[0] * scale).astype(np.float32).astype(np.float64) / scale
        np.testing.assert_array_equal(found["points0"], rounded)


@pytest.mark.parametrize("joint", ["/", "_"])
@pytest.mark.parametrize("reverse", [False, True])
def test_hloc_pairs_of_either_naming_and_direction(tmp_path, own, joint, reverse):
    same(points(w.write_hloc(tmp_path / "h", w.world(), joint=joint, reverse=reverse)), own)


def test_keypoint_counts_are_kept_and_turned_with_the_pair(tmp_path):
    pairs = w.world()
    first, second = w.NAMES[0]
    extra = np.vstack([pairs[first, second].keypoints[1], [[1.0, 1.0]]])
    pairs = {
        (first, second): w.Indexed((pairs[first, second].keypoints[0], extra), *_parts(pairs[first, second]))
    }
    found = points(w.write_hloc(tmp_path / "h", pairs), items=w.items()[:1])[0]
    assert (found["keypoints0"], found["keypoints1"]) == (60, 61)
    turned = points(tmp_path / "h", items=[w.item(second, first)])[0]
    assert (turned["keypoints0"], turned["keypoints1"]) == (61, 60)
    np.testing.assert_array_equal(np.sort(turned["points1"], axis=0), np.sort(found["points0"], axis=0))


def _parts(pair):
    return pair.partner, pair.scores


def test_tables_with_a_column_of_pairs_or_of_images_or_one_file_a_pair(tmp_path, own):
    pairs = w.world()
    frames = []
    for two, pair in pairs.items():
        a, b, scores = w.matched(pair)
        frames.append(
            pd.DataFrame(
                {"pair": "--".join(two), "image0": two[0], "image1": two[1], "x0": a[:, 0], "y0": a[:, 1],
                 "x1": b[:, 0], "y1": b[:, 1], "confidence": scores}
            )
        )  # fmt: skip
    whole = pd.concat(frames)
    for name in ("pairs", "images", "each", "parquet"):
        (tmp_path / name).mkdir()
    whole.drop(columns=["image0", "image1"]).to_csv(tmp_path / "pairs" / "all.csv", index=False)
    whole.drop(columns=["pair"]).to_csv(tmp_path / "images" / "all.csv", index=False)
    whole.to_parquet(tmp_path / "parquet" / "all.parquet")
    for frame in frames:
        stem = frame["pair"].iloc[0].replace("/", "-")
        frame.drop(columns=["pair", "image0", "image1"]).to_csv(
            tmp_path / "each" / f"{stem}.csv", index=False
        )
    for name in ("pairs", "images", "each", "parquet"):
        same(points(tmp_path / name), own, atol=0)


def test_offset_and_top(tmp_path, own):
    w.write_own(tmp_path / "own", w.world())
    shifted = points(tmp_path / "own", "?offset=0.25&top=5")
    for found, whole in zip(shifted, own, strict=True):
        best = np.sort(np.argsort(-whole["confidence"])[:5])
        np.testing.assert_array_equal(found["points0"], whole["points0"][best] + 0.25)
        np.testing.assert_array_equal(found["points1"], whole["points1"][best] + 0.25)


def test_options_are_part_of_the_name_and_of_the_key(tmp_path):
    w.write_own(tmp_path / "own", w.world())
    plain, shifted = method(tmp_path / "own"), method(tmp_path / "own", "?offset=-0.5")
    assert (plain.name, shifted.name) == ("files:own", "files:own?offset=-0.5")
    assert plain.key(w.items()[0]) != shifted.key(w.items()[0])
    dump = w.write_superglue(tmp_path / "sg", w.world())
    assert method(dump, "?resize=none&top=9").name == "files:sg?top=9&resize=none"


def test_the_key_of_a_pair_changes_with_its_file_alone(tmp_path):
    w.write_own(tmp_path / "own", w.world())
    before = [method(tmp_path / "own").key(item) for item in w.items()]
    write_matches(tmp_path / "own", "--".join(w.NAMES[0]), points0=[[1, 2]], points1=[[3, 4]])
    after = [method(tmp_path / "own").key(item) for item in w.items()]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True]


def test_hpatches_rows_of_glue_factory_follow_the_order_in_the_sequence(tmp_path):
    with h5py.File(tmp_path / "predictions.h5", "w") as file:
        for row in range(40, 45):
            group = file.create_group(f"v_wall/{row}.ppm")
            group["keypoints0"] = group["keypoints1"] = np.full((1, 2), float(row), np.float32)
            group["matches0"] = np.zeros(1, np.int64)
    images = [ImageFacts(f"/hp/v_wall/{i}.ppm") for i in (1, 4)]
    found = method(tmp_path).extract(Item("v_wall/1--4", "", images=tuple(images)), None)
    assert found["points0"].tolist() == [[42.0, 42.0]]


# ---- what is wrong ----


def refused(folder, message, query="", item=0):
    with pytest.raises(InputError, match=message) as caught:
        method(folder, query).extract(w.items()[item], None)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_points_that_are_not_finite(tmp_path):
    write_matches(tmp_path, "--".join(w.NAMES[0]), points0=[[1, 2], [np.nan, 3]], points1=[[1, 2], [3, 4]])
    refused(tmp_path, r"points0\[1\] is NaN or infinite")


def test_shapes_that_differ(tmp_path):
    write_matches(tmp_path, "--".join(w.NAMES[0]), points0=np.ones((3, 2)), points1=np.ones((2, 2)))
    refused(tmp_path, r"differ in shape: \(3, 2\), \(2, 2\)")


def test_matches_outside_the_image(tmp_path):
    write_matches(tmp_path, "--".join(w.NAMES[0]), points0=[[1, 2]], points1=[[3, 2000]])
    refused(tmp_path, r"points1\[0\] = \(3, 2000\) is outside the image of 1296 x 968 px")


def test_float16_beyond_1024_px_is_told(tmp_path):
    w.write_hloc(tmp_path / "h", w.world(), np.float16)
    found = method(tmp_path / "h")
    found.check(w.items())
    assert len(found.notices) == 1
    assert "3 of 3 pairs: keypoints are float16, which beyond 1024 px" in found.notices[0]
    small = method(w.write_hloc(tmp_path / "g", {k: _halved(p) for k, p in w.world().items()}, np.float16))
    small.check(w.items())
    assert list(small.notices) == []


def _halved(pair):
    return w.Indexed(tuple(k / 2 for k in pair.keypoints), pair.partner, pair.scores)


def test_int16_that_has_wrapped_around(tmp_path):
    known = np.tile([[5.0, 6.0]], (40_000, 1))
    pair = w.Indexed((known[:3], known), np.array([0, 1, 2]), np.ones(3))
    w.write_hloc(tmp_path / "h", {w.NAMES[0]: pair})
    refused(tmp_path / "h", "int16 cannot index 40000 keypoints")


def test_an_index_that_names_no_keypoint(tmp_path):
    pair = w.Indexed((np.ones((3, 2)), np.ones((2, 2))), np.array([0, 1, 2]), np.ones(3))
    w.write_glue_factory(tmp_path / "g", {w.NAMES[0]: pair})
    refused(tmp_path / "g", "match 2 refers to keypoint 2, but there are 2")


def test_a_pickled_npz_is_refused(tmp_path):
    class Foreign:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    np.savez(tmp_path / "s0-a.jpg--s0-b.jpg.npz", points0=np.array([Foreign()], dtype=object))
    refused(tmp_path, "contains pickled objects, which could run code and are not read")


def test_a_loftr_dump_with_a_foreign_global_is_refused(tmp_path):
    class Foreign:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    w.write_loftr(tmp_path / "l", w.world(), bad=Foreign())
    refused(tmp_path / "l", r"contains builtins\.exec, which is refused", "?resize=none")


def test_truncated_hdf5(tmp_path):
    folder = w.write_glue_factory(tmp_path / "g", w.world())
    whole = (folder / "predictions.h5").read_bytes()
    (folder / "predictions.h5").write_bytes(whole[: len(whole) // 2])
    refused(folder, "predictions.h5: is truncated")


def test_without_h5py_its_extra_is_named(tmp_path, monkeypatch):
    folder = w.write_glue_factory(tmp_path / "g", w.world())
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(folder, r"the package 'h5py' is missing; run pip install 'tiepoint\[hdf5\]'")


def test_absent_pairs_are_all_named_at_once(tmp_path):
    pairs = w.world()
    del pairs[w.NAMES[0]], pairs[w.NAMES[2]]
    found = method(w.write_hloc(tmp_path / "h", pairs))
    with pytest.raises(ProblemsError) as caught:
        found.check(w.items())
    assert len(caught.value.problems) == 2
    for i in (0, 2):
        assert f"no matches for the pair {w.items()[i].key}" in str(caught.value)


def test_one_place_for_two_different_pairs(tmp_path):
    write_matches(tmp_path, "a--b", points0=[[1, 2]], points1=[[3, 4]])
    both = [w.item("s0/a.jpg", "s0/b.jpg"), w.item("s1/a.jpg", "s1/b.jpg")]
    with pytest.raises(ProblemsError, match=r"are read from the same matches, a--b\.npz"):
        method(tmp_path).check(both)


def test_superglue_needs_the_resize(tmp_path):
    folder = w.write_superglue(tmp_path / "sg", w.world())
    refused(folder, r"points are in pixels of resized images; state")
    refused(folder, "`resize` is 'big'", "?resize=big")
    refused(w.write_own(tmp_path / "own", w.world()), "in original pixels; remove `resize`", "?resize=640")


def test_slashes_in_either_direction(tmp_path):
    write_matches(tmp_path, "s0\\a--s0/b", points0=[[1, 2]], points1=[[3, 4]])
    for name in ("s0/a--s0/b", "s0\\a--s0\\b"):
        assert len(method(tmp_path).extract(Item(name, ""), None)["points0"]) == 1


def test_an_unknown_layout_says_what_is_there_and_what_is_known(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"(?s)notes\.txt.*PAIR\.npz.*hloc.*glue-factory.*SuperGlue.*LoFTR"):
        method(tmp_path)


def test_two_layouts_in_one_folder(tmp_path):
    w.write_own(tmp_path, w.world())
    w.write_glue_factory(tmp_path, w.world())
    with pytest.raises(InputError, match="put each into its own folder"):
        method(tmp_path)


def test_predicted_points(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "points.json").write_text('{"a--b": [[1, 2], null]}')
    found = method(tmp_path / "json").extract(Item("a--b", ""), None)
    np.testing.assert_array_equal(found["answers"], [[1, 2], [np.nan, np.nan]])
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "points.csv").write_text("pair,x,y\na--b,1,2\na--b,,\n")
    again = method(tmp_path / "csv").extract(Item("a--b", ""), None)
    np.testing.assert_array_equal(again["answers"], found["answers"])
    write_matches(tmp_path / "npz", "a--b", answers=found["answers"])
    again = method(tmp_path / "npz").extract(Item("a--b", ""), None)
    np.testing.assert_array_equal(again["answers"], found["answers"])
