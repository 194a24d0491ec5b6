# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking` equals plain loops, scores chance on noise, and shows each quirk of the tool."""

from __future__ import annotations

import inspect
from functools import partial

import keypoint_restatement as plain
import numpy as np
import pytest
from keypoint_world import GIVEN, make_features, make_scenes, run_task

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.core.records import Features
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store
from tiepoint.tasks import TASKS
from tiepoint.tasks.keypoints.distractors import permutation
from tiepoint.tasks.keypoints.ranking.task import TASK

STYLES = ("ties", "real", "constant", "bits")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("ranking"))


def sides(opened, features, scene):
    """Reference and targets as (positions, descriptors, valid), homographies, target sizes."""
    first, *others = opened.sequences.images(scene)

    def side(k):
        table = features.arrays(f"{scene}/{k}")
        return (
            [tuple(p) for p in table["keypoints"][:, :2]],
            table["values"].tolist(),
            table["valid"].tolist(),
        )

    hs = [opened.sequences.homography(scene, k).tolist() for k in others]
    return side(first), [side(k) for k in others], hs, [opened.sequences.size(scene, k) for k in others]


@pytest.mark.parametrize("policy", ["all_within_tau", "nearest"])
@pytest.mark.parametrize("style", STYLES)
def test_exact_against_plain_loops(root, style, policy):
    opened = TASK.open(root, {})
    kind = "hamming" if style == "bits" else "l2"
    distance = plain.hamming if style == "bits" else plain.squared
    features = make_features(opened, style=style, fail=0.15, empty=("v_two/3",), distance=kind)
    scores, _ = run_task(TASK, root, features, policy=policy, tau_px=6, gallery=(5, 9), seed=4)
    every, zeros, scene_means, away_total = [], [], [], 0
    curve = {5: [], 9: []}
    for scene in opened.sequences.scenes:
        source, targets, hs, sizes = sides(opened, features, scene)
        found = []
        for k, (h, target, size) in enumerate(zip(hs, targets, sizes, strict=True)):
            ask = partial(plain.exact_queries, h, source, target, size, 6, policy, distance)
            aps, away = ask()
            away_total += away
            found += [a for a in aps if a is not None]
            zeros += [0 if a is None else a for a in aps]
            spots, _ = plain.distinct(target[0])
            order = permutation(len(spots), 4, "gallery", scene, str(k + 2)).tolist()
            for g in curve:
                curve[g] += [a for a in ask(gallery=(g, order))[0] if a is not None]
        every += found
        scene_means.append(np.mean(found))
        assert scores["true_map_micro", f"scene={scene}"].value == pytest.approx(np.mean(found), abs=1e-12)
    assert len(every) > 60
    assert scores["true_map_micro", "all"].value == pytest.approx(np.mean(every), abs=1e-12)
    assert scores["true_map_macro_by_scene", "all"].value == pytest.approx(np.mean(scene_means), abs=1e-12)
    assert scores["true_map_micro_including_zeros", "all"].value == pytest.approx(np.mean(zeros), abs=1e-12)
    assert scores["queries_out_of_view", "all"].value == away_total
    assert scores["total_queries_processed", "all"].value == len(every)
    for g, values in curve.items():
        assert scores["true_map_micro", f"gallery={g}"].value == pytest.approx(np.mean(values), abs=1e-12)
        assert scores["true_map_micro", f"gallery={g}"].n == len(values)


