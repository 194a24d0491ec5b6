# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/matching` and `keypoints/images` equal plain loops."""

from __future__ import annotations

from functools import partial

import keypoint_restatement as plain
import numpy as np
import pytest
from keypoint_world import GIVEN, make_features, make_scenes, run_task

from tiepoint.core.records import Features
from tiepoint.metrics.ranking.chance import chance_of_found_matches
from tiepoint.tasks import TASKS
from tiepoint.tasks.keypoints.distractors import query_sample
from tiepoint.tasks.keypoints.images.task import TASK as IMAGES
from tiepoint.tasks.keypoints.matching.task import TASK as MATCHING

EMPTY = ("v_two/3",)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("matching"))


def side(features, key):
    table = features.arrays(key)
    return [tuple(p) for p in table["keypoints"][:, :2]], table["values"].tolist(), table["valid"].tolist()


def euclid(a, b):
    return plain.squared(a, b) ** 0.5


@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
def test_original_against_plain_loops(root, style):
    options = {"iterations": 2, "queries": 14, "seed": 5}
    opened = MATCHING.open(root, options)
    distance = plain.two_bit_cells if style == "bits" else euclid
    features = make_features(
        opened, style=style, empty=EMPTY, distance="hamming" if style == "bits" else "l2"
    )
    means, i_means = [], []
    for iteration in range(2):
        found, lit = [], []
        for scene in opened.sequences.scenes:
            first, *others = opened.sequences.images(scene)
            points, values, _ = side(features, f"{scene}/{first}")
            hs = {k: opened.sequences.homography(scene, k).tolist() for k in others}
            kept = [
                i
                for i, p in enumerate(points)
                if all(
                    0 <= e[0] <= opened.sequences.size(scene, k)[0]
                    and 0 <= e[1] <= opened.sequences.size(scene, k)[1]
                    for k, e in ((k, plain.project(hs[k], p)) for k in others)
                )
            ]
            chosen = [kept[i] for i in query_sample(len(kept), 14, 5, scene, iteration)]
            for k in others:
                target, descriptors, _ = side(features, f"{scene}/{k}")
                items = []
                for q in chosen if target else ():
                    j, d = plain.bojanic_nearest(values[q], descriptors, distance)
                    items.append((d, plain.bojanic_right(hs[k], points[q], target, j)))
                if any(r for _, r in items):
                    found.append(plain.step_ap(items))
                    lit += found[-1:] if "i_" in scene else []
        means.append(np.mean(found))
        i_means.append(np.mean(lit) if lit else None)
    scores, _ = run_task(MATCHING, root, features, "bojanic", **options)
    assert scores["map", "all"].value == pytest.approx(np.mean(means), abs=1e-12)
    lit = [m for m in i_means if m is not None]
    if lit:
        assert scores["map", "kind=i"].value == pytest.approx(np.mean(lit), abs=1e-12)
    table = scores["map", "all"].scenes
    cells = [np.nansum(c * w) / w.sum() for c, w in zip(table.cells, table.weights, strict=True)]
    assert np.mean(cells) == pytest.approx(scores["map", "all"].value, abs=1e-12)


def expected_matching(items, normaliser):
    """Expected AP of uncertain items over all orders of ties; items are (distance, probability)."""
    total, before, right_before = 0.0, 0, 0.0
    items = sorted((d, p) for d, p in items if d < plain.INF)
    for _, tie in plain.itertools.groupby(items, key=lambda it: it[0]):
        p = [x for _, x in tie]
        m = len(p)
        for i, mine in enumerate(p):
            others = (sum(p) - p[i]) / (m - 1) if m > 1 else 0
            total += (
                sum(mine * (right_before + 1 + place * others) / (before + place + 1) for place in range(m))
                / m
            )
        before, right_before = before + m, right_before + sum(p)
    return total / normaliser


