# SPDX-License-Identifier: BSD-3-Clause
"""Options of tasks: every one has an effect, text is understood, and all that is wrong is told at once."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import hpatches_v1_world
import hpatches_world
import numpy as np
import pairs_world
import pytest
import relative_world
from keypoint_world import make_features, make_scenes
from scipy.spatial.transform import Rotation

from tiepoint.core.errors import ErrorCollector, InputError, ProblemsError, UnknownNameError
from tiepoint.core.records import Features
from tiepoint.datasets.reconstructions.poses import PoseBuilder
from tiepoint.datasets.reconstructions.scenes import EstimatedScene, true_scene
from tiepoint.datasets.stress_kinds import KINDS
from tiepoint.formats.flow.tss import PairResult, read_pair_result
from tiepoint.formats.image.reader import write_image
from tiepoint.tasks import TASKS
from tiepoint.tasks.base import Task, TaskData
from tiepoint.tasks.dense.flow.task import FlowOptions
from tiepoint.tasks.keypoints.options import DistractorOptions, DrawOptions
from tiepoint.tasks.keypoints.ranking.task import RankingOptions
from tiepoint.tasks.options import TaskOptions
from tiepoint.tasks.sfm.compare import scene_records
from tiepoint.tasks.tss.data import TssOptions

KIT = Path(__file__).parents[1] / "data" / "synthetic_tss"
MATCHER = """
class All:
    def match(self, features1, features2):
        return [(0, 0)]
