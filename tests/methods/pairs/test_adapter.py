# SPDX-License-Identifier: BSD-3-Clause
"""The edge of methods that see two images: both forms, declared or not, and what is refused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnitError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 40, 50, 3)).astype(np.uint8)
ITEM = Item("a--b", "content")
P = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class Payload(NamedTuple):
    image0: np.ndarray
    image1: np.ndarray
    queries: np.ndarray | None = None


def given(value, **attributes):
    """A method that returns a value."""
    made = type("Given", (), {"match": lambda self, image1, image2: value, **attributes})
    return made()


def extract(thing, payload=tuple(IMAGES), family="pairs"):
    return resolve(thing, family=family).extract(ITEM, payload)


@pytest.mark.parametrize(
    "value", [(P, P + 1), [P, P + 1], (P.tolist(), (P + 1).tolist()), (P.astype(np.float32), P + 1)]
)
def test_points(value):
    found = extract(given(value))
    assert sorted(found) == ["points0", "points1"]
    assert found["points1"].dtype == np.float64
    np.testing.assert_array_equal(found["points1"] - found["points0"], np.ones((3, 2)))


def test_confidence_empty_matches_and_mappings():
    found = extract(given((P, P, [0.1, 0.2, 0.3])))
    assert found["confidence"].tolist() == [0.1, 0.2, 0.3]
    assert extract(given(([], [])))["points0"].shape == (0, 2)
    found = extract(given({"points0": P, "points1": P, "keypoints0": 9, "keypoints1": np.array([8])}))
    assert (found["keypoints0"].tolist(), found["keypoints1"].tolist()) == ([9], [8])


def test_tensors():
    torch = pytest.importorskip("torch")
    found = extract(given((torch.tensor(P), torch.tensor(P))))
    np.testing.assert_array_equal(found["points0"], P)


def test_a_flow_is_told_by_its_dimensions():
    flow = np.zeros((40, 50, 2), np.float32)
    assert sorted(extract(given(flow))) == ["flow"]
    found = extract(given((flow, np.eye(40, 50))))
    assert found["flow_confidence"].sum() == 40
    assert extract(given((flow, None, np.full((40, 50), 0.5))))["flow_confidence"].max() == 0.5
    assert extract("zero")["flow"].shape == (40, 50, 2)


@pytest.mark.parametrize(
    "value", [None, 3.0, np.zeros(3), np.zeros((2, 2, 2, 2)), P, "text", (P, P, P, P), [[1, 2], [3, 4]]]
)
@pytest.mark.parametrize("family", ["pairs", "dense"])
def test_anything_else_is_an_error_that_states_both_forms(value, family):
    with pytest.raises(
        InputError, match=r"points0 \(n, 2\), points1 \(n, 2\).*or a flow \(height, width, 2\)"
    ):
        extract(given(value), family=family)


@pytest.mark.parametrize("family", ["pairs", "dense"])
def test_a_declared_kind_is_held_to(family):
    flow = np.zeros((40, 50, 2), np.float32)
    extract(given((P, P), kind="pairs"), family=family)
    extract(given(flow, kind="dense"), family=family)
    with pytest.raises(InputError, match=r"declares kind = 'pairs'.*or a flow"):
        extract(given(flow, kind="pairs"), family=family)
    with pytest.raises(InputError, match=r"declares kind = 'dense'.*or a flow"):
        extract(given((P, P), kind="dense"), family=family)
    with pytest.raises(InputError, match="kind is 'sparse'"):
        extract(given((P, P), kind="sparse"), family=family)


def test_points_are_interpolated_for_dense_tasks():
    found = extract(given((P, P + np.array([2, 1]))), family="dense")
    np.testing.assert_allclose(found["flow1"], np.broadcast_to([2, 1], (40, 50, 2)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((P, P[:2]), r"differ in shape: \(3, 2\), \(2, 2\)"),
        ((P, np.full((3, 2), np.inf)), r"points1\[0\] is NaN or infinite"),
        ((np.zeros((3, 4)), P), r"points0 has shape \(3, 4\), expected \(n, 2\)"),
        ((P, P + 60), r"points1\[0\] = \(61, 62\) is outside the image of 50 x 40 px"),
        ((P, P, [1, 2]), r"confidence has shape \(2,\), expected \(3,\)"),
        ((P, P, [1, np.nan, 2]), r"confidence\[1\] is NaN or infinite"),
    ],
)
def test_what_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        extract(given(value))


def test_a_point_may_lie_a_little_outside():
    extract(given((P, np.array([[-1.4, 0], [50.4, 40.4], [0, 0]]))))


class Answering:
    """Answers points, and matches."""

    def match_points(self, image1, image2, points):
        return points + 7

    def match(self, image1, image2):
        return P, P


def test_queries_are_answered_besides_the_matches():
    found = extract(Answering(), Payload(*IMAGES, P))
    np.testing.assert_array_equal(found["answers"], P + 7)
    assert "points0" in found
    assert sorted(extract(Answering(), Payload(*IMAGES))) == ["points0", "points1"]


def test_a_method_that_only_answers_needs_queries():
    only = type("Only", (), {"match_points": Answering.match_points})()
    assert sorted(extract(only, Payload(*IMAGES, P))) == ["answers"]
    with pytest.raises(InputError, match="has only match_points, but a--b has no query points"):
        extract(only, Payload(*IMAGES))
    short = type("Short", (), {"match_points": lambda self, a, b, points: points[1:]})()
    with pytest.raises(InputError, match="2 answers for 3 points"):
        extract(short, Payload(*IMAGES, P))


def test_images_in_grey_where_the_method_asks():
    seen = []

    class Grey:
        colour = "grey"

        def match(self, image1, image2):
            seen.append((image1.shape, image1.dtype))
            return P, P

    extract(Grey())
    assert seen == [((40, 50), np.uint8)]
    Grey.colour = "bgr"
    with pytest.raises(InputError, match="colour is 'bgr'"):
        extract(Grey())


def test_an_exception_fails_one_pair():
    class Broken:
        def match(self, image1, image2):
            raise ZeroDivisionError("no")

    with pytest.raises(UnitError, match="failed on a--b: ZeroDivisionError: no"):
        extract(Broken())


def test_on_bad_and_transforms_have_no_meaning():
    with pytest.raises(InputError, match="applies to descriptors and has no effect on matches"):
        resolve(given((P, P)), family="pairs", on_bad="miss")
    with pytest.raises(InputError, match=r"\+l2 needs descriptors"):
        resolve("random+l2", family="pairs")


def test_the_same_object_has_other_keys_for_dense_tasks(tmp_path):
    (tmp_path / "my.py").write_text(
        "import numpy as np\nclass Mine:\n    def match(self, a, b):\n        return np.zeros((9, 9, 2))\n"
    )
    spec = f"{tmp_path}/my.py:Mine"
    assert resolve(spec, family="pairs").key(ITEM) != resolve(spec, family="dense").key(ITEM)


def test_an_unknown_name_lists_those_of_all_three_families():
    with pytest.raises(InputError, match="unknown method 'sfit'; did you mean 'sift'"):
        resolve("sfit", family="pairs")
    with pytest.raises(InputError, match=r"match\(image1, image2\) is missing"):
        resolve(object(), family="pairs")
