"""A wrong name: what is near comes first."""

from __future__ import annotations

import pytest

from tiepoint.core.errors import UnknownNameError, close_names


def test_the_nearest_come_first() -> None:
    known = [f"a{k:02d}" for k in range(70)] + ["success_rate", "success", "zz"]
    near, others = close_names("sucess_rate", known)
    assert near == ["success_rate", "success"]
    assert len(others) == 71
    text = str(UnknownNameError("metric", "sucess_rate", known))
    assert "Known: success_rate, success, a00, " in text
    assert text.endswith(", … (73 in all)")
    assert len(text) < 280
    task = str(UnknownNameError("task", "a", [f"group/task{i}" for i in range(99)]))
    assert task.endswith(", … (`list tasks` has all 99)")


@pytest.mark.parametrize(
    ("asked", "known", "first"),
    [
        ("AP", ["auc", "ap", "map"], "ap"),
        ("hard", ["all", "noise=easy", "noise=hard"], "noise=hard"),
        ("hpatches/match", ["hpatches-v1/matching", "hpatches/matching", "tss"], "hpatches/matching"),
        ("view", ["a", "b", "illum", "view"], "view"),
    ],
)
def test_capitals_and_parts_count(asked: str, known: list[str], first: str) -> None:
    assert close_names(asked, known)[0][0] == first


def test_nothing_near() -> None:
    assert close_names("q", ["abc", "def"]) == ([], ["abc", "def"])
    assert str(UnknownNameError("split", "q", [])) == "unknown split 'q'. Known: none"
