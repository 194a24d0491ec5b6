# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.hpatches_v1.classification import (
    LabelledPairs,
    load_classification,
    read_classification_results,
    read_distances,
    write_classification_results,
)
from tiepoint.formats.hpatches_v1.definitions import MatchingBenchmark, read_retrieval
from tiepoint.formats.hpatches_v1.matching import (
    NeighbourList,
    iter_matching_results,
    read_matching_results,
    write_matching_results,
)
from tiepoint.formats.hpatches_v1.retrieval import Rankings, read_retrieval_results, write_retrieval_results

BORING = "s_boring.a,s_boring.b\n1, 0\n12.3, 7.5\n0, 1\n14.2, 27.4\n"
TWO = {"s_boring.a": 2, "s_boring.b": 2}


@pytest.fixture
def benchmark(tmp_path) -> LabelledPairs:
    (tmp_path / "x.benchmark").write_text("p.pairs\nn.pairs\n")
    (tmp_path / "p.pairs").write_text("a.ref.0,a.e1.0\na.ref.1,a.e1.1\n")
    (tmp_path / "n.pairs").write_text("a.ref.0,a.e1.1\n")
    return load_classification(tmp_path / "x.benchmark")


@pytest.mark.parametrize(
    "files",
    [
        {"x": "0.5\n1.25\n3"},
        {"x": "0.5,1\n1.25,1\n3,0\n"},
        {"p": "0.5\n1.25\n", "n": "3\n"},
        {"p": " 0.5 , 1\r\n1.25, 1\r\n", "n": "3,0"},
    ],
)
def test_classification_results_of_both_eras(tmp_path, benchmark, files):
    for name, text in files.items():
        (tmp_path / f"{name}.results").write_text(text)
    assert read_classification_results(tmp_path, benchmark).tolist() == [0.5, 1.25, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.5\n1\n", "expected 3 lines (one per pair), found 2"),
        ("0.5\n1\n2\n3\n", "found 4"),
        ("0.5,1\n1,1\n2,1\n", "line 3: the label differs from the benchmark"),
        ("0.5,1\n1,7\n2,0\n", "line 2: the label is 7"),
        ("0.5\nx\n2\n", "line 2"),
        ("0.5\nNaN\n2\n", "line 2: the dissimilarity is NaN"),
        ("", "empty"),
    ],
)
def test_bad_classification_results(tmp_path, benchmark, text, words):
    (tmp_path / "x.results").write_text(text)
    with pytest.raises(FormatError) as e:
        read_classification_results(tmp_path, benchmark)
    assert words in str(e.value)


def test_classification_results_missing(tmp_path, benchmark):
    (tmp_path / "p.results").write_text("1\n2\n")
    with pytest.raises(FormatError, match=r"neither does n\.results"):
        read_classification_results(tmp_path, benchmark)


def test_classification_writer(tmp_path):
    write_classification_results(tmp_path / "x.results", np.array([0.5, 1.23456789, np.inf]))
    assert (tmp_path / "x.results").read_text() == "0.500000\n1.234568\nInf\n"
    assert read_distances(tmp_path / "x.results", 3).tolist() == [0.5, 1.234568, np.inf]
    (tmp_path / "x.results").write_text("nan\n1\n")
    assert read_distances(tmp_path / "x.results", 2, on_nan="miss").tolist() == [np.inf, 1]


def test_the_boring_example_of_the_documentation(tmp_path):
    (tmp_path / "b.results").write_text(BORING)
    for counts in (None, TWO):
        (block,) = iter_matching_results(tmp_path / "b.results", counts)
        assert (block.a, block.b) == ("s_boring.a", "s_boring.b")
        assert block.index.tolist() == [[1, 0], [0, 1]]
        assert block.distance.tolist() == [[12.3, 7.5], [14.2, 27.4]]


def test_any_number_of_neighbours_and_blanks_and_order(tmp_path):
    counts = {"v_a.ref": 3, "v_a.e1": 3, "v_a.e2": 3}
    text = "v_a.ref, v_a.e2\n  0,  1,  2\n  1e0, Inf, 2\nv_a.ref,v_a.e1\n2, 1, 0\n 3, 2.5, 1"
    (tmp_path / "x.results").write_text(text)
    b = MatchingBenchmark("x", (("v_a.ref", "v_a.e1"), ("v_a.ref", "v_a.e2")))
    first, second = read_matching_results(tmp_path / "x.results", b, counts)
    assert first.index.tolist() == [[2, 1, 0]]
    assert second.distance.tolist() == [[1, np.inf, 2]]
    three = BORING.replace("s_boring.a,s_boring.b", "v_a.ref,v_a.e1") + "2,2\n30,30\n"
    (tmp_path / "y.results").write_text(three)
    (block,) = iter_matching_results(tmp_path / "y.results", {"v_a.ref": 2, "v_a.e1": 3})
    assert block.index.shape == (3, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("1,0\n", "line 1: expected a pair of images"),
        (BORING + "0,1\n", "line 1: the pair s_boring.a,s_boring.b has 5 lines; expected a line of indices"),
        ("s_boring.a,s_boring.b\n", "has 0 lines"),
        (BORING.replace("1, 0\n", "1, 0, 1\n"), "line 2: expected 2 numbers separated by commas, found more"),
        (BORING.replace("12.3, 7.5", "12.3"), "line 3"),
        (
            BORING.replace("1, 0\n", "2, 0\n"),
            "line 2: value 1 is 2; expected the index of a patch of s_boring.b, 0 to 1",
        ),
        (BORING.replace("1, 0\n", "1, -1\n"), "line 2: value 2 is -1"),
        (BORING.replace("1, 0\n", "1, 0.5\n"), "line 2: value 2 is 0.5"),
        (BORING.replace("14.2", "12.2"), "line 5: dissimilarities must not decrease, but value 1 is 12.2"),
        (BORING.replace("0, 1\n", "1, 1\n"), "reference patch 0 has the same target twice"),
        (BORING.replace("7.5", "nan"), "line 3: value 2 is NaN"),
        (BORING.replace("0, 1\n", "\n0, 1\n"), "line 4: empty line"),
        (BORING.replace("boring.b", "borin.b"), "no image 's_borin.b'"),
        (BORING + BORING, "duplicate"),
        (BORING + BORING.replace("boring.a,", "boring.b,"), "is not in x.benchmark"),
    ],
)
def test_bad_matching_results(tmp_path, text, words):
    (tmp_path / "x.results").write_text(text)
    b = MatchingBenchmark("x", (("s_boring.a", "s_boring.b"),))
    with pytest.raises(FormatError) as e:
        read_matching_results(tmp_path / "x.results", b, TWO)
    assert words in str(e.value)


