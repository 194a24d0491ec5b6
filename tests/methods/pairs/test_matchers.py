# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint methods with a matcher: the matches, their names and keys, and what is computed how often."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import ImageFacts, Item
from tiepoint.methods.pairs.image_memo import MEMO, FeatureMemo
from tiepoint.methods.resolve import resolve

RNG = np.random.default_rng(4)
IMAGES = RNG.integers(0, 256, (3, 60, 80, 3)).astype(np.uint8)
DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


def item(first="a", second="b", content="c"):
    return Item(
        f"{first}--{second}",
        content,
        images=tuple(ImageFacts(f"s/{n}.png", (80, 60)) for n in (first, second)),
    )


class Drawn:
    """Random descriptors at random places, seeded by the pixels; counts its calls."""

    def __init__(self, n=50):
        self.n, self.calls = n, 0

    def extract(self, image):
        self.calls += 1
        rng = np.random.default_rng(int(image.astype(np.int64).sum()))
        return rng.random((self.n, 2)) * [79, 59], rng.random((self.n, 8)).astype(np.float32)


def restated(thing, first, second, *, mutual, ratio):
    """Matches by a plain double loop; a set of position pairs. Only without ties for the first place."""
    (p0, d0), (p1, d1) = thing.extract(first), thing.extract(second)
    apart = np.sqrt(((d0[:, None].astype(np.float64) - d1[None]) ** 2).sum(axis=2))
    out = {}
    for i in range(len(p0)):
        j = int(apart[i].argmin())
        one, two = np.sort(apart[i])[:2]
        if mutual and apart[:, j].argmin() != i:
            continue
        if ratio is None or one < ratio * two:
            out[tuple(p0[i]), tuple(p1[j])] = 1 - one / two
    return out


@pytest.mark.parametrize("matcher", ["mnn", "nn"])
@pytest.mark.parametrize("ratio", [None, 0.9])
def test_matches_and_confidence(matcher, ratio, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nclass Fine:\n    def extract(self, image):\n"
        "        rng = np.random.default_rng(int(image.astype(np.int64).sum()))\n"
        "        return rng.random((50, 2)) * [79, 59], rng.random((50, 8)).astype(np.float32)\n"
    )
    query = f"?matcher={matcher}" + ("" if ratio is None else f"&ratio={ratio}")
    method = resolve(f"{tmp_path}/mine.py:Fine{query}", family="pairs")
    assert method.name == f"Fine{query}"
    found = method.extract(item(), tuple(IMAGES[:2]))
    wanted = restated(Drawn(), *IMAGES[:2], mutual=matcher == "mnn", ratio=ratio)
    got = {
        (tuple(a), tuple(b)): c
        for a, b, c in zip(found["points0"], found["points1"], found["confidence"], strict=True)
    }
    assert sorted(got) == sorted(wanted)
    assert 0 < len(got) < 50 or matcher == "nn"
    assert all(abs(got[k] - wanted[k]) < 1e-6 for k in got)
    assert (found["keypoints0"], found["keypoints1"]) == (50, 50)


def test_the_default_is_mutual_neighbours_and_is_named():
    assert resolve("random@grid?max_features=20", family="pairs").name.endswith("&matcher=mnn")
    assert resolve(Drawn(), family="pairs").name == "Drawn?matcher=mnn"
    specs = [
        "sift",
        "sift?matcher=nn",
        "sift?ratio=0.8",
        "sift?matcher=mnn",
        "sift?max_features=9&matcher=mnn",
    ]
    keys = [resolve(s, family="pairs").key(item()) for s in specs]
    assert keys[0] == keys[3]
    assert len(set(keys)) == 4
    names = [resolve(s, family="pairs").name for s in specs]
    assert names[2:4] == ["sift?matcher=mnn&ratio=0.8", "sift?matcher=mnn"]


def test_an_image_is_described_once_however_many_pairs_it_is_in():
    thing = Drawn(n=34)  # no other test has it
    method = resolve(thing, family="pairs")
    a, b, c = IMAGES
    for names, images in (
        (("a", "b"), (a, b)),
        (("a", "c"), (a, c)),
        (("b", "c"), (b, c)),
        (("c", "a"), (c, a)),
    ):
        method.extract(item(*names), images)
    assert thing.calls == 3


