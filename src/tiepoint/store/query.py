# SPDX-License-Identifier: BSD-3-Clause
"""A user's own SQL, on a connection that cannot write."""

from __future__ import annotations

from typing import Any

from ..model.errors import InputError
from .store import Store


def select(store: Store, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of one statement. The database itself refuses to write; failures are InputErrors.

    On PostgreSQL the statement is prepared, so that a second one cannot hide behind a semicolon and end
    the read-only transaction.
    """
    dialect = store.engine.dialect
    connection = store.engine.raw_connection()
    cursor = connection.cursor()
    try:
        if dialect.name == "sqlite":
            cursor.execute("PRAGMA query_only = ON")
            cursor.execute(query)
        else:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(query, prepare=True)  # type: ignore[call-arg]
        if cursor.description is None:
            raise InputError("this statement returns no rows; a query can only read")
        return [column[0] for column in cursor.description], [tuple(row) for row in cursor.fetchall()]
    except (dialect.loaded_dbapi.Error, dialect.loaded_dbapi.Warning) as e:
        raise InputError(f"the database refuses this query: {e}") from e
    finally:
        connection.rollback()
        connection.close()
