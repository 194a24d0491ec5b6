# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.geometry.correspondence import (
    answers,
    covisible,
    in_view,
    locations,
    nearest_answers,
    nearest_pairs,
    points_within,
    project_unchecked,
)

SIZE = (60, 40)


def image_of(h, p):
    x, y, w = (sum(h[i][k] * v for k, v in enumerate((*p, 1.0))) for i in range(3))
    return None if w <= 0 else (x / w, y / w)


def plain_answers(h, source, target, size, tau, policy):
    """Right answers by plain loops: list of (status, [targets])."""
    out = []
    for p in source:
        q = image_of(h, p)
        if q is None or not (-0.5 <= q[0] <= size[0] - 0.5 and -0.5 <= q[1] <= size[1] - 0.5):
            out.append(("out_of_view", []))
            continue
        near = [(math.dist(q, t), j) for j, t in enumerate(target) if math.dist(q, t) <= tau]
        if policy != "all_within_tau" and near:
            near = [min(near)]
        if policy == "mutual" and near:
            back = image_of(np.linalg.inv(h), target[near[0][1]])
            best = min((math.dist(back, s), i) for i, s in enumerate(source))
            near = near if source[best[1]] == p and best[1] == source.index(p) else []
        out.append(("answered" if near else "not_redetected", sorted(j for _, j in near)))
    return out


@pytest.mark.parametrize("policy", ["all_within_tau", "nearest", "mutual"])
def test_answers_against_plain_loops(policy):
    rng = np.random.default_rng(3)
    for _ in range(20):
        h = np.eye(3) + rng.normal(0, [[0.05, 0.05, 4], [0.05, 0.05, 4], [1e-3, 1e-3, 0]])
        source = [tuple(p) for p in rng.uniform(0, SIZE, (25, 2))]
        target = [tuple(p) for p in rng.uniform(0, SIZE, (60, 2))]
        found = answers(h, source, target, source_size=SIZE, target_size=SIZE, tau_px=4, policy=policy)
        names = ("answered", "out_of_view", "not_redetected")
        got = [
            (names[s], sorted(found.target[found.query == i].tolist())) for i, s in enumerate(found.status)
        ]
        assert got == plain_answers(h, source, target, SIZE, 4, policy)


def test_real_size_of_the_target_decides():
    wide = answers(np.eye(3), [[50, 5]], [[50, 5]], source_size=SIZE, target_size=(51, 40))
    narrow = answers(np.eye(3), [[50, 5]], [[50, 5]], source_size=SIZE, target_size=(50, 40))
    assert wide.counts()["answered"] == 1
    assert narrow.counts() == {"answered": 0, "out_of_view": 1, "not_redetected": 0}


def test_points_behind_infinity_are_out_of_view():
    h = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 30, 0, 1]])
    behind, at, front = [40.0, 1.0], [30.0, 1.0], [3.0, 1.0]
    target = project_unchecked(h, [behind, front])
    big = (4000, 4000)
    found = answers(h, [behind, at, front], np.abs(target), source_size=(10, 10), target_size=big)
    assert found.status.tolist() == [1, 1, 0]


def test_bad_arguments():
    with pytest.raises(UnknownNameError, match="policy"):
        answers(np.eye(3), [[0, 0]], [[0, 0]], source_size=SIZE, target_size=SIZE, policy="best")
    with pytest.raises(InputError, match="tau_px"):
        answers(np.eye(3), [[0, 0]], [[0, 0]], source_size=SIZE, target_size=SIZE, tau_px=0)


def test_empty_sides():
    none = np.empty((0, 2))
    assert answers(np.eye(3), none, [[1, 1]], source_size=SIZE, target_size=SIZE).counts()["answered"] == 0
    assert answers(np.eye(3), [[1, 1]], none, source_size=SIZE, target_size=SIZE).status.tolist() == [2]
    assert len(locations(none).xy) == 0


def test_nearest_is_one_answer_where_all_within_tau_has_two():
    source, target = [[10, 10]], [[11, 10], [10, 12], [10, 13.5]]
    both = answers(np.eye(3), source, target, source_size=SIZE, target_size=SIZE)
    one = answers(np.eye(3), source, target, source_size=SIZE, target_size=SIZE, policy="nearest")
    assert (both.target.tolist(), one.target.tolist()) == ([0, 1], [0])


