# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Item
from tiepoint.methods.keypoints.factory import Fusion, FusionOfPairs
from tiepoint.methods.keypoints.pooling import DomainSizePooling, scale_weights
from tiepoint.methods.resolve import resolve

PLACES = Keypoints.at([[10, 10], [20, 10], [30, 10]], size_px=[4.0, 5.0, 6.0])
IMAGE = np.zeros((50, 50, 3), np.uint8)


class Sized:
    """Describes a keypoint by simple functions of its size; fails above a size."""

    distance = "l2"

    def __init__(self, fails_above=np.inf, columns=3, factor=1.0, rooted=False):
        self.fails_above, self.columns, self.factor, self.rooted = fails_above, columns, factor, rooted

    def describe(self, image, keypoints):
        powers = np.arange(self.columns)
        values = self.factor * (keypoints.size_px[:, None] ** powers + keypoints.xy[:, :1] * (powers == 0))
        return values, keypoints.size_px <= self.fails_above


def plain(size, x, columns=3):
    return np.array([size**p + (x if p == 0 else 0) for p in range(columns)])


def restated(size, x, scales, aggregation, normalize, root, norm=2, weights=None):
    """One keypoint, step by step as the documentation says."""
    rows = []
    for scale in scales:
        row = plain(size * scale, x)
        if normalize == "before":
            row = row / np.linalg.norm(row, norm)
        if root == "before":
            row = np.sqrt(row / np.abs(row).sum())
        rows.append(row)
    if aggregation == "average":
        out = sum(rows) / len(rows)
    elif aggregation == "max":
        out = np.maximum.reduce(rows)
    elif aggregation == "min":
        out = np.minimum.reduce(rows)
    elif aggregation == "concatenate":
        out = np.concatenate(rows)
    else:
        out = sum(w * r for w, r in zip(weights, rows, strict=True)) / sum(weights)
    if root == "after":
        out = np.sqrt(out / np.abs(out).sum())
    if normalize == "after":
        out = out / np.linalg.norm(out, norm)
    return out


@pytest.mark.parametrize("aggregation", ["average", "max", "min", "concatenate", "weighted"])
@pytest.mark.parametrize("normalize", ["none", "before", "after"])
@pytest.mark.parametrize("root", ["none", "before", "after"])
def test_pooling_is_what_it_says(aggregation, normalize, root):
    weights = {"weights": "1,2,3"} if aggregation == "weighted" else {}
    pool = DomainSizePooling(Sized(), "0.5,1,2", aggregation, normalize=normalize, root=root, **weights)
    values, valid = pool.describe(IMAGE, PLACES)
    assert valid.all()
    for row, size, (x, _) in zip(values, PLACES.size_px, PLACES.xy, strict=True):
        expected = restated(size, x, (0.5, 1, 2), aggregation, normalize, root, weights=(1, 2, 3))
        assert row == pytest.approx(expected, rel=2e-6)


def test_l1_norm_is_another_norm():
    one, _ = DomainSizePooling(Sized(), norm="l1").describe(IMAGE, PLACES)
    assert np.abs(one).sum(axis=1) == pytest.approx([1, 1, 1], rel=1e-6)


def test_scale_weights_restated():
    scales = np.array([0.8, 1.0, 1.5])
    for name, formula in (
        ("gaussian", lambda a: np.exp(-0.5 * (np.log(a) / 0.3) ** 2)),
        ("triangular", lambda a: max(0.0, 1 - abs(np.log(a)) / 0.3)),
        ("uniform", lambda a: 1.0),
    ):
        raw = np.array([formula(a) for a in scales])
        assert scale_weights(scales, name, 0.3) == pytest.approx(raw / raw.sum())
    with pytest.raises(InputError, match="vanish at all scales"):
        scale_weights(np.array([2.0, 3.0]), "triangular", 0.1)


def test_failed_scales_are_left_out_and_concatenation_needs_all():
    base = Sized(fails_above=9.0)
    values, valid = DomainSizePooling(base, "1,2", normalize="none").describe(IMAGE, PLACES)
    assert valid.all()
    assert values[2] == pytest.approx(plain(6.0, 30))
    assert values[0] == pytest.approx((plain(4.0, 10) + plain(8.0, 10)) / 2)
    _, valid = DomainSizePooling(base, "1,2", "concatenate").describe(IMAGE, PLACES)
    assert valid.tolist() == [True, False, False]
    values, valid = DomainSizePooling(Sized(fails_above=3), "1,2").describe(IMAGE, PLACES)
    assert not valid.any()
    assert not values.any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scales": "1,x"}, "numbers"),
        ({"scales": "0,1"}, "positive"),
        ({"aggregation": "mean"}, "unknown aggregation"),
        ({"weighting": "gaussian"}, "only with aggregation=weighted"),
        ({"weights": "1,2,3"}, "only with aggregation=weighted"),
        ({"weight_sigma": 1.0}, "only with aggregation=weighted"),
        ({"aggregation": "weighted", "weights": "1,2"}, "2 weights for 3 scales"),
        (
            {"aggregation": "weighted", "weights": "1,2,3", "weighting": "uniform"},
            "weights cannot be combined with weighting and weight_sigma",
        ),
        ({"aggregation": "weighted", "weighting": "uniform", "weight_sigma": 1.0}, "no effect"),
        ({"aggregation": "weighted", "weighting": "linear"}, "unknown weighting"),
        ({"normalize": "twice"}, "value of normalize"),
        ({"norm": "l1", "normalize": "none"}, "no effect"),
        ({"norm": "l3"}, "unknown norm"),
        ({"base": Sized(rooted=True), "root": "after"}, "already square-rooted"),
    ],
)
def test_options_without_effect_are_refused(options, words):
    with pytest.raises((InputError, UnknownNameError), match=words):
        DomainSizePooling(options.pop("base", Sized()), **options)


