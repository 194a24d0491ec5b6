# SPDX-License-Identifier: BSD-3-Clause
"""Small made-up sequences and features for the tests of the keypoint tasks."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tiepoint.core.records import Features

SIZE = (64, 48)
GIVEN = {"given_keypoints": True}
"""Of features that another program made: `workbench` uses them as they are, without its border."""


def make_scenes(root: Path, names=("i_one", "v_two", "v_three", "x_four"), images=4, seed=0) -> Path:
    """A folder of sequences with mild homographies; images are small and distinct."""
    rng = np.random.default_rng(seed)
    for name in names:
        folder = root / name
        folder.mkdir(parents=True)
        for k in range(1, images + 1):
            pixels = rng.integers(0, 255, (SIZE[1] + k, SIZE[0] - k, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{k}.png")
            if k > 1:
                h = np.eye(3) + rng.normal(0, [[0.03, 0.03, 5], [0.03, 0.03, 5], [5e-4, 5e-4, 0]])
                np.savetxt(folder / f"H_1_{k}", h, fmt="%.17g")
    return root


def make_features(
    opened, *, style="ties", count=14, dim=6, empty=(), seed=0, fail=0.0, distance="l2", given=True
) -> Features:
    """Features by image: lattice positions (many co-located), descriptors of a style.

    They are those of another program unless `given` is False. `ties`: small whole numbers; `real`: Gaussian;
    `constant`; `bits`: packed bytes.
    """
    tables = {}
    for item in opened.items:
        scene, _, name = item.key.rpartition("/")
        rng = np.random.default_rng([seed, zlib.crc32(item.key.encode())])
        width, height = opened.sequences.size(scene, name)
        n = 0 if item.key in empty else int(rng.integers(count, 2 * count))
        xy = np.column_stack([rng.integers(0, width // 4, n) * 4, rng.integers(0, height // 4, n) * 4])
        xy = xy.astype(float) + rng.choice([0, 0.25], (n, 2))
        if n > 3:
            xy[3] = xy[0]
        values = _descriptors(rng, style, n, dim)
        keypoints = np.column_stack([xy, np.zeros((n, 5))])
        tables[item.key] = {"keypoints": keypoints, "values": values, "valid": rng.random(n) >= fail}
    return Features(tables.__getitem__, distance, GIVEN if given else {})


def _descriptors(rng, style, n, dim):
    if style == "ties":
        return rng.integers(0, 2, (n, dim)).astype(np.float32)
    if style == "real":
        return rng.normal(size=(n, dim)).astype(np.float32)
    if style == "bits":
        return rng.integers(0, 256, (n, dim), dtype=np.uint8)
    return np.ones((n, dim), np.float32)


def run_task(task, root, features=None, protocol="exact", **options):
    """Scores by (metric, group) and the records, all scenes."""
    opened = task.open(root, options)
    made = features(opened) if callable(features) else features
    records = [opened.compare(unit, made, task.comparison(protocol)) for unit in opened.units]
    scores = {(s.metric, s.group): s for s in task.score(records, protocol)}
    assert all(s.protocol == protocol for s in scores.values())
    return scores, records
