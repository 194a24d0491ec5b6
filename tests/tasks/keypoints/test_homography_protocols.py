# SPDX-License-Identifier: BSD-3-Clause
"""The homography protocols and pair matchers of `keypoints/geometry` on scenes with a known answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from keypoint_world import make_features, make_scenes

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.core.hashing import hash_json
from tiepoint.core.records import Features, Records
from tiepoint.formats.matches.native import write_matches
from tiepoint.geometry.homography import project
from tiepoint.methods.pairs.factory import family_of_geometry
from tiepoint.tasks.keypoints.geometry.protocols import (
    PROTOCOLS,
    HomographyScoring,
    ThresholdFrame,
    parse_threshold_frame,
    protocol_under,
)
from tiepoint.tasks.keypoints.geometry.score import corner_row_errors
from tiepoint.tasks.keypoints.geometry.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")
PAPERS = tuple(PROTOCOLS)
MATCHER = """
import numpy as np

class Grid:
    def match(self, image1, image2):
        y, x = np.mgrid[2:image1.shape[0] - 9:4, 2:image1.shape[1] - 9:4]
        points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
        return points, points

class Finds:
    def extract(self, image):
        raise RuntimeError
    def match(self, image1, image2):
        raise RuntimeError
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("h"), names=("i_one", "v_artisans", "x_two"), images=3)


def true_matches(opened, noise=0.0, wrong=0.0, count=80, few=()):
    """Points of a grid under the true homography, with noise and wrong ones; three alone for some pairs."""
    tables = {}
    for name, truth in opened.pairs.items():
        draw = np.random.default_rng(5)
        size0, size1 = truth.pair.sizes()
        x0 = draw.uniform(1, np.array(size0) - 2, (count, 2))
        x1 = project(truth.annotations["H"], x0, reference=(size0[0] / 2, size0[1] / 2)) + draw.normal(
            0, noise, (count, 2)
        )
        off = draw.random(count) < wrong
        x1[off] = draw.uniform(0, size1, (off.sum(), 2))
        keep = np.flatnonzero(((x1 >= 0) & (x1 <= np.array(size1) - 1)).all(axis=1))[
            : 3 if name in few else None
        ]
        tables[name] = {"points0": x0[keep], "points1": x1[keep], "confidence": draw.random(len(keep))}
    return Features(tables.__getitem__)


def scores_of(root, protocol, options=None, change=None, **world):
    opened = TASK.for_family(TASK.open(root, options or {}), "pairs")
    features = true_matches(opened, **world)
    if change is not None:
        features = replace(features, arrays=lambda key, plain=features.arrays: change(plain(key)))
    records = [opened.compare(u, features, TASK.comparison(protocol)) for u in opened.units]
    return {(s.metric, s.group): s for s in TASK.score(records, protocol)}, records


@pytest.mark.parametrize("protocol", ["exact", *PAPERS])
def test_true_matches_are_scored_as_such(root, protocol):
    scores, _ = scores_of(root, protocol)
    assert scores["homography_auc", "all"].value > 0.999
    assert scores["homography_accuracy", "all"].value == 1
    noisy, _ = scores_of(root, protocol, noise=1.0, wrong=0.3)
    assert noisy["homography_auc", "all"].value < scores["homography_auc", "all"].value


def test_without_a_homography_an_error_is_finite_where_the_tool_makes_it_so(root):
    """The tools' zero matrix sends every corner to (0, 0); everybody else never recalls such a pair."""
    few = ("x_two/1-2",)
    for protocol in ("dkm", "roma", "loftr", "toolbox", "glue-factory", "dad"):
        scores, records = scores_of(root, protocol, few=few, options={"tau_px": "1000"})
        (record,) = [r for r in records if r.meta["scene"] == "x_two"]
        bound = PROTOCOLS[protocol]
        errors = corner_row_errors(record, 0, bound.settings[0], bound.scoring)
        finite = protocol in ("dkm", "roma")
        assert np.isfinite(errors).tolist() == [finite] * bound.settings[0].repeats + [True] * (
            len(errors) - bound.settings[0].repeats
        )
        assert (scores["homography_accuracy", "tau_px=1000"].value == 1) == finite
        assert scores["failures", "all"].value == bound.settings[0].repeats
    exact, records = scores_of(root, "exact", few=few, options={"tau_px": "1000"})
    assert exact["homography_accuracy", "tau_px=1000"].value < 1
    assert exact["homography_accuracy", "corners=4,tau_px=1000"].value < 1


