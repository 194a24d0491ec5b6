"""`pose/relative` under `exact`: made-up cameras, true and false matches, what must not change a score."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from relative_world import SIZE, areas, motion, pair, records, seen, value, write_world
from scipy.spatial.transform import Rotation

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view import estimator
from tiepoint.geometry.two_view.pose_errors import ACOS, STABLE, nearest_rotation, pose_errors
from tiepoint.tasks.pairs.data import PairMatches
from tiepoint.tasks.pose.score import random_pose_auc
from tiepoint.tasks.pose.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")

LARGE = (1000, 1000)
"""Holds all that is seen."""
QUICK = {"seeds": 2}


def scored(given, protocol="exact", **options):
    """Scores of (pair, matches) under a protocol."""
    comparison = TASK.comparison(protocol)
    return TASK.score([records(p, m, comparison, **options) for p, m in given], protocol)


def scene_of_pairs(n, scenes=7, noise_px=0.5):
    """Pairs of several scenes, of rising noise, so that scores differ."""
    given = []
    for i in range(n):
        one = pair(f"a{i}--b{i}", f"s{i % scenes}", motion(5 + 3 * i))
        given.append((one, seen(one, 80, noise_px * (1 + i), seed=i)))
    return given


def permuted(found: PairMatches, seed=1) -> PairMatches:
    order = np.random.default_rng(seed).permutation(len(found))
    confidence = None if found.confidence is None else found.confidence[order]
    return replace(found, points0=found.points0[order], points1=found.points1[order], confidence=confidence)


def test_true_matches_are_near_one_and_false_ones_near_chance() -> None:
    one = pair(centre=0.5)
    assert areas(scored([(one, seen(one))]))[0] > 0.999
    rng = np.random.default_rng(0)
    anything = PairMatches(rng.uniform(0, 480, (300, 2)), rng.uniform(0, 480, (300, 2)))
    several = [(pair(f"a{i}--b{i}", T=motion(40 + 15 * i)), permuted(anything, i)) for i in range(4)]
    assert areas(scored(several, **QUICK))[2] < 0.5
    assert all(random_pose_auc(t) < 0.01 for t in (5, 10, 20))


def test_half_a_pixel_of_the_principal_point_is_respected_by_exact_alone() -> None:
    one = pair(centre=0.5)
    found = seen(one, 300)
    exact, legacy = scored([(one, found)]), scored([(one, found)], "superglue")
    assert value(exact, "translation_error_deg") < 1e-5
    assert value(legacy, "translation_error_deg") > 1e-3


@pytest.mark.slow
def test_the_order_of_matches_and_doubles_change_nothing_under_exact() -> None:
    """Trap 1: the same matches in another order."""
    one = pair()
    found = seen(one, 60, 1.5, wrong=20)
    base = records(one, found)
    twice = PairMatches(
        np.concatenate([found.points0, found.points0[:7]]), np.concatenate([found.points1, found.points1[:7]])
    )
    for other in (permuted(found), twice):
        again = records(one, other)
        np.testing.assert_array_equal(again["R"], base["R"])
        np.testing.assert_array_equal(again["t"], base["t"])
    for protocol in ("superglue", "loftr", "roma", "glue-factory"):
        comparison = TASK.comparison(protocol)
        first, second = (records(one, m, comparison)["R"] for m in (found, permuted(found)))
        assert not np.array_equal(first, second), protocol


@pytest.mark.parametrize("n", [0, 4, 5])
def test_too_few_matches_are_failures_of_180_degrees(n: int) -> None:
    """Trap 2: what PoseLib answers without a model is no pose."""
    one, other = pair("a--b", "s0"), pair("c--d", "s1")
    found = seen(one)
    few = PairMatches(found.points0[:n], found.points1[:n])
    scores = scored([(one, few), (other, seen(other))])
    assert value(scores, "failures") == 1
    assert areas(scores)[0] == pytest.approx(0.5, abs=1e-3)
    alone = scored([(one, few)])
    assert value(alone, "rotation_error_deg") == value(alone, "translation_error_deg") == 180
    assert areas(alone) == [0, 0, 0]


def test_a_zero_translation_is_a_failure_under_exact_90_degrees_or_none_elsewhere() -> None:
    """Trap 2, under the protocols that leave it to the angle rule."""
    one = pair(dataset="megadepth")
    few = PairMatches(np.zeros((3, 2)), np.zeros((3, 2)))
    by = {p: scored([(one, few)], p) for p in ("roma-poselib", "dad", "xfeat")}
    assert all(np.isnan(value(s, "translation_error_deg")) for s in by.values())
    gf = scored([(one, few)], "glue-factory")
    rows = [s for s in gf if s.group == "estimator=poselib,threshold_px=1.0"]
    assert [s.value for s in rows if s.metric == "translation_error_deg"] == [90]
    assert [s.value for s in rows if s.metric == "failures"] == [1]


def test_five_matches_have_several_essential_matrices() -> None:
    """Trap 4: legacy estimators try five matches, whose E has several blocks."""
    import cv2

    one = pair()
    found = seen(one)
    five = PairMatches(found.points0[:5], found.points1[:5])
    u0, u1 = ((x - K[:2, 2]) / K[[0, 1], [0, 1]] for x, K in ((five.points0, one.K0), (five.points1, one.K1)))
    E, _ = cv2.findEssentialMat(u0, u1, np.eye(3), method=cv2.RANSAC, prob=0.99999, threshold=1e-3)
    assert len(E) > 3
    made = records(one, five, "superglue")
    assert made["ok"].all()
    assert np.isfinite(made["R"]).all()


def test_a_rounded_truth_costs_nothing_under_exact() -> None:
    """Trap 5: a rotation rounded to five decimals is no rotation, and arc cosines see that."""
    worst = 0.0
    for i in range(40):
        true = Rotation.from_rotvec(np.random.default_rng(i).normal(0, 1, 3)).as_matrix()
        rounded = np.round(true, 5)
        best, t = nearest_rotation(rounded), np.array([1.0, 0, 0])
        assert pose_errors(best, t, rounded, t, STABLE)[1] < 1e-6
        worst = max(worst, float(pose_errors(best, t, rounded, t, ACOS)[1]))
    assert 0.05 < worst < 0.3


def test_both_directions_of_a_pair_count_once() -> None:
    """Trap 9, in scores and in a warning."""
    one = pair("a--b", "s0")
    back = pair(
        "b--a",
        "s0",
        np.linalg.inv(motion()),
        image0=one.pair.image1,
        image1=one.pair.image0,
        K0=one.K1,
        K1=one.K0,
    )
    far = pair("c--d", "s1", motion(50))
    found, noisy = seen(one, 100, 2.0), seen(far, 100, 6.0)
    flipped = PairMatches(found.points1, found.points0)
    alone = {n: areas(scored([g], **QUICK))[1] for n, g in (("one", (one, found)), ("far", (far, noisy)))}
    turned = areas(scored([(back, flipped)], **QUICK))[1]
    all_three = areas(scored([(one, found), (back, flipped), (far, noisy)], **QUICK))[1]
    assert all_three == pytest.approx(((alone["one"] + turned) / 2 + alone["far"]) / 2, abs=1e-12)
    legacy = scored([(one, found), (back, flipped), (far, noisy)], "superglue")
    (n,) = {s.n for s in legacy if s.metric == "auc" and s.group == "all"}
    assert n == 3


def test_pairs_in_both_directions_are_told(tmp_path: Path) -> None:
    one = pair("a--b", "s0")
    back = pair("b--a", "s0", np.linalg.inv(motion()), image0=one.pair.image1, image1=one.pair.image0)
    data, _ = write_world(tmp_path / "w", {p.pair.name: (p, seen(p, 20)) for p in (one, back)})
    assert any("the dataset has 1 image pair in both directions" in w for w in TASK.open(data, {}).warnings)


@pytest.mark.slow
def test_two_scenes_have_no_interval_and_say_so(tmp_path: Path) -> None:
    """Trap 19."""
    given = scene_of_pairs(8, scenes=2, noise_px=2.0)
    given = [(replace(p, pair=replace(p.pair, dataset="megadepth")), m) for p, m in given]
    scores = scored(given, **QUICK)
    (head,) = [s for s in scores if s.metric == "auc" and s.group == "all"]
    assert head.low is None
    assert head.note == "megadepth has 2 scenes; no interval for new scenes"
    labelled = scored(given, cluster="image", **QUICK)
    (head,) = [s for s in labelled if s.metric == "auc" and s.group == "all"]
    assert head.low < head.value < head.high
    assert head.note == "interval over images of 2 scenes, not over scenes"


@pytest.mark.slow
def test_seven_scenes_have_an_interval_whatever_the_cluster() -> None:
    given = scene_of_pairs(14, noise_px=1.0)
    for cluster in ("scene", "image"):
        made = scored(given, cluster=cluster, **QUICK)
        (head,) = [s for s in made if s.metric == "auc" and s.group == "all"]
        assert head.note is None
        assert head.scenes is not None


def test_the_spread_over_seeds_stands_beside_the_score() -> None:
    one = pair()
    made = records(one, seen(one, 40, 3.0, wrong=15))
    scores = TASK.score([made], "exact")
    keep = made["setting"] == 1
    errors = []
    for R, t in zip(made["R"][keep].reshape(-1, 3, 3), made["t"][keep], strict=True):
        errors.append(max(pose_errors(R, t, one.T_0to1[:3, :3], one.T_0to1[:3, 3], STABLE)))
    shares = [max(0, 1 - e / 10) for e in errors]
    assert value(scores, "auc") == pytest.approx(np.mean(shares), abs=1e-12)
    for name, wanted in (("sd", np.std(shares, ddof=1)), ("min", min(shares)), ("max", max(shares))):
        assert value(scores, f"auc_seed_{name}", "threshold_deg=10") == pytest.approx(wanted, abs=1e-12)
    assert np.std(shares) > 0


def test_thresholds_are_groups_and_never_chosen() -> None:
    one = pair()
    found = seen(one, 80, 2.0)
    scores = scored([(one, found)], threshold_px=3.0, **QUICK)
    groups = {s.group for s in scores if s.metric == "auc"}
    for px in (0.5, 1.0, 2.0, 3.0):
        assert f"estimator=poselib,threshold_deg=5,threshold_px={px}" in groups
    assert areas(scores) == areas(scores, "estimator=poselib,threshold_px=3.0")


def test_a_pair_without_translation_is_judged_by_its_rotation() -> None:
    T = motion()
    T[:3, 3] = 0
    one = pair(T=T)
    made = records(one, seen(one, 200, 0.3), **QUICK)
    assert TASK.record_warnings([made]) == [
        "the dataset has 1 pair without translation; `exact` scores only their rotation"
    ]
    assert value(TASK.score([made], "exact"), "translation_error_deg") == 0


def test_strata_hold_their_pairs() -> None:
    given = []
    for i, (turn, overlap) in enumerate([(5, 0.05), (20, 0.2), (20, 0.6), (70, 0.6)] * 2):
        one = pair(
            f"a{i}--b{i}", f"s{i}", motion(turn, 0.1 * (i + 1)), facts={"overlap": overlap, "light": "day"}
        )
        given.append((one, seen(one, 30 if i < 4 else 300, 1.0, seed=i)))
    scores = scored(given, **QUICK)
    counted = {s.group: s.n for s in scores if s.metric == "auc" and "threshold_deg=10" in s.group}
    assert counted["rotation_deg=15-30,threshold_deg=10"] == 4
    assert counted["rotation_deg=60-180,threshold_deg=10"] == 2
    assert counted["overlap=0.5-0.7,threshold_deg=10"] == 4
    assert counted["matches=0-50,threshold_deg=10"] == 4
    assert counted["matches=200-1000,threshold_deg=10"] == 4
    assert counted["baseline=shortest,threshold_deg=10"] == 2
    assert counted["light=day,threshold_deg=10"] == 8
    assert counted["threshold_deg=10,zoom=1-1.25"] == 8
    whole = value(scores, "auc", "light=day,threshold_deg=10")
    assert whole == pytest.approx(value(scores, "auc"), abs=1e-12)
    parts = [value(scores, "auc", f"matches={b},threshold_deg=10") for b in ("0-50", "200-1000")]
    assert np.mean(parts) == pytest.approx(whole, abs=1e-12)


def test_budgets_keep_the_surest_matches() -> None:
    one = pair()
    found = seen(one, 200, 0.5, wrong=100)  # the wrong half is the less sure one
    scores = scored([(one, found)], budget="20,100", **QUICK)
    sure = PairMatches(found.points0[100:], found.points1[100:])
    assert areas(scores, "budget=100") == areas(scored([(one, sure)], **QUICK))
    legacy = scored([(one, found)], "superglue", budget=20)
    few = PairMatches(found.points0[180:], found.points1[180:])
    assert areas(legacy, "budget=20") == areas(scored([(one, few)], "superglue"))
    with pytest.raises(InputError, match="a budget selects the matches of highest confidence"):
        scored([(one, PairMatches(found.points0, found.points1))], budget=20)


def test_missing_poselib_is_an_error_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a silent change of the estimator."""
    one = pair(size0=LARGE, size1=LARGE)
    data, folder = write_world(tmp_path / "w", {one.pair.name: (one, seen(one))})
    found = []
    real = estimator.import_module

    def without(name: str):
        if name == "poselib":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(estimator, "import_module", without)
    estimator.import_library.cache_clear()
    try:
        for options in ({}, {"protocol": ["superglue", "dad"]}):
            with pytest.raises(InputError, match=r"needs PoseLib 2.0: pip install 'tiepoint\[pose\]'"):
                tp.evaluate(
                    f"files:{folder}", task="pose/relative", data=data, store=tmp_path / "s", **options
                )
        for options in ({"protocol": "superglue"}, {"estimator": "opencv"}):
            with (
                pytest.warns(UserWarning, match="images are missing"),
                pytest.warns(UserWarning, match="is K given for resized images"),  # LARGE is not its size
            ):
                run = tp.evaluate(
                    f"files:{folder}", task="pose/relative", data=data, store=tmp_path / "s", **options
                )
            found.append(run)
    finally:
        estimator.import_library.cache_clear()
    assert len(found) == 2