@pytest.mark.parametrize("style", STYLES)
def test_workbench_against_plain_loops(root, style):
    opened = TASK.open(root, {})
    features = make_features(opened, style=style, empty=("v_two/3", "i_one/1"), distance="l2")
    scores, _ = run_task(TASK, root, features, "workbench", tau_px=6)
    micro, per_scene, excluded, union = [], {}, {}, []
    for scene in opened.sequences.scenes:
        source, targets, hs, _ = sides(opened, features, scene)
        ranks = [
            r for h, t in zip(hs, targets, strict=True) for r in plain.workbench_queries(h, source, t, 6)
        ]
        per_scene[scene] = [1 / r for r in ranks if r]
        excluded[scene] = sum(r is None for r in ranks)
        micro += [r for r in ranks if r]
    ap = [1 / r for r in micro]
    assert scores["true_map_micro", "all"].value == pytest.approx(np.mean(ap), abs=1e-12)
    means = [np.mean(a) for a in per_scene.values() if a]
    assert scores["true_map_macro_by_scene", "all"].value == pytest.approx(np.mean(means), abs=1e-12)
    total = len(ap) + sum(excluded.values())
    assert scores["true_map_micro_including_zeros", "all"].value == pytest.approx(sum(ap) / total, abs=1e-12)
    zeros = [sum(a) / (len(a) + excluded[s]) for s, a in per_scene.items() if a]
    assert scores["true_map_macro_by_scene_including_zeros", "all"].value == pytest.approx(
        np.mean(zeros), abs=1e-12
    )
    union = [sum(a) / n for s, a in per_scene.items() if s[0] == "v" and (n := len(a) + excluded[s])]
    assert scores["viewpoint_map_with_zeros", "all"].value == pytest.approx(np.mean(union), abs=1e-12)
    for k in (1, 5, 10):
        hits = np.mean([r <= k for r in micro])
        assert scores[f"precision_at_{k}", "all"].value == pytest.approx(hits, abs=1e-12)
        assert scores[f"recall_at_{k}", "all"].value == scores[f"success_at_{k}", "all"].value
    assert scores["total_queries_excluded", "all"].value == sum(excluded.values())
    assert f"total_queries_processed={len(ap)};" in scores["metadata", "all"].note


def one_pair(tmp_path, source, target, h=None, size=(100, 100)):
    """A scene of two images with given (positions, descriptors) on each side."""
    from PIL import Image

    folder = tmp_path / "v_pair"
    folder.mkdir()
    for k in (1, 2):
        Image.new("RGB", size, (k, 0, 0)).save(folder / f"{k}.png")
    np.savetxt(folder / "H_1_2", np.eye(3) if h is None else h)
    tables = {}
    for k, (xy, values) in (("1", source), ("2", target)):
        xy = np.asarray(xy, float).reshape(-1, 2)
        tables[f"v_pair/{k}"] = {
            "keypoints": np.column_stack([xy, np.zeros((len(xy), 5))]),
            "values": np.asarray(values),
        }
    return Features(tables.__getitem__, "l2", GIVEN)


def value_of(tmp_path, source, target, protocol, metric="true_map_micro", **more):
    features = one_pair(tmp_path, source, target, **more)
    return run_task(TASK, tmp_path, features, protocol)[0][metric, "all"].value


FAR = [[90, 90], [70, 10], [10, 70]]


def test_twin_of_the_answer_is_wrong_for_the_tool_only(tmp_path):
    source = ([[50, 50]], [[1.0, 0]])
    target = ([[50, 50], [50, 50], [90, 90]], [[9.0, 9], [1, 0], [5, 5]])
    assert value_of(tmp_path, source, target, "exact") == 1
    (tmp_path / "b").mkdir()
    assert value_of(tmp_path / "b", source, target, "workbench") == pytest.approx(1 / 3)


def test_second_keypoint_within_tau_is_wrong_for_the_tool_only(tmp_path):
    source = ([[50, 50]], [[1.0, 0]])
    target = ([[50, 50], [51, 50]], [[9.0, 9], [1, 0]])
    assert value_of(tmp_path, source, target, "exact") == pytest.approx(1)
    (tmp_path / "b").mkdir()
    assert value_of(tmp_path / "b", source, target, "workbench") == 0.5


def test_zero_descriptor_leaves_the_tools_denominator_but_not_ours(tmp_path):
    source = ([[50, 50], [20, 20]], [[1.0, 0], [0, 0]])
    target = ([[50, 50], [20, 20]], [[1.0, 0], [3, 3]])
    features = one_pair(tmp_path, source, target)
    assert run_task(TASK, tmp_path, features, "workbench")[0]["true_map_micro", "all"].value == 1
    tables = {k: dict(features.arrays(k)) for k in ("v_pair/1", "v_pair/2")}
    tables["v_pair/1"]["valid"] = np.array([True, False])
    failed = Features(tables.__getitem__, "l2", GIVEN)
    scores, _ = run_task(TASK, tmp_path, failed)
    assert scores["true_map_micro", "all"].value == 0.5
    assert scores["queries_descriptor_failed", "all"].value == 1


def test_points_beyond_2000_px_are_lost_for_the_tool_only(tmp_path):
    source = ([[2100, 50]], [[1.0, 0]])
    target = ([[2100, 50]], [[1.0, 0]])
    features = one_pair(tmp_path, source, target, size=(2200, 100))
    assert run_task(TASK, tmp_path, features, "workbench")[0]["total_queries_excluded", "all"].value == 1
    assert run_task(TASK, tmp_path, features)[0]["true_map_micro", "all"].value == 1


