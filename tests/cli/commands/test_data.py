# SPDX-License-Identifier: BSD-3-Clause
"""`tiepoint data check`: a dataset by its place or by --data, the release, what is missing, the commands."""

import json

import pytest

from tiepoint.cli.main import run
from tiepoint.datasets.hpatches.splits import official_lengths


@pytest.fixture
def some(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = sorted(s for s in official_lengths() if s.startswith("i_"))
    (tmp_path / "l.json").write_text(json.dumps({s: official_lengths()[s] for s in names[:6]}))
    return names


def check(capsys, *arguments):
    code = run(["data", "check", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_release_is_named_with_what_is_missing_and_what_can_run(some, capsys):
    code, text = check(capsys, "l.json")
    assert code == 0
    assert "HPatches 2017 (hpatches-release): a subset, 6 of 116 sequences" in text
    assert "--missing lists all" in text
    assert "hpatches/matching (exact" in text
    assert "tiepoint run files:DESCRIPTORS --task hpatches/matching --data l.json --split all" in text
    code, whole = check(capsys, "l.json", "--missing")
    assert all(name in whole for name in some[6:])
    assert check(capsys, "--data", "l.json") == (0, text)


def test_one_dataset_at_a_time(some, capsys):
    code, text = check(capsys, "l.json", "--data", "l.json")
    assert (code, "pass either DATASET or --data" in text) == (2, True)
    code, text = check(capsys)
    assert (code, "pass DATASET or --store STORE" in text) == (2, True)
    code, text = check(capsys, "--store", "nowhere", "--missing")
    assert (code, "--missing has no effect on a store" in text) == (2, True)
    code, text = check(capsys, "nowhere")
    assert (code, "does not exist" in text) == (2, True)
