# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/verification` and `/retrieval` equal plain loops on the same draws, under every protocol."""

from __future__ import annotations

from functools import partial
from itertools import chain

import keypoint_restatement as plain
import numpy as np
import pytest
from keypoint_world import GIVEN, make_features, make_scenes, run_task

from tiepoint.core.errors import InputError
from tiepoint.core.records import Features
from tiepoint.metrics.ranking.chance import chance_against_nearest
from tiepoint.tasks import TASKS
from tiepoint.tasks.keypoints.distractors import (
    bojanic_images,
    draw_below,
    other_images,
    permutation,
    query_sample,
    subsets,
    workbench_rows,
    workbench_scenes,
)
from tiepoint.tasks.keypoints.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.keypoints.verification.task import TASK as VERIFICATION

OPTIONS = {
    "tau_px": 6, "iterations": 2, "queries": 7, "distractor_images": 2, "num_distractor_scenes": 2,
    "num_distractors_per_scene": 4, "seed": 11,
}  # fmt: skip
EMPTY = ("v_two/3", "x_four/2")


def round32(x):
    return float(np.float32(x))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("verification"))


def side(features, key):
    table = features.arrays(key)
    return [tuple(p) for p in table["keypoints"][:, :2]], table["values"].tolist(), table["valid"].tolist()


@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
@pytest.mark.parametrize("task", [VERIFICATION, RETRIEVAL])
def test_workbench_against_plain_loops(root, task, style):
    role = task.name.partition("/")[2]
    opened = task.open(root, OPTIONS)
    features = make_features(opened, style=style, empty=EMPTY)
    scores, _ = run_task(task, root, features, "workbench", **OPTIONS)
    values, totals = {}, {1: 0, 0: 0, -1: 0}
    for scene in opened.sequences.scenes:
        first, *others = opened.sequences.images(scene)
        source = side(features, f"{scene}/{first}")
        targets = [side(features, f"{scene}/{k}") for k in others]
        hs = [opened.sequences.homography(scene, k).tolist() for k in others]
        names = workbench_scenes(opened, scene)
        drawn = [[] for _ in source[0]]
        for other in sorted(names) if role == "retrieval" else names:
            sizes = {k: len(side(features, f"{other}/{k}")[0]) for k in opened.sequences.images(other)}
            for part in workbench_rows(role, scene, other, sizes, len(source[0]), 4, 11):
                pool = side(features, part.image)[1]
                for q, rows in zip(part.query, part.rows, strict=True):
                    drawn[q] += [pool[r] for r in rows]
        values[scene], labels = plain.workbench_pooled(hs, source, targets, drawn, round32, 6)
        for label, n in labels.items():
            totals[label] += n
        assert scores["ap", f"scene={scene}"].value == pytest.approx(values[scene], abs=1e-12)
    mean = np.mean(list(values.values()))
    assert (
        scores["ap", "all"].value
        == scores[f"keypoint_{role}_ap", "all"].value
        == pytest.approx(mean, abs=1e-12)
    )
    views = np.mean([v for s, v in values.items() if s[0] == "v"])
    assert scores[f"{role}_viewpoint_ap", "all"].value == pytest.approx(views, abs=1e-12)
    prefix = "retrieval_num" if role == "retrieval" else "total"
    counts = [
        scores[f"{prefix}_{n}", "all"].value for n in ("true_positives", "hard_negatives", "distractors")
    ]
    assert counts == [totals[1], totals[0], totals[-1]]


def original_side(opened, features, key):
    """Positions and descriptors as the original stores them: a reference image keeps what stays in view."""
    scene, _, image = key.rpartition("/")
    points, values, _ = side(features, key)
    first, *others = opened.sequences.images(scene)
    if image != first:
        return points, values
    kept = []
    for i, p in enumerate(points):
        ends = [plain.project(opened.sequences.homography(scene, k).tolist(), p) for k in others]
        sizes = [opened.sequences.size(scene, k) for k in others]
        if all(0 <= x <= w and 0 <= y <= h for (x, y), (w, h) in zip(ends, sizes, strict=True)):
            kept.append(i)
    return [points[i] for i in kept], [values[i] for i in kept]


