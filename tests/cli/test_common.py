"""What commands share."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tiepoint.cli.common import key_values, merge_warnings, print_columns
from tiepoint.cli.main import run as command


def a_run(method: str, task: str, *warnings: str) -> SimpleNamespace:
    return SimpleNamespace(method=method, task=task, warnings=warnings)


def test_an_option_that_is_no_value_of_json_is_text() -> None:
    """One nested deeply ended in a traceback."""
    for text in ("[" * 100_000, '{"a":' * 100_000, "[1,"):
        assert key_values([f"x={text}"]) == {"x": text}


def test_key_values_null_stays_text() -> None:
    """An option that is None counts as not given: `-o scenes=null` used all scenes."""
    assert key_values(["scenes=null", "tau_px=3"]) == {"scenes": "null", "tau_px": 3}


def test_warnings_of_one_method_are_plain() -> None:
    assert merge_warnings([a_run("sift", "a", "x", "y"), a_run("sift", "b", "x", "y")]) == ["x", "y"]


def test_warnings_say_what_they_concern() -> None:
    runs = [
        a_run("sift", "a", "all", "of sift", "of a"),
        a_run("orb", "a", "all", "of a"),
        a_run("sift", "b", "all", "of sift", "both"),
        a_run("orb", "b", "all"),
    ]
    assert merge_warnings(runs) == ["all", "sift: of sift", "a: of a", "sift on b: both"]
    assert merge_warnings([]) == []


@pytest.mark.parametrize("width", [30, 50, 200])
def test_columns_are_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_columns(
        ("run", "task", "made", "size"), [("a" * 12, "t" * 20, "m" * 10, "3.5 GB")], right=1, spare=("made",)
    )
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert "a" * 12 in out
    assert "t" * 20 in out
    assert "3.5 GB" in out
    assert ("m" in out.replace("made", "")) == (width == 200)


def test_ids_of_runs_are_in_the_table_and_in_json(
    small_store: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "run",
        "resize",
        "--task",
        "hpatches/matching",
        "--data",
        str(patches),
        "--store",
        str(small_store),
    ]
    assert command([*asked, "--json"]) == 0
    (run,) = {row["run"] for row in json.loads(capsys.readouterr().out)["scores"]}
    assert command(asked) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if "resize" in x)
    assert line.split()[1] == run[:8]
    assert len(run) == 12
