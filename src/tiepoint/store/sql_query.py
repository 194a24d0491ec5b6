# SPDX-License-Identifier: BSD-3-Clause
"""Run read-only SQL queries of users, with limits on time and number of rows."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..core.errors import InputError
from .urls import without_secret

TIMEOUT_S = 60.0
MAX_QUERY_ROWS = 100_000
_MAX_QUERY_BYTES = 1 << 28
"""Largest size of one value in an SQLite query, in bytes."""
_STEPS = 20_000
"""Number of SQLite VM steps between two timeout checks; they take a few milliseconds."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class QueryResult:
    """Columns and rows of a query. `truncated` is set if the query has more rows than the limit."""

    columns: list[str]
    rows: list[Row]
    truncated: bool = False


def run_query(
    engine: sa.Engine, query: str, *, timeout_s: float = TIMEOUT_S, most_rows: int | None = MAX_QUERY_ROWS
) -> QueryResult:
    """Run one read-only statement (select, with, values, explain …) and return its rows.

    The database rejects all other statements. SQLite uses a read-only connection and an authorizer.
    PostgreSQL uses a cursor in a read-only transaction, which accepts a single statement.

    Args:
        engine: Engine of an open store.
        query: The statement.
        timeout_s: Timeout in seconds.
        most_rows: Largest number of rows; None for all.

    Raises:
        InputError: The statement is rejected, is invalid or exceeds the timeout.
    """
    if not timeout_s > 0 or (most_rows is not None and most_rows < 1):
        raise InputError("`timeout` and `limit` must be above 0")
    asking = _ask_sqlite if engine.dialect.name == "sqlite" else _ask_postgresql
    return asking(engine, query, timeout_s, most_rows)


def select_all(engine: sa.Engine, query: str) -> tuple[list[str], list[Row]]:
    """Run a query without a row limit and return its columns and rows; see `run_query`."""
    found = run_query(engine, query, most_rows=None)
    return found.columns, found.rows


_COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[\s(]*([A-Za-z_]+)")


def _checked(query: str, allowed: tuple[str, ...]) -> tuple[str, str]:
    """Return the first word of a statement, and the statement without leading comments.

    Leading comments are removed, because a server that nests comments could see a different first word.

    >>> _checked("/* a */ (Select 1)", ("select", "with"))
    ('select', '(Select 1)')
    """
    at = 0
    while (found := _COMMENT.match(query, at)) is not None:
        at = found.end()
    word = _WORD.match(query, at)
    if word is None or word[1].lower() not in allowed:
        raise InputError(f"a query can only read; start it with {', '.join(allowed[:-1])} or {allowed[-1]}")
    return word[1].lower(), query[at:]


_SQLITE_WORDS = ("select", "with", "values", "explain", "pragma")
_READING = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE))
_OF_A_TABLE = frozenset(
    ("table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list")
)
_ALONE = frozenset(
    (
        *("table_list", "database_list", "function_list", "collation_list", "compile_options", "page_size"),
        *("schema_version", "user_version", "journal_mode", "page_count", "freelist_count", "encoding"),
        *("integrity_check", "quick_check"),
    )
)


def _allowed(action: int, one: str | None, two: str | None, *_: str | None) -> int:
    """Return the SQLite code that allows or denies an action.

    Allowed are table reads, safe functions and harmless pragmas.
    """
    name = (one or "").lower()
    harmless = (
        action in _READING
        or (action == sqlite3.SQLITE_FUNCTION and (two or "").lower() != "load_extension")
        or (action == sqlite3.SQLITE_PRAGMA and (name in _OF_A_TABLE or (name in _ALONE and two is None)))
    )
    return sqlite3.SQLITE_OK if harmless else sqlite3.SQLITE_DENY


