# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from tiepoint.core.keypoints import Keypoints
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.datasets.keypoint_sets.create import (
    RECIPES,
    export_keypoints,
    import_keypoints,
    make_keypoint_set,
    make_recipe,
)
from tiepoint.datasets.keypoint_sets.filters import filter_by_size, intersect, subset, thin_by_distance
from tiepoint.formats.image.reader import write_image
from tiepoint.formats.keypoints.set_folder import KeypointSet, read_keypoint_set
from tiepoint.geometry.homography import project
from tiepoint.store.rebuild import rebuild
from tiepoint.store.store import Store
from tiepoint.store.writers import load_keypoint_set, save_keypoint_set

SHIFT = np.array([[1, 0, -30], [0, 1, 12], [0, 0, 1.0]])
TURN = np.array([[0, -1, 200], [1, 0, 0], [0, 0, 1.0]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two scenes of three images: shifted, and turned by 90 degrees, of different sizes."""
    data = pytest.importorskip("skimage.data")
    photo = data.astronaut()
    root = tmp_path_factory.mktemp("sequences")
    for scene, (y, x) in {"v_a": (60, 40), "i_b": (150, 200)}.items():
        path = root / scene
        path.mkdir()
        first = photo[y : y + 200, x : x + 240]
        write_image(path / "1.png", np.ascontiguousarray(first))
        write_image(path / "2.png", np.ascontiguousarray(photo[y - 12 : y + 180, x + 30 : x + 260]))
        turned = np.rot90(first, -1)
        write_image(path / "3.png", np.ascontiguousarray(turned))
        np.savetxt(path / "H_1_2", SHIFT)
        np.savetxt(path / "H_1_3", np.array([[0, -1, 199], [1, 0, 0], [0, 0, 1.0]]))
    return root


@pytest.fixture(scope="module")
def sequences(folder):
    return ImageSequences(folder)


@pytest.fixture(scope="module")
def sift(sequences):
    return make_keypoint_set(sequences, "sift", detector="sift", max_features=80, border_px=15)


def test_the_border_is_true_in_every_image(sequences, sift):
    assert sift.recipe["border_px"] == 15
    assert set(sift.images) == {f"{s}/{k}" for s in ("v_a", "i_b") for k in "123"}
    for key, keypoints in sift.images.items():
        width, height = sequences.size(*key.split("/"))
        assert 0 < len(keypoints) <= 80
        assert keypoints.xy.min() >= 14.5
        assert keypoints.xy[:, 0].max() <= width - 15.5
        assert keypoints.xy[:, 1].max() <= height - 15.5
    default = make_keypoint_set(sequences, "d", detector="sift", max_features=5)
    assert default.recipe["border_px"] == 40


def test_projected_sets_have_the_same_point_in_every_row(sequences):
    made = make_keypoint_set(sequences, "p", detector="sift", mode="projected", max_features=50, border_px=10)
    for scene in sequences.scenes:
        first = made.of(f"{scene}/1")
        assert len(first) > 5
        for k in ("2", "3"):
            other = made.of(f"{scene}/{k}")
            shown = project(sequences.homography(scene, k), first.xy)
            assert np.allclose(shown, other.xy)
            assert np.allclose(other.size_px, first.size_px)
            turn = 0 if k == "2" else 90
            assert np.allclose((other.angle_deg - first.angle_deg - turn + 180) % 360, 180)
            width, height = sequences.size(scene, k)
            assert (other.xy >= 9.5).all()
            assert (other.xy <= np.array([width, height]) - 10.5).all()


@pytest.mark.parametrize(
    "options",
    [
        {"detector": "surf"}, {"mode": "projected"}, {"max_features": 30}, {"border_px": 30},
        {"min_distance_px": 12}, {"min_size_px": 4}, {"max_size_px": 4},
    ],
)  # fmt: skip
def test_every_option_of_a_set_has_an_effect(sequences, sift, options):
    asked = {"detector": "sift", "max_features": 80, "border_px": 15} | options
    other = make_keypoint_set(sequences, "sift", **asked)
    assert other.id != sift.id


def test_wrong_requests_are_explained(sequences):
    with pytest.raises(UnknownNameError, match="mode"):
        make_keypoint_set(sequences, "x", mode="both")
    with pytest.raises(InputError, match="an option of the keypoint set"):
        make_keypoint_set(sequences, "x", detector="sift?border_px=3")
    with pytest.raises(UnknownNameError, match="unknown detector"):
        make_keypoint_set(sequences, "x", detector="brief")


def random_points(rng, n, side=12):
    # whole numbers on a small field: many equal distances and co-located points
    return Keypoints.at(rng.integers(0, side, (n, 2)).astype(float), response=rng.random(n))


def slow_mutual(a, b, tolerance):
    """Pairs that are each other's nearest, lowest index first, by two loops."""
    pairs = []
    for i, p in enumerate(a):
        d = [((p - q) ** 2).sum() for q in b]
        j = int(np.argmin(d)) if d else -1
        if j < 0 or np.sqrt(d[j]) > tolerance:
            continue
        if int(np.argmin([((b[j] - q) ** 2).sum() for q in a])) == i:
            pairs.append((i, j))
    return pairs


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 25), st.integers(0, 25), st.integers(0, 10_000), st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_intersection_is_the_exact_mutual_nearest(n, m, seed, tolerance):
    rng = np.random.default_rng(seed)
    a = KeypointSet("a", {"s/1": random_points(rng, n)})
    b = KeypointSet("b", {"s/1": random_points(rng, m)})
    one, two = intersect(a, b, "ab", tolerance_px=tolerance)
    expected = slow_mutual(a.of("s/1").xy, b.of("s/1").xy, tolerance)
    assert np.array_equal(one.of("s/1").xy, a.of("s/1").xy[[i for i, _ in expected]])
    assert np.array_equal(two.of("s/1").response, b.of("s/1").response[[j for _, j in expected]])
    assert np.array_equal(one.pairs["s/1"], two.pairs["s/1"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 10_000), st.floats(0.6, 6))
def test_spacing_is_greedy(n, seed, distance):
    k = random_points(np.random.default_rng(seed), n)
    kept: list[int] = []
    for i in range(n):
        if all(np.hypot(*(k.xy[i] - k.xy[j])) >= distance for j in kept):
            kept.append(i)
    assert thin_by_distance(k, distance, rows=True).tolist() == kept


def test_subsets_say_what_they_count(sift):
    each = subset(sift, "e", count=7, scope="image", by="response")
    assert all(len(k) == 7 for k in each.images.values())
    whole = subset(sift, "w", count=20, scope="set", by="size")
    assert whole.total == 20
    largest = np.sort(np.concatenate([k.size_px for k in sift.images.values()]))[-20:]
    assert np.allclose(np.sort(np.concatenate([k.size_px for k in whole.images.values()])), largest)
    for key in sift.images:
        top = np.sort(sift.of(key).response)[-7:]
        assert np.allclose(np.sort(each.of(key).response), top)
    one, two = (subset(sift, "r", count=9, by="random", seed=s) for s in (0, 1))
    assert one.id != two.id
    assert one.id == subset(sift, "r", count=9, by="random", seed=0).id
    assert whole.recipe["scope"] == "set"
    assert whole.recipe["source_a"] == sift.id
    assert len(filter_by_size(sift.of("v_a/1"), 5, 8)) == len(
        subset(sift, "z", min_size_px=5, max_size_px=8).of("v_a/1")
    )


def test_recipes_make_partners(sequences):
    assert "sift_surf_intersection" in RECIPES
    a, b = make_recipe(sequences, "sift_surf_intersection", border_px=10)
    assert (a.name, b.name) == ("sift_surf_intersection_a", "sift_surf_intersection_b")
    assert a.total == b.total > 0
    for key in a.images:
        apart = np.linalg.norm(a.of(key).xy - b.of(key).xy, axis=1)
        assert (apart <= 6).all()
        assert len(np.unique(a.of(key).xy, axis=0)) == len(a.of(key))
    assert a.recipe["detector"] == "sift"
    assert b.recipe["detector"] == "surf"
    assert a.recipe["border_px"] == 10


def test_csv_round_trips(sequences, sift, tmp_path):
    for names in ("number", "workbench"):
        out = tmp_path / names
        assert export_keypoints(sift, out, names=names) == 6
        back = import_keypoints(out, "sift", sequences)
        assert back.id == sift.id
        assert back.recipe["measured_border_px"] >= 15
    (tmp_path / "number" / "v_a" / "2.csv").unlink()
    (tmp_path / "number" / "v_a" / "3.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ProblemsError, match="2 problems"):
        import_keypoints(tmp_path / "number", "x", sequences)


def test_stored_sets_are_named_hashed_and_checked(sift, tmp_path):
    with Store.open(tmp_path / "s") as store:
        folder = save_keypoint_set(store, sift)
        back = load_keypoint_set(store.root, "sift")
        assert back.id == sift.id
        assert back.recipe == sift.recipe
        with store.begin() as c:
            row = c.execute(sa.text("select * from keypoint_sets")).mappings().one()
        assert row["boundary_filter_px"] == 15
        assert row["total_keypoints"] == sift.total
        with store.begin() as c:
            c.execute(sa.text("delete from keypoint_sets"))
        rebuild(store)
        with store.begin() as c:
            assert c.execute(sa.text("select id from keypoint_sets")).scalar() == sift.id
        with pytest.raises(InputError, match="already"):
            save_keypoint_set(store, sift)
        save_keypoint_set(store, sift, overwrite=True)
        with pytest.raises(UnknownNameError, match="did you mean 'sift'"):
            load_keypoint_set(store.root, "sfit")
        with pytest.raises(InputError, match="cannot be the name"):
            save_keypoint_set(store, KeypointSet("../x", {}))
    table = np.load(folder / "keypoints.npy")
    table[0, 0] += 1
    np.save(folder / "keypoints.npy", table)
    with pytest.raises(FormatError, match="do not match the header"):
        read_keypoint_set(folder)


def test_the_command_line_makes_and_uses_sets(folder, tmp_path, capsys):
    store = str(tmp_path / "store")
    data = str(folder)

    def run(*words):
        code = tiepoint(["keypoints", *words, "--store", store])
        return code, capsys.readouterr().out

    assert (
        run("make", "a", "--data", data, "--detector", "sift", "--max-features", "60", "--border-px", "12")[0]
        == 0
    )
    assert (
        run("make", "b", "--data", data, "--detector", "surf", "--max-features", "60", "--border-px", "12")[0]
        == 0
    )
    code, out = run("intersect", "a", "b", "--out", "ab", "--tolerance-px", "4")
    assert code == 0
    assert "ab_a" in out
    assert "border 12.0 px" in out
    assert run("subset", "a", "--out", "few", "--count", "10")[0] == 0
    assert run("export", "few", "--out", str(tmp_path / "csv"))[0] == 0
    assert run("import", str(tmp_path / "csv"), "--name", "again", "--data", data)[0] == 0
    assert "few: 60 keypoints" in run("list")[1]
    assert tiepoint(["keypoints", "make", "c", "--data", data, "--store", store]) == 2
    assert "not a recipe" in capsys.readouterr().err
    assert tiepoint(["keypoints", "subset", "a", "--out", "x", "--store", store]) == 2
    command = ["run", "sift@set:few", "fuse:sift@set:ab_a,surf@set:ab_b", "--task", "keypoints/ranking"]
    capsys.readouterr()
    assert tiepoint([*command, "--data", data, "--store", store, "--jobs", "1", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {s["method"] for s in scores} == {"sift@set:few", "fuse:sift@set:ab_a,surf@set:ab_b"}
    with Store.open(store) as opened, opened.begin() as c:
        rows = c.execute(sa.text("select distinct keypoint_set_name from experiments")).scalars().all()
    assert set(rows) == {"few", "ab_a"}


def test_your_own_detector_makes_a_set(folder, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def detect(self, image):\n        return [[90.5, 80.0]]\n"
    )
    make = ["keypoints", "make", "own", "--data", str(folder), "--store", str(tmp_path / "store")]
    own = ["--detector", f"{tmp_path / 'mine.py'}:Mine"]
    assert tiepoint([*make, *own]) == 0
    assert "own: 6 keypoints in 6 images" in capsys.readouterr().out


def test_a_set_of_another_store_is_an_error(folder, tmp_path, capsys, monkeypatch):
    """A run reads sets of its own store only, also if the default store has a set of this name."""
    monkeypatch.setenv("TIEPOINT_STORE", str(tmp_path / "old"))
    data = ["--data", str(folder)]
    assert tiepoint(["keypoints", "make", "a", *data, "--detector", "sift", "--max-features", "20"]) == 0
    command = ["run", "sift@set:a", "--task", "keypoints/ranking", *data, "--jobs", "1"]
    assert tiepoint([*command, "--store", str(tmp_path / "new")]) == 2
    assert "contains no keypoint set 'a'" in capsys.readouterr().err


def test_a_set_of_other_images_is_refused(folder, sift, tmp_path, capsys):
    with Store.open(tmp_path / "s") as store:
        wrong = KeypointSet("w", sift.images, sift.recipe, None, dict.fromkeys(sift.images, "other"))
        save_keypoint_set(store, wrong)
    command = ["run", "sift@set:w", "--task", "keypoints/ranking", "--data", str(folder)]
    assert tiepoint([*command, "--store", str(tmp_path / "s"), "--jobs", "1"]) == 2
    assert "differs from the image that the set was created from" in capsys.readouterr().err


@pytest.mark.parametrize("detector", ["orb", "brisk", "akaze"])
def test_images_too_small_for_a_detector_are_told_in_a_sentence(tmp_path, detector):
    (tmp_path / "i_line").mkdir()
    for k in (1, 2):
        write_image(tmp_path / "i_line" / f"{k}.png", np.full((1, 400), 90, np.uint8))
    np.savetxt(tmp_path / "i_line" / "H_1_2", np.eye(3))
    with pytest.raises(InputError, match=f"{detector} failed on i_line/1: an image of 400 x 1 pixels"):
        make_keypoint_set(ImageSequences(tmp_path), "line", detector=detector, border_px=0)
