"""Recorded figures of the functions of MINIMA, RoMa v2 and LoMa."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
GOLDEN = DATA.parent / "golden" / "crossmodal.json"

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")


@cache
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}


def number(value: Any) -> float | None:
    """A recorded error. None for an exception, which is recorded as text."""
    return None if isinstance(value, str) and value.startswith("exception") else float(value)


def matrix(rows: Any) -> np.ndarray:
    return np.array([[float(v) for v in row] for row in rows])