def test_corners_of_the_edge_and_of_the_last_pixel(root):
    """A zoom misplaces the outer edge more than the centre of the last pixel."""
    record = Records(
        "pair",
        {
            "pair": np.array([0]), "setting": np.array([0]), "repeat": np.array([0]), "ok": np.array([True]),
            "H": np.diag([1.1, 1.1, 1]).reshape(1, 9), "inliers": np.array([9]),
        },
        {"sizes": [[[101, 51], [202, 102]]], "H": [np.eye(3).ravel().tolist()]},
    )  # fmt: skip
    plain = PROTOCOLS["toolbox"].settings[0]

    def error(frame=plain.frame, **rules):
        return corner_row_errors(record, 0, replace(plain, frame=frame), HomographyScoring(**rules))[0]

    corners = [(0, 0), (100, 0), (0, 50), (100, 50)]
    assert error() == pytest.approx(np.mean([0.1 * np.hypot(*c) for c in corners]))
    edge = [(0, 0), (101, 0), (0, 51), (101, 51)]
    assert error(edge=True) == pytest.approx(np.mean([0.1 * np.hypot(*c) for c in edge]))
    # the truth of image 0 at twice its size is a half, and the matrix is judged against that; then in units
    # of the short side of image 2
    resized = [(0, 0), (201, 0), (0, 101), (201, 101)]
    assert error(ThresholdFrame("short", 102)) == pytest.approx(
        np.mean([0.6 * np.hypot(*c) for c in resized])
    )
    assert error(ThresholdFrame("divided", 51)) == pytest.approx(error() / 2)


def test_eight_sequences_are_left_out_where_the_papers_do(root):
    for protocol, pairs in {
        "loftr": 4,
        "dkm": 4,
        "roma": 6,
        "dad": 6,
        "glue-factory": 4,
        "toolbox": 6,
    }.items():
        scores, _ = scores_of(root, protocol)
        assert scores["homography_auc", "all"].n == pairs
    assert scores_of(root, "dkm")[0]["homography_auc", "all"].note == "1 sequences left out, as dkm does"
    assert scores_of(root, "dkm", {"sequences": 116})[0]["homography_auc", "all"].n == 6
    assert scores_of(root, "roma", {"sequences": "108"})[0]["homography_auc", "all"].n == 4
    assert scores_of(root, "d2net")[0]["mma_of_pairs", "all"].n == 4
    whole, _ = scores_of(root, "d2net", {"sequences": "116"})
    assert whole["mma_of_pairs", "all"].n == 6
    assert whole["mma", "all"].value == pytest.approx(whole["mma_of_pairs", "all"].value * 6 / 580)
    assert whole["mma", "all"].note == "divided by 580 pairs; there are 6"


def test_names_of_dad_are_told_apart_by_what_they_do_not_contain(root):
    scores, _ = scores_of(root, "dad")
    assert scores["homography_auc", "kind=v"].n == scores["homography_auc", "kind=i"].n == 4
    scores, _ = scores_of(root, "toolbox")
    assert scores["homography_auc", "kind=v"].n == scores["homography_auc", "kind=i"].n == 2


def test_exact_does_not_depend_on_the_order_of_matches_and_the_papers_do(root):
    def turned(arrays):
        return {name: a[::-1].copy() for name, a in arrays.items()}

    world = {"noise": 2.0, "wrong": 0.5}
    for protocol, same in (("exact", True), ("toolbox", False)):
        one, other = (scores_of(root, protocol, change=c, **world)[0] for c in (None, turned))
        areas = [s["homography_auc", "tau_px=5"].value for s in (one, other)]
        assert (areas[0] == areas[1]) == same


def test_thresholds_are_free(root):
    scores, _ = scores_of(root, "exact", {"tau_px": "0.5,10,20"}, noise=0.5)
    taken = [scores["homography_auc", f"tau_px={t}"].value for t in (0.5, 1, 3, 5, 10, 20)]
    assert taken == sorted(taken)
    assert 0 < scores["mma", "tau_px=0.5"].value < scores["mma", "tau_px=1"].value
    assert scores["mma", "tau_px=20"].value == 1
    scores, _ = scores_of(root, "glue-factory", {"tau_px": "10"})
    assert ("homography_auc", "tau_px=10") in scores
    with pytest.raises(InputError, match="tau_px: expected positive numbers"):
        TASK.open(root, {"tau_px": "0"})


