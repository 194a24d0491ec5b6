# SPDX-License-Identifier: BSD-3-Clause
"""Empty databases on the PostgreSQL server of the tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa


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
