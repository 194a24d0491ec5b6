# SPDX-License-Identifier: BSD-3-Clause
"""Names of any kind through the commands: they work or are refused in a sentence, never printed raw."""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.api import evaluate
from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import InputError
from tiepoint.formats.csv_table import FORMULA, unescape_formula

NAMES = [
    "=HYPERLINK(1)", "-x", "@y", "a\x1b[31mred\x1b]0;title\x07", "line\nbreak", "turn\u202eed", "o'quote\"s",
    "50%_$&#{}^~\\", "<b>bold</b>", "\U0001f600", "x" * 300, "y" * 5000,
]  # fmt: skip
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def seen(text: str) -> bool:
    return not any(unicodedata.category(c) in UNSEEN and c not in "\n\t" for c in text)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("names")
    scenes = "".join(f"v_{s}_true_map=0.{s};v_{s}_query_count=20;" for s in range(1, 8))
    rows = [[name, 0.1 + i / 50, "hp\x1b[2Jatches", f"success=1;{scenes}"] for i, name in enumerate(NAMES)]
    rows.append(["far", 0.01, "d/" * 2000 + "../x", f"success=1;{scenes}"])
    with (root / "x.csv").open("w", encoding="utf-8", newline="") as file:  # as a stranger writes it
        csv.writer(file).writerows([["descriptor_type", "true_map_micro", "dataset_name", "metadata"], *rows])
    assert tiepoint(["import", str(root / "x.csv"), "--store", str(root / "store")]) == 0
    return root / "store"


@pytest.mark.parametrize(
    "command",
    [
        ("list", "runs"),
        ("list", "methods"),
        ("compare", "--task", "keypoints/ranking", "--metric", "true_map_micro"),
        ("show", "line\nbreak"),
        ("report", "--format", "latex", "--out", "{out}.tex"),
        ("report", "--format", "html", "--out", "{out}.html"),
        ("run", "no\x1b[31m" + "x" * 5000, "--task", "tss", "--data", "nowhere\x1b[2J"),
        ("store", "ls"),
        ("data", "check", "nowhere\x1b[2J\n?%"),
    ],
)
def test_nothing_unseen_reaches_the_terminal(
    store: Path, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    wanted = [part.format(out=out) if "{out}" in part else part for part in command]
    place = [] if command[:2] == ("data", "check") else ["--store", str(store)]
    assert tiepoint([*wanted, *place]) in (0, 2)
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert seen(printed.out)
    assert seen(printed.err)
    for file in tmp_path.iterdir():
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".html":  # what is not seen is data there, in attributes and tables to download
            assert "<b>bold" not in text
            assert not re.search(r">[^<]*\x1b[^<]*</a>", text)
        else:
            assert seen(text)


@pytest.mark.parametrize(
    "command",
    [
        ("report", "--format", "csv"),
        ("report", "--format", "csv", "--table", "combined"),
        ("compare", "--task", "keypoints/ranking", "--metric", "true_map_micro"),
    ],
)
def test_no_cell_of_a_table_is_a_formula(store: Path, command: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    assert tiepoint([*command, "--out", str(out), "--store", str(store)]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    for cell in (c for row in rows for c in row):
        assert not cell.startswith(FORMULA) or _is_number(cell), cell[:40]
    assert {unescape_formula(c) for row in rows for c in row} >= {"=HYPERLINK(1)", "-x", "@y"}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


FOLDERS = ["what?", "100%41", "a#b", "new\nline", "-dash", "'quote\" ", "\U0001f600"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_store_in_a_folder_of_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("descriptor_type,true_map_micro\nsift,0.5\nsurf,0.25\n")
    assert tiepoint(["import", "r.csv", f"--store={name}"]) == 0
    assert tiepoint(["list", "runs", f"--store={name}"]) == 0
    assert "sift" in capsys.readouterr().out
    assert [p for p in os.listdir() if p != "r.csv"] == [name]


@pytest.mark.parametrize("length", [300, 5000])
def test_a_place_with_a_name_too_long_is_a_sentence(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("descriptor_type,true_map_micro\nsift,0.5\n")
    long = "n" * length
    for command in (
        ["import", "r.csv", "--store", long],
        ["import", f"{long}.csv", "--store", "s"],
        ["list", "runs", "--store", long],
        ["run", "sift", "--task", "keypoints/ranking", "--data", long, "--store", "s"],
        ["run", f"files:{long}", "--task", "hpatches/matching", "--data", "d", "--store", "s"],
        ["run", "--config", f"{long}.yaml", "--store", "s"],
        ["score", "tss", "--results", long, "--data", "d", "--store", "s"],
        ["keypoints", "make", long, "--data", "d", "--detector", "sift", "--store", "s"],
        ["keypoints", "export", long, "--out", "o", "--store", "s"],
        ["data", "check", long],
        ["report", "--store", "s", "--out", f"{long}.html"],
        ["show", long, "--store", "s"],
        ["flow", "show", f"{long}.flo"],
    ):
        assert tiepoint(command) == 2, command[:2]
        assert capsys.readouterr().err.startswith("tiepoint: ")


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes on POSIX only")
def test_names_that_are_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"byte\xff")
    Path("r.csv").write_text("descriptor_type,true_map_micro\nsift,0.5\n")
    assert tiepoint(["import", "r.csv", "--store", odd]) == 2
    assert "not UTF-8; choose another folder" in capsys.readouterr().err
    noise = np.random.default_rng(0).integers(0, 255, (12, 16), np.uint8).repeat(10, 0).repeat(10, 1)
    for k in (1, 2):
        (Path(odd) / "v_a").mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise).save(Path(odd) / "v_a" / f"{k}.png")
    (Path(odd) / "v_a" / "H_1_2").write_text("1 0 0\n0 1 0\n0 0 1\n")
    made = ["keypoints", "make", "all", "--data", odd, "--detector", "sift", "--store", "s"]
    assert tiepoint([*made, "--border-px", "0"]) == 0
    assert tiepoint(["keypoints", "export", "all", "--out", odd, "--store", "s"]) == 0
    assert tiepoint(["store", "check", "--store", "s"]) == 0
    assert seen(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["", " ", "a\x1b[31mred", "line\nbreak", "é" * 101])
def test_a_name_that_is_given_is_held_against_the_same_rule_everywhere(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("descriptor_type,true_map_micro\n")
    more = ["--data", str(tmp_path), "--name", name, "--store", str(tmp_path / "s")]
    for command in (
        ["run", "sift", "--task", "tss", *more],
        ["score", "tss", "--results", str(tmp_path), *more],
        ["import", str(tmp_path / "x.csv"), *more[2:]],
    ):
        assert tiepoint(command) == 2
        assert "cannot be the name of a method" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be the name of a method"):
        evaluate("sift", task="tss", data=tmp_path, store=tmp_path / "s", name=name)
