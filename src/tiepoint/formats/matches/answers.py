# SPDX-License-Identifier: BSD-3-Clause
"""Predicted points as JSON: ``{"PAIR": [[x, y], …]}``, one point for every query point, null for none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import FormatError
from ...core.units import Arrays
from ..json_yaml import read_json
from .naming import flat_name, index_unique


class AnswerEntry(NamedTuple):
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
    def pairs(self) -> dict[str, AnswerEntry]:
        """Entries by name of the pair."""
        places = [
            (flat_name(name), AnswerEntry(f, name))
            for f, content in self._content.items()
            for name in content
        ]
        return index_unique(places, self.all[-1])

    def files(self, place: AnswerEntry) -> Sequence[Path]:
        """The file of a pair."""
        return [place.file]

    def read(self, place: AnswerEntry) -> Arrays:
        """Answers (q, 2), NaN where there is none."""
        rows = self._content[place.file][place.name]
        for i, row in enumerate(rows):
            if row is not None and not _is_point(row):
                found = f"{place.name}: answer {i} is {repr(row)[:60]}, expected [x, y] or null"
                raise FormatError(place.file, found)
        points = [(np.nan, np.nan) if row is None else row for row in rows]
        return {"answers": np.array(points, np.float64).reshape(-1, 2)}

    def remarks(self, place: AnswerEntry) -> list[str]:
        """Nothing: text has all digits."""
        return []


def _is_point(row: Any) -> bool:
    """Whether a value is two numbers, or nulls in their place."""
    two = isinstance(row, list) and len(row) == 2
    return two and all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in row)


def read_answers(file: Path) -> dict[str, Any]:
    """A JSON file of predicted points."""
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
        raise FormatError(file, 'is not {"PAIR": [[x, y], …]}')
    return content
