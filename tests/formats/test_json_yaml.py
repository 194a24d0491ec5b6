# SPDX-License-Identifier: BSD-3-Clause
"""JSON of strangers: a value or a `FormatError`, nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats import json_yaml
from tiepoint.formats.hpatches.task_lists import read_splits
from tiepoint.formats.json_yaml import parse_json, read_json
from tiepoint.formats.matches.native import read_answers
from tiepoint.run.importers.hpatches_python import read_json_results as read_results


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'{"a": 1,\n "b": }', 2, "is not JSON"),
        (b"", 1, "is not JSON"),
        (b'{"a": "caf\xe9"}', 1, "not UTF-8"),
        (b'{"a": "\x00"}', 1, "is not JSON"),
        (b"[" * 200 + b"]" * 200, None, "more than 100 levels"),
        (b"[" * 500_000, None, "more than 100 levels"),
        (b'{"a":' * 300_000, None, "more than 100 levels"),
        (b'"\\ud800"', None, "surrogate"),
        (b'[{"a": 1, "b": {"c": 1, "c": 2}}]', None, "duplicate key 'c'"),
    ],
)
def test_what_is_no_json_is_an_error_with_its_line(data: bytes, line: int | None, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        parse_json(data, "x.json")
    assert caught.value.line == line


def test_numbers_of_any_length_are_numbers() -> None:
    found = parse_json(b"[1" + b"0" * 5000 + b", 9223372036854775807, -9223372036854775809, 1e999]", "x")
    assert found == [float("inf"), 2**63 - 1, -(2.0**63), float("inf")]
    assert [type(v) for v in found] == [float, int, float, float]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marks_of_encodings_are_understood(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps({"ż": [1]}, ensure_ascii=False).encode(encoding))
    assert read_json(path) == {"ż": [1]}


def test_too_many_values_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_yaml, "MAX_JSON_VALUES", 10)
    assert parse_json(b"[[],[],[],[]]", "x") == [[], [], [], []]
    with pytest.raises(FormatError, match="more than 10 values"):
        parse_json(b"[[],[],[],[],[],[]]", "x")


def test_pipes_and_long_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="is a pipe"):
        read_json(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b" " * 100)
    with pytest.raises(FormatError, match="the limit is 50"):
        read_json(tmp_path / "long", most=50)


@pytest.mark.parametrize(
    "read", [read_splits, read_answers, lambda path: read_results(path, split=None, tasks=None)]
)
@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a": "\xff"}', b"\x00"])
def test_readers_of_json_keep_to_it(read: Any, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        read(path)
