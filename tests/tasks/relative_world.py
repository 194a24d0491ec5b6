"""Pairs with known cameras, their matches, and scores by name: what the tests of `pose/relative` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from pair_truths import pair_truth, recorded_truth
from pose_golden import golden, matches
from tiepoint.core.records import Records
from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.tasks.pairs.data import PairMatches
from tiepoint.tasks.pose.task import TASK, RelativeOptions

SIZE = (640, 480)
K0 = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
K1 = np.array([[560.0, 0, 310], [0, 540, 250], [0, 0, 1]])


def motion(turn_deg: float = 10.0, baseline: float = 0.8) -> np.ndarray:
    """T_0to1 of a turn about an odd axis and a step aside."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(np.deg2rad(turn_deg) * np.array([0.36, 0.48, 0.8])).as_matrix()
    T[:3, 3] = np.array([0.96, 0.2, -0.195]) * baseline
    return T


def pair(name: str = "a--b", scene: str = "s", T: np.ndarray | None = None, **changes: Any) -> PairTruth:
    first, _, second = name.partition("--")
    known: dict[str, Any] = {
        "image0": Path(f"{first}.png"),
        "image1": Path(f"{second}.png"),
        "size0": SIZE,
        "size1": SIZE,
        "K0": K0,
        "K1": K1,
        "T_0to1": motion() if T is None else T,
    }
    return pair_truth(name, scene, **{**known, **changes})


def seen(given: PairTruth, n: int = 200, noise_px: float = 0.0, wrong: int = 0, seed: int = 0) -> PairMatches:
    """Matches of points before both cameras with noise; the first `wrong` lie anywhere. Half are doubtful."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (n, 3)) * np.array([1.5, 1.0, 1.5]) + np.array([0, 0, 5.0])
    there = points @ given.T_0to1[:3, :3].T + given.T_0to1[:3, 3]
    x0, x1 = ((p @ K.T)[:, :2] / p[:, 2:] for p, K in ((points, given.K0), (there, given.K1)))
    x0, x1 = x0 - given.centre, x1 - given.centre + rng.normal(0, 1, (n, 2)) * noise_px
    x1[:wrong] = rng.uniform(0, 480, (wrong, 2))
    sure = np.linspace(0, 1, n)
    return PairMatches(x0, x1, sure, (n + 50, n + 60))


def records(given: PairTruth, found: PairMatches, comparison: str = "exact", **options: Any) -> Records:
    """Records of a pair as the task makes them."""
    arrays = {"points0": found.points0, "points1": found.points1}
    if found.confidence is not None:
        arrays["confidence"] = found.confidence
    if found.keypoints is not None:
        arrays |= {f"keypoints{i}": np.array([n]) for i, n in enumerate(found.keypoints)}
    chosen = RelativeOptions.parse("pose/relative", options)
    return TASK.compare_pair(given, arrays, chosen, comparison)


def value(scores: Any, metric: str, group: str = "all") -> float:
    """The one score of a metric and group, whatever the order of its parts."""
    wanted = sorted(group.split(","))
    (found,) = [s.value for s in scores if s.metric == metric and sorted(s.group.split(",")) == wanted]
    return float(found)


def areas(scores: Any, group: str = "") -> list[float]:
    """Areas up to 5, 10 and 20 degrees."""
    return [value(scores, "auc", f"{group},threshold_deg={t}".lstrip(",")) for t in (5, 10, 20)]


def entry(given: PairTruth, **changes: Any) -> dict[str, Any]:
    """A pair as our JSON has it."""
    return {
        "name": given.pair.name,
        "image0": str(given.pair.image0),
        "image1": str(given.pair.image1),
        "K0": given.K0.tolist(),
        "K1": given.K1.tolist(),
        "T_0to1": given.T_0to1.tolist(),
        "size0": list(given.pair.size0 or SIZE),
        "size1": list(given.pair.size1 or SIZE),
        "scene": given.pair.scene,
        "dataset": given.pair.dataset,
        "centre": given.centre,
        **changes,
    }


def write_world(root: Path, pairs: dict[str, tuple[PairTruth, PairMatches]]) -> tuple[Path, Path]:
    """A list of pairs and a folder of their matches."""
    root.mkdir(parents=True, exist_ok=True)
    folder = root / "matches"
    folder.mkdir()
    (root / "pairs.json").write_text(json.dumps([entry(p) for p, _ in pairs.values()]))
    for name, (_, found) in pairs.items():
        kept = {"confidence": found.confidence} if found.confidence is not None else {}
        if found.keypoints is not None:
            kept |= {f"keypoints{i}": np.array([n]) for i, n in enumerate(found.keypoints)}
        np.savez(folder / f"{name}.npz", points0=found.points0, points1=found.points1, **kept)
    return root / "pairs.json", folder


def golden_world() -> dict[str, tuple[PairTruth, PairMatches]]:
    """The ten recorded pairs with ratio test.

    The recorded figures of `motorcycle` were made with the rules for MegaDepth.
    """
    found = {}
    for name, case in golden()["relative_pose"].items():
        if name.endswith("_mnn"):
            continue
        dataset = "megadepth" if name == "motorcycle" else case["dataset"]
        given = recorded_truth(name, case, dataset=dataset, centre=case["centre"])
        x0, x1 = (matches("relative")[f"{name}.{p}"] for p in ("pts0", "pts1"))
        score = matches("relative")[f"{name}.score"]
        found[name] = given, PairMatches(x0, x1, score, tuple(case["n_keypoints"]))
    return found
