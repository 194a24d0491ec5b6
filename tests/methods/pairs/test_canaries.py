# SPDX-License-Identifier: BSD-3-Clause
"""Canaries on pairs: what they give follows from the truth, from the pixels, or from nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pair_truths import pair_truth
from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.formats.image.reader import write_image
from tiepoint.methods.resolve import resolve
from tiepoint.tasks.pairs.data import oracle_features

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 60, 80, 3)).astype(np.uint8)
ITEM = Item("a--b", "content", truth_hash="t")
K = np.array([[90.0, 0, 40], [0, 90, 30], [0, 0, 1]])


class Payload(NamedTuple):
    image0: np.ndarray
    image1: np.ndarray
    queries: np.ndarray | None = None


def pose():
    angle = 0.2
    T = np.eye(4)
    T[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    T[:3, 3] = [0.5, 0.1, -0.2]
    return T


@pytest.fixture
def truth(tmp_path):
    for name, image in zip("ab", IMAGES, strict=True):
        write_image(tmp_path / f"{name}.png", image)
    images = {"image0": tmp_path / "a.png", "image1": tmp_path / "b.png"}
    return pair_truth("a--b", "s", **images, K0=K, K1=K, T_0to1=pose(), centre=0.5)


def test_oracle_points_fulfil_pose(truth):
    found = oracle_features(truth, 0.0)
    assert len(found["points0"]) == 500
    T = pose()
    t = T[:3, 3]
    cross = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
    u0, u1 = (
        (np.column_stack([found[n] + 0.5, np.ones(500)]) @ np.linalg.inv(K).T) for n in ("points0", "points1")
    )
    residual = np.einsum("ni,ij,nj->n", u1, cross @ T[:3, :3], u0)
    assert np.abs(residual).max() < 1e-12
    noisy = oracle_features(truth, 0.5)
    apart = noisy["points1"] - found["points1"]
    assert 0.45 < apart.std() < 0.55
    np.testing.assert_array_equal(noisy["points0"], found["points0"])


def test_oracle_answers_queries_and_follows_planes(truth):
    corrs = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    found = oracle_features(PairTruth(truth.pair, annotations={"corrs": corrs}), 0.0)
    np.testing.assert_array_equal(found["answers"], corrs[:, 2:])
    np.testing.assert_array_equal(found["points0"], corrs[:, :2])
    h = np.array([[1.0, 0, 30], [0, 1, 0], [0, 0, 1]])
    found = oracle_features(PairTruth(truth.pair, annotations={"H": h}), 0.0)
    np.testing.assert_allclose(found["points1"] - found["points0"], [[30, 0]] * len(found["points0"]))
    assert 0 < len(found["points0"]) < 484


def test_oracle_key_changes_with_truth():
    method = resolve("oracle", family="pairs")
    assert method.key(ITEM) != method.key(Item("a--b", "content", truth_hash="u"))


def test_oracle_without_truth_raises(truth):
    with pytest.raises(InputError, match="a--b has no true correspondences"):
        oracle_features(PairTruth(truth.pair), 0.0)
    with pytest.raises(InputError, match="this task provides no true correspondences"):
        resolve("oracle", family="pairs").extract(ITEM, Payload(*IMAGES))


def test_random_and_constant_depend_on_the_images_alone():
    queries = np.array([[3.0, 4.0], [5.0, 6.0]])
    for name in ("random", "constant"):
        method = resolve(name, family="pairs")
        first, other = (
            method.extract(Item(key, "", truth_hash=key), Payload(*IMAGES, queries)) for key in "ab"
        )
        assert all(np.array_equal(first[k], other[k]) for k in first)
        assert sorted(first) == sorted(other)
    constant = resolve("constant", family="pairs").extract(ITEM, Payload(*IMAGES, queries))
    assert constant["answers"].tolist() == [[39.5, 29.5]] * 2
    assert len(np.unique(constant["points1"], axis=0)) == 1
    first, again, other = (
        resolve("random", family="pairs").extract(ITEM, Payload(*i))["points1"]
        for i in (IMAGES, IMAGES.copy(), IMAGES[::-1])
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
