# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import json

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import InputError
from tiepoint.formats.image.reader import write_image
from tiepoint.tasks.keypoints.data import ComparedFeatures
from tiepoint.tasks.keypoints.geometry.task import GeometryOptions
from tiepoint.tasks.keypoints.images.task import ImagesOptions
from tiepoint.tasks.keypoints.neighbours import user_class_matches

CODE = """import numpy as np
class Nearest:
    def match(self, a, b):
        d = ((a.values[:, None] - b.values[None]) ** 2).sum(axis=2)
        j = d.argmin(axis=1)
        back = d.argmin(axis=0)
        i = np.flatnonzero(back[j] == np.arange(len(j)))
        return np.column_stack([i, j[i]])
class Timed(object):
    def match(self, a, b): return np.array([[0, 0]]), np.array([4.5])
class Outside:
    def match(self, a, b): return [[0, 99]]
class Short:
    def match(self, a, b): return [[0, 0]], []
class NoMatch: pass
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def features(n):
    rng = np.random.default_rng(n)
    return ComparedFeatures("s/1", rng.random((n, 2)), rng.random((n, 4)), np.ones(n, bool))


def test_pairs_and_distances(file):
    a, b = features(5), features(6)
    found = user_class_matches(f"{file}:Nearest", a, b, distance="l2")
    for i, j, d in zip(found.first, found.second, found.distance, strict=True):
        assert d == pytest.approx(np.linalg.norm(a.values[i] - b.values[j]))
    assert user_class_matches(f"{file}:Timed", a, b, distance="l2").distance.tolist() == [4.5]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Outside", r"match 0 has rows \[0, 99\]"),
        ("Short", "0 distances for 1 matches"),
        ("NoMatch", "no match"),
    ],
)
def test_wrong_matchers_are_explained(file, name, words):
    with pytest.raises(InputError, match=words):
        user_class_matches(f"{file}:{name}", features(5), features(6), distance="l2")


def test_the_source_is_part_of_the_options(file):
    def source(model, **options):
        return model.parse("t", options).model_dump(mode="json")["matcher_source"]

    before = source(GeometryOptions, matcher=f"{file}:Nearest")
    assert before == source(ImagesOptions, matching=f"{file}:Nearest")
    file.write_text(CODE + "# changed\n")
    assert source(GeometryOptions, matcher=f"{file}:Nearest") != before
    assert source(GeometryOptions) is None
    with pytest.raises(InputError, match="matching"):
        ImagesOptions.parse("keypoints/images", {"matching": "flann"})


def test_a_users_matcher_is_scored_beside_ours(file, tmp_path, capsys):
    pytest.importorskip("cv2")
    photo = pytest.importorskip("skimage.data").astronaut()
    scene = tmp_path / "data" / "v_a"
    scene.mkdir(parents=True)
    write_image(scene / "1.png", np.ascontiguousarray(photo[60:220, 40:240]))
    write_image(scene / "2.png", np.ascontiguousarray(photo[52:210, 49:250]))
    np.savetxt(scene / "H_1_2", [[1, 0, -9], [0, 1, 8], [0, 0, 1]])
    command = ["run", "sift?max_features=60", "--data", str(tmp_path / "data"), "--jobs", "1", "--json"]
    options = ["--task", "keypoints/geometry", "-o", f"matcher={file}:Nearest"]
    assert tiepoint([*command, *options, "--store", str(tmp_path / "s")]) == 0
    scores = {(s["metric"], s["group"]): s["value"] for s in json.loads(capsys.readouterr().out)["scores"]}
    # the same rule as our mutual neighbours, and SIFT rows of different places are not tied
    for tau in (1, 3, 10):
        assert scores["mma", f"matcher=own,tau_px={tau}"] == scores["mma", f"tau_px={tau}"]
    images = ["--task", "keypoints/images", "-o", f"matching={file}:Nearest", "--store", str(tmp_path / "s")]
    assert tiepoint([*command, *images]) == 0