@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
def test_exact_against_plain_loops(root, style):
    opened = MATCHING.open(root, {})
    distance = plain.hamming if style == "bits" else plain.squared
    kind = "hamming" if style == "bits" else "l2"
    features = make_features(opened, style=style, empty=EMPTY, distance=kind, fail=0.15)
    aps = []
    for scene in opened.sequences.scenes:
        first, *others = opened.sequences.images(scene)
        source = side(features, f"{scene}/{first}")
        places, rows = plain.distinct(source[0])
        for k in others:
            h, size = opened.sequences.homography(scene, k).tolist(), opened.sequences.size(scene, k)
            target = side(features, f"{scene}/{k}")
            spots, columns = plain.distinct(target[0])
            items, answered = [], 0
            for q, place in enumerate(places):
                p = plain.project(h, place)
                if not plain.in_image(p, size):
                    continue
                right = [plain.math.dist(p, s) <= 6 for s in spots]
                answered += any(right)
                d = [
                    min((distance(source[1][a], target[1][b]) for a in rows[q] for b in c
                         if source[2][a] and target[2][b]), default=plain.INF)
                    for c in columns
                ]  # fmt: skip
                best = min(d, default=plain.INF)
                tied = [r for x, r in zip(d, right, strict=True) if x == best]
                items.append((best, sum(tied) / len(tied) if tied and best < plain.INF else 0))
            if answered:
                aps.append(expected_matching(items, answered))
    scores, _ = run_task(MATCHING, root, features, tau_px=6)
    assert scores["map", "all"].value == pytest.approx(np.mean(aps), abs=1e-12)
    assert scores["map", "all"].n == len(aps)
    if style == "constant":
        whole, _ = run_task(MATCHING, root, partial(make_features, style=style), tau_px=6)
        assert whole["map", "all"].value < 0.2


def test_conventions_start_at_exact(root):
    scores, records = run_task(MATCHING, root, partial(make_features, style="ties"), tau_px=6)
    [(_, steps, _)] = MATCHING.convention_steps(records)
    assert steps[0][1] == pytest.approx(scores["map", "all"].value, abs=1e-12)
    assert steps[1][1] > steps[0][1]


def test_skipped_pairs_make_the_original_look_better(root):
    features = partial(make_features, style="real")
    original, _ = run_task(MATCHING, root, features, "bojanic", queries=4, iterations=1)
    assert "without a correct match" in original["map", "all"].note
    assert original["map", "all"].n < 12


def test_chance_of_found_matches_by_enumeration():
    n, p = 5, 0.3
    total = weight = 0.0
    for pattern in plain.itertools.product((0, 1), repeat=n):
        r = sum(pattern)
        if r:
            w = p**r * (1 - p) ** (n - r)
            weight += w
            total += w * plain.stable_ap(list(enumerate(pattern)))
    assert chance_of_found_matches(n, p) == pytest.approx(total / weight, abs=1e-12)


def mutual(a, b, distance):
    """(i, j, distance) of rows that are each other's first nearest."""
    there = [plain.bojanic_nearest(v, b, distance)[0] for v in a]
    back = [plain.bojanic_nearest(w, a, distance)[0] for w in b]
    return [(i, j, distance(a[i], b[j])) for i, j in enumerate(there) if back[j] == i]


def ratio_matches(a, b, distance):
    out = []
    for i, v in enumerate(a):
        d = sorted((distance(v, w), j) for j, w in enumerate(b))
        # of two zeros the quotient is NaN, which is not below anything
        if len(d) >= 2 and d[1][0] > 0 and np.float32(d[0][0]) / np.float32(d[1][0]) < np.float32(0.8):
            out.append((i, d[0][1], d[0][0]))
    return out


