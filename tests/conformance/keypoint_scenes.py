# SPDX-License-Identifier: BSD-3-Clause
"""Image sequences whose keypoints and descriptors are written down by hand.

Every image is one grey level, which is its code; a method in `mine.py` looks the code up and answers with the
keypoints and descriptors of that image.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from black_box import grey_file, write

IDENTITY = "1 0 0\n0 1 0\n0 0 1\n"
MOVED = "1 0 10\n0 1 5\n0 0 1\n"
"""A translation by (10, 5): the point (100, 200) is at (110, 205)."""

MINE = """import numpy as np

TABLE = {table!r}


class Mine:
    distance = "l2"

    def extract(self, image):
        points, values = TABLE[int(image[0, 0, 0])]
        return np.array(points, np.float32), np.array([[v, 1] for v in values], np.float32)
"""
"""A method whose descriptors are one number each, beside a 1 so that no row is zero."""

Points = Sequence[tuple[float, float]]
Table = Mapping[int, tuple[Points, Sequence[float]]]


def scene(root: str, name: str, codes: Sequence[int], homographies: Sequence[str], side: int = 300) -> None:
    """`ROOT/NAME/1.png …, H_1_2 …` of one grey level each."""
    folder = Path(root) / name
    for k, code in enumerate(codes, 1):
        grey_file(folder / f"{k}.png", [[code] * side] * side)
        if k > 1:
            write(folder / f"H_1_{k}", homographies[k - 2])


def method(table: Table, name: str = "Mine") -> None:
    """Write `mine.py` (or `worse.py` for `Worse`) with the keypoints and descriptors of every image."""
    text = MINE.format(table={code: (list(p), list(v)) for code, (p, v) in table.items()})
    write(f"{name.lower()}.py", text.replace("class Mine", f"class {name}"))


def textured(root: str, names: Sequence[str], side: int = 200) -> None:
    """Sequences of two images of random blocks, the second with noise: something to detect and to confuse."""
    for name in names:
        rng = random.Random(name)
        cells = [[rng.randrange(40, 200) for _ in range(side // 8 + 1)] for _ in range(side // 8 + 1)]
        for k, noise in ((1, 0), (2, 35)):
            rows = [
                [cells[y // 8][x // 8] + rng.randint(-noise, noise) for x in range(side)] for y in range(side)
            ]
            grey_file(Path(root) / name / f"{k}.png", rows)
        write(Path(root) / name / "H_1_2", IDENTITY)
