# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import json

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.hpatches.task_lists import Split, read_splits, write_splits


def test_round_trip(tmp_path):
    splits = {"a": Split("a", ("i_x", "v_y"), ("i_z",)), "full": Split("full", ("i_x",))}
    write_splits(tmp_path / "s.json", splits)
    assert read_splits(tmp_path / "s.json") == splits
    assert json.loads((tmp_path / "s.json").read_text())["full"] == {"test": ["i_x"], "name": "full"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "not JSON"),
        ([], "maps split names"),
        ({"a": ["i_x"]}, "'test'"),
        ({"a": {"test": []}}, "empty"),
        ({"a": {"test": ["x", "x"]}}, "duplicate"),
        ({"a": {"test": [1]}}, "list of sequence names"),
        ({"a": {"test": ["x"], "tests": []}}, "unknown key 'tests'"),
        ({"a": {"test": ["x"], "name": "b"}}, "'name'"),
    ],
)
def test_bad_files(tmp_path, value, words):
    (tmp_path / "s.json").write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(FormatError, match=words):
        read_splits(tmp_path / "s.json")
