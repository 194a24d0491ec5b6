# SPDX-License-Identifier: BSD-3-Clause
"""Match files that say a thing twice, or in a shape that could be taken for another: never a guess."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.keypoints.features import read_features
from tiepoint.formats.matches.benchmark_dumps import GlueFactoryFiles
from tiepoint.formats.matches.hloc import HlocFiles, feature_groups
from tiepoint.formats.matches.native import AnswerFiles
from tiepoint.formats.matches.source import IndexedSource
from tiepoint.formats.matches.table import MatchTables, header_columns, read_table

HEAD = "pair,x0,y0,x1,y1\n"


def answers(tmp_path: Path, *contents: object) -> AnswerFiles:
    files = [tmp_path / f"{i}.json" for i in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(json.dumps(content))
    return AnswerFiles(files)


def table(tmp_path: Path, text: str) -> MatchTables:
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")
    return MatchTables([tmp_path / "m.csv"])


def test_answers_of_one_pair_in_two_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"1\.json: p-q is stored twice, as 0\.json, p/q and 1\.json, p-q"):
        _ = answers(tmp_path, {"p/q": [[1, 2]]}, {"p-q": [[3, 4]]}).pairs


@pytest.mark.parametrize("rows", [[[1, 2, 3, 4]], [1, 2, 3, 4], [["1", "2"]], [[True, False]], [[[1, 2]]]])
def test_an_answer_is_two_numbers(tmp_path: Path, rows: object) -> None:
    """Four numbers of one answer were read as two answers."""
    found = answers(tmp_path, {"p": rows})
    with pytest.raises(FormatError, match=r"p: answer 0 is .* expected"):
        found.read(found.pairs["p"])


def test_an_answer_may_be_unknown(tmp_path: Path) -> None:
    found = answers(tmp_path, {"p": [[1, 2.5], None, [None, None]], "q": []})
    assert np.isnan(found.read(found.pairs["p"])["answers"]).tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert found.read(found.pairs["q"])["answers"].shape == (0, 2)


def test_names_in_a_table_are_text_as_it_stands(tmp_path: Path) -> None:
    found = table(tmp_path, HEAD + "001,1,2,3,4\n1,5,6,7,8\nNA,1,2,3,4\nnull,1,2,3,4\n")
    assert list(found.pairs) == ["001", "1", "NA", "null"]
    assert found.read(found.pairs["001"])["points0"].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "p,1,2,3,4\n,1,2,3,4\n", "row 2 has an empty pair"),
        (HEAD + "a/b,1,2,3,4\na-b,5,6,7,8\n", "a-b is stored twice, as m.csv, row 1 and m.csv, row 2"),
        ("pair,x0,y0,x1,y1,x0\np,1,2,3,4,5\n", "duplicate column 'x0'"),
    ],
)
def test_a_table_that_can_be_read_two_ways_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Rows without a pair were dropped; of two pairs with one name the last one was taken."""
    with pytest.raises(FormatError, match=words):
        _ = table(tmp_path, text).pairs


def test_a_mark_of_utf_8_hides_no_column(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"\xef\xbb\xbfx0,y0,x1,y1\n1,2,3,4\n")
    assert header_columns(tmp_path / "m.csv")[0] == "x0"


def test_names_and_numbers_of_a_parquet_file_have_their_types(tmp_path: Path) -> None:
    numbers = {name: [1.0, 2.0] for name in ("x0", "y0", "x1", "y1")}
    for names in (["a", None], [["a"], ["b"]], [b"a", b"b"]):
        pd.DataFrame({"pair": names, **numbers}).to_parquet(tmp_path / "m.parquet")
        with pytest.raises(FormatError, match="has an empty pair"):
            read_table(tmp_path / "m.parquet")
    dates = {**numbers, "x0": pd.to_datetime([1, 2])}
    pd.DataFrame({"pair": ["a", "a"], **dates}).to_parquet(tmp_path / "m.parquet")
    found = MatchTables([tmp_path / "m.parquet"])
    with pytest.raises(FormatError, match="not a number"):
        found.read(found.pairs["a"])


def test_a_feature_table_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    """The second x became a part of the descriptor."""
    (tmp_path / "1.csv").write_text("x,y,d0,d1,x\n1,2,3,4,5\n")
    with pytest.raises(FormatError, match="duplicate column 'x'"):
        read_features(tmp_path / "1.csv")


@pytest.mark.parametrize(("kind", "count"), [(np.int8, 129), (np.uint8, 257), (np.int16, 32769)])
def test_indices_that_cannot_name_all_keypoints_are_refused(kind: type, count: int) -> None:
    """Index 260 as uint8 is keypoint 4, which exists."""
    partner, points = np.zeros(count, kind), np.zeros((count, 2))
    with pytest.raises(FormatError, match="cannot index"):
        IndexedSource((points, points), partner).arrays()
    assert len(IndexedSource((points[:-1], points[:-1]), partner[:-1]).arrays()["points0"]) == count - 1


def groups(path: Path, *names: str, **data: object) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(path, "w") as f:
        for name in names:
            for key, value in data.items():
                f[f"{name}/{key}"] = value
    return path


def test_groups_whose_names_differ_in_slashes_are_refused(tmp_path: Path) -> None:
    points = np.zeros((2, 2))
    path = groups(tmp_path / "f.h5", "s-2.jpg", "s/2.jpg", keypoints=points)
    with pytest.raises(FormatError, match=r"s-2\.jpg is stored twice, as s-2\.jpg and s/2\.jpg"):
        feature_groups(path)
    both = {"keypoints0": points, "keypoints1": points, "matches0": [0, 1]}
    with pytest.raises(FormatError, match="is stored twice"):
        _ = GlueFactoryFiles(groups(tmp_path / "p.h5", "a-b/c-d", "a/b/c/d", **both)).pairs


def test_a_pair_under_both_names_of_hloc_is_refused(tmp_path: Path) -> None:
    features = groups(tmp_path / "f.h5", "1.jpg", "2.jpg", keypoints=np.zeros((2, 2)))
    matches = groups(tmp_path / "m.h5", "1.jpg/2.jpg", "1.jpg_2.jpg", matches0=[0, 1])
    with pytest.raises(FormatError, match=r"is stored twice, as 1\.jpg/2\.jpg and 1\.jpg_2\.jpg"):
        _ = HlocFiles(features, matches).pairs


def test_a_name_without_ending_that_two_images_have_stands_for_neither(tmp_path: Path) -> None:
    found = feature_groups(groups(tmp_path / "f.h5", "1.jpg", "1.png", "2.jpg", keypoints=np.zeros((2, 2))))
    assert found == {"1.jpg": "1.jpg", "1.png": "1.png", "2": "2.jpg", "2.jpg": "2.jpg"}