"""
FEW = {"iterations": 2, "queries": 4, "distractor_images": 3, "num_distractor_scenes": 2}
DRAWN = {
    "scenes": "i_one,v_two", "tau_px": "9", "seed": 1, "iterations": 1, "queries": "2",
    "distractor_images": 1, "self_distractor": "yes", "num_distractor_scenes": 1,
    "num_distractors_per_scene": 1, "border_px": 12,
}  # fmt: skip
PLANAR = {"scenes": "s1", "images": "nowhere", "threshold_px": "40", "side_px": 20, "seeds": "2"}
STRESSED = {"scenes": "b", "max_side": 36, "estimator": "magsac", "ransac_px": 0.5, "max_iterations": 1}

FLIPS: dict[str, dict[str, Any]] = {
    "hpatches/verification": {"split": "a", "tasks": None, "lists": "clean"},
    "hpatches/matching": {"split": "a", "tasks": None, "sequences": "all"},
    "hpatches/retrieval": {"split": "a", "tasks": None, "distractors": "every"},
    "hpatches-v1/classification": {"tasks": "other", "benchmark": "x*"},
    "hpatches-v1/matching": {"tasks": "other", "benchmark": "x*"},
    "hpatches-v1/retrieval": {"tasks": "other", "benchmark": "x*"},
    "keypoints/ranking": {
        "scenes": "i_one", "tau_px": 9, "policy": "nearest", "gallery": "6,9", "seed": 1,
        "keypoint_source": "homography_projection", "border_px": 12, "tie": "optimistic",
    },
    "keypoints/verification": DRAWN,
    "keypoints/retrieval": {**DRAWN, "distractors": "every"},
    "keypoints/matching": {k: DRAWN[k] for k in DrawOptions.model_fields},
    "keypoints/images": {
        "scenes": "i_one,v_two", "seed": 1, "matching": "ratio_test", "scorer": "ratio_sum", "border_px": 12,
    },
    "keypoints/geometry": {
        "scenes": "i_one", "seed": 1, "ratio": 0.99, "ransac_px": 30, "max_iterations": 1, "matcher": "own",
        "border_px": 12, "tau_px": "0.5,20", "sequences": 116, "frame": "long:30", "permutation_seed": 1,
        "top_keypoints": 4,
    },
    "tss": {
        "missing": "zero", "auto_flip": "on", "use_prec": "true", "subsets": "OTHER", "compare": "less_than",
        "complement": "yes", "pixels": "foreground", "larger_side": "source",
    },
    "dense/flow": {"missing": "skip", "kinds": "b", "thresholds_px": "2", "alphas": [0.2]},
    "dense/pck": {"missing": "zero", "kinds": "b", "alphas": "0.2", "scale": "image"},
    "wxbs/fundamental": {**PLANAR, "split": "val"},
    "wxbs/points": {"scenes": "s1", "images": "nowhere", "split": "val"},
    "evd/homography": PLANAR,
    "homography/pairs": {**PLANAR, "turn": "90", "mirror": "yes"},
    "mmim/homography": {**PLANAR, "turn": 180, "mirror": "yes", "categories": "cat"},
    "satast/points": {**PLANAR, "by": "points", "turned": "no", "jpeg": "no"},
    "semantic/pck": {
        "scenes": "s1", "images": "nowhere", "alphas": "0.2", "length": "image", "categories": "cat",
        "back": "yes", "groups": {"cat": [[0, 1]]},
    },
    "pose/relative": {
        "scenes": "s0", "images": "nowhere", "estimator": "opencv", "threshold_px": 4, "side_px": "500",
        "seeds": 3, "frame": "long:300", "permutation_seed": 1, "budget": "20,30", "cluster": "image",
    },
    **{f"stress/{kind.name}": {**STRESSED, "levels": kind.levels[::2]} for kind in KINDS.values()},
    "stress/noise": {**STRESSED, "levels": "0,20", "seed": 1},
    "sfm/poses": {"scenes": "s1", "position_accuracy": 0.5, "absolute": "umeyama", "cluster": "image"},
    "sfm/reconstruct": {
        "scenes": "s1", "position_accuracy": 0.5, "absolute": "umeyama", "cluster": "image", "seeds": "2",
        "mapper": "global", "intrinsics": "estimated", "pairs": "similar:1", "merge_px": 4,
        "mapper_options": "min_num_matches=30", "time_limit_s": "60",
    },
}  # fmt: skip
"""By task and option a value that is not the default."""


def outcome(task: Task, opened: Callable[[], TaskData], features: Callable[[Any], Features]) -> Any:
    """What becomes of a task: units, scores under every protocol, and files; or the error."""
    try:
        bound = opened()
        made = features(bound)
        found: list[Any] = [[u.key for u in bound.units]]
        for protocol in SOME_PROTOCOLS.get(task.name, task.protocols):
            records = [bound.compare(u, made, task.comparison(protocol)) for u in bound.units]
            scores = task.score(records, protocol)
            found.append([(s.metric, s.group, repr(s.value), s.low) for s in scores])
            if task.name == "tss":
                found.append(any(r.meta["use_prec"] for r in records))
    except InputError as e:
        return str(e)
    return found


def patch_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    if task.name.startswith("hpatches/"):
        world = hpatches_world.make_world(tmp_path)
        features = hpatches_world.features_of(hpatches_world.make_descriptors("noisy"))
        # Lists are drawn unless files give them, and only then their kind can be chosen.
        base = {} if task.name == "hpatches/verification" else {"tasks": world.tasks}
        return base, lambda options: task.open(world.data, options), lambda _: features
    world = hpatches_v1_world.make_world(tmp_path / "w")
    features = hpatches_world.features_of(hpatches_v1_world.make_descriptors(world, "noisy"))
    return {}, lambda options: hpatches_v1_world.open_task(task, world, options), lambda _: features


def keypoint_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    make_scenes(tmp_path / "s", names=("i_one", "v_two", "v_three"), images=3)
    base = {k: v for k, v in FEW.items() if k in task.options.model_fields}
    if task.name == "keypoints/ranking":
        base = {"gallery": "4", "tau_px": 6}
    return base, lambda options: task.open(tmp_path / "s", options), partial(make_features)


def dense_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    if task.name == "tss":
        read = lambda key: read_pair_result(KIT / "Results" / key).to_arrays()  # noqa: E731
        base = {"missing": "skip"}
        return base, lambda options: task.open(KIT / "Dataset", options), lambda _: Features(read)
    from scipy.io import savemat

    from tiepoint.formats.flow.reader import write_flow

    rng = np.random.default_rng(0)
    for kind in ("a", "b"):
        folder = tmp_path / kind / "one" if task.name == "dense/flow" else tmp_path / f"{kind}(S)"
        folder.mkdir(parents=True)
        for k in (1, 2):
            write_image(folder / f"image{k}.png", rng.integers(0, 256, (40, 50, 3)).astype(np.uint8))
            points = rng.uniform(5, 30, (2, 6)) if kind == "b" else np.array([[9.0, 20.0], [8.0, 21.0]]).T + k
            if task.name == "dense/pck":
                savemat(folder / f"image{k}.mat", {"pts_coord": np.resize(points, (2, 6)) + 3 * k})
        if task.name == "dense/flow":
            write_flow(folder / "flow.png", rng.uniform(-9, 9, (40, 50, 2)).astype(np.float32))

    def arrays(key: str) -> Any:
        zeros = np.zeros((40, 50, 2), np.float32)
        return PairResult({"flow1": zeros, "flow2": zeros} if "a" in key.split("/")[0] else {}).to_arrays()

    base = {"missing": "zero" if task.name == "dense/flow" else "skip"}
    return base, lambda options: task.open(tmp_path, options), lambda _: Features(arrays)


def pairs_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    pytest.importorskip("poselib", reason="PoseLib estimates under `exact` (tiepoint[pose])")
    if task.name == "pose/relative":
        return posed_case(task, tmp_path)
    data = pairs_world.write_pairs(tmp_path)
    made = pairs_world.small_flow if task.name == "semantic/pck" else pairs_world.noisy_matches
    # A threshold of 1 px in these small images: estimators soon stop.
    base = {"side_px": "60", "seeds": 1} if "seeds" in task.options.model_fields else {}
    return base, lambda options: task.open(data, options), lambda _: Features(made)


def posed_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    given = {}
    for i in range(4):
        one = relative_world.pair(f"a{i}--b{i}", f"s{i % 2}", relative_world.motion(5 + 5 * i))
        given[one.pair.name] = one, relative_world.seen(one, 60, 1.0, wrong=10, seed=i)
    data, folder = relative_world.write_world(tmp_path / "w", given)
    (tmp_path / "images").mkdir()
    for i in range(4):
        for side in "ab":
            write_image(tmp_path / "images" / f"{side}{i}.png", np.zeros((480, 640, 3), np.uint8))
    entries = json.loads(data.read_text())
    data.write_text(json.dumps([{k: v for k, v in e.items() if not k.startswith("size")} for e in entries]))
    read = lambda key: dict(np.load(folder / f"{key}.npz"))  # noqa: E731
    base = {"images": str(tmp_path / "images"), "seeds": 2}
    return base, lambda options: task.open(data, options), lambda _: Features(read)


class ScoredPoses:
    """True scenes with records made from poses, as `tiepoint score` makes them from files."""

    def __init__(self, opened: Any, estimates: dict[str, EstimatedScene]) -> None:
        self.opened, self.estimates, self.units = opened, estimates, opened.units

    def compare(self, unit: Any, features: Features, comparison: str) -> Any:
        scene = next(s for s in self.opened.scenes if s.name == unit.key)
        options = self.opened.options
        return scene_records(
            scene, self.estimates[unit.key], cluster=options.cluster, absolute=options.absolute
        )


class DefinedRecords:
    """Data of `sfm/reconstruct` with poses that depend on the definition of a unit, in place of COLMAP's."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self.units = opened.units

    def compare(self, unit: Any, features: Features, comparison: str) -> Any:
        options = self.opened.options
        work = self.opened._work[unit.key]
        true, wrong = work.scene.truth, PoseBuilder(Path(unit.key))
        rng = np.random.default_rng(int(unit.definition[:12], 16))
        for name, q, t in zip(true.poses.names, true.poses.q, true.poses.t, strict=True):
            wrong.add_quaternion(name, (q + rng.normal(0, 0.01, 4)).tolist(), t.tolist())
        found = scene_records(
            true, EstimatedScene((wrong.build(),)), cluster=options.cluster, absolute=options.absolute
        )
        more = {
            "seed": work.seed,
            "has_truth": True,
            "pairs": [],
            "failure": "",
            "seconds": {},
            "peak_mib": 0,
        }
        return replace(found, meta={**found.meta, **more})


