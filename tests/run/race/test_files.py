# SPDX-License-Identifier: BSD-3-Clause
"""Races of results that another program wrote: ``files:A`` against ``files:B``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.formats.image.reader import write_image
from tiepoint.formats.matches.native import write_matches
from tiepoint.run.race.engine import RaceSettings
from tiepoint.run.race.live import race_methods
from tiepoint.run.request import RunRequest
from tiepoint.store.races import StoredRace
from tiepoint.store.store import Store

PAIRS = 30
TRUE = np.array([[1.0, 0.02, 3.0], [0.01, 1.0, 2.0], [0.0, 0.0, 1.0]])


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Pairs with a homography, and folders `good` and `bad` of estimated ones."""
    pytest.importorskip("poselib")
    rng = np.random.default_rng(0)
    entries = []
    for k in range(PAIRS):
        for side in (0, 1):
            write_image(tmp_path / f"{k}_{side}.png", rng.integers(0, 256, (50, 60, 3)).astype(np.uint8))
        entries.append(
            {
                "name": f"p{k}",
                "scene": f"s{k}",
                "image0": f"{k}_0.png",
                "image1": f"{k}_1.png",
                "H": TRUE.tolist(),
            }
        )
        for name, px in (("good", 0.3), ("bad", 6.0)):
            found = TRUE.copy()
            found[:2, 2] += rng.normal(0, px, 2)
            write_matches(tmp_path / name, f"p{k}", H=found)
    (tmp_path / "pairs.json").write_text(json.dumps(entries))
    return tmp_path


def race(world: Path, *folders: str) -> StoredRace:
    wanted = [
        RunRequest(f"files:{world / name}", "evd/homography", world / "pairs.json", name=name)
        for name in folders
    ]
    with Store.open(world / "store") as store:
        return race_methods(wanted, RaceSettings(), store, report=lambda _: None)


def test_race_files_decides(world: Path) -> None:
    found = race(world, "bad", "good")
    assert [(c.better, c.worse) for c in found.claims] == [("good", "bad")]
    assert found.steps < PAIRS


def test_race_files_of_equal_content_raise(world: Path) -> None:
    shutil.copytree(world / "good", world / "copy")
    with pytest.raises(InputError, match="equal by content"):
        race(world, "good", "copy")


def test_race_files_missing_or_truncated_raise_before_any_claim(world: Path) -> None:
    (world / "bad" / "p7.npz").unlink()
    with pytest.raises(InputError, match="p7"):
        race(world, "good", "bad")
    path = world / "good" / "p3.npz"
    path.write_bytes(path.read_bytes()[:50])
    (world / "bad" / "p7.npz").write_bytes((world / "bad" / "p8.npz").read_bytes())
    with pytest.raises(InputError, match="p3"):
        race(world, "good", "bad")
