# SPDX-License-Identifier: BSD-3-Clause
"""One set of matches in four layouts gives one set of pose errors."""

from __future__ import annotations

import json

import match_world as w
import numpy as np
import pytest

import tiepoint as tp


def pose_world(folder, n=80):
    """Pairs JSON without images, and true matches with a little noise, as keypoints and partners."""
    rng = np.random.default_rng(5)
    K = np.array([[1000.0, 0, 648], [0, 1000, 484], [0, 0, 1]])
    pairs, listed = {}, []
    for i in range(3):
        two = f"p{i}/a.jpg", f"p{i}/b.jpg"
        angle = 0.1 + 0.1 * i
        T = np.eye(4)
        T[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
        T[:3, 3] = [-0.6, 0.1 * i, 0.05]
        points = rng.uniform([-1.2, -1, 4], [1.2, 1, 8], (n, 3))
        seen = [points @ K.T, (points @ T[:3, :3].T + T[:3, 3]) @ K.T]
        first, second = (x[:, :2] / x[:, 2:] + rng.normal(0, 0.3, (n, 2)) for x in seen)
        inside = ((second > 0) & (second < np.array(w.SIZE) - 1)).all(axis=1)
        order = rng.permutation(int(inside.sum()))
        back = np.argsort(order)
        pairs[two] = w.Indexed((first[inside], second[inside][order]), back, rng.random(len(back)))
        listed.append(
            {"name": "--".join(two), "image0": two[0], "image1": two[1], "scene": f"s{i}", "K0": K.tolist(),
             "K1": K.tolist(), "T_0to1": T.tolist(), "size0": w.SIZE, "size1": w.SIZE}
        )  # fmt: skip
    (folder / "pairs.json").write_text(json.dumps(listed))
    return pairs


def test_pose_errors_of_every_layout_are_equal(tmp_path):
    pytest.importorskip("poselib")
    pairs = pose_world(tmp_path)
    folders = {
        "own": (w.write_own(tmp_path / "own", pairs), ""),
        "gf": (w.write_glue_factory(tmp_path / "gf", pairs), ""),
        "sg": (w.write_superglue(tmp_path / "sg", pairs), "?resize=640x480"),
        "hloc": (w.write_hloc(tmp_path / "hloc", pairs), ""),
    }
    scores = {}
    for name, (folder, query) in folders.items():
        given = {"data": tmp_path / "pairs.json", "store": tmp_path / "store"}
        with pytest.warns(UserWarning, match="6 images are missing"):
            run = tp.evaluate(f"files:{folder}{query}", task="pose/relative", **given)
        table = run.scores
        scores[name] = dict(
            zip(zip(table["metric"], table["group"], strict=True), table["value"], strict=True)
        )
    assert scores["own"]["auc", "threshold_deg=5"] > 0.5
    for name in ("gf", "sg", "hloc"):
        for key, value in scores["own"].items():
            assert scores[name][key] == pytest.approx(value, abs=1e-9, nan_ok=True), (name, key)
