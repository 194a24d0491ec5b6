# SPDX-License-Identifier: BSD-3-Clause
"""Small pairs with keypoints, and a method of a user that leaves a file in ``fate`` for every call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.formats.image.reader import write_image
from tiepoint.run.request import RunRequest

SHIFT = np.array([3.0, 2.0])
METHODS = '''
import uuid
import zlib
from pathlib import Path

import numpy as np


class Shift:
    """Moves every query by (3, 2) plus noise, which depends on the images alone."""

    def __init__(self, noise: float = 1.0, fails: int = -1):
        self.noise, self.fails = noise, fails

    def match_points(self, image1, image2, points):
        seed = zlib.crc32(image1.tobytes()) + int(1000 * self.noise)
        fate = Path(__file__).parent / "fate"
        (fate / uuid.uuid4().hex).touch()
        if (fate / "bad").exists() and int(image1[0, 0, 0]) == self.fails:
            raise RuntimeError("no answer")
        rng = np.random.default_rng(seed)
        moved = points + [3.0, 2.0] + rng.normal(0, self.noise, points.shape)
        return np.clip(moved, 0, [59, 49])
'''


def write_world(root: Path, pairs: int = 40, scenes: int = 8) -> Path:
    """Write pairs of tiny images, each with eight keypoints, and ``mine.py`` beside them."""
    rng = np.random.default_rng(1)
    entries: list[dict[str, Any]] = []
    for k in range(pairs):
        for side in (0, 1):
            image = rng.integers(0, 256, (50, 60, 3)).astype(np.uint8)
            image[0, 0, 0] = k
            write_image(root / f"{k}_{side}.png", image)
        y, x = rng.integers(0, 13, (2, 8)) * 3.0 + 2.0
        points = np.column_stack([x, y])
        entries.append(
            {
                "name": f"p{k}", "scene": f"s{k % scenes}", "category": "cat" if k % 2 else "dog",
                "image0": f"{k}_0.png", "image1": f"{k}_1.png",
                "points0": points.tolist(), "points1": (points + SHIFT).tolist(),
                "box0": [0, 0, 20, 20], "box1": [0, 0, 20, 20],
            }
        )  # fmt: skip
    (root / "pairs.json").write_text(json.dumps(entries))
    (root / "fate").mkdir()
    (root / "mine.py").write_text(METHODS)
    return root / "pairs.json"


def requests(data: Path, *noises: float, jobs: int = 1, **more: Any) -> list[RunRequest]:
    """Requests of methods with these noises."""
    spec = f"{data.parent / 'mine.py'}:Shift?noise="
    names = [f"n{noise:g}" for noise in noises]
    return [
        RunRequest(f"{spec}{noise}", "semantic/pck", data, name=name, jobs=jobs, **more)
        for noise, name in zip(noises, names, strict=True)
    ]


def calls(data: Path) -> int:
    """Number of calls of the methods until now."""
    return sum(len(path.name) == 32 for path in (data.parent / "fate").iterdir())