def test_mutual_is_one_to_one():
    source, target = [[10, 10], [10, 11]], [[10, 10.2]]
    near = answers(np.eye(3), source, target, source_size=SIZE, target_size=SIZE, policy="nearest")
    mutual = answers(np.eye(3), source, target, source_size=SIZE, target_size=SIZE, policy="mutual")
    assert (near.query.tolist(), mutual.query.tolist()) == ([0, 1], [0])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_locations(points):
    found = locations(np.array(points, dtype=float).reshape(-1, 2))
    seen: list[tuple[int, int]] = []
    for i, p in enumerate(points):
        if p not in seen:
            seen.append(p)
        assert seen[found.of[i]] == p
    assert found.xy.tolist() == [list(map(float, p)) for p in seen]


def test_two_spellings_of_zero_are_one_location():
    assert locations([[0.0, 1.0], [-0.0, 1.0]]).of.tolist() == [0, 0]


@given(st.integers(0, 2**32 - 1))
def test_radius_is_inclusive_and_complete(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 8, (6, 2)).astype(float), rng.integers(0, 8, (9, 2)).astype(float)
    expected = [(i, j) for i in range(6) for j in range(9) if math.dist(a[i], b[j]) <= 5]
    near = points_within(a, b, 5)
    assert list(zip(near.query.tolist(), near.target.tolist(), strict=True)) == expected


def test_plain_projection_against_plain_loops():
    rng = np.random.default_rng(8)
    for _ in range(30):
        h = np.eye(3) + rng.normal(0, [[0.1, 0.1, 9], [0.1, 0.1, 9], [1e-2, 1e-2, 0]])
        source = rng.uniform(-50, 50, (30, 2)).astype(np.float32).astype(float)
        target = np.repeat(rng.integers(-30, 30, (20, 2)).astype(float), 2, axis=0)
        single = nearest_answers(h, source, target, tau_px=3, bound_px=25)
        pairs = nearest_pairs(h, source, target, tau_px=3, slack_px=1e-6)
        got = set(zip(pairs.query.tolist(), pairs.target.tolist(), strict=True))
        for i, (x, y) in enumerate(source):
            z = h[2] @ (x, y, 1)
            p = (h[0] @ (x, y, 1) / z, h[1] @ (x, y, 1) / z)
            d = [math.dist(p, t) for t in target]
            ok = abs(p[0]) <= 25 and abs(p[1]) <= 25 and min(d) <= 3
            assert single[i] == (d.index(min(d)) if ok else -1)
            p32 = (float(np.float32(p[0])), float(np.float32(p[1])))
            d = [math.dist(p32, t) for t in target]
            for j, dj in enumerate(d):
                assert ((i, j) in got) == (dj <= 3 and not any(dk < dj - 1e-6 for dk in d))


def test_verification_projection_is_the_float32_one_of_opencv():
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(1)
    h = np.eye(3) + rng.normal(0, 1e-3, (3, 3))
    points = rng.uniform(0, 900, (500, 2)).astype(np.float32)
    seen = cv2.perspectiveTransform(points[None], h)[0].astype(float)
    assert len(nearest_pairs(h, points, seen, tau_px=1e-4, slack_px=1e-6).query) >= 499


def test_the_target_has_its_own_size():
    points = [[90.0, 5.0]]
    assert not covisible(np.eye(3), points, (100, 10), (50, 10)).visible[0]
    assert covisible(np.eye(3), points, (100, 10), (100, 10)).visible[0]


def test_width_and_height_are_not_exchanged():
    assert in_view([[90, 5]], (100, 10)).all()
    assert not in_view([[5, 90]], (100, 10)).any()


def test_border_counts_from_the_edge_of_the_image():
    points = [[-0.5, 0], [1.4, 1.5], [1.5, 1.5], [7.5, 1.5], [7.6, 1.5]]
    assert in_view(points, (10, 10)).all()
    assert in_view(points, (10, 10), border_px=2).tolist() == [False, False, True, True, False]


def test_points_behind_are_not_in_view_even_if_the_division_lands_inside():
    h = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1.0]])
    point = [[120.0, -10.0]]  # w = -0.2: dividing gives (-600, 50); shift it back inside
    shift = np.array([[1, 0, 610], [0, 1, 0], [0, 0, 1.0]])
    x, y, w = shift @ h @ [120.0, -10.0, 1.0]
    assert in_view([[x / w, y / w]], (100, 100)).all()
    assert not covisible(shift @ h, point, (100, 100), (100, 100)).visible.any()
    assert not covisible(-shift @ h, point, (100, 100), (100, 100)).visible.any()