def test_what_takes_the_time_of_a_method_finds_nothing_kept():
    thing = Drawn(n=33)  # no other test has it
    method = resolve(thing, family="pairs")
    method.extract(item(), tuple(IMAGES[:2]))
    with MEMO.bypassed():
        method.extract(item(), tuple(IMAGES[:2]))
    method.extract(item(), tuple(IMAGES[:2]))
    assert thing.calls == 4


def test_the_memo_is_bounded():
    memo, made = FeatureMemo(1000), []
    for key in "abcabc":
        memo.get(key, lambda k=key: made.append(k) or {"x": np.zeros(60)})
    assert memo.size <= 1000
    assert made == list("abcabc")
    assert MEMO.most > 100 << 20


def test_objects_that_cannot_be_told_apart_do_not_share_features():
    first, second = (resolve(Drawn(n=n), family="pairs") for n in (20, 30))
    assert first.extract(item(), tuple(IMAGES[:2]))["keypoints0"] == 20
    assert second.extract(item(), tuple(IMAGES[:2]))["keypoints0"] == 30


def test_ties_do_not_follow_the_order_of_the_rows():
    """A constant descriptor finds its own row no more often than by chance, in the same image too."""

    class Same:
        def extract(self, image):
            return np.stack([np.arange(40.0), np.arange(40.0)], axis=1), np.ones((40, 4), np.float32)

    right = 0
    for i in range(200):
        image = np.full((60, 80, 3), i, np.uint8)
        found = resolve(Same(), family="pairs").extract(item(f"a{i}", f"b{i}"), (image, image))
        assert len(found["points0"]) == 1
        right += int(np.array_equal(found["points0"], found["points1"]))
    assert right < 20  # 5 expected


def test_a_matcher_of_the_user(tmp_path):
    (tmp_path / "own.py").write_text(
        "import numpy as np\nclass Last:\n    def match(self, a, b):\n"
        "        assert a.xy.shape == (50, 2) and a.values.shape == (50, 8) and a.valid.all()\n"
        "        return np.array([[len(a) - 1, len(b) - 1], [0, 1]])\n"
        "class Beyond:\n    def match(self, a, b):\n        return [[0, 50]]\n"
        "class Nothing:\n    pass\n"
    )
    (tmp_path / "kp.py").write_text(
        "import numpy as np\nclass K:\n    def extract(self, image):\n"
        "        rng = np.random.default_rng(int(image.astype(np.int64).sum()))\n"
        "        return rng.random((50, 2)) * [79, 59], rng.random((50, 8)).astype(np.float32)\n"
    )
    base = f"{tmp_path}/kp.py:K?matcher={tmp_path}/own.py"
    method = resolve(f"{base}:Last", family="pairs")
    assert method.name == "K?matcher=Last"
    found = method.extract(item(), tuple(IMAGES[:2]))
    assert len(found["points0"]) == 2
    before = method.key(item())
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text().replace("[0, 1]]", "[1, 1]]"))
    assert resolve(f"{base}:Last", family="pairs").key(item()) != before
    with pytest.raises(InputError, match=r"match 0 has rows \[0, 50\], but there are \[50, 50\] keypoints"):
        resolve(f"{base}:Beyond", family="pairs").extract(item(), tuple(IMAGES[:2]))
    with pytest.raises(InputError, match=r"match\(features1, features2\) is missing"):
        resolve(f"{base}:Nothing", family="pairs")
    with pytest.raises(InputError, match="`ratio` has no effect on"):
        resolve(f"{base}:Last&ratio=0.8", family="pairs")


def test_wrong_parameters():
    with pytest.raises(InputError, match="unknown matcher 'best'"):
        resolve("sift?matcher=best", family="pairs")
    for ratio in ("2", "0", "x"):
        with pytest.raises(InputError, match="expected a number above 0 and at most 1"):
            resolve(f"sift?ratio={ratio}", family="pairs")
    with pytest.raises(InputError, match="unknown parameter of sift 'matches'"):
        resolve("sift?matches=nn", family="pairs")


def test_keypoints_of_nothing():
    class Empty:
        def extract(self, image):
            return np.empty((0, 2)), np.empty((0, 8), np.float32)

    found = resolve(Empty(), family="pairs").extract(item(), tuple(IMAGES[:2]))
    assert found["points0"].shape == found["points1"].shape == (0, 2)
    assert found["keypoints0"].tolist() == [0]


