"""Property tests search at random on a desk; in CI they repeat the same examples: a red run is a change."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tiepoint.formats.hpatches.patch_strip import write_strip

sys.path.insert(0, str(Path(__file__).parent))  # helpers of several folders: pose_golden

# The first call may compile, so no example has a deadline.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it for all children

# The tests write many small files and wait for each to reach the disk. Memory answers at once.
MEMORY = Path("/dev/shm")
if (
    "PYTEST_DEBUG_TEMPROOT" not in os.environ
    and MEMORY.is_dir()
    and shutil.disk_usage(MEMORY).free > 8 * 2**30
):
    folder = tempfile.mkdtemp(prefix="tiepoint-tests-", dir=MEMORY)
    os.chmod(folder, 0o755)  # the user of the PostgreSQL server reaches it
    os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # the workers share it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

os.environ.pop("COLUMNS", None)  # some runners set it; tables of the tests are as wide as they are

LONGEST = ("test_wheel.py", "test_quickstart.py")
IMAGES = ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep modules and tests out of every later garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, so that no worker is left alone with one."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def patches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sequences of 20 patches with all images of HPatches."""
    root = tmp_path_factory.mktemp("run") / "patches"
    rng = np.random.default_rng(3)
    for scene in ("i_aa", "v_bb", "v_cc"):
        base = rng.normal(128, 40, (20, 9, 9))
        for image in IMAGES:
            strip = np.clip(base + rng.normal(0, 15, base.shape), 0, 255).astype(np.uint8)
            write_strip(root / scene / f"{image}.png", strip)
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=quiet)
        yield started
        started.close()