def test_all_four_corners_beside_those_in_front(root):
    scores, records = scores_of(root, "exact", noise=1.0, wrong=0.3)
    assert scores["homography_auc", "corners=4,tau_px=3"].value == pytest.approx(
        scores["homography_auc", "tau_px=3"].value
    )
    older = [
        replace(r, columns={k: v for k, v in r.columns.items() if not k.startswith("corners4")})
        for r in records
    ]
    without = {(s.metric, s.group): s.value for s in TASK.score(older, "exact")}
    assert ("homography_auc", "corners=4,tau_px=3") not in without
    assert without["homography_auc", "all"] == scores["homography_auc", "all"].value


def test_old_runs_keep_their_keys(root):
    opened = TASK.open(root, {})
    old = {
        "seed": 0, "ratio": 0.8, "ransac_px": 3.0, "max_iterations": 10_000, "matcher": None,
        "matcher_source": None,
    }  # fmt: skip
    for unit in opened.units:
        items = [f"{unit.key}/{k}" for k in (1, 2, 3)]
        parts = ["keypoints/geometry", opened.sequences.definition(unit.key), old, [], items]
        assert unit.definition == hash_json(parts)
    assert opened.method_facts({}, "exact") == {}
    assert list(opened.method_facts({}, "dkm")["versions"]) == ["cv2"]
    assert list(opened.method_facts({}, "glue-factory")["versions"]) == ["cv2", "poselib"]


def test_frames_override_those_of_a_protocol(root):
    assert protocol_under("dkm", {"frame": "original"}).settings[0].frame == ThresholdFrame()
    # the two frames of toolbox become one
    assert len(protocol_under("toolbox", {"frame": "long:30"}).settings) == 3
    large, _ = scores_of(root, "toolbox", {"frame": "short:480:round"}, noise=1.0)
    assert (
        large["homography_auc", "all"].value
        < scores_of(root, "toolbox", noise=1.0)[0]["homography_auc", "all"].value
    )
    for bad in ("square:9", "short:0", "unit:480:round"):
        with pytest.raises(InputError, match="frame"):
            parse_threshold_frame(bad)
        with pytest.raises(InputError, match="frame"):
            TASK.open(root, {"frame": bad})


@pytest.mark.parametrize("protocol", PAPERS)
@pytest.mark.parametrize("family", ["pairs", "keypoints"])
def test_steps_lead_from_a_protocol_to_exact(root, protocol, family):
    opened = TASK.for_family(TASK.open(root, {"tau_px": "10"}), family)
    made = true_matches(opened, noise=1.0, wrong=0.4) if family == "pairs" else make_features(opened)
    between = TASK.intermediate_comparisons(("exact", protocol))
    names = ["exact", TASK.comparison(protocol), *between]
    records = {c: [opened.compare(u, made, c) for u in opened.units] for c in names}
    tables = TASK.convention_steps_between(records)
    own, goal = (
        {s.group: s.value for s in TASK.score(records[TASK.comparison(p)], p) if s.metric == "homography_auc"}
        for p in (protocol, "exact")
    )
    assert len(tables) == len({*PROTOCOLS[protocol].scoring.thresholds_px, 10})
    for table in tables:
        tau = table.subject.rpartition(", ")[2]
        assert table.steps[0] == (protocol, own[tau])
        assert table.steps[-1][1] == pytest.approx(goal[tau], abs=1e-12)


def test_steps_of_matching_accuracy(root):
    opened = TASK.open(root, {})
    made = make_features(opened)
    names = ["exact", "d2net", *TASK.intermediate_comparisons(("exact", "d2net"))]
    records = {c: [opened.compare(u, made, c) for u in opened.units] for c in names}
    (table,) = TASK.convention_steps_between(records)
    exact = {(s.metric, s.group): s.value for s in TASK.score(records["exact"], "exact")}
    assert table.steps[-1][1] == pytest.approx(exact["mma", "all"])
    assert "all sequences" in [words for words, _ in table.steps]


