# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnitError, UnknownNameError
from tiepoint.core.records import Item
from tiepoint.methods.keypoints.spec import (
    canonical_name,
    fused_parts,
    locate_keypoint_sets,
    sides_used,
    split_detector,
)
from tiepoint.methods.resolve import resolve
from tiepoint.methods.spec import parse_stage

ITEM = Item("v_a/1", "content")


@pytest.fixture(scope="module")
def colour():
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.astronaut()[100:340, 60:380])


def extracted(spec, image, **options):
    return resolve(spec, family="keypoints", **options).extract(ITEM, image)


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("sift", "sift", None),
        ("brief@fast", "brief", "fast"),
        ("sift?sigma=1.2@fast?threshold=9", "sift?sigma=1.2", "fast?threshold=9"),
        ("files:/data/me@home/out", "files:/data/me@home/out", None),
        ("sift@files:/data/me@home/out", "sift", "files:/data/me@home/out"),
        ("sift@set:a_b", "sift", "set:a_b"),
        ("sift@some/my.py:Det", "sift", "some/my.py:Det"),
        (
            "k:T?weights=/a@b/c.pth@keynet?weights=/d@e/k.pth",
            "k:T?weights=/a@b/c.pth",
            "keynet?weights=/d@e/k.pth",
        ),
    ],
)
def test_a_specification_is_split_at_its_detector(text, left, right):
    found = split_detector(text)
    assert (found.descriptor, found.detector) == (left, right)


def test_names_for_tables_have_no_paths():
    assert str(parse_stage("my/dir/file.py:Class?a=1").without_paths()) == "Class?a=1"
    assert fused_parts("fuse:a, b") == (["a", "b"], "")
    with pytest.raises(InputError, match="at least two"):
        fused_parts("fuse:a")


def test_sets_are_found_in_the_store(tmp_path):
    (tmp_path / "keypoint_sets" / "mine").mkdir(parents=True)
    (tmp_path / "keypoint_sets" / "mine" / "set.json").touch()
    at = f"@set:{tmp_path}/keypoint_sets/mine"
    assert (
        locate_keypoint_sets("fuse:sift@set:mine,surf@set:sets/other+l2", tmp_path)
        == f"fuse:sift{at},surf@set:sets/other+l2"
    )
    assert locate_keypoint_sets("sift@set:./mine", tmp_path) == "sift@set:./mine"
    assert locate_keypoint_sets(3, tmp_path) == 3


def test_a_set_of_another_store_is_not_used(tmp_path, monkeypatch):
    """The run of a store reads no set of the same name from the default store or the current folder."""
    for folder in (tmp_path / "tiepoint-store" / "keypoint_sets" / "mine", tmp_path / "mine"):
        folder.mkdir(parents=True)
        (folder / "set.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    with pytest.raises(InputError, match="new contains no keypoint set 'mine'"):
        locate_keypoint_sets("sift@set:mine", tmp_path / "new")


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("sfit", UnknownNameError, "did you mean 'sift'"),
        ("sift@fats", UnknownNameError, "unknown detector 'fats'; did you mean 'fast'"),
        ("fast", InputError, "sift@fast"),
        ("brief", InputError, "brief@sift"),
        ("@fast", InputError, "has no descriptor before"),
        ("sift?max_feature=3", UnknownNameError, "did you mean 'max_features'"),
        ("sift?contrast_threshold=0.1@fast", UnknownNameError, "contrast_threshold"),
        ("dspsift?scale=1@fast", UnknownNameError, "did you mean 'scales'"),
        ("dsp@fast", InputError, "dsp:sift"),
        ("dsp:orb@fast", InputError, "which cannot be pooled"),
        ("fuse:sift,orb@fast", InputError, "no common distance"),
        ("fuse:sift,rgbsift?wieghts=1,2@fast", UnknownNameError, "weights"),
        ("rootsift+rootsift", InputError, "already square-rooted"),
        ("dspsift?root=after+power", InputError, "already square-rooted"),
        ("orb+rootsift", InputError, "real-valued"),
        ("kornia:TFeat@sift", InputError, "needs weights"),
        ("keynet", InputError, "is a detector without descriptors"),
        ("sift?max_features=0", InputError, "positive number"),
        ("sift@set:nowhere", InputError, "no keypoint set 'nowhere'"),
        ("zero", InputError, "is for dense"),
    ],
)
def test_wrong_specifications_are_explained(spec, error, words, colour):
    with pytest.raises(error, match=words.replace("(", r"\(")):
        extracted(spec, colour)