def test_a_user_adds_a_pooling_as_a_descriptor(tmp_path):
    file = tmp_path / "pools.py"
    file.write_text(
        "import numpy as np\nclass Median:\n"
        "    def pool(self, stack, scales): return np.median(stack, axis=0) * len(scales)\n"
        "class Bad:\n    def pool(self, stack, scales): return stack\nclass None_:\n    pass\n"
    )
    made = DomainSizePooling(Sized(), "1,2,3", f"{file}:Median", normalize="none")
    values, _ = made.describe(IMAGE, PLACES)
    assert values[0] == pytest.approx(3 * plain(8.0, 10))
    with pytest.raises(InputError, match="must return 3 rows"):
        DomainSizePooling(Sized(), "1,2", f"{file}:Bad").describe(IMAGE, PLACES)
    with pytest.raises(InputError, match=r"pool\(stack, scales\) is missing"):
        DomainSizePooling(Sized(), "1,2", f"{file}:None_")
    one = resolve(f"dsp:sift?aggregation={file}:Median", family="keypoints")
    two = resolve("dspsift", family="keypoints")
    item = Item("a/1", "x")
    assert one.key(item) is not None
    assert one.key(item) != two.key(item)


def test_components_are_normalised_before_they_are_joined():
    loud = Fusion([Sized(factor=512.0), Sized(columns=4)])
    quiet = Fusion([Sized(), Sized(columns=4)])
    one, valid = loud.describe(IMAGE, PLACES)
    assert one == pytest.approx(quiet.describe(IMAGE, PLACES)[0], rel=1e-6)
    assert valid.all()
    parts = [plain(4.0, 10), plain(4.0, 10, 4)]
    expected = np.concatenate([p / np.linalg.norm(p) for p in parts]) / np.sqrt(2)
    assert one[0] == pytest.approx(expected, rel=1e-6)


def test_fusion_blends_and_weighs():
    pair = [Sized(), Sized(factor=-1.0)]
    weighted, _ = Fusion(pair, "weighted", "3,1").describe(IMAGE, PLACES)
    unit = plain(5.0, 20) / np.linalg.norm(plain(5.0, 20))
    assert weighted[1] == pytest.approx(unit, rel=1e-6)
    _, none_left = Fusion(pair, "average").describe(IMAGE, PLACES)
    assert not none_left.any()
    joined, _ = Fusion([Sized(), Sized()], weights="2,1").describe(IMAGE, PLACES)
    assert np.linalg.norm(joined[0, :3]) == pytest.approx(2 * np.linalg.norm(joined[0, 3:]), rel=1e-6)
    _, valid = Fusion([Sized(), Sized(fails_above=5)]).describe(IMAGE, PLACES)
    assert valid.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("components", "options", "words"),
    [
        ([Sized(), Sized(columns=4)], {"aggregation": "average"}, "equal dimension"),
        ([Sized(), Sized()], {"aggregation": "average", "weights": "1,2"}, "have an effect only"),
        ([Sized(), Sized()], {"aggregation": "weighted"}, "needs weights"),
        ([Sized(), Sized()], {"weights": "1"}, "1 weights for 2"),
        ([Sized(), Sized()], {"weights": "0,0"}, "or all zero"),
    ],
)
def test_fusion_refuses_what_has_no_meaning(components, options, words):
    with pytest.raises(InputError, match=words):
        Fusion(components, **options).describe(IMAGE, PLACES)


class PairedPlaces:
    def __init__(self, ids, keypoints):
        self.ids, self.keypoints = np.asarray(ids), keypoints

    def pair_ids(self, item):
        return self.ids

    def detect_item(self, item, image):
        return self.keypoints


class Side:
    def __init__(self, detector, descriptor):
        self.detector, self.descriptor, self.keypoint_set = detector, descriptor, None


def test_pairs_are_checked_by_number_not_by_order():
    first, second = Sized(), Sized(columns=2)
    moved = Keypoints.at(PLACES.xy + 1, size_px=9.0)
    good = [Side(PairedPlaces([4, 5, 6], PLACES), first), Side(PairedPlaces([4, 5, 6], moved), second)]
    fused = FusionOfPairs(Fusion([first, second]), good, name="pairs")
    keypoints, values, valid = fused.extract_item(Item("a/1", "x"), IMAGE)
    assert np.array_equal(keypoints.xy, PLACES.xy)
    expected, _ = Fusion([first, second]).join([first.describe(IMAGE, PLACES), second.describe(IMAGE, moved)])
    assert np.array_equal(values, expected)
    assert valid.all()
    bad = [good[0], Side(PairedPlaces([5, 4, 6], moved), second)]
    with pytest.raises(InputError, match="do not correspond"):
        FusionOfPairs(Fusion([first, second]), bad, name="pairs").extract_item(Item("a/1", "x"), IMAGE)