def test_tool_asks_for_points_that_the_image_does_not_show(tmp_path):
    shift = np.array([[1.0, 0, 60], [0, 1, 0], [0, 0, 1]])
    source, target = ([[41, 50]], [[1.0, 0]]), ([[99, 50], [10, 10]], [[1.0, 0], [5, 5]])
    features = one_pair(tmp_path, source, target, h=shift)
    assert run_task(TASK, tmp_path, features, "workbench")[0]["total_queries_processed", "all"].value == 1
    scores, _ = run_task(TASK, tmp_path, features)
    assert (scores["total_queries_processed", "all"].value, scores["queries_out_of_view", "all"].value) == (
        0,
        1,
    )
    assert np.isnan(scores["true_map_micro", "all"].value)


def test_tie_counts_half_a_place_rounded_up_for_the_tool(tmp_path):
    source, target = ([[50, 50]], [[1.0, 0]]), ([[50, 50], [90, 90]], [[2.0, 0], [0, 0]])
    features = one_pair(tmp_path, source, target)
    assert run_task(TASK, tmp_path, features, "workbench")[0]["true_map_micro", "all"].value == 0.5
    assert run_task(TASK, tmp_path, features)[0]["true_map_micro", "all"].value == 0.75


def test_nan_descriptors_score_perfectly_for_the_tool(tmp_path):
    source = ([[50, 50]], [[np.nan, 0]])
    target = ([[50, 50], [90, 90]], [[2.0, 0], [0, 0]])
    assert value_of(tmp_path, source, target, "workbench") == 1
    (tmp_path / "b").mkdir()
    target = ([[50, 50], [90, 90]], [[2.0, 0], [np.nan, 0]])
    assert value_of(tmp_path / "b", ([[50, 50]], [[9.0, 0]]), target, "workbench") == 1


class Partly:
    """Two keypoints; the first descriptor is not a number."""

    def extract(self, image):
        return np.array([[60.0, 60], [90, 90]]), np.array([[np.nan, 0], [1, image[0, 0, 0]]], np.float32)


@pytest.mark.parametrize("transform", ["", "+l2"])
def test_nan_of_a_method_reaches_the_tools_comparison(tmp_path, transform):
    one_pair(tmp_path, ([], []), ([], []), size=(200, 200))
    (tmp_path / "m.py").write_text("import numpy as np\n\n\n" + inspect.getsource(Partly))
    method, miss = f"{tmp_path / 'm.py'}:Partly{transform}", {"on_bad": "miss"}
    with Store.open(tmp_path / "s") as store:

        def value(metric, protocol):
            request = RunRequest(method, TASK.name, tmp_path, (protocol,), {"scenes": ["v_pair"]}, miss)
            return evaluate(request, store).value(metric, "all", protocol)

        assert value("true_map_micro", "exact") == 0.5  # the first query is a miss
        assert value("true_map_micro", "workbench") == 1
        assert value("true_map_macro", "workbench") == value("true_map_macro_by_scene", "workbench") == 1
        assert value("total_queries_processed", "workbench") == 2
        for task in ("verification", "retrieval", "images", "matching"):
            for protocol in TASKS.load(f"keypoints/{task}").protocols:
                request = RunRequest(
                    method, f"keypoints/{task}", tmp_path, (protocol,), {"scenes": ["v_pair"]}, miss
                )
                evaluate(request, store)


def test_a_row_that_a_method_marks_is_a_zero_row_for_the_tool(tmp_path):
    features = one_pair(tmp_path, ([[50, 50]], [[3.0, 0]]), ([[50, 50]], [[2.0, 0]]))
    table = dict(features.arrays("v_pair/1"), valid=np.array([False]))
    marked = Features({"v_pair/1": table, "v_pair/2": features.arrays("v_pair/2")}.__getitem__, "l2", GIVEN)
    assert run_task(TASK, tmp_path, marked, "workbench")[0]["total_queries_excluded", "all"].value == 1


