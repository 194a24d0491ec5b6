# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.core.regular_files import exists, is_file, is_folder, read_regular_file, regular_file_size


def test_a_plain_file_has_its_length_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert regular_file_size(tmp_path / "a") == regular_file_size(tmp_path / "link", most=5) == 5
    assert read_regular_file(tmp_path / "link") == b"12345"


@pytest.mark.skipif(os.name != "posix", reason="pipes with a name are POSIX")
def test_a_pipe_is_refused_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="is a pipe"):
        read_regular_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "does not exist"),
        (".", "is a folder"),
        ("a", "has 5 bytes; the limit is 4"),
        ("\0", "cannot be read"),
    ],
)
def test_what_is_not_a_plain_short_file_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(FormatError, match=words):
        read_regular_file(tmp_path / name, most=4)


def test_names_that_no_file_has_are_not_there() -> None:
    for name in ("n" * 300, "n" * 5000, "a\0b", "a/" * 5000):
        assert [is_file(name), is_folder(name), exists(name)] == [False] * 3
