# SPDX-License-Identifier: BSD-3-Clause
"""Text files, score tables and keypoints of the dense datasets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.flow.tss import (
    PairResult,
    ScoreRow,
    corr_pixels,
    format_scores,
    read_corr,
    read_flip,
    read_pair_names,
    read_pair_result,
    write_pair_result,
    write_scores,
)
from tiepoint.formats.keypoints.pf_willow import read_pf_keypoints


def row(seg: float = 0.25, flip: int = 1) -> ScoreRow:
    return ScoreRow("p_1to2", "a.jpg", "b.jpg", seg, flip, tuple(k / 64 for k in range(50)))


def test_score_text_by_hand() -> None:
    lines = format_scores([row()], use_prec=True).split("\n")
    assert lines[0].startswith("Row,Src,Ref,SegPrec,Flip,T1,T2,")
    assert lines[0].endswith(",T50")
    assert lines[1].startswith("p_1to2,a.jpg,b.jpg,0.250000,1,0.000000,0.015625,0.031250,0.046875")
    assert lines[2] == ""


def test_scores_are_written_as_the_kit_does_with_nan(tmp_path: Path) -> None:
    write_scores(tmp_path / "s.csv", [row(), row(seg=math.nan, flip=0)])
    data = (tmp_path / "s.csv").read_bytes()
    assert b"\r" not in data
    header, first, second = (line.split(b",") for line in data.splitlines())
    assert len(header) == len(first) == len(second) == 55
    assert (header[3], first[3], second[3], second[4]) == (b"SegIUR", b"0.250000", b"-nan", b"0")


def test_text_files(tmp_path: Path) -> None:
    flip, pair, corr = tmp_path / "flip_gt.txt", tmp_path / "pair.txt", tmp_path / "corr.txt"
    flip.write_bytes(b"1")
    pair.write_bytes(b"Image1,Image2\r\nleft.jpg,right.jpg\r\n")
    corr.write_text("0.5\t0.25\t1\t1\n\n")
    assert read_flip(flip) == 1
    assert read_pair_names(pair) == ("left.jpg", "right.jpg")
    assert read_corr(corr).tolist() == [[0.5, 0.25, 1, 1]]
    first, second = corr_pixels(read_corr(corr), (40, 100), (60, 80))
    assert (first.tolist(), second.tolist()) == ([[49, 9]], [[79, 59]])
    flip.write_text("2")
    pair.write_text("a,b\nc,d\n")
    corr.write_text("1 2 3\n")
    for reader, path, words in (
        (read_flip, flip, "0 or 1"),
        (read_pair_names, pair, "header"),
        (read_corr, corr, "four"),
    ):
        with pytest.raises(FormatError, match=words):
            reader(path)


def test_results_of_a_pair(tmp_path: Path) -> None:
    flow = np.zeros((3, 4, 2), np.float32)
    mask = np.array([[0, 255]], np.uint8)
    write_pair_result(tmp_path / "S" / "p", {"flow1": flow, "mask2": mask})
    found = read_pair_result(tmp_path / "S" / "p")
    assert sorted(found.arrays) == ["flow1", "mask2"]
    assert found.present
    assert not found.problems
    (tmp_path / "S" / "p" / "flow2.flo").write_bytes(b"junk")
    found = read_pair_result(tmp_path / "S" / "p")
    assert len(found.problems) == 1
    assert "flow2.flo" in found.problems[0]
    again = PairResult.from_arrays(found.to_arrays())
    assert again.problems == found.problems
    assert sorted(again.arrays) == ["flow1", "mask2"]
    assert PairResult.from_arrays({"flow1": flow}).present
    assert not PairResult.from_arrays(read_pair_result(tmp_path / "none").to_arrays()).present


def test_pf_willow_padding_is_no_point(tmp_path: Path) -> None:
    from scipy.io import savemat

    points = np.array([[1.5, -1.0, 3.0], [2.5, -1.0, 4.0]])
    savemat(tmp_path / "a.mat", {"pts_coord": points})
    found = read_pf_keypoints(tmp_path / "a.mat")
    assert found.shape == (3, 2)
    assert found[0].tolist() == [1.5, 2.5]
    assert np.isnan(found[1]).all()
    for content, words in (
        ({"other": points}, "no matrix"),
        ({"pts_coord": points.T[:, :1]}, "shape"),
        ({"pts_coord": "text"}, "no matrix"),
    ):
        savemat(tmp_path / "b.mat", content)
        with pytest.raises(FormatError, match=words):
            read_pf_keypoints(tmp_path / "b.mat")


def test_a_link_that_leads_nowhere_says_nothing_about_a_pair(tmp_path: Path) -> None:
    """It passed for a file that is not there, which stands for 0."""
    for name, read in (("flip_gt.txt", read_flip), ("pair.txt", read_pair_names)):
        (tmp_path / name).symlink_to("nowhere")
        with pytest.raises(FormatError, match="does not exist"):
            read(tmp_path / name)
