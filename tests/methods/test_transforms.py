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
