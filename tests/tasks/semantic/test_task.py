# SPDX-License-Identifier: BSD-3-Clause
"""`semantic/pck`: recorded figures of every tool, traps, groups, intervals, and forms of answers."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp
from pose_golden import DATA, assert_close, golden, needs_golden
from tiepoint.core.errors import InputError
from tiepoint.core.records import Records
from tiepoint.tasks import TASKS
from tiepoint.tasks.semantic.protocols import (
    AMBIGUOUS,
    PROTOCOLS,
    PckRule,
    ambiguous_points,
    errors_of,
    is_correct,
    make_pck_frame,
)
from tiepoint.tasks.semantic.score import convention_steps, score

TASK = TASKS.load("semantic/pck")
RECORDED = {
    "hpf": ("hpf.correct_kps, intratio 1", {"frame": "original"}, ""),
    "dhpf": ("dhpf.classify_prd, stretched to 240", {}, ""),
    "cats": ("cats.classify_prd, target to source, source box, stretched to 256", {}, ""),
    "dift": ("dift: dist/threshold <= alpha, original pixels", {}, ""),
    "hyperfeatures": ("hyperfeatures.compute_pck, box, original pixels", {}, ""),
    "hyperfeatures-image": ("hyperfeatures.compute_pck, image size", {}, "image"),
    "geoaware": ("geoaware.preprocess_kps_pad 840 and the compute_pck comparison (strict)", {}, ""),
    "distilldift-stretched": (
        "distilldift.preprocess_kps_pad 840 without padding, threshold L*scale_y (strict)", {}, "",
    ),
    "distilldift-min": ("same, threshold L*min(scale_x, scale_y)", {"box_scale": "min"}, ""),
    "exact": ("exact (ours): original pixels, box, <=", {}, ""),
}  # fmt: skip
BASE = {"hyperfeatures": "exact", "hyperfeatures-image": "exact", "distilldift-min": "distilldift-stretched"}


def record(found: Any, truth: Any, size: Any, box: Any = None, **meta: Any) -> Records:
    """Records of one pair as the task leaves them."""
    points = np.asarray(truth, np.float64)
    made = {"found": np.asarray(found, np.float64), "truth": points}
    made["ambiguous"] = np.asarray(meta.pop("ambiguous", np.full(len(points), -1)), np.int8)
    facts = {
        "pair": "p", "scene": "s", "dataset": "spair", "category": "dog", "images": ["a", "b"], "flags": {},
        "absent": False, "alphas": [], "length": "", "size": list(size), "box": box,
    }  # fmt: skip
    return Records("pair", made, {**facts, **meta})


def recorded_pairs(*, back: bool = False) -> list[Records]:
    """The three recorded SPair pairs with the predictions that were scored."""
    side, found = ("source", "pred_in_source") if back else ("target", "pred")
    return [
        record(
            v[found], v[f"{side}_points"], v[f"{side}_size"], v[f"{side}_box"],
            pair=str(v["pair"]), scene=str(v["pair"]), category=v["category"],
        )
        for v in golden()["pck_spair"]
    ]  # fmt: skip


@needs_golden
@pytest.mark.parametrize("protocol", RECORDED)
def test_recorded_pck_of_spair_pairs(protocol: str) -> None:
    key, change, length = RECORDED[protocol]
    rule = replace(PROTOCOLS[BASE.get(protocol, protocol)], **change)
    expected = [v["out"][key] for v in golden()["pck_spair"]]
    for r, figures in zip(recorded_pairs(back=rule.back), expected, strict=True):
        pair = make_pck_frame(r, rule, length)
        error = errors_of(pair, rule)
        found = {a: is_correct(error, pair.length, float(a), rule).mean() for a in figures}
        assert_close(list(found.values()), list(figures.values()), 1e-7)


@needs_golden
@pytest.mark.parametrize("protocol", ["dhpf", "cats", "dift", "geoaware", "distilldift-stretched", "exact"])
def test_the_score_is_the_mean_of_the_recorded_pairs(protocol: str) -> None:
    key, rule = RECORDED[protocol][0], PROTOCOLS[protocol]
    values = {(s.metric, s.group): s.value for s in score(recorded_pairs(back=rule.back), protocol)}
    for alpha in rule.alphas:
        expected = np.mean([v["out"][key][f"{alpha:g}"] for v in golden()["pck_spair"]])
        assert_close(values["pck", f"alpha={alpha},per=pair"], expected, 1e-7)


@needs_golden
def test_recorded_padding_of_geoaware() -> None:
    for r, v in zip(recorded_pairs(), golden()["pck_spair"], strict=True):
        scale, x, y = v["out"]["geoaware scale, offsets"]
        moved = make_pck_frame(r, PROTOCOLS["geoaware"]).truth
        assert_close(moved, np.asarray(r["truth"]) * scale + [x, y], 1e-6)


@needs_golden
def test_recorded_extent_with_and_without_padding() -> None:
    """Trap: padding of -1 in PF-WILLOW makes the length 201 instead of 140."""
    recorded = golden()["pck_willow"]
    truth = np.array(recorded["keypoints (2 x 10)"]).T
    r = record(truth, truth, (240, 240), dataset="pf-willow")
    padded, plain = make_pck_frame(r, PROTOCOLS["dhpf"]).length, make_pck_frame(r, PROTOCOLS["hpf"]).length
    assert padded == recorded["dhpf.get_pckthres (40 columns, -1 padding)"]
    assert plain == recorded["hpf.get_pckthres (10 columns)"]
    assert make_pck_frame(r, PROTOCOLS["exact"]).length == plain


def recorded_planes() -> list[Records]:
    """The four made-up aeroplane pairs of the geometry-aware run, lengths as given."""
    v = golden()["pck_geoaware"]
    keypoints, found = np.array(v["keypoints"]), np.array(v["preds"])
    made = []
    for i, length in enumerate(v["thresholds"]):
        source, target = keypoints[2 * i], keypoints[2 * i + 1]
        both = (source[:, 2] > 0) & (target[:, 2] > 0)
        ids = np.flatnonzero(both)
        told = ambiguous_points(ids, np.flatnonzero(target[:, 2] > 0), AMBIGUOUS["aeroplane"])
        box = [0.0, 0.0, length, 0.0]
        made.append(record(found[i][both], target[both, :2], (840, 840), box, ambiguous=told, pair=str(i)))
    return made


@needs_golden
def test_recorded_left_right_subset_of_geoaware() -> None:
    recorded = golden()["pck_geoaware"]
    groups = [tuple(g) for g in recorded["groups"] if isinstance(g, list)]
    assert tuple(groups) == tuple(AMBIGUOUS["aeroplane"])
    scores = {(s.metric, s.group): s for s in score(recorded_planes(), "geoaware")}
    alphas = recorded["alphas"]

    def values(**parts: Any) -> list[float]:
        return [scores["pck", tp_group(alpha=a, **parts)].value for a in alphas]

    figures = recorded["out"]["per image"]
    assert_close(values(per="point"), figures["point"][:3], 1e-6)
    assert_close(values(per="pair"), figures["image"][:3], 1e-6)
    assert_close(values(geometry="ambiguous", per="point"), figures["geo"][2:5], 1e-6)
    assert scores["pck", tp_group(alpha=0.1, geometry="ambiguous", per="point")].n == figures["geo"][5]
    shares = [scores[name, "all"].value for name in ("ambiguous_pairs", "ambiguous_points")]
    assert_close(shares, figures["geo"][:2], 1e-12)


def tp_group(**parts: Any) -> str:
    from tiepoint.core.scores import group_name

    return group_name(**parts)


def test_a_group_counts_from_two_keypoints_of_the_target() -> None:
    assert ambiguous_points([4], [4], [(4, 5)]).tolist() == [False]
    assert ambiguous_points([4], [4, 5], [(4, 5)]).tolist() == [True]  # 5 need not be in the source


def test_the_rim_is_right_under_exact_and_wrong_where_strict() -> None:
    """Trap: `<` and `<=` differ for a point exactly alpha L away."""
    r = record([[10.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], (840, 840), [0.0, 0.0, 100.0, 50.0])
    rule = PckRule()
    pair = make_pck_frame(r, rule)
    error = errors_of(pair, rule)
    assert is_correct(error, pair.length, 0.1, rule).tolist() == [True, True]
    assert is_correct(error, pair.length, 0.1, replace(rule, strict=True)).tolist() == [False, True]
    values = {p: score([r], p)[0].value for p in ("exact", "geoaware")}
    assert values == {"exact": 1.0, "geoaware": 1.0}  # 0.1 as float32 is above 0.1: 10 < 10.00000015
    near = record([[1.0, 0.0]], [[0.0, 0.0]], (840, 840), [0.0, 0.0, 100.0, 50.0])
    for protocol, expected in (("exact", 1.0), ("geoaware", 0.0)):
        found = {s.group: s.value for s in score([near], protocol)}
        assert found["alpha=0.01,per=pair"] == expected


def single_precision_pck(name: str, found: Any, truth: Any, size: Any, box: Any, alpha: float) -> list[bool]:
    """Which points are right in the float32 arithmetic of the tools, step by step."""
    f = np.float32
    if name == "hpf":
        factor = f(300) / f(max(size)) if max(size) > 300 else f(1)
        factors = (factor, factor)
        length = f(max(f(box[2]) - f(box[0]), f(box[3]) - f(box[1])) * factor)
    else:
        side = {"dhpf": 240, "cats": 256}[name]
        factors = (f(side / size[0]), f(side / size[1]))
        x0, y0, x1, y1 = (f(f(v) * factors[i % 2]) for i, v in enumerate(box))
        length = max(f(x1 - x0), f(y1 - y0))
    right = []
    for p, q in zip(found, truth, strict=True):
        gaps = [f(f(f(p[i]) * factors[i]) - f(f(q[i]) * factors[i])) for i in (0, 1)]
        error = np.sqrt(f(f(gaps[0] * gaps[0]) + f(gaps[1] * gaps[1])))
        right.append(bool(error <= f(length * f(alpha))))
    return right


@pytest.mark.parametrize("name", ["hpf", "dhpf", "cats"])
def test_length_in_float32_decides_points_on_the_rim(name: str) -> None:
    """Points exactly alpha L away, in the frame of the tool, whose boxes are at whole pixels."""
    rng = np.random.default_rng(3)
    rule, moved = PROTOCOLS[name], 0
    other = replace(rule, single_length=False)
    for _ in range(300):
        w, h = (int(v) for v in rng.integers(200, 640, 2))
        x0, y0 = (int(v) for v in rng.integers(0, 60, 2))
        box = [float(v) for v in (x0, y0, *rng.integers(90, 190, 2))]
        truth = rng.integers(0, 190, (6, 2)).astype(np.float64)
        kind, _, side = rule.frame.partition(":")
        sx, sy = (int(side) / w, int(side) / h) if kind == "stretch" else [min(1, int(side) / max(w, h))] * 2
        long = max((box[2] - box[0]) * sx, (box[3] - box[1]) * sy)
        found = truth + np.array([0.1 * long / sx, 0.0])
        r = record(found, truth, (w, h), box)
        pair = make_pck_frame(r, rule)
        own = is_correct(errors_of(pair, rule), pair.length, 0.1, rule).tolist()
        assert own == single_precision_pck(name, found, truth, (w, h), box, 0.1)
        assert {s.group: s.value for s in score([r], name)}["alpha=0.1,per=pair"] == np.mean(own)
        pair = make_pck_frame(r, other)
        moved += own != is_correct(errors_of(pair, other), pair.length, 0.1, other).tolist()
    assert moved > 5


def test_hpf_scales_the_extent_of_willow_in_float32() -> None:
    rng = np.random.default_rng(4)
    truth = rng.uniform(0, 400, (10, 2))
    r = record(truth, truth, (457, 411), dataset="pf-willow")
    single = truth.astype(np.float32)
    extent = max(single[:, i].max() - single[:, i].min() for i in (0, 1))
    assert make_pck_frame(r, PROTOCOLS["hpf"]).length == float(extent * (np.float32(300) / np.float32(457)))
    r = record(truth, truth, (457, 411), dataset="pf-pascal")
    expected = np.float32(457) * (np.float32(300) / np.float32(457))
    assert make_pck_frame(r, PROTOCOLS["hpf"]).length == float(expected)


def test_stretching_turns_the_circle_into_an_ellipse() -> None:
    r = record([[12.0, 0.0]], [[0.0, 0.0]], (400, 200), [0.0, 0.0, 100.0, 100.0])
    assert score([r], "exact")[0].value == 0.0
    assert score([r], "dhpf")[0].value == 1.0  # 12 px are 7.2 of 120 after stretching
    wide = make_pck_frame(r, PROTOCOLS["distilldift-stretched"]).length / 840 * 400
    assert wide == pytest.approx(200)  # the vertical factor makes it twice as long as the box


def test_steps_lead_from_each_tool_to_exact() -> None:
    rng = np.random.default_rng(1)
    some = []
    for i in range(8):
        truth = rng.uniform(20, 180, (9, 2))
        found = truth + rng.normal(0, 12, (9, 2))
        some.append(record(found, truth, (500, 200), [10.0, 10.0, 190.0, 100.0], scene=str(i)))
    exact = score(some, "exact")[0].value
    tables = convention_steps(some)
    assert {t.subject.split()[0] for t in tables} == set(PROTOCOLS) - {"exact", "cats"}
    for table in tables:
        name = table.subject.split()[0]
        assert table.steps[0] == (name, score(some, name)[0].value)
        assert table.steps[-1][1] == pytest.approx(exact, abs=1e-12)
    assert any(t.steps[0][1] != t.steps[-1][1] for t in tables)


def test_per_pair_point_and_class_differ_and_are_named() -> None:
    box = [0.0, 0.0, 100.0, 100.0]
    hit, miss = [0.0, 0.0], [99.0, 99.0]
    rows = [
        record([hit], [hit], (200, 200), box, category="cat", pair="1", flags={"occlusion": "0"}),
        record([miss], [hit], (200, 200), box, category="cat", pair="2", flags={"occlusion": "1"}),
        record([hit, hit, miss], [hit, hit, hit], (200, 200), box, category="dog", pair="3"),
        record([hit, hit, hit], [hit, hit, hit], (200, 200), box, category="dog", pair="4"),
        record([hit], [hit], (200, 200), box, category="dog", pair="5"),
    ]
    scores = {s.group: s.value for s in score(rows, "exact") if s.metric == "pck"}
    assert scores["alpha=0.1,per=pair"] == pytest.approx((1 + 0 + 2 / 3 + 1 + 1) / 5)
    assert scores["alpha=0.1,per=point"] == pytest.approx(7 / 9)
    assert scores["alpha=0.1,per=class"] == pytest.approx((0.5 + (2 / 3 + 2) / 3) / 2)
    assert scores["alpha=0.1,category=cat,per=pair"] == 0.5
    assert scores["alpha=0.1,occlusion=1,per=pair"] == 0.0
    assert scores["all"] == scores["alpha=0.1,per=pair"]


def test_chance_is_the_share_of_the_image_in_a_disc() -> None:
    truth = [[99.5, 99.5]]
    r = record(truth, truth, (200, 200), [0.0, 0.0, 100.0, 100.0])
    chance = score([r], "exact")[0].chance
    assert chance == pytest.approx(np.pi * 10**2 / 200**2, rel=1e-3)


def test_intervals_draw_images_within_classes_or_say_why_there_are_none() -> None:
    rng = np.random.default_rng(0)
    box, rows = [0.0, 0.0, 100.0, 100.0], []
    for category in ("cat", "dog"):
        names = [f"{category}{i}" for i in range(6)]
        for a in names:
            for b in names:
                if a < b:
                    truth = rng.uniform(0, 100, (5, 2))
                    found = truth + rng.normal(0, 8, (5, 2))
                    rows.append(
                        record(
                            found, truth, (200, 200), box, category=category, images=[a, b], scene=category
                        )
                    )
    head = score(rows, "exact")[0]
    assert head.low is not None
    assert head.high is not None
    assert head.low < head.value < head.high
    assert "images of the same classes" in str(head.note)
    few = score(rows[:15] + rows[15:16], "exact")[0]
    assert few.low is None
    assert few.scenes is None
    assert "no interval: a class has fewer than 6 images" in str(few.note)


# Through the task, with images made here.

POINTS = [[10.0, 20.0], [60.0, 30.0], [30.0, 70.0], [80.0, 80.0]]
SHIFT = np.array([5.0, 3.0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes with one pair each; image 1 is image 0 moved by SHIFT."""
    root = tmp_path / "set"
    root.mkdir()
    entries = []
    for k, category in enumerate(("cat", "dog")):
        for side in "ab":
            noise = np.random.default_rng(k).integers(0, 255, (100, 120, 3), dtype=np.uint8)
            moved = noise if side == "a" else np.roll(noise, (3, 5), axis=(0, 1))
            Image.fromarray(moved).save(root / f"{category}_{side}.png")
        moved_points = (np.array(POINTS) + SHIFT).tolist()
        entries.append(
            {
                "source_path": f"{category}_a.png", "target_path": f"{category}_b.png",
                "source_points": POINTS, "target_points": moved_points, "category": category,
                "source_bounding_box": [0, 0, 90, 90], "target_bounding_box": [0, 0, 100, 90],
                "viewpoint_variation": k,
            }
        )  # fmt: skip
    (root / "pairs.json").write_text(json.dumps(entries))
    return root


