# SPDX-License-Identifier: BSD-3-Clause
"""Predicted points as JSON: ``{"PAIR": [[x, y], …]}``, one point for every query point, null for none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...model.errors import FormatError
from ...model.units import Arrays
from ..json_file import read_json
from .naming import flat


class Entry(NamedTuple):
    """A file, and the name of a pair in it."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}, {self.name}"


class AnswerFiles:
    """The pairs of all JSON files of a folder."""

    what = "predicted points (JSON)"
    resized = False

    def __init__(self, files: Sequence[Path]) -> None:
        self.all = list(files)

    @cached_property
    def _content(self) -> dict[Path, dict[str, Any]]:
        return {file: read_answers(file) for file in self.all}

    @cached_property
    def pairs(self) -> dict[str, Entry]:
        """Entries by name of the pair."""
        return {flat(name): Entry(f, name) for f, content in self._content.items() for name in content}

    def files(self, place: Entry) -> Sequence[Path]:
        """The file of a pair."""
        return [place.file]

    def read(self, place: Entry) -> Arrays:
        """Answers (q, 2), NaN where there is none."""
        rows = [[np.nan, np.nan] if row is None else row for row in self._content[place.file][place.name]]
        try:
            points = np.array(rows, np.float64).reshape(-1, 2) if rows else np.empty((0, 2))
        except (TypeError, ValueError, OverflowError) as e:
            raise FormatError(place.file, f"{place.name} is not a list of [x, y]") from e
        return {"answers": points}

    def remarks(self, place: Entry) -> list[str]:
        """Nothing: text has all digits."""
        return []


def read_answers(file: Path) -> dict[str, Any]:
    """A JSON file of predicted points."""
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
        raise FormatError(file, 'is not {"PAIR": [[x, y], …]}')
    return content