def reconstruct_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    pytest.importorskip("pycolmap")
    made: Any = task
    rng = np.random.default_rng(0)
    camera = {"model": "PINHOLE", "size": [64, 64], "params": [60, 60, 32, 32]}
    for scene in ("s0", "s1"):
        poses = {}
        for i in range(8):
            (tmp_path / "scenes" / scene).mkdir(parents=True, exist_ok=True)
            write_image(tmp_path / "scenes" / scene / f"{i}.png", rng.integers(0, 255, (64, 64, 3), np.uint8))
            x, y, z, w = Rotation.from_rotvec(rng.normal(0, 0.3, 3)).as_quat().tolist()
            poses[f"{i}.png"] = {"qvec": [w, x, y, z], "tvec": rng.normal(0, 2, 3).tolist()}
        text = json.dumps({"images": poses, "cameras": dict.fromkeys(poses, camera)})
        (tmp_path / "scenes" / scene / "poses.json").write_text(text)
    folder = tmp_path / "scenes"
    return {}, lambda o: DefinedRecords(made.open(folder, o).for_pairs()), lambda _: None


def sfm_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    if task.name == "sfm/reconstruct":
        return reconstruct_case(task, tmp_path)
    rng = np.random.default_rng(0)
    scenes, estimates = [], {}
    for name in ("s0", "s1"):
        true, wrong = PoseBuilder(Path(name)), PoseBuilder(Path(name))
        for i in range(8):
            turn = Rotation.from_rotvec(rng.normal(0, 0.3, 3))
            noise = Rotation.from_rotvec(rng.normal(0, 0.01, 3))
            t = rng.normal(0, 2, 3)
            true.add_matrix(f"{i}.jpg", turn.as_matrix(), t)
            wrong.add_matrix(f"{i}.jpg", (noise * turn).as_matrix(), t + rng.normal(0, 0.05, 3))
        scenes.append(true_scene(name, [true.build()]))
        estimates[name] = EstimatedScene((wrong.build(),))
    made: Any = task
    return {}, lambda options: ScoredPoses(made.open_scenes(scenes, options), estimates), lambda _: None