def test_parameters_reach_whoever_knows_them(colour):
    few = extracted("dspsift?max_features=20&scales=1,2&aggregation=concatenate", colour)
    assert few["values"].shape == (20, 256)
    both = extracted("akaze?n_octaves=1&max_features=30", colour)
    assert len(both["keypoints"]) == 30
    assert both["keypoints"][:, 2].max() < 9.6


def test_transforms_keep_the_keypoints(colour):
    plain = extracted("sift?max_features=30", colour)
    rooted = extracted("sift?max_features=30+rootsift", colour)
    named = extracted("rootsift?max_features=30", colour)
    assert np.array_equal(plain["keypoints"], rooted["keypoints"])
    assert np.array_equal(rooted["values"], named["values"])
    assert np.allclose(np.linalg.norm(rooted["values"], axis=1), 1, atol=1e-6)


def test_keys_tell_what_determines_the_features():
    def key(spec):
        return resolve(spec, family="keypoints").key(ITEM)

    specs = [
        "sift",
        "sift@fast",
        "sift@fast?threshold=30",
        "rootsift",
        "dspsift",
        "dspsift?scales=1,2",
        "surf",
    ]
    assert len({key(s) for s in specs}) == len(specs)
    assert key("sift") == key("sift@sift")
    assert key("sift") == key("sift?max_features=2000")


class Whole:
    name, distance = "whole", "l2"

    def extract(self, image):
        return np.array([[3.0, 4.0], [5.0, 6.0]]), np.eye(2, 8)


class Parts:
    def detect(self, image):
        return [[10, 10, 8], [40, 20, 8]]

    def describe(self, image, keypoints):
        return np.arange(1, 5.0).reshape(2, 2) + keypoints.size_px[:, None], np.array([True, False])


def test_users_classes_are_methods(colour):
    found = extracted(Whole(), colour)
    assert found["keypoints"].shape == (2, 7)
    assert found["valid"].all()
    found = extracted(Parts, colour)
    assert found["valid"].tolist() == [True, False]
    assert found["values"][0].tolist() == [9, 10]
    pair = resolve((Parts, "fast?max_features=2"), family="keypoints")
    assert pair.name == "Parts@fast?max_features=2"
    assert len(pair.extract(ITEM, colour)["keypoints"]) == 2


def test_a_class_in_a_file_detects_or_describes(colour, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "class Det:\n    def __init__(self, n=3): self.n = n\n"
        "    def detect(self, image): return np.c_[np.arange(self.n) + 50.0, np.full(self.n, 60.0)]\n"
        "class Desc:\n    def describe(self, image, keypoints):\n"
        "        return np.ones((len(keypoints), 4)) + keypoints.xy[:, :1]\n"
    )
    method = resolve(f"{file}:Desc@{file}:Det?n=5", family="keypoints")
    assert method.extract(ITEM, colour)["values"][:, 0].tolist() == [51, 52, 53, 54, 55]
    assert method.name == "Desc@Det?n=5"
    assert method.key(ITEM) is not None
    assert len(extracted(f"sift@{file}:Det", colour)["keypoints"]) == 3
    with pytest.raises(InputError, match="is a descriptor without a detector"):
        extracted(f"{file}:Desc", colour)


class Wrong:
    def __init__(self, keypoints, values):
        self.returned = keypoints, values
        self.config = {}

    def extract(self, image):
        return self.returned


@pytest.mark.parametrize(
    ("keypoints", "values", "words"),
    [
        ([[1, 1]], np.ones((2, 3)), "2 descriptors for 1 keypoints"),
        ([[1, 1], [np.nan, 2]], np.ones((2, 3)), "keypoint 1 has a NaN or infinite position"),
        ([[1, 1], [900, 2]], np.ones((2, 3)), r"keypoint 1 at \(900, 2\) is outside"),
        ([[1, 1, 0.0]], np.ones((1, 3)), "size 0"),
        ([[1, 1]], np.full((1, 3), np.nan), "`on_bad=.miss.`"),
        ([[1, 1]], np.zeros((1, 3)), "`on_bad=.miss.`"),
        ([[1, 1, 1, 1]], np.ones((1, 3)), "2 columns .* or 7"),
    ],
)
def test_bad_features_are_found_at_the_edge(keypoints, values, words, colour):
    with pytest.raises(InputError, match=words):
        extracted(Wrong(keypoints, values), colour)