# ---- features that exist already ----


def features(n=30, d=12):
    rng = np.random.default_rng(9)
    shared = rng.random((n, d)).astype(np.float32)
    out = {}
    for name in "ab":
        order = rng.permutation(n)
        out[name] = (rng.random((n, 2)) * [79, 59], shared[order], rng.random(n))
    return out


def write_npz(root, transposed=False, ending=".png.npz"):
    (root / "s").mkdir(parents=True)
    for name, (xy, values, scores) in features().items():
        with (root / "s" / f"{name}{ending}").open("wb") as file:
            np.savez(file, keypoints=xy, descriptors=values.T if transposed else values, scores=scores)
    return root


def write_csv(root):
    (root / "s").mkdir(parents=True)
    for name, (xy, values, scores) in features().items():
        frame = pd.DataFrame({"x": xy[:, 0], "y": xy[:, 1], "response": scores})
        for i in range(values.shape[1]):
            frame[f"d{i}"] = values[:, i]
        frame.to_csv(root / "s" / f"{name}.csv", index=False)
    return root


def write_hdf5(root, dtype=np.float64):
    root.mkdir()
    with h5py.File(root / "feats.h5", "w") as file:
        for name, (xy, values, scores) in features().items():
            group = file.create_group(f"s/{name}.png")
            group["keypoints"], group["descriptors"], group["scores"] = xy.astype(dtype), values.T, scores
    return root


WRITERS = {
    "npz": write_npz,
    "d2-net": lambda root: write_npz(root, ending=".png.d2-net"),
    "columns": lambda root: write_npz(root, transposed=True),
    "csv": write_csv,
    "hdf5": write_hdf5,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_features_of_every_layout_give_the_same_matches(kind, tmp_path):
    method = resolve(f"files:{WRITERS[kind](tmp_path / 'f')}", family="pairs")
    assert not method.needs_payload
    method.check([item()])
    found = method.extract(item(), None)
    (xy0, v0, _), (xy1, v1, _) = features().values()
    assert len(found["points0"]) == 30
    for a, b in zip(found["points0"], found["points1"], strict=True):
        i, j = (int(np.abs(xy - p).sum(axis=1).argmin()) for xy, p in ((xy0, a), (xy1, b)))
        np.testing.assert_array_equal(v0[i], v1[j])
    np.testing.assert_allclose(np.sort(found["points0"], axis=0), np.sort(xy0, axis=0), atol=1e-12)
    with pytest.raises(ProblemsError, match="s/z"):
        method.check([item(), item("a", "z")])


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_offset_and_top_of_features(kind, tmp_path):
    folder = WRITERS[kind](tmp_path / "f")
    found = resolve(f"files:{folder}?offset=-0.5&top=10&matcher=nn", family="pairs").extract(item(), None)
    xy, _, scores = features()["a"]
    best = np.sort(np.argsort(-scores)[:10])
    assert found["keypoints0"] == 10
    np.testing.assert_allclose(found["points0"], xy[best] - 0.5, atol=1e-12)


def test_the_key_follows_the_files_of_both_images(tmp_path):
    method = resolve(f"files:{write_npz(tmp_path / 'f')}", family="pairs")
    before = method.key(item())
    np.savez(tmp_path / "f" / "s" / "b.png.npz", keypoints=np.ones((2, 2)), descriptors=np.eye(2, 12))
    assert method.key(item()) != before


@pytest.mark.skipif(
    not (DATA / "weights" / "xfeat_onnx").is_dir(), reason="the weights of XFeat are not here"
)
def test_xfeat_and_sift_find_a_shift():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("cv2")
    data = pytest.importorskip("skimage.data")
    photo = np.ascontiguousarray(data.astronaut())
    shifted = np.roll(photo, (6, 11), axis=(0, 1))
    weights = DATA / "weights" / "xfeat_onnx" / "xfeat_dense.onnx"
    for spec, tolerance in (
        (f"xfeat?weights={weights}&max_features=500", 2.0),
        ("sift?max_features=500&ratio=0.8", 0.5),
    ):
        found = resolve(spec, family="pairs").extract(item(), (photo, shifted))
        apart = np.median(found["points1"] - found["points0"], axis=0)
        assert len(found["points0"]) > 100
        assert np.abs(apart - [11, 6]).max() < tolerance
