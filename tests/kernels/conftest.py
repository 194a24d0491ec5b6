# SPDX-License-Identifier: BSD-3-Clause
"""A plain restatement of the reference distance and of every kernel, written from the rules alone."""

from __future__ import annotations

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

from tiepoint.kernels import get_device, set_device


def lane_sum(terms):
    """Eight lanes, coordinate k to lane k mod 8, then one fixed tree; plain Python floats."""
    s = [0.0] * 8
    for k, term in enumerate(terms):
        s[k % 8] += float(term)
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def one(x, y, distance):
    """Reference value of two rows: what decides order and ties."""
    if distance == "hamming":
        return float(sum(bin(int(u) ^ int(v)).count("1") for u, v in zip(x, y, strict=True)))
    x, y = [float(v) for v in x], [float(v) for v in y]
    if distance == "cosine":
        x, y = unit(x), unit(y)
    if distance == "masked_l1":
        half = len(x) // 2
        x = [v * m for v, m in zip(x[:half], x[half:], strict=True)]
        y = [v * m for v, m in zip(y[:half], y[half:], strict=True)]
    gaps = [u - v for u, v in zip(x, y, strict=True)]
    if distance in ("l2", "cosine"):
        return lane_sum(g * g for g in gaps)
    return lane_sum(abs(g) for g in gaps)


def unit(x):
    shift = -math.frexp(max(abs(v) for v in x))[1]
    x = [math.ldexp(v, shift) for v in x]
    norm = math.sqrt(lane_sum(v * v for v in x))
    return [v / norm for v in x]


