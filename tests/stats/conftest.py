# SPDX-License-Identifier: BSD-3-Clause
"""Scene values to simulate from: the published ones, or a stand-in of their shape where they are absent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="session")
def population() -> dict[str, np.ndarray]:
    """Mean matching AP over noise and images of each sequence: `SOSNet`, `hardnet+`, `orb`, and `kinds`."""
    path = DATA / "hpatches_reference_results" / "matching_ap.json"
    if path.is_file():
        full = json.loads(path.read_text())["full"]
        scenes = sorted(full["orb"])
        out = {
            m: np.array([np.mean([list(full[m][s][z].values()) for z in "eht"]) for s in scenes])
            for m in ("SOSNet", "hardnet+", "orb")
        }
    else:
        rng = np.random.default_rng(5)
        scenes = [f"i_{k}" for k in range(57)] + [f"v_{k}" for k in range(59)]
        level = rng.normal(0, 0.8, 116)
        spread = {m: rng.normal(0, 0.05, 116) for m in ("SOSNet", "hardnet+", "orb")}
        shift = {"SOSNet": 0.15, "hardnet+": 0.1, "orb": -1.8}
        out = {m: 1 / (1 + np.exp(-(level + shift[m] + spread[m]))) for m in shift}
    out["kinds"] = np.array([s[0] for s in scenes])
    return out
