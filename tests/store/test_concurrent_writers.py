# SPDX-License-Identifier: BSD-3-Clause
"""Processes that save protocols of one run at once lose nothing; the script beside it does more rounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from concurrent_writers import Scores, Writers, command_round, prepared, rounds
from databases import new_database

pytestmark = pytest.mark.slow

ROUNDS = 10


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, Scores, Writers]]:
    """Data, a store made by one process alone, its scores, and processes that wait."""
    data, alone, expected = prepared(tmp_path_factory.mktemp("alone"))
    writers = Writers(data, 4)
    yield data, alone, expected, writers
    writers.close()


def test_no_score_is_lost_on_sqlite(world: tuple[Path, Path, Scores, Writers], tmp_path: Path) -> None:
    _, alone, expected, writers = world
    assert rounds(ROUNDS, writers, alone, expected, str, tmp_path) == []


def test_no_score_is_lost_on_postgresql(
    world: tuple[Path, Path, Scores, Writers], tmp_path: Path, server: Any
) -> None:
    _, alone, expected, writers = world
    assert rounds(ROUNDS, writers, alone, expected, lambda files: new_database(server, files), tmp_path) == []


def test_no_score_is_lost_by_commands(
    world: tuple[Path, Path, Scores, Writers], tmp_path: Path, server: Any
) -> None:
    data, _, expected, _ = world
    for where in (str(tmp_path / "s"), new_database(server, tmp_path / "files")):
        assert command_round(data, where, expected) == []
