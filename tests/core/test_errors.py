"""Errors travel between processes, and several become one list."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tiepoint.core import errors
from tiepoint.core.errors import (
    ClusterError,
    DamagedError,
    ErrorCollector,
    FormatError,
    InputError,
    ProblemsError,
    StoreError,
    TiepointError,
    UnitError,
    UnknownNameError,
    UserCodeError,
    join_errors,
)

EVERY = [
    TiepointError("a"),
    UnitError("two of five failed"),
    InputError("no such folder"),
    FormatError("a.csv", "expected 2 fields", line=7),
    UnknownNameError("method", "sfit", ["sift"]),
    ProblemsError("dataset x", ["a", "b"]),
    StoreError("cannot write"),
    DamagedError("a.parquet", "records", "a page does not hold"),
    ClusterError("the workers are lost"),
    UserCodeError("mine failed on a/ref", "ValueError: no", '  File "my.py", line 3, in describe'),
]


@pytest.mark.parametrize("error", EVERY, ids=lambda e: type(e).__name__)
def test_an_error_survives_the_way_from_a_worker(error: TiepointError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert back.exit_code == error.exit_code


def test_every_error_class_is_tried() -> None:
    known = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, TiepointError)}
    assert known == {type(e) for e in EVERY}


def test_attributes_of_a_format_error_stay() -> None:
    back = pickle.loads(pickle.dumps(EVERY[3]))
    assert (back.path, back.reason, back.line) == (Path("a.csv"), "expected 2 fields", 7)


def test_equal_errors_are_one() -> None:
    found = join_errors([UnknownNameError("method", "x", ["y"]), UnknownNameError("method", "x", ["y"])])
    assert isinstance(found, UnknownNameError)


def test_a_long_list_hides_no_other() -> None:
    many = ProblemsError("data", [f"p{'x' * i}" for i in range(99)])
    found = join_errors([many, InputError("no b")])
    assert isinstance(found, ProblemsError)
    assert len(found.problems) == 100
    assert "no b" in str(found)
    assert "… and 50 more" in str(found)


def test_problems_of_one_kind_are_one_line_with_count() -> None:
    found = ProblemsError("features", [*(f"scene/{i}: has {i} NaN" for i in range(9)), "scene/9: is empty"])
    assert len(found.problems) == 10
    assert str(found).splitlines() == [
        "features: 10 problems",
        "  - scene/0: has 0 NaN (and 8 more of this kind: scene/1, scene/2, scene/3, …)",
        "  - scene/9: is empty",
    ]


def test_a_list_within_a_list_loses_its_heading() -> None:
    inner = join_errors([InputError("no a"), InputError("no b")])
    assert str(join_errors([inner, InputError("no c")])).splitlines() == [
        "wrong input: 3 problems", "  - no a", "  - no b", "  - no c"
    ]  # fmt: skip


def test_checks_are_told_together() -> None:
    def fail(word: str) -> int:
        raise InputError(word)

    checks = ErrorCollector()
    assert checks.call(fail, "no a", otherwise=7) == 7
    assert checks.call(len, "abc") == 3
    checks.call(fail, "no b")
    with pytest.raises(InputError, match="2 problems"):
        checks.raise_all()
    ErrorCollector().raise_all()


def test_messages_are_one_line_of_bounded_length() -> None:
    said = str(FormatError("a\x1b[2J\nb.csv", "found " + "x" * 100_000, line=1))
    assert said.isprintable()
    assert len(said) < 2500
    said = str(UnknownNameError("method", "s" * 100_000, ["sift", "a\nb"]))
    assert said.isprintable()
    assert len(said) < 2500
