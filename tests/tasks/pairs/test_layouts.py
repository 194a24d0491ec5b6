"""One set of cameras in four layouts, one set of matches: the same scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

import tiepoint as tp

pytest.importorskip("poselib", reason="PoseLib estimates the poses (tiepoint[pose])")

SIZE = (640, 480)
K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])


def cameras() -> dict[str, np.ndarray]:
    """World to camera of three images."""
    poses = {}
    for i, name in enumerate(("a", "b", "c")):
        T = np.eye(4)
        T[:3, :3] = Rotation.from_euler("xyz", (3 * i, -8 * i, 2 * i), degrees=True).as_matrix()
        T[:3, 3] = [0.7 * i, 0.1 * i * i, 0.05 * i]
        poses[name] = T
    return poses


def matches(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    """True projections with a little noise, in pixels whose first centre is (0, 0)."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2, 2, 200), rng.uniform(-1.5, 1.5, 200), rng.uniform(4, 9, 200)])
    for a, b in pairs:
        points = []
        for name in (a, b):
            T = cameras()[name]
            x = (X @ T[:3, :3].T + T[:3, 3]) @ K.T
            points.append(x[:, :2] / x[:, 2:] - 0.5 + rng.normal(0, 0.5, (200, 2)))
        np.savez(folder / f"{a}--{b}.npz", points0=points[0], points1=points[1])
    return folder


def as_json(root: Path, pairs: list[tuple[str, str]]) -> None:
    poses = cameras()
    entries = [
        {
            "image0": f"images/{a}.png", "image1": f"images/{b}.png", "K0": K.tolist(), "K1": K.tolist(),
            "T_0to1": (poses[b] @ np.linalg.inv(poses[a])).tolist(), "centre": 0.5, "scene": "all",
        }
        for a, b in pairs
    ]  # fmt: skip
    (root / "pairs.json").write_text(json.dumps(entries))


def as_model(root: Path, pairs: list[tuple[str, str]]) -> None:
    (root / "sparse").mkdir()
    (root / "sparse" / "cameras.txt").write_text("1 PINHOLE 640 480 500 510 320 240\n")
    lines = []
    for i, (name, T) in enumerate(cameras().items(), start=1):
        x, y, z, w = (repr(float(v)) for v in Rotation.from_matrix(T[:3, :3]).as_quat())
        lines += [f"{i} {w} {x} {y} {z} {' '.join(repr(float(v)) for v in T[:3, 3])} 1 {name}.png"]
        lines += [" ".join(f"1 1 {k}" for k in range(40))]
    (root / "sparse" / "images.txt").write_text("\n".join(lines) + "\n")


def as_views(root: Path, pairs: list[tuple[str, str]]) -> None:
    lines = []
    for name, T in cameras().items():
        numbers = " ".join(repr(float(v)) for v in (*T[:3, :3].ravel(), *T[:3, 3]))
        lines.append(f"{name}.png {numbers} PINHOLE 640 480 500 510 320 240")
    (root / "views.txt").write_text("\n".join(lines) + "\n")
    (root / "pairs.txt").write_text("".join(f"{a}.png {b}.png\n" for a, b in pairs))


def as_text(root: Path, pairs: list[tuple[str, str]]) -> None:
    poses = cameras()
    lines = []
    for a, b in pairs:
        T = poses[b] @ np.linalg.inv(poses[a])
        numbers = " ".join(repr(float(v)) for v in (*K.ravel(), *K.ravel(), *T.ravel()))
        lines.append(f"{a}.png {b}.png {numbers}")
    (root / "pairs_calibrated.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_the_layout_does_not_change_a_score(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    given = matches(tmp_path / "matches", pairs)
    found = []
    for write in (as_json, as_model, as_views, as_text):
        root = tmp_path / write.__name__
        (root / "images").mkdir(parents=True)
        for i, name in enumerate("abc"):
            Image.fromarray(np.full((SIZE[1], SIZE[0], 3), i, np.uint8)).save(root / "images" / f"{name}.png")
        write(root, pairs)
        run = tp.evaluate(f"files:{given}", task="pose/relative", data=str(root), store=tmp_path / "store")
        scores = run.scores
        auc = scores[(scores.metric == "auc") & scores.group.str.contains("threshold_deg=5")]
        found.append(float(auc.value.iloc[0]))
    assert found[0] > 0.7  # noise of half a pixel
    np.testing.assert_allclose(found, found[0], atol=1e-9)