def original_lists(opened, features, scene, iteration, distance, retrieval):
    """Lists of (distance, right) of one scene and iteration: one for all queries, or one per query."""
    first, *others = opened.sequences.images(scene)
    points, values = original_side(opened, features, f"{scene}/{first}")
    chosen = query_sample(len(points), 7, 11, scene, iteration)
    lists = [[] for _ in chosen]
    for k in others:
        h = opened.sequences.homography(scene, k).tolist()
        target, descriptors, _ = side(features, f"{scene}/{k}")
        if not target:
            continue
        for n, q in enumerate(chosen):
            if retrieval:
                gaps = [plain.math.dist(plain.project(h, points[q]), t) for t in target]
                lists[n].append((distance(values[q], descriptors[gaps.index(min(gaps))]), True))
            else:
                j, d = plain.bojanic_nearest(values[q], descriptors, distance)
                lists[n].append((d, plain.bojanic_right(h, points[q], target, j)))
    for key in bojanic_images(opened, scene, iteration):
        _, pool = original_side(opened, features, key)
        if retrieval:
            rows = permutation(len(pool), 11, "retrieval-rows", scene, iteration, key)[:100]
            pool = [pool[r] for r in rows]
        if pool:
            for n, q in enumerate(chosen):
                lists[n].append((plain.bojanic_nearest(values[q], pool, distance)[1], False))
    return lists


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
def test_original_against_plain_loops(root, style, own):
    options = OPTIONS | {"self_distractor": own}
    opened = VERIFICATION.open(root, options)
    kind = "hamming" if style == "bits" else "l2"
    distance = plain.two_bit_cells if style == "bits" else lambda a, b: plain.squared(a, b) ** 0.5
    features = make_features(opened, style=style, empty=EMPTY, distance=kind)
    pooled, means = [], []
    for iteration in range(2):
        items, aps = [], []
        for scene in opened.sequences.scenes:
            items += chain(*original_lists(opened, features, scene, iteration, distance, False))
            found = original_lists(opened, features, scene, iteration, distance, True)
            aps += [plain.step_ap(one) for one in found]
        pooled.append(plain.step_ap(items))
        means.append(np.mean(aps))
    verification, _ = run_task(VERIFICATION, root, features, "bojanic", **options)
    retrieval, _ = run_task(RETRIEVAL, root, features, "bojanic", **options)
    assert verification["ap", "all"].value == pytest.approx(np.mean(pooled), abs=1e-12)
    assert retrieval["map", "all"].value == pytest.approx(np.mean(means), abs=1e-12)


def test_own_reference_image_as_distractor_spoils_verification(root):
    """With the switch, a query may meet itself at distance zero, labelled wrong."""
    opened = VERIFICATION.open(root, OPTIONS | {"self_distractor": True, "distractor_images": 99})
    own = [f"{s}/1" in bojanic_images(opened, s, i) for s in opened.sequences.scenes for i in range(2)]
    assert any(own)
    values = {}
    for switch in (False, True):
        options = OPTIONS | {"self_distractor": switch, "distractor_images": 99}
        features = partial(make_features, style="real")
        values[switch] = run_task(VERIFICATION, root, features, "bojanic", **options)[0]["ap", "all"].value
        assert all(
            f"{s}/1" not in bojanic_images(VERIFICATION.open(root, OPTIONS), s, 0) for s in ("i_one", "v_two")
        )
    assert values[True] < values[False]