def test_matching_results_with_a_missing_pair(tmp_path):
    (tmp_path / "x.results").write_text(BORING)
    b = MatchingBenchmark("x", (("s_boring.a", "s_boring.b"), ("s_boring.b", "s_boring.a")))
    with pytest.raises(FormatError, match="1 of 2 pairs are missing; add them, starting with s_boring"):
        read_matching_results(tmp_path / "x.results", b, TWO)
    with pytest.raises(FormatError, match="does not exist"):
        read_matching_results(tmp_path / "no.results", b, TWO)


def test_matching_writer_is_the_final_form(tmp_path):
    index = np.array([[1, 0], [0, 1]])
    distance = np.array([[7.174843, 3.0], [13.10076, np.inf]])
    write_matching_results(
        tmp_path / "x.results", [NeighbourList("s_boring.a", "s_boring.b", index, distance)]
    )
    lines = (tmp_path / "x.results").read_text().splitlines()
    assert lines == ["s_boring.a,s_boring.b", "1,0", "7.174843e+00,3", "0,1", "1.310076e+01,Inf"]
    (again,) = iter_matching_results(tmp_path / "x.results", TWO)
    assert np.array_equal(again.distance, distance)


POOL = "a.ref,a.e1,b.ref,b.e1"
POOL_COUNTS = {"a.ref": 3, "a.e1": 3, "b.ref": 2, "b.e1": 2}


@pytest.fixture
def retrieval(tmp_path):
    (tmp_path / "r.benchmark").write_text(POOL + "\na.ref.0\nb.ref.1\n")
    return read_retrieval(tmp_path / "r.benchmark", POOL_COUNTS)


def read3(path, retrieval):
    return read_retrieval_results(path, retrieval, POOL_COUNTS, neighbours=3)


def test_retrieval_results_round_trip(tmp_path, retrieval):
    text = POOL + "\na.ref.0,a.e1.0,b.ref.1\nb.ref.1,b.e1.1,a.e1.2\n"
    (tmp_path / "r.results").write_text(text)
    rankings = read3(tmp_path / "r.results", retrieval)
    assert rankings.image.tolist() == [[0, 1, 2], [2, 3, 1]]
    assert rankings.index.tolist() == [[0, 0, 1], [1, 1, 2]]
    write_retrieval_results(tmp_path / "s.results", rankings)
    assert (tmp_path / "s.results").read_text() == text
    rows = text.splitlines()
    (tmp_path / "r.results").write_text("\n".join([rows[0], rows[2], rows[1]]).replace(",", ", "))
    assert np.array_equal(read3(tmp_path / "r.results", retrieval).index, rankings.index)


def test_small_pool_needs_fewer_neighbours(tmp_path, retrieval):
    ids = [f"{im}.{k}" for im, n in POOL_COUNTS.items() for k in range(n)]
    rows = [",".join([q, *(i for i in ids if i != q)]) for q in ("a.ref.0", "b.ref.1")]
    (tmp_path / "r.results").write_text("\n".join([POOL, *rows]))
    rankings = read_retrieval_results(tmp_path / "r.results", retrieval, POOL_COUNTS)
    assert isinstance(rankings, Rankings)
    assert rankings.index.shape == (2, 10)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a.ref\na.ref.0,a.e1.0,b.ref.1\n", "line 1: the image pool differs from that of r.benchmark"),
        (POOL + "\na.ref.0,a.e1.0\n", "line 2: expected 3 patches (the query and its 2 nearest), found 2"),
        (POOL + "\na.ref.0,a.e1.0,b.ref.1\n", "1 of 2 queries have no row; add them, starting with b.ref.1"),
        (POOL + "\na.ref.0,a.e1.0,b.ref.1\na.ref.0,a.e1.0,b.ref.1\n", "line 3: duplicate query a.ref.0"),
        (POOL + "\na.e1.0,a.ref.0,b.ref.1\n", "line 2: expected a query first"),
        (POOL + "\na.ref.0,c.e1.0,b.ref.1\n", "line 2: image 'c.e1' is not in the pool"),
        (POOL + "\na.ref.0,a.e1.3,b.ref.1\n", "line 2: patch 'a.e1.3' does not exist"),
        (POOL + "\na.ref.0,b.ref.1,b.ref.1\nb.ref.1,a.e1.0,a.e1.1\n", "line 2: duplicate patch b.ref.1"),
        (POOL + "\na.ref.0,a.e1,b.ref.1\n", "line 2: field 2"),
    ],
)
def test_bad_retrieval_results(tmp_path, retrieval, text, words):
    (tmp_path / "r.results").write_text(text)
    with pytest.raises(FormatError) as e:
        read3(tmp_path / "r.results", retrieval)
    assert words in str(e.value)
