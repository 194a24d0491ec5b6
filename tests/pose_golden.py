"""Recorded figures of the original pose functions, and the matches they were made from."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
GOLDEN = DATA.parent / "golden" / "pose.json"
MATCHES = DATA.parent / "golden" / "pose_matches"

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")


@cache
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}


@cache
def matches(which: str) -> dict[str, np.ndarray]:
    with np.load(MATCHES / f"{which}.npz") as z:
        return dict(z)


def same_versions(versions: dict[str, str]) -> bool:
    """Whether libraries are those the figures were made with; others may differ in single draws."""
    recorded = golden()["versions"]
    return {"cv2": recorded["opencv"], "poselib": recorded["poselib"]}.items() >= versions.items()


def numbers(values: Any) -> np.ndarray:
    """Lists of numbers in which inf and nan are words, as float64."""
    return np.asarray(values, dtype=object).astype(np.float64)


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    """Equal to `tolerance` relative to max(1, value); inf and NaN in the same places."""
    f, e = np.asarray(found, np.float64), numbers(expected)
    assert f.shape == e.shape
    special = ~np.isfinite(e)
    np.testing.assert_array_equal(f[special], e[special])
    off = np.abs(f - e)[~special] / np.maximum(1, np.abs(e[~special]))
    assert off.max(initial=0) <= tolerance, (off.max(), f, e)