def exact_lists(opened, features, scene, iteration, distance, retrieval, every=False):
    first, *others = opened.sequences.images(scene)
    source = side(features, f"{scene}/{first}")
    places, rows = plain.distinct(source[0])
    chosen = query_sample(len(places), 7, 11, scene, iteration)

    def gap(q, target, columns):
        return [
            min(
                (
                    distance(source[1][a], target[1][b])
                    for a in rows[q]
                    for b in c
                    if source[2][a] and target[2][b]
                ),
                default=plain.INF,
            )
            for c in columns
        ]

    lists = [[] for _ in chosen]
    for k in others:
        h = opened.sequences.homography(scene, k).tolist()
        target = side(features, f"{scene}/{k}")
        spots, columns = plain.distinct(target[0])
        for n, q in enumerate(chosen):
            p = plain.project(h, places[q])
            if not plain.in_image(p, opened.sequences.size(scene, k)):
                continue
            right = [plain.math.dist(p, s) <= 6 for s in spots]
            d = gap(q, target, columns)
            if any(right):
                lists[n].append((min(x for x, r in zip(d, right, strict=True) if r), True))
            if not retrieval:
                wrong = [x for x, r in zip(d, right, strict=True) if not r]
                lists[n].append((min(wrong, default=plain.INF), False))
    if retrieval:
        lists = [one if one else None for one in lists]
    keys = other_images(opened, scene, iteration)
    if every:
        s = opened.sequences
        keys = [f"{other}/{k}" for other in s.scenes for k in s.images(other) if other != scene]
    for key in keys:
        target = side(features, key)
        spots, columns = plain.distinct(target[0])
        if every:
            for n, q in enumerate(chosen):
                if lists[n] is not None:
                    lists[n] += [(d, False) for d in gap(q, target, columns)]
            continue
        if retrieval:
            drawn = permutation(len(spots), 11, "retrieval-rows", scene, iteration, key)[:100]
            columns = [columns[r] for r in drawn]
        for n, q in enumerate(chosen):
            if lists[n] is not None:
                lists[n].append((min(gap(q, target, columns), default=plain.INF), False))
    return [one for one in lists if one is not None]


@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
def test_exact_against_plain_loops(root, style):
    opened = VERIFICATION.open(root, OPTIONS)
    kind = "hamming" if style == "bits" else "l2"
    distance = plain.hamming if style == "bits" else lambda a, b: plain.squared(a, b) ** 0.5
    features = make_features(opened, style=style, empty=EMPTY, distance=kind, fail=0.1)
    pooled, means, weights = [], [], []
    for iteration in range(2):
        items, aps = [], []
        for scene in opened.sequences.scenes:
            items += chain(*exact_lists(opened, features, scene, iteration, distance, False))
            found = exact_lists(opened, features, scene, iteration, distance, True)
            aps += [plain.expected_ap(one, sum(r for _, r in one)) for one in found]
        pooled.append(plain.expected_ap_closed(items))
        means.append(np.mean(aps))
        weights.append(len(aps))
    verification, _ = run_task(VERIFICATION, root, features, **OPTIONS)
    retrieval, _ = run_task(RETRIEVAL, root, features, **OPTIONS)
    assert verification["ap", "all"].value == pytest.approx(np.mean(pooled), abs=1e-12)
    assert retrieval["map", "all"].value == pytest.approx(np.mean(means), abs=1e-12)
    assert retrieval["map", "all"].n == sum(weights)
    if style == "constant" and not features.arrays("i_one/1")["valid"].all():
        assert verification["ap", "all"].value < 1