@pytest.mark.parametrize("name", ["ranking", "verification", "retrieval", "matching", "images"])
def test_the_border_leaves_out_what_lies_near_an_edge(root, name):
    task = TASKS.load(f"keypoints/{name}")
    few = {"iterations": 2, "queries": 5, "distractor_images": 3, "num_distractor_scenes": 2, "tau_px": 6}
    options = {k: v for k, v in few.items() if k in task.options.model_fields}
    opened = task.open(root, {})
    found = make_features(opened, style="real", given=False)

    def inside(key):
        width, height = opened.sequences.size(*key.split("/"))
        x, y = found.arrays(key)["keypoints"][:, :2].T
        keep = (x >= 9.5) & (x <= width - 10.5) & (y >= 9.5) & (y <= height - 10.5)
        assert 0 < keep.sum() < len(keep)
        return {k: v[keep] for k, v in found.arrays(key).items()}

    for protocol in task.protocols:
        scores, _ = run_task(task, root, found, protocol, border_px=10, **options)
        expected, _ = run_task(task, root, Features(inside, "l2", GIVEN), protocol, **options)
        plain, _ = run_task(task, root, found, protocol, border_px=0, **options)
        assert [repr(s) for s in scores.values()] == [repr(s) for s in expected.values()]
        assert [repr(s) for s in scores.values()] != [repr(s) for s in plain.values()]


def test_a_border_of_40_px_is_the_default_of_the_tool_only(tmp_path):
    points = [[39.5, 50], [39.4, 70], [59.5, 59.5], [59.6, 50]]
    side = (points, np.arange(4.0)[:, None] + 1)
    found = one_pair(tmp_path, side, side)
    found = Features(found.arrays, "l2")
    scores, records = run_task(TASK, tmp_path, found, "workbench")
    assert scores["total_queries_processed", "all"].value == 2
    assert TASK.record_warnings(records) == []
    assert run_task(TASK, tmp_path, found)[0]["total_queries_processed", "all"].value == 4
    _, bare = run_task(TASK, tmp_path, found, "workbench", border_px=50)
    assert "all keypoints of v_pair lie within 50 px of the border" in TASK.record_warnings(bare)[0]


def test_new_options_leave_the_identity_of_older_runs(root):
    def units(**options):
        return [u.definition for u in TASK.open(root, options).units]

    assert units() == units(tie="protocol")
    assert units() != units(tie="optimistic")
    assert units() != units(border_px=40)


def test_ties_count_nothing_where_the_document_is_asked_for(tmp_path):
    source, target = ([[50, 50]], [[1.0, 0]]), ([[50, 50], [90, 90], [80, 80]], [[2.0, 0], [0, 0], [1, 0]])
    features = one_pair(tmp_path, source, target)
    tool, _ = run_task(TASK, tmp_path, features, "workbench")
    document, _ = run_task(TASK, tmp_path, features, "workbench", tie="optimistic")
    assert tool["true_map_micro", "all"].value == pytest.approx(1 / 3)
    assert document["true_map_micro", "all"].value == 0.5
    assert document["precision_at_1", "all"].value == 0
    assert document["rank_histogram", "rank=2"].value == 1


def test_rows_of_a_projected_set_correspond(tmp_path):
    side = ([[50, 50], [20, 20]], [[1.0, 0], [5, 0]])
    features = one_pair(tmp_path, side, side)
    made = {**GIVEN, "keypoint_set": {"generation_method": "projected"}}
    known = Features(features.arrays, "l2", made)
    scores, _ = run_task(TASK, tmp_path, known, "workbench")
    assert scores["mean_precision", "all"].value == 1
    detected = run_task(TASK, tmp_path, features, "workbench")[0]["mean_precision", "all"]
    assert scores["mean_precision", "all"].note is None
    assert "rows do not correspond" in detected.note
    denied, _ = run_task(TASK, tmp_path, known, "workbench", keypoint_source="database")
    assert "rows do not correspond" in denied["mean_precision", "all"].note
    opened = TASK.open(tmp_path, {})
    assert opened.method_facts(made, "workbench") == {"rows": "corresponding"}
    assert (opened.method_facts(made, "exact"), opened.method_facts({}, "workbench")) == (
        {},
        {"border_px": 40.0},
    )


def test_tool_compares_packed_bits_as_bytes(tmp_path):
    bits = np.array([[0]], np.uint8)
    pool = np.array([[128], [15]], np.uint8)  # one bit and four bits away, but 128 and 15 as numbers
    features = one_pair(tmp_path, ([[50, 50]], bits), ([[50, 50], [90, 90]], pool))
    features = Features(features.arrays, "hamming", GIVEN)
    tables = {"v_pair/1": dict(features.arrays("v_pair/1")), "v_pair/2": features.arrays("v_pair/2")}
    tables["v_pair/1"]["values"] = np.array([[1]], np.uint8)
    features = Features(tables.__getitem__, "hamming", GIVEN)
    assert run_task(TASK, tmp_path, features)[0]["true_map_micro", "all"].value == 1
    assert run_task(TASK, tmp_path, features, "workbench")[0]["true_map_micro", "all"].value == 0.5