def stress_case(task: Task, tmp_path: Path) -> tuple[dict[str, Any], Any, Any]:
    """Matches with outliers that depend on the pixels of both images."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        write_image(tmp_path / f"{name}.png", rng.integers(0, 256, (50, 60, 3)).astype(np.uint8))

    def features(opened: Any) -> Features:
        def matches(name: str) -> Any:
            images = opened.read_item(name)
            item = next(i for i in opened.items if i.key == name)
            draw = np.random.default_rng(zlib.crc32(images.image1.tobytes()))
            found = dict(opened.oracle_features(item, 0.7))
            wrong = draw.random(len(found["points0"])) < 0.6
            found["points1"] = found["points1"] + wrong[:, None] * draw.normal(0, 9, found["points1"].shape)
            return {**found, "keypoints0": np.array([999]), "keypoints1": np.array([999])}

        return Features(matches)

    return {"max_side": 48}, lambda options: task.open(tmp_path, options), features


CASES = {
    "stress": stress_case,
    "patches": patch_case,
    "keypoints": keypoint_case,
    "dense": dense_case,
    "pairs": pairs_case,
    "sfm": sfm_case,
}
SOME_PROTOCOLS = {
    "pose/relative": ("exact", "eloftr"),
    "sfm/poses": ("exact", "colmap"),
    "sfm/reconstruct": ("exact", "colmap"),
}
"""Of tasks with many protocols, those between them that every option changes."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Task], Any]:
    """Data of a task: a folder, options to start from, and how to open it and make features."""

    @cache
    def made(name: str) -> Any:
        task, folder = TASKS.load(name), tmp_path_factory.mktemp("options")
        return folder, *CASES.get(name.partition("/")[0], CASES[task.family])(task, folder)

    return made


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    return {}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "option"), [(n, o) for n, flips in FLIPS.items() for o in flips])
def test_every_option_has_an_effect(name: str, option: str, worlds: Any, outcomes: dict[str, Any]) -> None:
    if name == "keypoints/geometry":
        pytest.importorskip("cv2")
    task = TASKS.load(name)
    folder, base, opened, features = worlds(name)
    flipped: Any = FLIPS[name][option]
    if option == "tasks":
        flipped = _other_tasks(task, folder)
    elif option == "matcher":
        (folder / "own.py").write_text(MATCHER)
        flipped = f"{folder / 'own.py'}:All"
    elif option == "sequences" and name.startswith("hpatches"):
        base = {**base, "split": "a"}
    elif (name, option) == ("keypoints/geometry", "ratio"):
        features = partial(make_features, style="real")  # equally near neighbours pass no ratio
    elif option == "permutation_seed" and task.family == "keypoints":
        features = partial(make_features, style="real", count=40)  # enough for an estimator to waver
    elif option == "border_px":
        features = partial(make_features, given=False)
    if features not in outcomes or option == "sequences":
        outcomes[features] = outcome(task, lambda: opened(base), features)
    assert outcome(task, lambda: opened({**base, option: flipped}), features) != outcomes[features]