@pytest.mark.parametrize("rows", [1, 1 << 16])
@pytest.mark.parametrize("style", ["ties", "real", "constant", "bits"])
def test_every_location_of_other_scenes_against_plain_loops(root, style, rows, monkeypatch):
    monkeypatch.setattr("tiepoint.tasks.keypoints.distractors._BLOCK_ROWS", rows)
    options = {k: v for k, v in OPTIONS.items() if k != "distractor_images"} | {"distractors": "every"}
    opened = RETRIEVAL.open(root, options)
    kind = "hamming" if style == "bits" else "l2"
    distance = plain.hamming if style == "bits" else lambda a, b: plain.squared(a, b) ** 0.5
    features = make_features(opened, style=style, empty=EMPTY, distance=kind, fail=0.1)
    means, wrong = [], 0
    for iteration in range(2):
        aps = []
        for scene in opened.sequences.scenes:
            found = exact_lists(opened, features, scene, iteration, distance, True, every=True)
            aps += [plain.expected_ap(one, sum(r for _, r in one)) for one in found]
            wrong += sum(not r for one in found for _, r in one)
        means.append(np.mean(aps))
    scores, _ = run_task(RETRIEVAL, root, features, **options)
    assert scores["map", "all"].value == pytest.approx(np.mean(means), abs=1e-12)
    assert scores["map", "pool=every"].value == scores["map", "all"].value
    assert scores["retrieval_num_distractors", "all"].value == wrong
    assert scores["map", "all"].chance < 0.2
    drawn = RETRIEVAL.open(root, {**OPTIONS, "distractors": "drawn"}).units
    assert [u.definition for u in drawn] == [u.definition for u in RETRIEVAL.open(root, OPTIONS).units]
    assert {u.definition for u in drawn}.isdisjoint(u.definition for u in opened.units)


def test_every_location_is_for_exact_alone(root):
    check = partial(RETRIEVAL.options.check_protocols, RETRIEVAL.name)
    check({"distractors": "every"}, ["exact"])
    with pytest.raises(InputError, match="needs the protocol exact and is fixed under bojanic"):
        check({"distractors": "every"}, ["exact", "bojanic"])
    with pytest.raises(InputError, match="distractor_images of keypoints/retrieval has no effect"):
        check({"distractors": "every", "distractor_images": 3}, ["exact"])


def test_constant_descriptor_is_chance(root):
    scores, _ = run_task(VERIFICATION, root, partial(make_features, style="constant"), **OPTIONS)
    assert scores["ap", "all"].value == pytest.approx(scores["ap", "all"].chance, abs=1e-12)


def test_chance_against_nearest_by_simulation():
    rng = np.random.default_rng(3)
    sizes = [4, 4, 10, 1]
    total, trials = 0.0, 20000
    for _ in range(trials):
        right = np.sort(rng.random(3))
        wrong = np.array([rng.random(m).min() for m in sizes])
        ranks = np.array([(wrong < r).sum() for r in right]) + np.arange(1, 4)
        total += (np.arange(1, 4) / ranks).mean()
    assert chance_against_nearest(3, sizes) == pytest.approx(total / trials, abs=0.006)
    assert chance_against_nearest(2, [1, 1]) == pytest.approx(
        np.mean([plain.stable_ap([(i, c in p) for i, c in enumerate(range(4))])
                 for p in plain.itertools.combinations(range(4), 2)]), abs=1e-6)  # fmt: skip


def test_random_descriptors_score_chance_in_retrieval(tmp_path):
    root = make_scenes(tmp_path, images=5, seed=9)
    features = partial(make_features, style="real", count=60, dim=24)
    options = {"tau_px": 4, "iterations": 8, "queries": 40, "distractor_images": 6}
    for protocol in ("exact", "bojanic"):
        score = run_task(RETRIEVAL, root, features, protocol, **options)[0]["map", "all"]
        assert abs(score.value - score.chance) < 0.06, protocol


def test_draws_are_what_they_say():
    assert np.array_equal(np.sort(permutation(50, "x")), np.arange(50))
    drawn = subsets(9, 4, 3000, "s")
    assert all(len(set(row)) == 4 for row in drawn.tolist())
    assert abs(np.bincount(drawn.ravel(), minlength=9) / 3000 - 4 / 9).max() < 0.05
    assert sorted(set(draw_below(3, 100, "b").tolist())) == [0, 1, 2]
    # Frozen: the streams must not change between versions.
    assert permutation(6, 42, "queries", "v_wall", 0).tolist() == [2, 3, 0, 1, 4, 5]
    assert subsets(10, 3, 2, 42, "x").tolist() == [[6, 8, 9], [5, 6, 2]]