class Flow:
    name = "flow"

    def match(self, image1: Any, image2: Any) -> np.ndarray:
        return np.tile(SHIFT.astype(np.float32), (*image1.shape[:2], 1))


class Corners:
    """Few matches, between which points are interpolated."""

    name = "corners"

    def match(self, image1: Any, image2: Any) -> tuple[np.ndarray, np.ndarray]:
        x = np.array([[0.0, 0], [110, 0], [0, 90], [110, 90]])
        return x, x + SHIFT


class Answers:
    name = "answers"

    def match_points(self, image1: Any, image2: Any, points: np.ndarray) -> np.ndarray:
        found = points + SHIFT
        found[0] = np.nan
        return found


def run(method: Any, root: Path, protocol: str = "exact", **options: Any) -> dict[tuple[str, str], Any]:
    store = root.parent / "store"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = tp.evaluate(
            method, task="semantic/pck", data=str(root), protocol=protocol, store=store, **options
        )
    assert set(made.scores.metric) <= set(TASK.info.metrics)
    return {(s["metric"], s["group"]): s for s in made.scores.to_dict("records")}


@pytest.mark.parametrize(("method", "expected"), [(Flow(), 1.0), (Corners(), 1.0), (Answers(), 0.75)])
def test_flows_matches_and_answers_are_scored(folder: Path, method: Any, expected: float) -> None:
    scores = run(method, folder)
    assert scores["pck", "all"]["value"] == expected
    assert scores["unanswered", "all"]["value"] == 1 - expected
    assert scores["pck", "alpha=0.1,per=pair,viewpoint_variation=1"]["n"] == 1


