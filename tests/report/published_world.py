# SPDX-License-Identifier: BSD-3-Clause
"""Made-up results in the layout of the published ones, and patches of the same scenes to run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SCENES = tuple(f"{'iv'[s % 2]}_made{s}" for s in range(8))
SPLITS = {"full": SCENES, "a": SCENES[:6]}
NOISE = {"e": 20, "h": 50, "t": 80}


def make_results(root: Path) -> list[Path]:
    """Collections as JSON: `sift` and `orb` on splits a and full, `net` and `deep` on full only."""
    rng = np.random.default_rng(1)
    matching: dict[str, dict[str, Any]] = {s: {} for s in SPLITS}
    verification: dict[str, dict[str, Any]] = {s: {} for s in SPLITS}
    for level, name in enumerate(("sift", "orb", "net", "deep")):
        ap = {s: {z: {k: _value(rng, level) for k in "12345"} for z in NOISE} for s in SCENES}
        for split, scenes in SPLITS.items():
            if split == "full" or name in ("sift", "orb"):
                matching[split][name] = {s: ap[s] for s in scenes}
                verification[split][name] = {
                    z: {kind: {"imbalanced": {"ap": _value(rng, level)}} for kind in ("inter", "intra")}
                    for z in NOISE
                }
    found = []
    for file, content in (("matching.json", matching), ("verification.json", verification)):
        found.append(root / file)
        found[-1].write_text(json.dumps(content))
    return found


def _value(rng: np.random.Generator, level: int) -> float:
    return float(0.2 + 0.15 * level + 0.2 * rng.random())


def make_patches(root: Path, *, count: int = 12) -> Path:
    """Patch strips of all scenes, all noise levels."""
    rng = np.random.default_rng(0)
    for scene in SCENES:
        folder = root / scene
        folder.mkdir(parents=True)
        base = rng.uniform(0, 255, (count, 16, 16))
        Image.fromarray(base.astype(np.uint8).reshape(-1, 16)).save(folder / "ref.png")
        for letter, noise in NOISE.items():
            for k in range(1, 6):
                strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
                Image.fromarray(strip.reshape(-1, 16)).save(folder / f"{letter}{k}.png")
    return root