def test_legacy_precision_compares_row_numbers(tmp_path):
    source = ([[50, 50], [20, 20], [70, 70]], [[1.0, 0], [5, 0], [9, 9]])
    target = ([[50, 50], [70, 70], [20, 20]], [[1.0, 0], [9, 9], [5, 0]])  # rows two and three swapped
    features = one_pair(tmp_path, source, target)
    scores, _ = run_task(TASK, tmp_path, features, "workbench", keypoint_source="homography_projection")
    assert scores["mean_precision", "all"].value == pytest.approx(1 / 3)
    assert (scores["total_matches", "all"].value, scores["total_keypoints", "all"].value) == (3, 3)
    without, _ = run_task(TASK, tmp_path, features, "workbench")
    assert without["mean_precision", "all"].value == 1
    assert run_task(TASK, tmp_path, features)[0]["mean_precision", "all"].value == 1


@pytest.mark.parametrize("protocol", ["exact", "workbench"])
def test_random_descriptors_score_chance(tmp_path, protocol):
    rng = np.random.default_rng(5)
    xy = np.stack(np.meshgrid(np.arange(30) * 10.0, np.arange(14) * 10.0), -1).reshape(-1, 2)
    n = len(xy)
    source, target = ((xy, rng.normal(size=(n, 16))) for _ in range(2))
    features = one_pair(tmp_path, source, target, size=(300, 140))
    scores, _ = run_task(TASK, tmp_path, features, protocol, gallery=(50,), policy="nearest")
    score = scores["true_map_micro", "all"]
    chance = sum(1 / k for k in range(1, n + 1)) / n
    assert score.chance == pytest.approx(chance, rel=1e-12)
    second = sum(1 / k**2 for k in range(1, n + 1)) / n
    assert abs(score.value - chance) < 4 * np.sqrt((second - chance**2) / n)
    if protocol == "exact":
        fixed = scores["true_map_micro", "gallery=50"]
        assert fixed.chance == pytest.approx(sum(1 / k for k in range(1, 51)) / 50, rel=1e-12)
        assert abs(fixed.value - fixed.chance) < 4 * 0.16 / np.sqrt(n)


def test_constant_descriptor_is_exactly_chance(root):
    scores, _ = run_task(TASK, root, partial(make_features, style="constant"), tau_px=6, gallery=(5,))
    for key in (("true_map_micro", "all"), ("precision_at_5", "all"), ("mrr", "all"), ("recall_at_5", "all"),
                ("true_map_micro", "gallery=5"), ("query_auc", "all")):  # fmt: skip
        assert scores[key].value == pytest.approx(scores[key].chance, abs=1e-12), key


def test_success_and_mrr_by_enumeration():
    from itertools import combinations

    from tiepoint.metrics.ranking.first_hit import FirstBlocks, expected_reciprocal_rank, success_at

    for before, items, right in ((0, 1, 1), (2, 5, 2), (0, 6, 3), (3, 4, 4), (1, 7, 1)):
        first = FirstBlocks(*(np.array([float(x)]) for x in (before, items, right)))
        places = [min(c) + 1 + before for c in combinations(range(items), right)]
        assert expected_reciprocal_rank(first)[0] == pytest.approx(np.mean([1 / p for p in places]))
        for k in range(1, 9):
            assert success_at(first, k)[0] == pytest.approx(np.mean([p <= k for p in places]))


def test_score_does_not_depend_on_row_order_or_scale(root):
    opened = TASK.open(root, {})
    features = make_features(opened, style="ties")

    def shuffled(key):
        table = features.arrays(key)
        order = np.random.default_rng(1).permutation(len(table["values"]))
        return {name: column[order] * (4 if name == "values" else 1) for name, column in table.items()}

    a, _ = run_task(TASK, root, features, tau_px=6, gallery=())
    b, _ = run_task(TASK, root, Features(shuffled, "l2"), tau_px=6, gallery=())
    for metric in ("true_map_micro", "precision_at_1", "recall_at_10", "mrr"):
        assert a[metric, "all"].value == pytest.approx(b[metric, "all"].value, abs=1e-12)


