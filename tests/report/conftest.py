# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the report tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report_world import make_store

from tiepoint.report.runs.selection import runs_of
from tiepoint.run.result import Run
from tiepoint.store.store import Store


@pytest.fixture(scope="session")
def report_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of six methods on seven scenes, hostile names among both."""
    return make_store(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def report_runs(report_store: Path) -> list[Run]:
    """The runs of `report_store`."""
    with Store.open(report_store) as store:
        return runs_of(store, None)
