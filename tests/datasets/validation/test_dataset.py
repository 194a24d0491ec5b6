# SPDX-License-Identifier: BSD-3-Clause
"""Folders that are no dataset: several side by side, or nothing that is known."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.flow.flo import write_flo


def patches(folder: Path) -> None:
    (folder / "v_one").mkdir(parents=True)
    strip = np.random.default_rng(0).integers(0, 256, (65 * 2, 65), np.uint8)
    cv2.imwrite(str(folder / "v_one/ref.png"), strip)


def tss(folder: Path) -> None:
    (folder / "JODS/pair").mkdir(parents=True)
    for i in (1, 2):
        write_flo(folder / f"JODS/pair/flow{i}.flo", np.zeros((4, 5, 2), np.float32))
        cv2.imwrite(str(folder / f"JODS/pair/mask{i}.png"), np.full((4, 5), 255, np.uint8))


def planes(folder: Path) -> None:
    for name in ("1", "2", "h"):
        (folder / name).mkdir(parents=True)
    for name in ("1", "2"):
        cv2.imwrite(str(folder / name / "adam.png"), np.zeros((4, 5), np.uint8))
    (folder / "h/adam.txt").write_text("1 0 0\n0 1 0\n0 0 1\n")


def test_datasets_side_by_side_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patches(tmp_path / "hpatches-release")
    tss(tmp_path / "kits/TSS")
    planes(tmp_path / "EVD")
    (tmp_path / "weights of mine").mkdir()
    report = check_dataset(tmp_path)
    assert not report.ok
    assert [fact.partition(":")[0] for fact in report.facts if not fact.startswith(" ")] == [
        "EVD", "hpatches-release", "kits/TSS"
    ]  # fmt: skip
    assert "TSS (CVPR 2016): a subset, 1 of 400 pairs" in str(report)
    assert run(["data", "check", str(tmp_path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}: 3 datasets in its folders"
    assert "not a known dataset: weights of mine" in lines
    assert lines[lines.index("check next:") + 1 :] == [
        f"  tiepoint data check {tmp_path / name}" for name in ("EVD", "hpatches-release", "kits/TSS")
    ]
    for name in ("EVD", "hpatches-release", "kits/TSS"):
        assert check_dataset(tmp_path / name).ok


def test_a_dataset_is_found_one_folder_deeper(tmp_path: Path) -> None:
    patches(tmp_path / "unpacked/hpatches-release")
    report = check_dataset(tmp_path)
    assert report.title == f"{tmp_path}: 1 dataset in its folders"
    assert report.hints[-1] == f"  tiepoint data check {tmp_path / 'unpacked/hpatches-release'}"


def test_a_dataset_that_is_found_from_above_is_one(tmp_path: Path) -> None:
    tss(tmp_path / "Dataset")
    (tmp_path / "Results/flow").mkdir(parents=True)
    write_flo(tmp_path / "Results/flow/flow.flo", np.zeros((4, 5, 2), np.float32))
    (tmp_path / "Results/flow/image1.png").touch()
    assert check_dataset(tmp_path).title.endswith("pairs with flow (TSS)")


def test_an_unknown_layout_is_told_in_short_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(30):
        (tmp_path / f"a file of notes {i:02}.txt").write_text("hello\n")
    monkeypatch.chdir(tmp_path)
    report = check_dataset(".")
    assert report.problems == ("not a dataset of a known layout",)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert "known layouts:" in lines
    assert "  SEQ/ref.png (patches)" in lines
    assert any(line.startswith("found: a file of notes 00.txt, ") for line in lines)
    assert lines[-1].endswith("and 18 more")


def test_one_of_something_is_not_told_as_several(tmp_path: Path) -> None:
    for make in (patches, tss, planes):
        make(tmp_path / make.__name__)
        report = check_dataset(tmp_path / make.__name__)
        told = [report.title, *report.facts, *report.problems, *report.warnings]
        told += report.release.notes if report.release is not None else []
        assert any(re.search(r"\b1 [a-z]", line) for line in told)
        assert not [line for line in told if re.search(r"\b1 (of 1 )?[a-z]+s\b", line)]


def test_files_that_are_no_dataset_are_called_what_they_are(tmp_path: Path) -> None:
    for name, content, words in (
        ("EVD.zip", b"<!DOCTYPE html><html></html>", "the file is a web page (HTML)"),
        ("a.zip", b"version https://git-lfs.github.com/spec/v1\nsize 5\n", "the file is a Git LFS pointer"),
        ("b.zip", b"PK\x03\x04" + bytes(60), "the file is an archive; unpack it first"),
        ("c.tar", bytes(257) + b"ustar" + bytes(250), "the file is an archive; unpack it first"),
    ):
        (tmp_path / name).write_bytes(content)
        (problem,) = check_dataset(tmp_path / name).problems
        assert problem.startswith(words)


def test_flows_without_images_are_good_for_scoring_alone(tmp_path: Path) -> None:
    tss(tmp_path)
    report = check_dataset(tmp_path)
    assert report.warnings == ("1 pair without image1.png and image2.png: are these results?",)
    told = str(report)
    assert f"tiepoint score tss --results RESULTS --data {tmp_path}" in told
    assert "tiepoint run" not in told
    for i in (1, 2):
        cv2.imwrite(str(tmp_path / f"JODS/pair/image{i}.png"), np.zeros((4, 5), np.uint8))
    assert f"tiepoint run dis --task tss --data {tmp_path}" in str(check_dataset(tmp_path))


def test_the_folder_one_is_in_can_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    assert run(["data", "check", "."]) == 0
    monkeypatch.chdir(tmp_path / "data" / "v_one")
    assert run(["data", "check", ".."]) == 0