def test_histogram_adds_up(root):
    scores, _ = run_task(TASK, root, partial(make_features, fail=0.3), tau_px=6)
    shares = {g: s.value for (m, g), s in scores.items() if m == "rank_histogram"}
    assert sum(shares.values()) == pytest.approx(1.0)
    histogram = {g: v * scores["rank_histogram", "rank=0"].n for g, v in shares.items()}
    assert sum(v for g, v in histogram.items() if g != "rank=0") == pytest.approx(
        scores["total_queries_processed", "all"].value
    )
    assert histogram["rank=never"] == pytest.approx(scores["queries_descriptor_failed", "all"].value)
    assert histogram["rank=1"] / scores["precision_at_1", "all"].n == pytest.approx(
        scores["precision_at_1", "all"].value
    )


def test_conventions_walk_from_exact_to_the_tool(tmp_path):
    """Where only the rules of the walk apply (no twins, all in view), its end is the tool's value."""
    rng = np.random.default_rng(2)
    xy = np.unique(rng.integers(0, 90, (80, 2)), axis=0).astype(float)
    n = len(xy)
    source, target = ((xy, rng.integers(0, 3, (n, 4)) + np.array([[0, 0, 0, 1.0]])) for _ in range(2))
    features = one_pair(tmp_path, source, target)
    scores, records = run_task(TASK, tmp_path, features)
    tool, _ = run_task(TASK, tmp_path, features, "workbench")
    [(metric, steps, _)] = TASK.convention_steps(records)
    assert metric == "true_map_micro"
    assert steps[0][1] == pytest.approx(scores["true_map_micro", "all"].value, abs=1e-12)
    assert steps[-1][1] == pytest.approx(tool["true_map_micro", "all"].value, abs=1e-12)
    assert len({round(v, 9) for _, v in steps}) == 3  # nothing fails here, so that step changes nothing
    curves = {name: (x, y) for _, name, x, y in TASK.curves(records)}
    assert curves["success_at_k"][1][0] == pytest.approx(scores["precision_at_1", "all"].value)


def test_scene_values_reproduce_the_scores(root):
    scores, _ = run_task(TASK, root, make_features, tau_px=6)
    for metric in ("true_map_micro", "true_map_macro_by_scene", "true_map_micro_including_zeros"):
        score = scores[metric, "all"]
        s = score.scenes
        weights = np.ones_like(s.cells) if s.weights is None else s.weights
        assert (s.cells * weights).sum() / weights.sum() == pytest.approx(score.value, abs=1e-12)
        assert set(s.kinds) == {"i", "v", "other"}


def test_every_option_has_an_effect(root):
    base, _ = run_task(TASK, root, partial(make_features, style="real"), tau_px=6)
    value = ("true_map_micro", "all")
    for change in ({"tau_px": 3}, {"policy": "nearest"}, {"policy": "mutual"}, {"scenes": ("v_two",)}):
        other, _ = run_task(TASK, root, partial(make_features, style="real"), **({"tau_px": 6} | change))
        assert other[value].value != base[value].value, change
    seeds = [
        run_task(TASK, root, partial(make_features, style="real"), tau_px=6, gallery=9, seed=s)[0]
        for s in (1, 2)
    ]
    assert len({s["true_map_micro", "gallery=9"].value for s in seeds}) == 2
    assert len({u.definition for o in ({}, {"tau_px": 2}) for u in TASK.open(root, o).units}) == 8


def test_bad_input_is_told(root, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'gallery'"):
        TASK.open(root, {"galery": 5})
    with pytest.raises(InputError, match="tau_px"):
        TASK.open(root, {"tau_px": -1})
    with pytest.raises(UnknownNameError, match="protocol"):
        TASK.comparison("workbnch")
    outside = one_pair(tmp_path, ([[500, 5]], [[1.0]]), ([[5, 5]], [[1.0]]))
    with pytest.raises(InputError, match=r"v_pair/1: keypoint 0 .* outside"):
        run_task(TASK, tmp_path, outside)
    rows = Features(lambda key: {"keypoints": np.zeros((2, 7)), "values": np.zeros((3, 4))}, "l2")
    with pytest.raises(InputError, match="2 keypoints, 3 descriptors"):
        run_task(TASK, tmp_path, rows)


def test_no_keypoints_at_all(root):
    opened = TASK.open(root, {})
    features = make_features(opened, empty=tuple(i.key for i in opened.items))
    for protocol in TASK.protocols:
        scores, _ = run_task(TASK, root, features, protocol)
        assert np.isnan(scores["true_map_micro", "all"].value)
        assert scores["true_map_micro", "all"].n == 0


def test_registered():
    assert TASKS.load("keypoints/ranking") is TASK
