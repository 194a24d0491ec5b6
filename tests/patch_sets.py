# SPDX-License-Identifier: BSD-3-Clause
"""Small sets of patch strips with a matching benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def make_patches(root: Path, scenes: Sequence[str], *, seed: int = 0, count: int = 12) -> Path:
    """Write noisy patch strips and a benchmark that uses all of them; return the folder of the strips."""
    rng = np.random.default_rng(seed)
    (root / "matching").mkdir(parents=True)
    lines = []
    for scene in scenes:
        folder = root / "patches" / scene
        folder.mkdir(parents=True)
        base = rng.uniform(0, 255, (count, 20, 20))
        for name, noise in (("ref", 0), ("e1", 30), ("e2", 60)):
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 20)).save(folder / f"{name}.png")
        lines += [f"{scene}.ref,{scene}.e{k}" for k in (1, 2)]
    (root / "matching" / "all.benchmark").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root / "patches"
