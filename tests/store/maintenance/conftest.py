# SPDX-License-Identifier: BSD-3-Clause
"""A store with runs of three methods that share some files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_world import TASK, make_patches

from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

Make = Callable[..., None]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two methods, one of them under two protocols and once more under another name."""
    root = tmp_path_factory.mktemp("upkeep")
    data = make_patches(root, scenes=2)
    with Store.open(root / "store") as store:
        for method, name in (("pixels", None), ("meanstd", None), ("meanstd", "also meanstd")):
            evaluate(RunRequest(method, TASK, data, ("exact",), {"tasks": str(root)}, name=name), store)
    return root


@pytest.fixture
def where(made: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    shutil.copytree(made / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def again(made: Path) -> Callable[[Store, str], str]:
    """Runs a method in a store; returns the id of the run."""

    def run(store: Store, method: str, name: str | None = None) -> str:
        asked = RunRequest(method, TASK, made / "patches", ("exact",), {"tasks": str(made)}, name=name)
        return evaluate(asked, store).id

    return run
