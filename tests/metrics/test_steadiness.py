# SPDX-License-Identifier: BSD-3-Clause
"""Steadiness of the model of a pair: recorded figures, restatements as loops, and degenerate matches."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from choose_golden import golden, needs_golden
from tiepoint.geometry.two_view.epipolar import larger_distances
from tiepoint.metrics.steadiness import (
    CONFIRMED,
    MAX_MATCHES,
    cover,
    distinct,
    split_halves,
    split_seed,
    steadiness,
    transfer_agreement,
)

SIZES = ((512, 384), (400, 300))
KEY = "a.jpg|b.jpg"


def pair_of(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, Any]:
    matches = np.array(case["matches"], np.float64).reshape(-1, 4)
    return matches[:, :2], matches[:, 2:], (tuple(case["wh0"]), tuple(case["wh1"]))


@needs_golden
def test_halves_golden() -> None:
    for case in golden()["halves"]:
        assert str(split_seed(case["seed"], case["key"], case["split"])) == case["splitmix_seed"]
        first, second = split_halves(case["n"], case["seed"], case["key"], case["split"])
        assert (first.tolist(), second.tolist()) == (case["first"], case["second"])


@needs_golden
def test_epipolar_transfer_and_cells_golden() -> None:
    case = golden()["epipolar"]
    a, b = np.hsplit(np.array(case["matches"]), 2)
    assert larger_distances(a, b, case["F"]) == pytest.approx(case["distance"], abs=1e-6)
    case = golden()["transfer"]
    H, reference = np.array(case["H"]), np.array(case["reference"])
    sizes = (tuple(case["wh0"]), tuple(case["wh1"]))
    assert transfer_agreement(H, reference, sizes, case["t_px"]) == pytest.approx(case["score"], abs=1e-6)
    swapped = transfer_agreement(reference, H, sizes, case["t_px"])
    assert swapped == pytest.approx(case["score_swapped"], abs=1e-6)
    a, b, sizes = pair_of(golden()["cells"])
    assert cover(a, b, sizes) == pytest.approx(golden()["cells"]["cover"], abs=1e-6)


@needs_golden
def test_pairs_golden() -> None:
    cases = golden()["pairs"]
    assert len(cases) == 11
    for case in cases:
        found = steadiness(*pair_of(case), case["key"])
        assert found.matches == case["n"]
        assert found.planar == case["planar"]
        assert found.inliers_F == pytest.approx(case["inliers_F"], abs=max(3, 0.03 * case["inliers_F"]))
        assert found.inliers_H == pytest.approx(case["inliers_H"], abs=max(3, 0.03 * case["inliers_H"]))
        assert found.ungated == pytest.approx(case["steady"], abs=0.02)
        assert found.steady == pytest.approx(case["score"], abs=0.02)
        assert found.confirmed == pytest.approx(case["confirmed"], abs=max(3, 0.03 * case["confirmed"]))
        assert found.cover == pytest.approx(case["cover"], abs=0.02)


def splitmix(value: int) -> int:
    mask = (1 << 64) - 1
    z = (value + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_halves_equal_loops() -> None:
    for n in (0, 1, 2, 9, 50):
        for number in range(4):
            digest = hashlib.sha256(f"tiepoint-choose|3|{KEY}|{number}".encode()).digest()
            start = int.from_bytes(digest[:8], "big")
            order = sorted(range(n), key=lambda i: splitmix(start + i))
            first, second = split_halves(n, 3, KEY, number)
            assert first.tolist() == sorted(order[: n // 2])
            assert second.tolist() == sorted(order[n // 2 :])


def test_splitmix_wraps_at_64_bits() -> None:
    from tiepoint.core.hashing import splitmix64

    start = (1 << 64) - 2
    assert splitmix64(start, 4).tolist() == [splitmix((start + i) % (1 << 64)) for i in range(4)]


def test_distances_agreement_and_cells_equal_loops() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 400, (40, 2)), rng.uniform(-1, 300, (40, 2))
    F, H = rng.normal(size=(3, 3)), np.eye(3) + rng.normal(size=(3, 3)) * [[0.02], [0.02], [1e-5]]
    far = larger_distances(a, b, F)
    for i in range(40):
        p, q = [*a[i], 1.0], [*b[i], 1.0]
        line1 = [sum(F[r][c] * p[c] for c in range(3)) for r in range(3)]
        line0 = [sum(F[r][c] * q[r] for r in range(3)) for c in range(3)]
        r = abs(sum(q[k] * line1[k] for k in range(3)))
        assert far[i] == pytest.approx(max(r / math.hypot(*line1[:2]), r / math.hypot(*line0[:2])))
    reference = np.array([[0.9, 0.01, 3.0], [0.0, 0.8, -9.0], [1e-5, 0.0, 1.0]])
    values = []
    for i in range(16):
        for j in range(16):
            p = [(i + 0.5) / 16 * 512 - 0.5, (j + 0.5) / 16 * 384 - 0.5, 1.0]
            there = [[sum(M[r][c] * p[c] for c in range(3)) for r in range(3)] for M in (reference, H)]
            (x, y), (u, v) = ((t[0] / t[2], t[1] / t[2]) for t in there)
            if -0.5 <= x <= 399.5 and -0.5 <= y <= 299.5:
                values.append(max(0.0, 1 - math.hypot(x - u, y - v) / 9.0))
    assert transfer_agreement(H, reference, SIZES, 9.0) == pytest.approx(sum(values) / len(values))
    cells: tuple[set[Any], set[Any]] = (set(), set())
    for own, points, (w, h) in zip(cells, (a, b), SIZES, strict=True):
        for x, y in points:
            cell = [min(7, max(0, math.floor((v + 0.5) / s * 8))) for v, s in ((x, w), (y, h))]
            own.add(tuple(cell))
    assert cover(a, b, SIZES) == min(map(len, cells)) / 64


def scene(n: int, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Matches of points in space that two cameras see."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.uniform(3, 6, n)])
    a = 400 * X[:, :2] / X[:, 2:] + [256, 192]
    moved = X + np.array([0.4, 0.05, 0.2])
    b = 350 * moved[:, :2] / moved[:, 2:] + [180, 150]
    return a + rng.normal(0, noise, a.shape), b + rng.normal(0, noise, b.shape)


def test_space_is_steady_and_unrelated_matches_are_not_confirmed() -> None:
    good = steadiness(*scene(150), SIZES, KEY)
    assert not good.planar
    assert good.steady > 0.85
    assert good.confirmed > 140
    rng = np.random.default_rng(1)
    bad = steadiness(rng.uniform(0, 380, (60, 2)), rng.uniform(0, 290, (60, 2)), SIZES, KEY)
    assert bad.confirmed < CONFIRMED
    assert bad.steady == 0.0
    assert bad.inliers_F >= 7  # RANSAC alone finds a model


def test_plane_is_planar() -> None:
    a = np.random.default_rng(2).uniform(0, 380, (120, 2))
    b = a * 0.7 + [11.0, -4.0] + np.random.default_rng(3).normal(0, 0.2, a.shape)
    found = steadiness(a, b, SIZES, KEY)
    assert found.planar
    assert found.steady > 0.9


def test_doubled_matches_same_figures() -> None:
    a, b = scene(80)
    once = steadiness(a, b, SIZES, KEY)
    again = steadiness(np.vstack([a, a + 1e-6]), np.vstack([b, b]), SIZES, KEY)
    assert (again.ungated, again.confirmed, again.cover) == (once.ungated, once.confirmed, once.cover)
    assert again.matches == 80
    assert again.rows.tolist() == once.rows.tolist()
    assert distinct(a, b).tolist() == list(range(80))


@pytest.mark.parametrize("n", [0, 1, 4, 7, 8, 15])
def test_few_matches_are_not_confirmed(n: int) -> None:
    a, b = scene(max(n, 1), noise=0.0)
    found = steadiness(a[:n], b[:n], SIZES, KEY)
    assert found.matches == n
    assert found.steady == 0.0
    assert found.share.shape == (n,)


def test_many_matches_use_the_first_of_split_0() -> None:
    a, b = scene(MAX_MATCHES + 500)
    found = steadiness(a, b, SIZES, KEY)
    assert found.matches == MAX_MATCHES
    start = split_seed(0, KEY, 0)
    order = sorted(range(len(a)), key=lambda i: splitmix(start + i))
    assert found.rows.tolist() == sorted(order[:MAX_MATCHES])


def test_another_seed_and_key_change_splits_only() -> None:
    a, b = scene(100, noise=1.0)
    first = steadiness(a, b, SIZES, KEY)
    for other in (steadiness(a, b, SIZES, KEY, seed=1), steadiness(a, b, SIZES, "c|d")):
        assert other.inliers_F == first.inliers_F
        assert other.ungated != first.ungated
        assert other.ungated == pytest.approx(first.ungated, abs=0.1)


def test_agreement_without_model_is_0() -> None:
    assert transfer_agreement(None, np.eye(3), SIZES, 5.0) == 0.0
    assert transfer_agreement(np.eye(3), None, SIZES, 5.0) == 0.0
    away = np.array([[1, 0, 9000.0], [0, 1, 0], [0, 0, 1]])
    assert transfer_agreement(np.eye(3), away, SIZES, 5.0) == 0.0
    flat = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0.0]])
    assert transfer_agreement(flat, np.eye(3), SIZES, 5.0) == 0.0