def test_another_poselib_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 20: options that PoseLib does not know it ignores, so another series is not asked."""
    import poselib

    one = pair(size0=LARGE, size1=LARGE)
    data, folder = write_world(tmp_path / "w", {one.pair.name: (one, seen(one))})
    monkeypatch.setattr(poselib, "__version__", "3.0.0")
    estimator.import_library.cache_clear()
    try:
        with pytest.raises(InputError, match=r"PoseLib 3.0.0 has other option names"):
            tp.evaluate(f"files:{folder}", task="pose/relative", data=data, store=tmp_path / "s")
    finally:
        estimator.import_library.cache_clear()


def test_options_without_effect_are_refused(tmp_path: Path) -> None:
    one = pair(size0=LARGE, size1=LARGE)
    data, folder = write_world(tmp_path / "w", {one.pair.name: (one, seen(one))})
    ask = {"task": "pose/relative", "data": data, "store": tmp_path / "s"}
    with pytest.raises(InputError, match="option seeds of pose/relative has no effect under superglue"):
        tp.evaluate(f"files:{folder}", protocol="superglue", seeds=3, **ask)
    with pytest.raises(InputError, match="option frame of pose/relative has no effect under exact"):
        tp.evaluate(f"files:{folder}", frame="original", **ask)
    with pytest.raises(InputError, match="unknown frame 'wide'"):
        tp.evaluate(f"files:{folder}", protocol="loftr", frame="wide", **ask)
    with pytest.raises(InputError, match="pass integers from 5"):
        tp.evaluate(f"files:{folder}", budget="3", **ask)


def test_an_unknown_dataset_is_taken_in_original_pixels_and_that_is_told() -> None:
    one = pair(dataset="kitchen", size0=(1280, 960), size1=(1280, 960))
    found = seen(one, 60, 2.0, wrong=20)
    made = records(one, found, "loftr")
    assert TASK.record_warnings([made]) == [
        "loftr has no rule for the dataset kitchen and uses original pixels; `frame` sets another size"
    ]
    original = records(replace(one, pair=replace(one.pair, dataset="megadepth")), found, "loftr")
    np.testing.assert_array_equal(made["R"], original["R"])
    assert TASK.record_warnings([original]) == []
    framed = records(one, found, "loftr", frame="640x480")
    resized = records(replace(one, pair=replace(one.pair, dataset="scannet")), found, "loftr")
    np.testing.assert_array_equal(framed["R"], resized["R"][resized["setting"] == 0])
    assert not np.array_equal(framed["R"], made["R"])


def test_a_pair_without_truth_is_named(tmp_path: Path) -> None:
    one = pair()
    data, _ = write_world(tmp_path / "w", {one.pair.name: (one, seen(one))})
    entries = json.loads(data.read_text())
    del entries[0]["T_0to1"]
    data.write_text(json.dumps(entries))
    with pytest.raises(InputError, match="T_0to1"):
        TASK.open(data, {})


def test_the_size_of_a_frame_is_that_of_each_image() -> None:
    """A pair of differently sized images: each is brought to 1000, so that a common factor cancels."""
    one = pair()
    found = seen(one, 100, 0.5)
    half = np.diag([0.5, 0.5, 1.0])
    smaller = replace(one.pair, size1=(SIZE[0] // 2, SIZE[1] // 2))
    small = replace(one, pair=smaller, K1=half @ one.K1)
    shrunk = PairMatches(found.points0, found.points1 / 2)
    np.testing.assert_allclose(records(small, shrunk)["R"], records(one, found)["R"], atol=1e-9)
