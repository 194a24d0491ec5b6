# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.formatting import path_part, printable


@pytest.mark.parametrize("name", ["v_bird", "a.b", "żółć", "漢字", "x" * 200, "what? 50%", "a b", "~", "-r"])
def test_names_that_stay_in_their_folder_are_taken(name: str) -> None:
    assert path_part(name, "the scene") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "C:x",
        "a\nb",
        "a\x1bb",
        "\u202ea",
        "a.",
        "x" * 201,
        "é" * 101,
        "a\0",
    ],
)
def test_names_that_may_leave_it_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"the scene .* cannot be part of a path") as e:
        path_part(name, "the scene")
    assert str(e.value).isprintable()
    assert len(str(e.value)) < 200


def test_unseen_characters_are_spelled_out() -> None:
    assert printable("a\x9b1m\u2028\ud800b") == "a\\x9b1m\\u2028\\ud800b"
