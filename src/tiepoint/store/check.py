# SPDX-License-Identifier: BSD-3-Clause
"""Verifying a store: every record of every run is there and readable; the database follows the files."""

from __future__ import annotations

from ..model.errors import StoreError
from .runs import load_runs, rebuild
from .store import Store


def check_store(store: Store) -> tuple[list[str], int]:
    """Problems in words, and the number of runs after the database was rebuilt from the files."""
    count = rebuild(store)
    problems = []
    for run in load_runs(store):
        for unit, by in run.manifest.units.items():
            for key in by.values():
                try:
                    store.records.get(key)
                except StoreError as e:
                    problems.append(f"run {run.id} ({run.method}), unit {unit}: {e}")
    return problems, count
