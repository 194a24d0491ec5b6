# SPDX-License-Identifier: BSD-3-Clause
"""A user's own SQL, on a connection that cannot write."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ..model.errors import InputError
from .store import Store


def select(store: Store, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query. The database itself refuses to write; a failed query is an InputError."""
    with store.engine.connect() as connection:
        try:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
            else:
                connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            result = connection.exec_driver_sql(query)
            if not result.returns_rows:
                raise InputError("this statement returns no rows; tiepoint sql only reads")
            return list(result.keys()), [tuple(row) for row in result]
        except sa.exc.DBAPIError as e:
            raise InputError(f"the database refuses this query: {e.orig}") from e
        finally:
            connection.rollback()
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = OFF")
