"""What commands share."""

from __future__ import annotations

from types import SimpleNamespace

from tiepoint.cli.common import told


def a_run(method: str, task: str, *warnings: str) -> SimpleNamespace:
    return SimpleNamespace(method=method, task=task, warnings=warnings)


def test_warnings_of_one_method_are_plain() -> None:
    assert told([a_run("sift", "a", "x", "y"), a_run("sift", "b", "x", "y")]) == ["x", "y"]


def test_warnings_say_what_they_concern() -> None:
    runs = [
        a_run("sift", "a", "all", "of sift", "of a"),
        a_run("orb", "a", "all", "of a"),
        a_run("sift", "b", "all", "of sift", "both"),
        a_run("orb", "b", "all"),
    ]
    assert told(runs) == ["all", "sift: of sift", "a: of a", "sift on b: both"]
    assert told([]) == []
