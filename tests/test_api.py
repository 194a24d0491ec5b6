# SPDX-License-Identifier: BSD-3-Clause
"""The Python face with values of the wrong type: one sentence that names the setting, nothing is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiepoint
from tiepoint.core.errors import InputError
from tiepoint.store.store import Store

TASK = "hpatches/matching"
CALLS: dict[str, Callable[[], Any]] = {
    "`task` is 3": lambda: tiepoint.evaluate("sift", task=3, data="."),  # type: ignore[arg-type]
    "`data` is None": lambda: tiepoint.evaluate("sift", task=TASK, data=None),  # type: ignore[arg-type]
    "`data` is b'x'": lambda: tiepoint.evaluate("sift", task=TASK, data=b"x"),  # type: ignore[arg-type]
    "too long": lambda: tiepoint.evaluate("sift", task=TASK, data="a" * 5000),
    "null": lambda: tiepoint.evaluate("sift", task=TASK, data="a\0b"),
    "`protocol` is 3": lambda: tiepoint.evaluate("sift", task=TASK, data=".", protocol=3),  # type: ignore[arg-type]
    "`jobs` is '2'": lambda: tiepoint.evaluate("sift", task=TASK, data=".", jobs="2"),  # type: ignore[arg-type]
    "`jobs` is True": lambda: tiepoint.evaluate("sift", task=TASK, data=".", jobs=True),
    "`store` is 3": lambda: tiepoint.evaluate("sift", task=TASK, data=".", store=3),  # type: ignore[arg-type]
    "`name` is 3": lambda: tiepoint.evaluate("sift", task=TASK, data=".", name=3),  # type: ignore[arg-type]
    "`device` is 3": lambda: tiepoint.evaluate("sift", task=TASK, data=".", device=3),  # type: ignore[arg-type]
    "`run` is 3": lambda: tiepoint.load(3),  # type: ignore[arg-type]
    "`store` is {}": lambda: tiepoint.load(store={}),  # type: ignore[arg-type]
    "`runs` is None": lambda: tiepoint.compare(None, task=TASK),  # type: ignore[arg-type]
    "`runs` is [1, 2]": lambda: tiepoint.compare([1, 2], task=TASK),  # type: ignore[list-item]
    "`runs` is 'x'": lambda: tiepoint.merge("x"),  # type: ignore[arg-type]
    "`runs` is ['x']": lambda: tiepoint.write_report(["x"], "r.html"),  # type: ignore[list-item]
    "unknown family": lambda: tiepoint.list_methods("patch"),
}


@pytest.mark.parametrize("words", CALLS)
def test_a_wrong_type_is_a_sentence(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        CALLS[words]()
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_one_name_is_compared_as_one(tmp_path: Path) -> None:
    """It was taken for a list of its letters."""
    with Store.open(tmp_path / "s"):
        pass
    with pytest.raises(InputError, match="'sift'"):
        tiepoint.compare("sift", task=TASK, store=tmp_path / "s")
