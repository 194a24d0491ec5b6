# SPDX-License-Identifier: BSD-3-Clause
"""`score.pose` and `score.homography` give the scores of the tasks on the same matches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_rows import Recorder, assert_same_rows

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.datasets.demo.dataset import DemoSet, make_demo
from tiepoint.tasks import load_task

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
SIZE = (640, 480)
SIZES = (SIZE, SIZE)
K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
T = np.eye(4)
T[0, 3] = 1.0


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoSet:
    pytest.importorskip("skimage")
    return make_demo(tmp_path_factory.mktemp("demo"), scenes=("i_coffee", "v_brick"), size=(160, 120))


def need(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is not there")
    return DATA / name


def pose_arrays(data: Path, recorder: Recorder) -> dict[str, Any]:
    truths = load_task("pose/relative").open(data, {}).data.truths
    made = [recorder.of(*t.pair.payload()[:2]) for t in truths]
    return {
        "points0": [m[0] for m in made],
        "points1": [m[1] for m in made],
        "confidence": [m[2] for m in made],
        "K0": [t.K0 for t in truths],
        "K1": [t.K1 for t in truths],
        "T": [t.T_0to1 for t in truths],
        "sizes": [t.pair.sizes() for t in truths],
        "scenes": [t.pair.scene for t in truths],
        "centre": truths[0].centre,
        "dataset": truths[0].pair.dataset,
    }


def compare_pose(data: Path, store: Path, protocols: list[str]) -> None:
    recorder = Recorder()
    run = tp.evaluate(recorder, task="pose/relative", data=data, store=store, protocol=protocols)
    arrays = pose_arrays(data, recorder)
    for protocol in protocols:
        found = tp.score.pose(**arrays, protocol=protocol)
        assert_same_rows(found, run.score_rows)
        assert found.values["rotation_error_deg"] > 0  # equal zeros would show nothing


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pose_scannet_sample_equals_task(tmp_path: Path) -> None:
    data = need("scannet_sample") / "pairs_with_gt.txt"
    compare_pose(data, tmp_path / "store", ["exact", "dad", "zeb"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pose_megadepth_sample_equals_task(tmp_path: Path) -> None:
    compare_pose(need("megadepth_sample") / "pairs.json", tmp_path / "store", ["exact", "eloftr"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pose_demo_equals_task(demo: DemoSet, tmp_path: Path) -> None:
    compare_pose(demo.pose, tmp_path / "store", ["exact", "superglue"])


def compare_homography(root: Path, store: Path, protocols: list[str]) -> None:
    recorder = Recorder()
    run = tp.evaluate(recorder, task="keypoints/geometry", data=root, store=store, protocol=protocols)
    sequences = load_task("keypoints/geometry").open(root, {}).sequences
    pairs = [(s, k) for s in sequences.scenes for k in sequences.images(s)[1:]]
    made = [recorder.of(sequences.image(s, 1), sequences.image(s, k)) for s, k in pairs]
    for protocol in protocols:
        found = tp.score.homography(
            [m[0] for m in made],
            [m[1] for m in made],
            [sequences.homography(s, k) for s, k in pairs],
            confidence=[m[2] for m in made],
            sizes=[(sequences.size(s, 1), sequences.size(s, k)) for s, k in pairs],
            scenes=[s for s, _ in pairs],
            protocol=protocol,
        )
        assert found.metric == "homography_auc"
        assert found.value > 0
        assert_same_rows(found, run.score_rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_homography_real_sequences_equals_task(tmp_path: Path) -> None:
    compare_homography(need("sequences"), tmp_path / "store", ["exact", "loftr", "roma", "glue-factory"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_homography_demo_equals_task(demo: DemoSet, tmp_path: Path) -> None:
    compare_homography(demo.sequences, tmp_path / "store", ["exact", "dkm", "dad"])


def plane_matches(n: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(10, 400, (n, 2))


def test_homography_identity_single_pair_full_score() -> None:
    x = plane_matches()
    found = tp.score.homography(x, x, np.eye(3), sizes=SIZES)
    assert found.value > 0.999
    assert found.values["mma"] == 1.0
    assert found.low is None
    assert not any("scene=" in name for name in found.values)


def test_homography_different_first_sizes_in_scene_accepted() -> None:
    x = plane_matches()
    sizes = [(SIZE, SIZE), ((800, 600), SIZE)]
    both = tp.score.homography([x, x + 1.0], [x, x + 1.0], [np.eye(3)] * 2, sizes=sizes, scenes=["a", "a"])
    alone = [
        tp.score.homography(p, p, np.eye(3), sizes=s).value for p, s in zip((x, x + 1.0), sizes, strict=True)
    ]
    assert both.value == pytest.approx(sum(alone) / 2, abs=1e-15)


def test_pose_six_scenes_interval() -> None:
    rng = np.random.default_rng(1)
    points0, points1 = [], []
    for k in range(6):
        world = rng.uniform(-1, 1, (60, 3)) + np.array([0, 0, 5])
        x0, x1 = ((p @ K.T)[:, :2] / p[:, 2:] for p in (world, world + T[:3, 3]))
        points0.append(x0)
        points1.append(x1 + rng.normal(0, 0.3 * (k + 1), x1.shape))
    poses = [T] * 6
    few = tp.score.pose(points0, points1, K, K, poses, sizes=SIZES)
    found = tp.score.pose(points0, points1, K, K, poses, sizes=SIZES, scenes=list("abcdef"))
    assert few.low is None
    assert few.value == found.value
    assert found.interval == "t"
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert str(found).count("\n") == 0
    assert "95 % interval, t" in str(found)


def test_pose_stacked_arrays_equal_lists() -> None:
    x = np.stack([plane_matches(seed=k) for k in range(2)])
    one = tp.score.pose(x, x + 1, K, K, np.stack([T, T]), sizes=SIZES)
    two = tp.score.pose(list(x), list(x + 1), [K, K], [K, K], [T, T], sizes=[SIZES, SIZES])
    assert one == two


def test_pose_tensor_input_equals_array() -> None:
    torch = pytest.importorskip("torch")
    x = plane_matches()
    tensors = [torch.tensor(a) for a in (x, x + 1, K, K, T)]
    assert tp.score.pose(*tensors, sizes=SIZES) == tp.score.pose(x, x + 1, K, K, T, sizes=SIZES)


GOOD = {"points0": plane_matches(), "points1": plane_matches() + 1, "K0": K, "K1": K, "T": T, "sizes": SIZES}
MIRRORED = np.diag([1.0, 1, -1, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points0": plane_matches().T}, r"points0 has shape \(2, 40\), expected \(n, 2\)"),
        ({"points1": plane_matches(39)}, r"differ in shape: \(40, 2\), \(39, 2\)"),
        ({"points1": np.full((40, 2), np.nan)}, r"points1\[0\] is NaN or infinite"),
        ({"points0": plane_matches() + 5000}, r"is outside the image of 640 x 480 px"),
        ({"points0": np.full((40, 2), "a")}, "found <U1"),
        ({"K0": np.eye(4)}, r"K0: expected 3 x 3 numbers, found shape \(4, 4\)"),
        ({"T": T + MIRRORED - np.eye(4)}, r"R is not a rotation \(it reflects\)"),
        ({"T": np.eye(4)}, "t is 0"),
        ({"sizes": (640, 480)}, r"sizes is \(640, 480\); expected \(\(width0, height0\)"),
        ({"T": [T, T]}, "points0 has length 1, K0 has length 1, K1 has length 1, T has length 2"),
        ({"scenes": ["a", "b"]}, "scenes has length 2, expected 1"),
        ({"scenes": "a"}, "scenes is 'a'; pass a list"),
        ({"scenes": 3}, "scenes is 3; pass a list"),
        ({"centre": "half"}, "centre is 'half'; expected a number"),
        ({"dataset": 3}, "dataset is 3; expected a name"),
        ({"confidence": np.ones(3)}, r"confidence has shape \(3,\), expected \(40,\)"),
        ({"protocol": "exakt"}, "unknown protocol of score.pose 'exakt'; did you mean 'exact'"),
        ({"seds": 3}, "unknown option of score.pose 'seds'; did you mean 'seeds'"),
        ({"cluster": "image"}, "cluster=image needs image names"),
    ],
)
def test_pose_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tp.score.pose(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"H": np.ones((3, 3))}, "H: not invertible"),
        ({"H": np.eye(2)}, r"H: expected 3 x 3 numbers, found shape \(2, 2\)"),
        ({"protocol": "d2net"}, "unknown protocol of score.homography 'd2net'"),
        ({"points0": []}, "points0 has length 0, points1 has length 1"),
    ],
)
def test_homography_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    given = {"points0": plane_matches(), "points1": plane_matches(), "H": np.eye(3), "sizes": SIZES}
    with pytest.raises(InputError, match=message):
        tp.score.homography(**{**given, **changes})


def test_pose_unknown_dataset_warns_at_caller() -> None:
    with pytest.warns(UserWarning, match="superglue has no rule for the dataset kitti") as told:
        tp.score.pose(**GOOD, dataset="kitti", protocol="superglue")
    assert told[0].filename == __file__


def test_planes_equal_task(tmp_path: Path) -> None:
    import cross_world as world
    from tiepoint.core.records import Features
    from tiepoint.tasks import TASKS

    data = world.write_planes(tmp_path)
    task = TASKS.load("homography/pairs")
    opened = task.open(data, {"seeds": 2})
    given = {f"p{k}": world.matches(seed=k) for k in range(4)}
    for found in given.values():
        found["points1"] = np.clip(found["points1"], 0, np.array(world.SIZE1) - 1)
    records = [opened.compare(u, Features(given.__getitem__), "exact") for u in opened.units]
    wanted = {(s.metric, s.group): s.value for s in task.score(records, "exact")}
    points = [[given[f"p{k}"][f"points{side}"] for k in range(4)] for side in (0, 1)]
    result = tp.score.planes(
        *points, [world.H] * 4, sizes=(world.SIZE0, world.SIZE1), scenes=["f0", "f1"] * 2, seeds=2
    )
    assert result.value == pytest.approx(wanted["auc", "all"], abs=1e-12)
    for metric in ("mma", "corner_px", "failures", "auc_seed_sd"):
        assert result.values[metric] == pytest.approx(wanted[metric, "all"], abs=1e-12)
    with pytest.raises(InputError, match="transform the points and H instead"):
        tp.score.planes(*points, [world.H] * 4, sizes=(world.SIZE0, world.SIZE1), turn=90)