def test_units_read_what_their_draws_need(root):
    for task in (VERIFICATION, RETRIEVAL):
        opened = task.open(root, OPTIONS)
        for unit in opened.units:
            assert set(opened.task.others(opened, unit.key)) <= set(unit.items)
            asked = set()

            features = make_features(opened)

            def arrays(key, asked=asked, features=features):
                asked.add(key)
                return features.arrays(key)

            for protocol in task.protocols:
                opened.compare(unit, Features(arrays, "l2", GIVEN), protocol)
            assert asked <= set(unit.items)


def test_fewer_scenes_than_asked_is_said(root):
    said = {p: VERIFICATION.open(root, {}).protocol_warnings([p]) for p in VERIFICATION.protocols}
    assert [len(notices) for notices in said.values()] == [1, 1, 1]
    assert "10 distractor scenes, but only 3 exist" in said["workbench"][0]
    assert "99 distractor images, but only 12 exist" in said["exact"][0]
    assert "bojanic requires 99" in said["bojanic"][0]
    assert len(VERIFICATION.open(root, {}).protocol_warnings(["workbench", "exact"])) == 2
    assert VERIFICATION.open(root, OPTIONS).protocol_warnings(VERIFICATION.protocols) == []


def test_every_option_has_an_effect(root):
    features = partial(make_features, style="real")

    def value(protocol, **change):
        return run_task(VERIFICATION, root, features, protocol, **(OPTIONS | change))[0]["ap", "all"].value

    for protocol, changes in {
        "workbench": (
            {"seed": 1},
            {"num_distractor_scenes": 1},
            {"num_distractors_per_scene": 2},
            {"tau_px": 2},
        ),
        "bojanic": (
            {"seed": 1},
            {"iterations": 1},
            {"queries": 3},
            {"distractor_images": 1},
            {"self_distractor": True},
        ),
        "exact": ({"seed": 1}, {"iterations": 1}, {"queries": 3}, {"distractor_images": 1}, {"tau_px": 2}),
    }.items():
        base = value(protocol)
        for change in changes:
            assert value(protocol, **change) != base, (protocol, change)


def test_conventions_and_curves(root):
    scores, records = run_task(VERIFICATION, root, make_features, **OPTIONS)
    [(_, steps, _)] = VERIFICATION.convention_steps(records)
    assert steps[0][1] == pytest.approx(scores["ap", "all"].value, abs=1e-12)
    assert len({v for _, v in steps}) == 3
    curves = list(VERIFICATION.curves(records))
    assert curves[0][:2] == ("all", "precision_recall")


def test_pooled_bins_give_nearly_the_score(root):
    from tiepoint.stats.pooled import pooled_statistic

    for protocol in ("exact", "bojanic"):
        score = run_task(VERIFICATION, root, partial(make_features, style="real"), protocol, **OPTIONS)[0][
            "ap", "all"
        ]
        assert pooled_statistic(score.pooled) == pytest.approx(score.value, abs=0.05)


def test_no_keypoints_at_all(root):
    opened = VERIFICATION.open(root, OPTIONS)
    features = make_features(opened, empty=tuple(i.key for i in opened.items))
    for task in (VERIFICATION, RETRIEVAL):
        for protocol in task.protocols:
            scores, _ = run_task(task, root, features, protocol, **OPTIONS)
            main = scores.get(("map", "all")) or scores["ap", "all"]
            assert np.isnan(main.value)


def test_registered():
    assert TASKS.load("keypoints/verification") is VERIFICATION
    assert TASKS.load("keypoints/retrieval") is RETRIEVAL
