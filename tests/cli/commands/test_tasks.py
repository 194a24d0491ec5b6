# SPDX-License-Identifier: BSD-3-Clause
"""`tiepoint data tasks --suite hpatches`: what its options do, and what it refuses."""

import json

import pytest

from tiepoint.cli.main import run
from tiepoint.datasets.hpatches.splits import official_lengths, open_lengths


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.json").write_text(json.dumps({"i_a": 30, "i_b": 20, "v_c": 25}))
    return tmp_path


def tasks(capsys, *more, data="small.json", suite="hpatches"):
    code = run(["data", "tasks", "--suite", suite, "--data", str(data), "--out", "out", *more])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.slow
def test_lengths_that_are_open_matter_only_to_splits_that_need_them(small, capsys):
    some = {s: n for s, n in official_lengths().items() if s.startswith("i_")}
    (small / "l.json").write_text(json.dumps(some | {s: list(r) for s, r in open_lengths().items()}))
    code, text = tasks(capsys, "--split", "illum", data="l.json")
    assert code == 0
    assert text.count("equals the published file") == 3
    code, text = tasks(capsys, "--split", "view", data="l.json")
    assert code == 2
    assert "v_beyus (1538 to 1539)" in text


def test_a_folder_of_tasks_must_be_there_and_hold_something(small, capsys):
    code, text = tasks(capsys, "--tasks", "nothere")
    assert (code, "the folder of task files nothere does not exist" in text) == (2, True)
    (small / "empty").mkdir()
    code, text = tasks(capsys, "--tasks", "empty")
    assert (code, "neither a splits.json nor" in text) == (2, True)
    assert not (small / "out").exists()


def test_options_without_an_effect_are_refused(small, capsys):
    code, text = tasks(capsys, "--seed", "7")
    assert (code, "--seed has no effect on the official lists" in text) == (2, True)
    assert tasks(capsys, "--seed", "7", "--lists", "clean")[0] == 0
    before = (small / "out" / "verif_pos_split-full.csv").read_bytes()
    assert tasks(capsys, "--lists", "clean")[0] == 0
    assert (small / "out" / "verif_pos_split-full.csv").read_bytes() != before
    for option in (("--lists", "clean"), ("--split", "a"), ("--tasks", ".")):
        code, text = tasks(capsys, *option, suite="hpatches-v1")
        assert (code, f"{option[0]} has no effect on the suite hpatches-v1" in text) == (2, True)
