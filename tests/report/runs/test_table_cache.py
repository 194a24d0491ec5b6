# SPDX-License-Identifier: BSD-3-Clause
"""Scene values in memory: values used last stay, up to a number of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.scores import SceneValues
from tiepoint.report.runs import lazy_records
from tiepoint.report.runs.lazy_records import TableCache, tables_bytes
from tiepoint.run.result import Tables


def tables(key: str) -> Tables:
    """Return two tables of 800 bytes that share their array."""
    table = SceneValues((key,), ("i",), np.ones((100, 1)))
    return {("ap", "all"): table, ("ap", "kind=i"): table}


def test_tables_bytes_shared_array_counts_once() -> None:
    assert tables_bytes(tables("a")) == 800


def test_table_cache_full_drops_least_recently_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_records, "TABLE_CACHE_BYTES", 1600)
    read: list[str] = []

    def read_file(key: str) -> Tables:
        read.append(key)
        return tables(key)

    cache = TableCache(read_file)
    for key in "abacab":
        assert cache.get(key)["ap", "all"].scenes == (key,)
    assert read == ["a", "b", "c", "b"]
    assert cache.size_bytes == 1600


def test_table_cache_large_entry_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_records, "TABLE_CACHE_BYTES", 100)
    cache = TableCache(tables)
    first = cache.get("a")
    assert cache.get("a") is first
    cache.get("b")
    assert list(cache.cached) == ["b"]