def _ask_sqlite(engine: sa.Engine, query: str, timeout_s: float, most_rows: int | None) -> QueryResult:
    _, query = _checked(query, _SQLITE_WORDS)
    with engine.connect() as known:
        place = known.exec_driver_sql("PRAGMA database_list").first()
    path = Path(str(place[2] if place else ""))
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=timeout_s)
    except sqlite3.Error as e:
        raise InputError(f"the database cannot be read: {e}") from e
    ends = time.monotonic() + timeout_s
    late = False

    def check_timeout() -> int:
        nonlocal late
        late = time.monotonic() > ends
        return int(late)

    try:
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_QUERY_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_allowed)
        connection.set_progress_handler(check_timeout, _STEPS)
        cursor = connection.execute(query)
        if cursor.description is None:
            raise InputError("this statement returns no rows; write a query that reads, such as select")
        return _answer([c[0] for c in cursor.description], cursor.fetchmany, cursor.fetchall, most_rows)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as e:
        if late:
            raise InputError(_too_long(timeout_s)) from e
        message = "a query can only read" if "not authorized" in str(e) else str(e)
        if message.startswith("no such"):
            message += "; docs/results-schema.md lists the tables and their columns"
        raise InputError(f"the database refuses this query: {message}") from e
    finally:
        connection.close()


def _answer(
    columns: list[str],
    some: Callable[[int], list[Any]],
    every: Callable[[], list[Any]],
    most_rows: int | None,
) -> QueryResult:
    rows = [tuple(row) for row in (every() if most_rows is None else some(most_rows + 1))]
    if most_rows is None:
        return QueryResult(columns, rows)
    return QueryResult(columns, rows[:most_rows], len(rows) > most_rows)


def _too_long(timeout_s: float) -> str:
    return f"the query took longer than {timeout_s:g} s and was stopped; select less, or raise `timeout`"


_POSTGRESQL_WORDS = ("select", "with", "values", "table", "explain", "show")
_EFFECTS = re.compile(
    r"(?i)\b(set_config|lo_\w+|pg_(?:read|write|stat|ls)_\w*(?:file|dir)\w*|pg_file_\w+|dblink\w*|"
    r"pg_(?:terminate|cancel)_backend|pg_(?:try_)?advisory_\w+|pg_reload_conf|pg_rotate_logfile\w*|"
    r"pg_switch_wal|pg_create_\w+|pg_drop_\w+|pg_promote|pg_notify|pg_backup_\w+)\b|\bU&\""
)
"""Pattern of PostgreSQL functions with side effects and of Unicode-escaped identifiers."""


def _ask_postgresql(engine: sa.Engine, query: str, timeout_s: float, most_rows: int | None) -> QueryResult:
    word, query = _checked(query, _POSTGRESQL_WORDS)
    found = _EFFECTS.search(query)
    if found is not None:
        raise InputError(f"the statement {found[0]} is refused; write a query that only reads")
    dialect = engine.dialect
    url = engine.url.render_as_string(hide_password=False)
    try:
        connection = engine.raw_connection()
    except (sa.exc.DBAPIError, dialect.loaded_dbapi.Error) as e:
        raise InputError(
            f"cannot open the store: {without_secret(str(getattr(e, 'orig', e)), url)}"
        ) from None
    cursor: Any = connection.cursor()
    try:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true)", (str(max(1, int(1000 * timeout_s))),)
        )
        cursor.execute("SET LOCAL lock_timeout = '10s'")
        cursor.execute("SET default_transaction_read_only = on")
        cursor.execute(
            "SELECT current_setting('is_superuser') = 'on' and pg_has_role('pg_read_all_data', 'member')"
        )
        if cursor.fetchone()[0]:
            cursor.execute("SET LOCAL ROLE pg_read_all_data")  # no access to files or programs of the server
        direct = word in ("explain", "show")
        # A prepared statement cannot contain several statements.
        declared = query if direct else f"DECLARE user_query NO SCROLL CURSOR FOR {query}"
        cursor.execute(declared, prepare=True)
        if not direct:
            cursor.execute(
                "FETCH ALL FROM user_query" if most_rows is None else f"FETCH {most_rows + 1} FROM user_query"
            )
        if cursor.description is None:
            raise InputError("this statement returns no rows; write a query that reads, such as select")
        return _answer([c[0] for c in cursor.description], cursor.fetchmany, cursor.fetchall, most_rows)
    except (dialect.loaded_dbapi.Error, dialect.loaded_dbapi.Warning) as e:
        if getattr(e, "sqlstate", None) == "57014":
            raise InputError(_too_long(timeout_s)) from e
        raise InputError(f"the database refuses this query: {without_secret(str(e), url)}") from e
    finally:
        connection.invalidate()  # drops the settings of the session
