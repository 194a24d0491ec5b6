# SPDX-License-Identifier: BSD-3-Clause
"""Patches of a real photograph, the same places seen shifted, and modules that a test writes."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SIDE = 65


def cut(image: NDArray[np.uint8], places: NDArray[np.int64], side: int = SIDE) -> NDArray[np.uint8]:
    return np.stack([image[y : y + side, x : x + side] for y, x in places])


@pytest.fixture(scope="session")
def photograph() -> NDArray[np.uint8]:
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.camera())


@pytest.fixture(scope="session")
def places() -> NDArray[np.int64]:
    # the lower part of the photograph: the sky above has next to no texture
    rng = np.random.default_rng(7)
    return np.stack([rng.integers(180, 440, 40), rng.integers(8, 440, 40)], axis=1)


@pytest.fixture(scope="session")
def patches(photograph, places) -> NDArray[np.uint8]:
    return cut(photograph, places)


@pytest.fixture(scope="session")
def seen_again(photograph, places) -> NDArray[np.uint8]:
    rng = np.random.default_rng(8)
    moved = cut(photograph, places + rng.integers(-2, 3, places.shape)).astype(float)
    return np.clip(0.8 * moved + 20 + rng.normal(0, 4, moved.shape), 0, 255).astype(np.uint8)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write modules and import the first. They are forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    # Python would load its bytecode again after an edit of the same size in the same second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def loaded(**files):
        for name, text in files.items():
            Path(f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return importlib.import_module(next(iter(files)))

    yield loaded
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if str(tmp_path) in file:
            del sys.modules[name]
