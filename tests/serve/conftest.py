# SPDX-License-Identifier: BSD-3-Clause
"""A store with hostile names, and a visitor to its pages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
sys.path.insert(0, str(Path(__file__).parent))

from report_world import make_store
from visitors import visitor

from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store


@pytest.fixture(scope="session")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six methods on seven scenes, hostile names among both."""
    return make_store(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="session")
def library(odd_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunIndex]:
    """The store, open to be read."""
    with Store.open(odd_store, mode="read") as store:
        yield RunIndex(store, cache=tmp_path_factory.mktemp("cache"), wait_s=600)


@pytest.fixture(scope="session")
def client(library: RunIndex) -> Iterator[Any]:
    """A visitor of the pages on this machine."""
    from tiepoint.serve.app import application

    with visitor(application(library)) as here:
        yield here
