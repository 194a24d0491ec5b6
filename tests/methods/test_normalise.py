# SPDX-License-Identifier: BSD-3-Clause
"""Fitted transforms against plain restatements of the two reference tools."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods import transforms
from tiepoint.methods.resolve import resolve


@pytest.fixture
def training():
    rng = np.random.default_rng(5)
    mix = rng.normal(size=(12, 12)) * np.logspace(0, -2, 12)
    return (rng.normal(size=(400, 12)) @ mix + rng.normal(size=12) * 3).astype(np.float32)


@pytest.fixture
def image(training):
    return (training[:50] * 1.1 + 0.3).astype(np.float32)


def eigen(x):
    n = len(x)
    mean = x.astype(np.float64).sum(axis=0) / n
    covariance = sum(np.outer(r, r) for r in x.astype(np.float64) - mean) / n
    values, vectors = np.linalg.eigh(covariance)
    return mean, values, vectors


def python_reference(training, image):
    _, d, v = eigen(training)
    level = sorted(d)[int(0.6 * len(d))]
    d = np.array([level if e <= level else e for e in d])
    w = sum(np.outer(v[:, k], v[:, k]) / np.sqrt(d[k]) for k in range(len(d)))
    out = []
    own = image.mean(axis=0)
    for row in image:
        y = (row - own).astype(np.float64) @ w
        y = np.sign(y) * np.abs(y) ** 0.5
        out.append(y / np.sqrt((y**2).sum()))
    return np.array(out)


def matlab_reference(training, image, clip, power=0.5):
    mean, d, v = eigen(training)
    ascending = sorted(abs(d))
    total, running, level = sum(ascending), 0.0, None
    for e in ascending:
        running += e
        if level is None and running / total > clip:
            level = e
    if clip > 0:
        d = np.array([max(e, level) for e in d])
    w = sum(np.outer(v[:, k], v[:, k]) / np.sqrt(d[k] + 1e-6) for k in range(len(d)))
    out = []
    for row in image:
        y = (row - mean.astype(np.float32)) @ w
        y = np.sign(y) * np.abs(y) ** power
        out.append(y / np.sqrt((y**2).sum()))
    return np.array(out)


def test_python_variant(training, image):
    fitted = transforms.fit_hpatches_python(training)
    found = fitted.apply(image)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, python_reference(training, image), atol=1e-6)


def test_python_variant_centres_each_image_by_itself(training, image):
    fitted = transforms.fit_hpatches_python(training)
    np.testing.assert_allclose(fitted.apply(image + 5), fitted.apply(image), atol=1e-4)


@pytest.mark.parametrize("clip", [0.0, 0.01, 0.25])
def test_matlab_variant(training, image, clip):
    fitted = transforms.fit_hpatches_matlab(training, clip=clip)
    np.testing.assert_allclose(fitted.apply(image), matlab_reference(training, image, clip), atol=1e-4)
    assert not np.allclose(fitted.apply(image + 5), fitted.apply(image), atol=1e-2)


def test_clipping_has_an_effect_and_stays_in_range(training):
    hashes = {transforms.fit_zca(training, clip=c).hash for c in (0.0, 0.01, 0.25)}
    assert len(hashes) == 3
    with pytest.raises(InputError, match="clip must be a fraction of the energy"):
        transforms.fit_zca(training, clip=1.0)


def test_zca_whitens_and_stays_near_the_input(training):
    fitted = transforms.fit_zca(training)
    white = fitted.apply(training).astype(np.float64)
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(12), atol=1e-3)
    np.testing.assert_allclose(fitted.matrix, fitted.matrix.T, atol=1e-9)


def test_pca_keeps_the_strongest_directions(training):
    rotated = transforms.fit_pca(training, dims=3).apply(training).astype(np.float64)
    variances = rotated.var(axis=0)
    assert variances.tolist() == sorted(variances, reverse=True)
    _, d, _ = eigen(training)
    np.testing.assert_allclose(variances, sorted(d, reverse=True)[:3], rtol=1e-4)
    white = transforms.fit_pca(training, dims=3, whiten=True).apply(training).astype(np.float64)
    np.testing.assert_allclose(white.std(axis=0), 1, atol=1e-4)
    with pytest.raises(InputError, match="dims must be 1 to 12"):
        transforms.fit_pca(training, dims=13)


def test_what_cannot_be_fitted_is_explained(training):
    with pytest.raises(InputError, match="more training descriptors than dimensions"):
        transforms.fit_zca(training[:12])
    training[:, 3] = 1
    with pytest.raises(InputError, match="1 of 12 directions have no variance"):
        transforms.fit_zca(training)
    training[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        transforms.fit_zca(training)
    with pytest.raises(InputError, match="fitted on 12 dimensions, but the descriptors have 5"):
        transforms.FittedTransform("x", None, np.eye(12)).apply(np.ones((2, 5)))


def test_chain_asks_for_the_fit(training, patches):
    asked = []

    def fit(method, request):
        asked.append((method.name, request.name, request.images))
        values = method.extract(Item("v_train/ref", "c", len(patches)), patches)["values"]
        return request.fit(
            np.concatenate([values + k for k in range(4)] + [np.eye(16) * k for k in range(9)])
        )

    method = resolve("resize+zca?clip=0.1+l2", family="patches", fit=fit)
    assert asked == [("resize", "zca?clip=0.1", "all")]
    assert method.name == "resize+zca?clip=0.1+l2"
    found = method.extract(Item("v_x/ref", "c", len(patches)), patches)["values"]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    other = resolve("resize+zca?clip=0.3+l2", family="patches", fit=fit)
    item = Item("v_x/ref", "c", len(patches))
    assert method.key(item) != other.key(item)


def test_fitted_transforms_need_training():
    with pytest.raises(InputError, match=r"\+zca must be fitted on the training sequences"):
        resolve("sift+zca", family="patches")
    with pytest.raises(InputError, match="did you mean 'clip'"):
        resolve("resize+zca?clap=1", family="patches", fit=lambda method, request: None)