def test_none_is_not_given(worlds: Any) -> None:
    for name in ("hpatches/matching", "keypoints/images", "tss"):
        _, _, opened, features = worlds(name)
        task = TASKS.load(name)
        none = dict.fromkeys(task.options.model_fields)
        plain = outcome(task, lambda opened=opened: opened({}), features)
        assert outcome(task, lambda opened=opened, none=none: opened(none), features) == plain


def _other_tasks(task: Task, tmp_path: Path) -> Path:
    if task.name == "hpatches/verification":
        return tmp_path / "tasks"
    other = tmp_path / "other"
    other.mkdir()
    if task.name.startswith("hpatches/"):
        (other / "splits.json").write_text(json.dumps({"full": {"name": "full", "test": ["v_cat", "i_bee"]}}))
    return other


def test_no_option_is_left_out_above() -> None:
    for entry in TASKS:
        if entry.package is None:
            task = TASKS.load_entry(entry)
            passing = {
                *task.info.writing_options,
                *task.info.printing_options,
            }  # these change no record and no score
            assert FLIPS[entry.name].keys() | passing == task.options.model_fields.keys(), entry.name


def test_every_option_says_what_it_does() -> None:
    for entry in TASKS:
        for option, facts in TASKS.load_entry(entry).options.describe().items():
            assert facts["about"].endswith("."), (entry.name, option)
            json.dumps(facts)


def test_text_from_the_command_line_is_understood() -> None:
    ranking = RankingOptions.parse("t", {"tau_px": "4.5", "gallery": [3, "7"], "scenes": "a, b", "seed": "2"})
    assert (ranking.tau_px, ranking.gallery, ranking.scenes, ranking.seed) == (4.5, (3, 7), ("a", "b"), 2)
    assert FlowOptions.parse("t", {"alphas": "0.3,0.1,0.3", "thresholds_px": 4}).alphas == (0.1, 0.3)
    for word, value in {"false": False, "ON": True, "0": False, 1: True}.items():
        assert TssOptions.parse("t", {"auto_flip": word}).auto_flip is value
        assert DistractorOptions.parse("t", {"self_distractor": word}).self_distractor is value


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = {"tau": 3, "tau_px": -1, "policy": "nearst", "gallery": "1,x", "seed": 1.5}
    with pytest.raises(ProblemsError) as e:
        RankingOptions.parse("keypoints/ranking", given)
    told = "\n".join(e.value.problems)
    assert len(e.value.problems) == 5
    assert "unknown option of keypoints/ranking 'tau'; did you mean 'tau_px'?" in told
    assert "unknown value of policy 'nearst'; did you mean 'nearest'?" in told
    assert "option tau_px of keypoints/ranking: Input should be greater than 0, found -1" in told
    for name in ("gallery", "seed"):
        assert f"option {name} of keypoints/ranking: " in told


def test_problems_can_be_left_to_the_caller() -> None:
    checks = ErrorCollector()
    found = TssOptions.parse("tss", {"missing": "none", "use_prec": "true", "subset": "A"}, checks)
    assert (found.missing, found.use_prec) == ("zero", True)
    assert len(checks.errors) == 2
    with pytest.raises(UnknownNameError, match="option of my/task"):
        TaskOptions.parse("my/task", {"a": 1})


def test_names_that_look_like_numbers_are_text() -> None:
    """`-o scenes=7` is read as JSON, and the scene is called 7."""
    assert RankingOptions.parse("keypoints/ranking", {"scenes": 7}).scenes == ("7",)
    assert TssOptions.parse("tss", {"subsets": [True, "b"]}).subsets == ("true", "b")