def test_bad_rows_can_count_as_misses(colour):
    found = extracted(Wrong([[1, 1], [2, 2]], np.array([[np.nan], [1.0]])), colour, on_bad="miss")
    assert found["valid"].tolist() == [False, True]


def test_no_keypoints_are_no_error(colour):
    found = extracted("sift", np.full((100, 100, 3), 7, np.uint8))
    assert found["keypoints"].shape == (0, 7)
    assert len(found["values"]) == len(found["valid"]) == 0


def test_an_exception_names_method_and_image(colour):
    class Raises:
        name = "raises"

        def extract(self, image):
            raise RuntimeError("boom")

    with pytest.raises(UnitError, match=r"raises failed on v_a/1: RuntimeError: boom"):
        extracted(Raises(), colour)


@pytest.mark.parametrize("query", ["extended=true", "precise_upscale=false", "weights=1,2&extended=true"])
def test_fusion_at_own_places_passes_parameters_to_descriptors(query):
    pytest.importorskip("cv2")
    with pytest.raises(InputError, match="need paired keypoint sets"):  # the parameter is accepted
        resolve(f"fuse:sift@fast,surf@fast?{query}", family="keypoints")
    with pytest.raises(InputError, match="unknown parameter of fuse 'extend'"):
        resolve("fuse:sift@set:a,surf@set:b?extend=true", family="keypoints")


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("SIFT?max_features=60", "sift?max_features=60"),
        ("DspHoNC_V2@Sift", "dsphonc@sift"),
        ("VSIFT", "sift?precise_upscale=false"),
        ("vsift?max_features=9@SURF", "sift?precise_upscale=false&max_features=9@surf"),
        ("brief@Vanilla_SIFT?sigma=2", "brief@sift?precise_upscale=false&sigma=2"),
        ("dsp:VSIFT", "dsp:sift?precise_upscale=false"),
        ("DSPSIFT_V2", "dspsift?precise_upscale=false"),
        ("fuse:VSIFT,SURF@SIFT?sigma=2", "fuse:sift,surf?precise_upscale=false@sift?sigma=2"),
        ("fuse:VSIFT@set:A,surf@set:B", "fuse:sift@set:A,surf@set:B?precise_upscale=false"),
        ("fuse:VSIFT@set:A,surf@set:B?weights=1,2",
         "fuse:sift@set:A,surf@set:B?weights=1,2&precise_upscale=false"),
        ("fuse:SIFT@set:A,dsp:SURF@SET:B?a=b", "fuse:sift@set:A,dsp:surf@set:B?a=b"),
        ("files:OUT/A,SIFT", "files:OUT/A,SIFT"),
        ("kornia:HardNet?weights=A/SIFT", "kornia:HardNet?weights=A/SIFT"),
        ("SIFTY", "SIFTY"),
        ("Mine.py:SIFT@SURF", "Mine.py:SIFT@surf"),
    ],
)  # fmt: skip
def test_names_in_any_case_and_those_of_the_workbench(written, ours):
    assert canonical_name(written) == ours


def test_a_name_of_two_sides_means_the_first(tmp_path):
    for name in ("both_a", "both_b", "left_a", "whole", "whole_a", "whole_b"):
        (tmp_path / "keypoint_sets" / name).mkdir(parents=True)
        (tmp_path / "keypoint_sets" / name / "set.json").write_text("{}")
    sets = tmp_path / "keypoint_sets"
    assert locate_keypoint_sets("sift@set:both+l2", tmp_path) == f"sift@set:{sets / 'both_a'}+l2"
    assert locate_keypoint_sets("sift@set:whole", tmp_path) == f"sift@set:{sets / 'whole'}"
    with pytest.raises(InputError, match="no keypoint set 'left'; its sets are both_a, both_b, left_a"):
        locate_keypoint_sets("sift@set:left", tmp_path)
    (said,) = sides_used("fuse:sift@set:both,surf@set:whole", tmp_path)
    assert "both_a is used" in said


@pytest.mark.parametrize("name", ["what?x=1", "a+b"])
def test_a_store_whose_path_ends_the_name_of_a_set_is_refused(tmp_path, name):
    folder = tmp_path / name / "keypoint_sets" / "mine"
    folder.mkdir(parents=True)
    (folder / "set.json").write_text("{}")
    with pytest.raises(InputError, match="rename the folder"):
        locate_keypoint_sets("sift@set:mine", tmp_path / name)
    assert locate_keypoint_sets("sift", tmp_path / name) == "sift"