def matrix(queries, pool, distance):
    """Reference values of all pairs, vectorised over pairs, in the order of operations of `one`."""
    q, p = (_plain_rows(x, distance) for x in (queries, pool))
    columns = np.ascontiguousarray(p.T)
    step = max(1, 2**14 // len(p))  # queries at a time, so that the sums stay in the processor's cache
    return np.concatenate([_sums(q[i : i + step], columns, distance) for i in range(0, len(q), step)])


def _sums(q, columns, distance):
    s = np.zeros((8, len(q), columns.shape[1]))
    gap = np.empty(s.shape[1:])
    for k, column in enumerate(columns):
        np.subtract(q[:, k : k + 1], column, out=gap)
        if distance in ("l2", "cosine"):
            np.multiply(gap, gap, out=gap)
        else:
            np.abs(gap, out=gap)
        s[k % 8] += gap
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def _plain_rows(x, distance):
    """Rows of float64 numbers (bits for hamming) whose l2 or l1 distance is the reference value."""
    if distance == "hamming":
        return np.unpackbits(x, axis=1).astype(np.float64)
    x = x.astype(np.float64)
    if distance == "cosine":
        return np.array([unit(row) for row in x])
    half = x.shape[1] // 2
    return x[:, :half] * x[:, half:] if distance == "masked_l1" else x


def shown(value, distance):
    if distance == "l2":
        return np.sqrt(value)
    return value / 2 if distance == "cosine" else value


def nearest(value, k, exclude=None):
    index = np.empty((len(value), k), np.int64)
    for i, row in enumerate(value):
        order = np.argsort(row, kind="stable")
        index[i] = (order if exclude is None else order[order != exclude[i]])[:k]
    return index, np.take_along_axis(value, index, axis=1)


def first_two(value):
    ordered = np.sort(value, axis=1)
    second = ordered[:, 1] if value.shape[1] > 1 else np.full(len(value), np.inf)
    return value.argmin(axis=1), ordered[:, 0], (value == ordered[:, :1]).sum(axis=1), second


def rank_counts(value, query, target, position, limits=None, query_group=None, pool_group=None, own=False):
    rows = value.shape[1]
    limits = np.full((len(value), 1), rows) if limits is None else limits
    out = np.zeros((3, len(query), limits.shape[1]), np.int64)
    for t, (q, d, p) in enumerate(zip(query, target, position, strict=True)):
        keep = np.ones(rows, bool)
        if query_group is not None:
            keep &= pool_group != query_group[q]
        if own:
            keep[p] = False
        for s, limit in enumerate(limits[q]):
            inside = keep & (np.arange(rows) < limit)
            equal = inside & (value[q] == d)
            out[:, t, s] = (inside & (value[q] < d)).sum(), equal.sum(), (equal & (np.arange(rows) < p)).sum()
    return out


def hard_cases(seed=0, queries=23, rows=90, dim=16):
    """Pairs (queries, pool) on which a careless kernel goes wrong, by name."""
    rng = np.random.default_rng(seed)

    def normal(n):
        return rng.normal(size=(n, dim))

    def both(make):
        return make(queries), make(rows)

    few = normal(7).astype(np.float32)
    base = normal(1).astype(np.float32)

    def one_ulp(n):
        towards = rng.choice([-9.0, 9.0], size=(n, dim)).astype(np.float32)
        moved = np.nextafter(np.repeat(base, n, axis=0), towards)
        return np.where(rng.random((n, dim)) < 0.3, moved, base)

    def mixed_norms(n):
        return (normal(n) * 10.0 ** rng.integers(-30, 30, (n, 1))).astype(np.float32)

    return {
        "normal": both(lambda n: normal(n).astype(np.float32)),
        "float64": both(normal),
        "two formats": (normal(queries).astype(np.float32), normal(rows)),
        "odd dimension": both(lambda n: rng.normal(size=(n, 13)).astype(np.float32)),
        "whole numbers": both(lambda n: rng.integers(-2, 3, (n, dim)).astype(np.float32)),
        "bytes": both(lambda n: rng.integers(0, 256, (n, dim)).astype(np.uint8)),
        "wide bytes": both(lambda n: rng.choice([0, 255], p=[0.95, 0.05], size=(n, 300)).astype(np.uint8)),
        "int64": both(lambda n: rng.integers(-(2**40), 2**40, (n, dim))),
        "constant": both(lambda n: np.full((n, dim), 0.3, np.float32)),
        "constant float64": both(lambda n: np.full((n, dim), 0.1)),
        "duplicates": both(lambda n: few[rng.integers(0, 7, n)]),
        "half duplicates": (few, np.concatenate([normal(rows // 2).astype(np.float32)] * 2)),
        "signed zeros": both(lambda n: rng.choice([0.0, -0.0, 0.25], size=(n, dim)).astype(np.float32)),
        "one ulp": both(one_ulp),
        "large mean": both(lambda n: (1000 + normal(n)).astype(np.float32)),
        "large mean float64": both(lambda n: 1e9 + normal(n)),
        "multiples of 1/255": both(lambda n: (rng.integers(0, 3, (n, dim)) / 255).astype(np.float32)),
        "huge": both(lambda n: (normal(n) * 1e37).astype(np.float32)),
        "tiny": both(lambda n: (normal(n) * 1e-43).astype(np.float32)),
        "huge float64": both(lambda n: normal(n) * 1e148),
        "tiny float64": both(lambda n: normal(n) * 1e-162),
        "mixed norms": both(mixed_norms),
        "one row": (normal(queries).astype(np.float32), normal(1).astype(np.float32)),
        "one column": both(lambda n: rng.normal(size=(n, 1)).astype(np.float32)),
    }


CASES = sorted(hard_cases())


BOTH = (
    "test_nearest",
    "test_rank_counts",
    "test_group_ranks",
    "test_pair_distances",
    "test_properties",
    "test_invariance",
    "test_combinations",
)
DEVICES = ["cpu", "torch:cpu", *os.environ.get("TIEPOINT_TEST_DEVICES", "").split()]


def pytest_generate_tests(metafunc):
    """Tests of results run on every device; more are named in the environment, see `make test-gpu`."""
    if metafunc.module.__name__.rsplit(".")[-1] in BOTH:
        metafunc.parametrize("device", DEVICES, indirect=True)


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    """Set the device of the test. Autouse, because tests do not name it in their arguments."""
    name = getattr(request, "param", "cpu")
    if name != "cpu":
        pytest.importorskip("torch", reason="the kernels on a device need torch")
        from tiepoint.kernels.torch_backend import nearest_scan

        monkeypatch.setattr(nearest_scan, "SMALL", 0)  # not left to the processor for being small
    set_device(name)
    assert get_device() == name
    yield name
    set_device(None)


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(
        one=one, matrix=matrix, shown=shown, nearest=nearest, first_two=first_two, rank_counts=rank_counts
    )


@pytest.fixture(params=CASES)
def case(request):
    return hard_cases(seed=len(request.param))[request.param]


@pytest.fixture
def small_tiles(device, monkeypatch):
    """Tiles so small that every case spans many, with ragged edges."""
    from tiepoint.kernels import tiles
    from tiepoint.kernels.torch_backend import device as kernel_device

    monkeypatch.setattr(tiles, "TILE_COLUMNS", 17)
    monkeypatch.setattr(tiles, "TILE_BYTES", 17 * 4 * 5)
    monkeypatch.setitem(kernel_device._bytes, device, 1500)