@pytest.mark.parametrize(
    ("method", "low", "high"), [("oracle", 1, 1), ("constant", 0, 0.1), ("random", 0, 0.4)]
)
def test_canaries(folder: Path, method: str, low: float, high: float) -> None:
    assert low <= run(method, folder)["pck", "all"]["value"] <= high


def test_predicted_points_come_from_files(folder: Path) -> None:
    made = folder.parent / "made"
    made.mkdir()
    right_points = (np.array(POINTS) + SHIFT).tolist()
    answers = {"cat_a--cat_b": right_points, "dog_a--dog_b": [None, *right_points[1:]]}
    (made / "points.json").write_text(json.dumps(answers))
    assert run(f"files:{made}", folder)["pck", "all"]["value"] == 0.875


def test_cats_needs_the_way_back(folder: Path) -> None:
    away = run(Flow(), folder, "cats")["pck", "all"]
    assert away["value"] is None or math.isnan(away["value"])
    assert "`back=yes`" in away["note"]
    assert run(Corners(), folder, "cats")["pck", "all"]["value"] == 1.0  # matches can be turned around
    wrong = run(Flow(), folder, "cats", back=True)["pck", "alpha=0.05,per=pair"]
    assert wrong["value"] == 0.0  # this flow is the same both ways


def test_categories_and_lengths_are_options(folder: Path) -> None:
    assert ("pck", "alpha=0.1,category=cat,per=pair") not in run(Flow(), folder, categories="dog")
    with pytest.raises(InputError, match=r"category 'dgo'; did you mean 'dog'"):
        run(Flow(), folder, categories="dgo")
    assert "length keypoints" in run(Flow(), folder, length="keypoints")["pck", "all"]["note"]


def test_willow_reports_the_extent_of_keypoints() -> None:
    data = DATA / "pf_willow"
    if not data.is_dir():
        pytest.skip(f"no PF-WILLOW at {data}")
    opened = TASK.open(data, {})
    assert len(opened.units[0].items) == 2  # the pair turned around is there anyway, for `cats`
    truth = opened.truth(next(iter(opened.pairs)))
    arrays = {name: truth.annotations[name] for name in ("points0", "points1")}
    r = TASK.compare_both((truth, arrays), None, opened.options, "exact")
    rule = PROTOCOLS["exact"]
    assert make_pck_frame(r, rule).length == np.ptp(truth.annotations["points1"], axis=0).max()
    assert (
        make_pck_frame(r, PROTOCOLS["dhpf"]).length
        > make_pck_frame(r, replace(PROTOCOLS["dhpf"], padding=False)).length
    )