@pytest.mark.parametrize("scorer", ["total_matches", "ratio_sum", "correct_matches"])
@pytest.mark.parametrize("matching", ["brute_force", "ratio_test"])
def test_images_workbench_against_plain_loops(root, matching, scorer):
    opened = IMAGES.open(root, {})
    features = make_features(opened, style="ties", empty=EMPTY)
    match = mutual if matching == "brute_force" else ratio_matches
    aps = {}
    for scene in opened.sequences.scenes:
        query = side(features, f"{scene}/1")[1]
        ranked = []
        for item in opened.items:
            other, _, image = item.key.rpartition("/")
            values = side(features, item.key)[1]
            if item.key == f"{scene}/1" or not values:
                continue
            found = match(query, values, euclid)
            if scorer == "total_matches":
                value = len(found)
            elif scorer == "ratio_sum":
                value = sum(1 / (1 + d) for _, _, d in found)
            else:
                value = sum(i == j for i, j, _ in found) if other == scene else 0
            ranked.append((-value, other, image))
        hits = [other == scene for _, other, _ in sorted(ranked)]
        aps[scene] = plain.stable_ap(list(enumerate(hits)))
    scores, _ = run_task(IMAGES, root, features, "workbench", matching=matching, scorer=scorer)
    assert scores["map", "all"].value == pytest.approx(np.mean(list(aps.values())), abs=1e-12)


def test_the_ratio_test_is_in_single_precision_for_the_tool_only(tmp_path):
    """Distances are roots of 112 and 175, their quotient is 0.8: less in float32, and not in float64."""
    near, far = [10, 3, 1, 1, 1], [13, 2, 1, 1, 0]
    values = {
        "v_two/1": [[0] * 5],
        "v_two/2": [near, far],
        "i_one/1": [near, near],
        "i_one/2": [near, near],
    }
    make_scenes(tmp_path, names=("i_one", "v_two"), images=2)
    tables = {
        key: {"keypoints": np.full((len(v), 7), 20.0), "values": np.array(v, np.float32)}
        for key, v in values.items()
    }
    features = Features(tables.__getitem__, "l2", GIVEN)
    tool, _ = run_task(IMAGES, tmp_path, features, "workbench", matching="ratio_test")
    assert tool["map", "scene=v_two"].value == 1  # one match, where the images of i_one have none
    ours, _ = run_task(IMAGES, tmp_path, features, matching="ratio_test")
    assert ours["map", "scene=v_two"].value == pytest.approx(ours["map", "scene=v_two"].chance)


def test_images_break_ties_by_the_alphabet_for_the_tool_only(root):
    """With one constant descriptor every image scores the same: names decide, or nothing does."""
    features = partial(make_features, style="constant")
    tool, _ = run_task(IMAGES, root, features, "workbench")
    ours, _ = run_task(IMAGES, root, features)
    assert tool["map", "scene=i_one"].value == 1.0
    assert tool["map", "scene=x_four"].value < 0.2
    assert ours["map", "all"].value == pytest.approx(ours["map", "all"].chance, abs=1e-12)


def test_images_exact_keeps_empty_images(root):
    opened = IMAGES.open(root, {})
    features = make_features(opened, style="real", empty=("v_two/3", "v_three/1"))
    scores, records = run_task(IMAGES, root, features)
    assert all(len(r) == 15 for r in records)
    assert scores["map", "scene=v_three"].value == pytest.approx(scores["map", "scene=v_three"].chance)
    tool, _ = run_task(IMAGES, root, features, "workbench")
    assert ("map", "scene=v_three") not in tool


def test_every_option_has_an_effect(root):
    real = partial(make_features, style="real")
    base = run_task(IMAGES, root, real)[0]["map", "all"].value
    for change in ({"matching": "ratio_test"}, {"scorer": "ratio_sum"}, {"scenes": ("v_two", "i_one")}):
        assert run_task(IMAGES, root, real, **change)[0]["map", "all"].value != base, change
    tied = partial(make_features, style="ties", dim=3)
    assert len({run_task(IMAGES, root, tied, seed=s)[0]["map", "all"].value for s in range(4)}) > 1
    base = run_task(MATCHING, root, real, "bojanic", queries=5)[0]["map", "all"].value
    for change in ({"seed": 1}, {"iterations": 2}, {"queries": 9}):
        other = run_task(MATCHING, root, real, "bojanic", **({"queries": 5} | change))[0]["map", "all"].value
        assert other != base, change
    a, b = (run_task(MATCHING, root, real, tau_px=t)[0]["map", "all"].value for t in (6, 9))
    assert a != b


def test_registered():
    assert TASKS.load("keypoints/matching") is MATCHING
    assert TASKS.load("keypoints/images") is IMAGES