def test_what_is_a_method_on_pairs(tmp_path, root):
    (tmp_path / "my.py").write_text(MATCHER)
    found = [f"{tmp_path}/my.py:{name}" for name in ("Grid", "Finds")]
    assert [family_of_geometry(m) for m in found] == ["pairs", "keypoints"]
    assert family_of_geometry("sift?ratio=0.8") == "pairs"
    assert family_of_geometry(("sift", "fast")) == "keypoints"
    write_matches(tmp_path / "m", "i_one/1-2", points0=[[1, 2]], points1=[[1, 2]])
    assert family_of_geometry(f"files:{tmp_path / 'm'}") == "pairs"
    (tmp_path / "k").mkdir()
    np.savez(tmp_path / "k" / "1.npz", keypoints=np.ones((2, 2)), descriptors=np.ones((2, 4)))
    (tmp_path / "k" / "about.json").write_text("{}")
    assert family_of_geometry(f"files:{tmp_path / 'k'}") == "keypoints"
    with pytest.raises(InputError, match="border_px of keypoints/geometry is for keypoints"):
        TASK.for_family(TASK.open(root, {"border_px": 3}), "pairs")


def test_pair_matchers_files_and_matched_keypoints_run(tmp_path, root):
    (tmp_path / "my.py").write_text(MATCHER)
    opened = TASK.for_family(TASK.open(root, {}), "pairs")
    given = true_matches(opened)
    for name in opened.pairs:
        write_matches(tmp_path / "m", name, **given.arrays(name))
    want = {
        "task": "keypoints/geometry",
        "data": str(root),
        "store": tmp_path / "s",
        "protocol": ("exact", "loftr"),
    }
    best = tp.evaluate(f"files:{tmp_path / 'm'}", **want)
    assert best.value("homography_auc", protocol="loftr") > 0.99
    grid = tp.evaluate(f"{tmp_path}/my.py:Grid", **{**want, "protocol": "exact"})
    assert 0 <= grid.value("mma") < 1
    oracle = tp.evaluate("oracle", **{**want, "protocol": ("exact", "dad", "d2net")})
    assert oracle.value("homography_auc") > 0.999
    assert oracle.value("homography_auc", protocol="dad") > 0.999
    assert oracle.value("mma_of_pairs", protocol="d2net") == 1
    sift = tp.evaluate("sift?matcher=mnn&ratio=0.8", **want)
    assert sift.method.endswith("matcher=mnn&ratio=0.8")
    assert tp.evaluate("sift", **want).method == "sift"
    (tmp_path / "m" / "v_artisans-1-3.npz").unlink()
    with pytest.raises(InputError, match="no matches for the pair v_artisans/1-3"):
        tp.evaluate(f"files:{tmp_path / 'm'}", **want)


def test_rows_of_glue_factory(tmp_path):
    h5py = pytest.importorskip("h5py")
    data = make_scenes(tmp_path / "d", names=("i_a", "v_b"), images=6)
    opened = TASK.for_family(TASK.open(data, {}), "pairs")
    given = true_matches(opened)
    (tmp_path / "gf").mkdir()
    with h5py.File(tmp_path / "gf" / "predictions.h5", "w") as file:
        for row, (name, truth) in enumerate(opened.pairs.items(), start=7):
            group, own = file.create_group(f"{truth.pair.scene}/{row}.ppm"), given.arrays(name)
            group["keypoints0"], group["keypoints1"] = own["points0"], own["points1"]
            group["matches0"] = np.arange(len(own["points0"]))
            group["matching_scores0"] = own["confidence"]
    run = tp.evaluate(
        f"files:{tmp_path / 'gf'}", task="keypoints/geometry", data=str(data), store=tmp_path / "s"
    )
    assert run.value("homography_auc") > 0.99


def test_keypoints_of_highest_response(root):
    opened = TASK.open(root, {"top_keypoints": 2})
    made = make_features(opened, style="real")
    for item in opened.items:
        table = made.arrays(item.key)["keypoints"]
        table[:, 4] = np.arange(len(table))[::-1]
    full = TASK.open(root, {})
    for unit in opened.units:
        assert (opened.compare(unit, made, "d2net")["matches"] <= 2).all()
        assert (full.compare(unit, made, "d2net")["matches"] > 2).any()
    first = made.arrays("i_one/1")
    points, _ = opened.d2net_matches(made, "i_one", "2")
    assert {tuple(p) for p in points} <= {tuple(p) for p in first["keypoints"][:2, :2]}
