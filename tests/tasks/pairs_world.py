"""Pairs of images with clicked points, homographies and keypoints, and features of a made-up method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.formats.image.reader import write_image

SIZE = (60, 50)
H = np.array([[0.9, 0.05, 3.0], [0.02, 1.0, 2.0], [1e-4, 0, 1]])


def write_pairs(root: Path) -> Path:
    """Four pairs in our own JSON, with truth of every kind."""
    rng = np.random.default_rng(0)
    entries = []
    for k in range(4):
        for side in (0, 1):
            image = rng.integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8)
            write_image(root / f"{k}_{side}.png", image)
        x = rng.integers(2, 45, (8, 2)).astype(np.float64)
        moved = x + rng.normal(0, 4, x.shape) + np.array([3.0, 2.0])
        entries.append(
            {
                "name": f"p{k}", "scene": f"s{k}", "image0": f"{k}_0.png", "image1": f"{k}_1.png",
                "corrs": np.hstack([x, moved]).tolist(), "H": H.tolist(), "points0": x.tolist(),
                "points1": moved.tolist(), "ids": list(range(8)), "visible1": list(range(8)),
                "box0": [0, 0, 40, 30], "box1": [0, 0, 40, 30], "category": "cat" if k % 2 else "dog",
                "modality": "pets",
                "split": "val" if k == 3 else "test",
            }
        )  # fmt: skip
    (root / "pairs.json").write_text(json.dumps(entries))
    return root / "pairs.json"


def noisy_matches(key: str) -> dict[str, Any]:
    """Matches of a plane, a third of them far off."""
    rng = np.random.default_rng(sum(map(ord, key)))
    x = rng.uniform(1, 45, (60, 2))
    y = np.column_stack([x, np.ones(60)]) @ H.T
    moved = y[:, :2] / y[:, 2:] + rng.normal(0, 0.3, x.shape)
    moved[40:] += rng.normal(0, 6, (20, 2))
    return {"points0": x, "points1": moved}


def small_flow(key: str) -> dict[str, Any]:
    """A flow to the right and down."""
    return {"flow": np.full((SIZE[1], SIZE[0], 2), 2.0, np.float32)}
