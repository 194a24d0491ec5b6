# SPDX-License-Identifier: BSD-3-Clause
"""`tiepoint data get`: the list, the plan, the licence, and a dataset that was fetched by hand."""

import json
import zipfile

import numpy as np
import pytest

from tiepoint.cli.commands.data_get import EVERY_S, TransferLines
from tiepoint.cli.main import run
from tiepoint.datasets.download.sources import read_sources
from tiepoint.formats.image.reader import write_image


@pytest.fixture
def get(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIEPOINT_SOURCES", raising=False)

    def call(*arguments):
        code = run(["data", "get", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def by_hand(tmp_path):
    with zipfile.ZipFile(tmp_path / "planes.zip", "w") as file:
        for side in "12":
            write_image(tmp_path / "x.png", np.full((8, 9, 3), int(side), np.uint8))
            file.write(tmp_path / "x.png", f"EVD/{side}/cat.png")
        file.writestr("EVD/h/cat.txt", "1 0 2\n0 1 3\n0 0 1\n")
    return tmp_path / "planes.zip"


@pytest.mark.parametrize("arguments", [(), ("--list",)])
def test_the_list_has_every_dataset_with_size_and_licence(get, arguments):
    code, out, _ = get(*arguments)
    assert code == 0
    assert all(any(line.startswith(f"{name} ") for line in out.splitlines()) for name in read_sources())
    assert "1.28 GB" in out
    assert "ScanNet terms of use" in out


def test_a_dry_run_says_everything_and_does_nothing(get, tmp_path):
    code, out, _ = get("hpatches-sequences", "--dry-run", "--to", "sets")
    assert code == 0
    said = (
        "huggingface.co",
        "1.28 GB",
        "SHA-256 published",
        "licence: MIT",
        "free",
        "sets/hpatches",
        "cite:",
    )
    assert [words for words in said if words not in out] == []
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_must_be_asked_for_says_whom(get):
    code, out, err = get("scannet-1500", "--accept-licence")
    assert (code, out) == (2, "")
    assert "sign the ScanNet terms of use" in err
    assert err.strip().endswith("as --from")
    assert get("scannet-1500", "--dry-run")[0] == 0


def test_without_a_terminal_the_licence_is_accepted_by_a_flag(get, by_hand, capsys):
    code, _, err = get("evd", "--from", str(by_hand))
    assert (code, "pass --accept-licence" in err) == (2, True)
    code, out, err = get("evd", "--from", str(by_hand), "--accept-licence", "--to", "sets")
    assert code == 0
    assert "EVD: a subset, 1 of 15 pairs" in out
    assert "warning: the dataset EVD is incomplete: only 1 of 15 parts" in err
    assert json.loads((by_hand.parent / "sets" / "EVD.source.json").read_text())["dataset"] == "evd"
    code, out, _ = get("evd", "--accept-licence", "--to", "sets")
    assert (code, "exists; nothing was downloaded" in out) == (0, True)
    assert run(["data", "check", "sets/EVD"]) == 0
    assert "installed from a local file, SHA-256 " in capsys.readouterr().out


def test_a_terminal_is_asked(get, by_hand, monkeypatch):
    import sys

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    code, _, err = get("evd", "--from", str(by_hand))
    assert (code, "not accepted; nothing was downloaded" in err, "licence: " in err) == (2, True, True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert get("evd", "--from", str(by_hand))[0] == 0


def test_wrong_names_and_options(get):
    code, _, err = get("hpatchs")
    assert (code, "did you mean 'hpatches'" in err) == (2, True)
    code, _, err = get("--dry-run")
    assert (code, "--dry-run has no effect without a dataset" in err) == (2, True)
    code, _, err = get("evd", "--sources", "nowhere.json")
    assert (code, "does not exist" in err) == (2, True)


def test_progress_is_a_line_now_and_then(capsys):
    now = [0.0]
    lines = TransferLines(clock=lambda: now[0])
    for done in range(101):
        lines("fetch", done * 1_000_000, 100_000_000)
        now[0] += EVERY_S / 20
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 5
    assert err[0] == "tiepoint: fetch: 20 MB of 100 MB, 667 kB/s, 2 min 00 s left"
    assert err[-1] == "tiepoint: fetch: 100 MB of 100 MB, 667 kB/s"
