# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods import transforms
from tiepoint.methods.resolve import resolve


class Three:
    name = "three"

    def __init__(self, distance="l2"):
        self.distance = distance

    def describe(self, patches):
        return np.random.default_rng(3).normal(size=(len(patches), 7)), np.arange(len(patches)) != 2


def slowly(row, name):
    if name == "rootsift":
        total = sum(abs(v) for v in row)
        return [math.copysign(math.sqrt(abs(v) / total), v) for v in row]
    if name == "power":
        row = [math.copysign(math.sqrt(abs(v)), v) for v in row]
    norm = math.sqrt(sum(v * v for v in row))
    return [v / norm for v in row]


@pytest.mark.parametrize("name", ["rootsift", "l2", "power"])
def test_against_loops(name):
    values = np.random.default_rng(1).normal(size=(9, 5)) * 50
    expected = [slowly(r.tolist(), name) for r in values]
    np.testing.assert_allclose(transforms.TRANSFORMS[name].apply(values), expected, atol=1e-7)


@pytest.mark.parametrize("name", ["rootsift", "l2", "power"])
def test_zero_rows_stay_zero(name):
    assert not transforms.TRANSFORMS[name].apply(np.zeros((2, 3))).any()


def test_rootsift_makes_l2_the_hellinger_distance():
    p, q = np.array([[0.2, 0.3, 0.5]]), np.array([[0.6, 0.1, 0.3]])
    hellinger = sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in zip(p[0], q[0], strict=True))
    found = np.square(transforms.rootsift(p) - transforms.rootsift(q)).sum()
    assert found == pytest.approx(hellinger, abs=1e-7)


def test_chain_keeps_failed_rows_failed():
    from tiepoint.methods.resolve import apply_transform
    from tiepoint.methods.spec import Stage

    method = apply_transform(resolve(Three(), family="patches"), Stage("l2"))
    found = method.extract(Item("v_x/ref", "c", 4), np.zeros((4, 65, 65), np.uint8))
    assert method.name == "three+l2"
    assert found["valid"].tolist() == [True, True, False, True]
    np.testing.assert_allclose(np.linalg.norm(found["values"], axis=1), [1, 1, 0, 1], atol=1e-6)


def test_every_transform_changes_the_key_and_order_matters():
    specs = ["sift", "sift+l2", "sift+rootsift", "sift+power", "sift+l2+power", "sift+power+l2"]
    item = Item("v_x/ref", "c", 1)
    methods = [resolve(s, family="patches") for s in specs]
    assert len({m.key(item) for m in methods}) == len(specs)
    assert [m.name for m in methods] == specs
    assert [m.spec for m in methods] == specs


def test_bits_have_no_square_root():
    with pytest.raises(InputError, match=r"\+rootsift needs real-valued.*'orb' is compared by hamming"):
        resolve("orb+rootsift", family="patches")


def test_plain_transforms_take_no_parameters():
    with pytest.raises(InputError, match=r"\+l2 takes no parameters"):
        resolve("sift+l2?size=3", family="patches")


def test_half_precision_equals_struct_rounding():
    import struct

    values = np.random.default_rng(4).normal(size=(20, 8)) * np.array(
        [1e-6, 1e-3, 0.1, 1, 10, 100, 2049, 6e4]
    )
    values = np.clip(values, -65000, 65000).astype(np.float32)
    expected = [[struct.unpack("e", struct.pack("e", float(v)))[0] for v in row] for row in values]
    found = transforms.half_precision(values)
    assert found.dtype == np.float32
    assert found.tolist() == expected


def test_storage_parameter_is_the_transform_under_its_own_identity():
    plain = resolve("vlfeat-sift", family="patches")
    half = resolve("vlfeat-sift?storage=fp16", family="patches")
    assert half.name == "vlfeat-sift+fp16"
    assert half.config == resolve("vlfeat-sift+fp16", family="patches").config != plain.config
    assert resolve("vlfeat-sift?storage=fp32", family="patches").config == plain.config
    patches = np.random.default_rng(0).integers(0, 256, (3, 65, 65)).astype(np.uint8)
    item = Item("v_x/ref", "c", 3)
    values, rounded = (m.extract(item, patches)["values"] for m in (plain, half))
    assert np.array_equal(rounded, np.asarray(values, np.float32).astype(np.float16).astype(np.float32))


def test_storage_works_with_keypoints_pairs_and_further_transforms():
    pytest.importorskip("cv2")
    half = resolve("sift?max_features=20&storage=fp16", family="keypoints")
    assert half.name == "sift?max_features=20+fp16"
    assert resolve("sift@fast?threshold=9&storage=fp16", family="keypoints").name.endswith("+fp16")
    assert resolve("sift?storage=fp16+l2", family="keypoints").name == "sift+fp16+l2"
    pair = resolve("sift?storage=fp16&matcher=mnn&ratio=0.8", family="pairs")
    assert "+fp16" in pair.name
    assert pair.config != resolve("sift?matcher=mnn&ratio=0.8", family="pairs").config


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sift?storage=fp8", "unknown storage 'fp8'"),
        ("orb?storage=fp16", "needs real-valued descriptors"),
    ],
)
def test_storage_wrong_use_is_refused(spec, said):
    pytest.importorskip("cv2")
    with pytest.raises(InputError, match=said):
        resolve(spec, family="keypoints")


def test_half_precision_overflow_is_reported():
    class Large(Three):
        def describe(self, patches):
            return np.full((len(patches), 3), 70000.0)

    from tiepoint.methods.resolve import apply_transform
    from tiepoint.methods.spec import Stage

    method = apply_transform(resolve(Large(), family="patches"), Stage("fp16"))
    with pytest.raises(InputError, match="inf"):
        method.extract(Item("v_x/ref", "c", 4), np.zeros((4, 65, 65), np.uint8))
