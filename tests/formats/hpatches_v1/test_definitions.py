# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.hpatches_v1 import definitions
from tiepoint.formats.hpatches_v1.classification import (
    concatenate,
    load_classification,
    read_classification_labels,
    read_patch_pairs,
    same_patch,
    write_patch_pairs,
)
from tiepoint.formats.hpatches_v1.definitions import find_benchmarks, result_folders
from tiepoint.formats.hpatches_v1.matching import matching_truth, write_matching_labels
from tiepoint.formats.hpatches_v1.patch_ids import split_image
from tiepoint.formats.hpatches_v1.retrieval import check_relevant, retrieval_truth, write_retrieval_labels

COUNTS = {f"{s}.{m}": n for s, n in (("i_a", 10), ("v_b", 20)) for m in ("ref", "e1", "e2")}
POS = "i_a.ref.3,i_a.e1.3\nv_b.e2.19,v_b.ref.19\n"
NEG = "i_a.ref.3,v_b.e1.3\nv_b.e2.1,v_b.ref.2\ni_a.e1.0,i_a.e2.1\n"


def put(folder, **files):
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def labelled(text, label):
    return "".join(f"{line},{label}\n" for line in text.splitlines())


def test_identifiers():
    assert split_image("v_b.e1") == ("v_b", "e1")
    for bad in ("v_b", "v_b.", ".e1", "a.b.c", "a. b"):
        with pytest.raises(InputError):
            split_image(bad)


def test_pairs_of_both_eras(tmp_path):
    put(tmp_path, a__pairs=POS, b__pairs=labelled(NEG, 0))
    plain, old = (
        read_patch_pairs(tmp_path / "a.pairs", COUNTS),
        read_patch_pairs(tmp_path / "b.pairs", COUNTS),
    )
    assert plain.labels is None
    assert old.labels.tolist() == [False] * 3
    assert same_patch(plain).all()
    assert not same_patch(old).any()
    both = concatenate([plain, old])
    assert both.a.ids() == plain.a.ids() + old.a.ids()
    assert both.b.ids() == plain.b.ids() + old.b.ids()
    assert both.labels is None
    for pairs, text in ((plain, POS), (old, labelled(NEG, 0))):
        write_patch_pairs(tmp_path / "c.pairs", pairs)
        assert (tmp_path / "c.pairs").read_text() == text


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "empty"),
        ("i_a.ref.1,i_a.e1.1\nv_x.ref.1,i_a.e1.1\n", 2, "no sequence 'v_x'"),
        ("i_a.ref.1,i_a.e1.1\ni_a.h1.1,i_a.e1.1\n", 2, "no image 'h1' (it has ref, e1, e2)"),
        ("i_a.ref.1,i_a.e1.10\n", 1, "'i_a.e1' has 10 patches (0 to 9)"),
        ("i_a.ref.1,i_a.e1.1\ni_a.ref.1,i_a.e1.1,1\n", 2, "found more"),
        ("i_a.ref.1,i_a.e1.1,2\n", 1, "a label, 0 or 1"),
        ("i_a.ref.1\n", 1, "found 1"),
    ],
)
def test_bad_pairs(tmp_path, text, line, words):
    (tmp_path / "x.pairs").write_text(text)
    with pytest.raises(FormatError) as e:
        read_patch_pairs(tmp_path / "x.pairs", COUNTS)
    assert e.value.line == line
    assert words in str(e.value)


def test_classification_truth_from_file_column_or_identifiers(tmp_path):
    put(tmp_path, x__benchmark="p.pairs\nn.pairs", p__pairs=POS, n__pairs=NEG)
    by_id = load_classification(tmp_path / "x.benchmark", COUNTS)
    assert by_id.labels.tolist() == [True, True, False, False, False]
    assert (by_id.sizes, by_id.parts) == ((2, 3), ("p", "n"))
    put(tmp_path, x__labels="")  # the empty placeholder of the first published state
    assert load_classification(tmp_path / "x.benchmark").labels.sum() == 2
    put(tmp_path, x__labels="1\n0\n0\n0\n1")
    assert load_classification(tmp_path / "x.benchmark").labels.tolist() == [1, 0, 0, 0, 1]
    put(tmp_path, p__pairs=labelled(POS, 1), n__pairs=labelled(NEG, 0))
    with pytest.raises(FormatError, match="the label differs from that") as e:
        load_classification(tmp_path / "x.benchmark")
    assert e.value.line == 2
    (tmp_path / "x.labels").unlink()
    assert load_classification(tmp_path / "x.benchmark").labels.tolist() == [1, 1, 0, 0, 0]


def test_classification_is_refused_without_negatives_or_positives(tmp_path):
    put(tmp_path, x__benchmark="p.pairs\nq.pairs\n", p__pairs=POS, q__pairs=POS)
    with pytest.raises(FormatError, match="has 4 pairs, but no negative one"):
        load_classification(tmp_path / "x.benchmark")
    put(tmp_path, p__pairs=NEG, q__pairs=NEG)
    with pytest.raises(FormatError, match="has 6 pairs, but no positive one"):
        load_classification(tmp_path / "x.benchmark")


def test_bad_classification_files(tmp_path):
    put(tmp_path, x__benchmark="# nothing\n", p__pairs=POS)
    with pytest.raises(FormatError, match="the file is empty"):
        definitions.read_classification(tmp_path / "x.benchmark")
    put(tmp_path, x__benchmark="p.pairs\np.pairs # again\n")
    with pytest.raises(FormatError, match=r"line 2: duplicate 'p.pairs'"):
        definitions.read_classification(tmp_path / "x.benchmark")
    put(tmp_path, x__benchmark="p.pairs\nno.pairs\n")
    with pytest.raises(FormatError, match=r"line 2: 'no.pairs' is not in"):
        definitions.read_classification(tmp_path / "x.benchmark")
    put(tmp_path, x__benchmark="../p.pairs\nno.pairs\n")
    with pytest.raises(FormatError, match="line 1"):
        definitions.read_classification(tmp_path / "x.benchmark")
    put(tmp_path, x__labels="1\n0\n")
    with pytest.raises(FormatError, match="expected 5 labels"):
        read_classification_labels(tmp_path / "x.labels", 5)


def test_matching_files(tmp_path):
    put(tmp_path, m__benchmark="i_a.ref,i_a.e1\n v_b.ref, v_b.e2")
    b = definitions.read_matching(tmp_path / "m.benchmark", COUNTS)
    assert b.pairs == (("i_a.ref", "i_a.e1"), ("v_b.ref", "v_b.e2"))
    definitions.write_matching(tmp_path / "n.benchmark", b.pairs)
    assert (tmp_path / "n.benchmark").read_text() == "i_a.ref,i_a.e1\nv_b.ref,v_b.e2\n"
    truth = [np.arange(10)[::-1], np.arange(20)]
    write_matching_labels(tmp_path / "m.labels", b, truth)
    again = matching_truth(b, COUNTS, tmp_path / "m.labels")
    assert all(np.array_equal(x, y) for x, y in zip(truth, again, strict=True))
    assert matching_truth(b, COUNTS)[0].tolist() == list(range(10))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "empty"),
        ("i_a.ref\n", 1, "expected 2"),
        ("i_a.ref,i_a.e9\n", 1, "no image 'e9'"),
        ("i_a.ref,v_b.e1\n", 1, "has 10 patches but v_b.e1 has 20"),
        ("i_a.ref,i_a.e1\ni_a.ref,i_a.e1\n", 2, "duplicate"),
    ],
)
def test_bad_matching(tmp_path, text, line, words):
    (tmp_path / "m.benchmark").write_text(text)
    with pytest.raises(FormatError) as e:
        definitions.read_matching(tmp_path / "m.benchmark", COUNTS)
    assert e.value.line == line
    assert words in str(e.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["i_a.ref,i_a.e1", "0,1", "0,1", "x"], "has 4 lines, expected 3"),
        (["i_a.ref,i_a.e2", "0,1", "0,1"], "expected the pair i_a.ref,i_a.e1"),
        (["i_a.ref,i_a.e1", "0,1", "0,1"], "expected 10 indices"),
        (["i_a.ref,i_a.e1", "0,1", "0,10"], "from 0 to 9"),
        (["i_a.ref,i_a.e1", "0,1.5", "0,1"], "value 2 is 1.5"),
        (["i_a.ref,i_a.e1", "1,1", "0,1"], "duplicate"),
    ],
)
def test_bad_matching_labels(tmp_path, lines, words):
    put(tmp_path, m__benchmark="i_a.ref,i_a.e1\n", m__labels="\n".join(lines))
    b = definitions.read_matching(tmp_path / "m.benchmark")
    with pytest.raises(FormatError, match=words):
        matching_truth(b, COUNTS, tmp_path / "m.labels")


def test_retrieval_files(tmp_path):
    text = "i_a.ref,i_a.e1,v_b.ref,v_b.e1,v_b.e2\nv_b.ref.7\ni_a.ref.0\n"
    put(tmp_path, r__benchmark=text)
    b = definitions.read_retrieval(tmp_path / "r.benchmark", COUNTS)
    assert b.queries.ids() == ["v_b.ref.7", "i_a.ref.0"]
    assert b.queries.image.tolist() == [2, 0]
    definitions.write_retrieval(tmp_path / "s.benchmark", b)
    assert (tmp_path / "s.benchmark").read_text() == text
    truth = retrieval_truth(b)
    assert truth.patches.ids() == ["v_b.e1.7", "v_b.e2.7", "i_a.e1.0"]
    assert truth.offsets.tolist() == [0, 2, 3]
    write_retrieval_labels(tmp_path / "r.labels", b, truth)
    assert (tmp_path / "r.labels").read_text().splitlines()[1] == "v_b.ref.7,v_b.e1.7,v_b.e2.7"
    again = retrieval_truth(b, tmp_path / "r.labels")
    assert again.patches.ids() == truth.patches.ids()
    assert again.offsets.tolist() == truth.offsets.tolist()
    check_relevant(tmp_path / "r.labels", again, COUNTS)
    with pytest.raises(FormatError, match="line 3"):
        check_relevant(tmp_path / "r.labels", again, COUNTS | {"i_a.e1": 0})


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "found an empty line"),
        ("i_a.ref,i_a.ref\ni_a.ref.1\n", 1, "duplicate"),
        ("i_a.ref,i_c.ref\ni_a.ref.1\n", 1, "no sequence 'i_c'"),
        ("i_a.ref\n", None, "found none"),
        ("i_a.ref\ni_a.ref.1\ni_a.e1.1\n", 3, "outside the pool"),
        ("i_a.ref\ni_a.ref.10\n", 2, "does not exist"),
        ("i_a.ref\ni_a.ref.1\ni_a.ref.2\ni_a.ref.1\n", 4, "duplicate"),
        ("i_a.ref\ni_a.ref.1,i_a.ref.2\n", 2, "found more"),
    ],
)
def test_bad_retrieval(tmp_path, text, line, words):
    (tmp_path / "r.benchmark").write_text(text)
    with pytest.raises(FormatError) as e:
        definitions.read_retrieval(tmp_path / "r.benchmark", COUNTS)
    assert e.value.line == line
    assert words in str(e.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i_a.ref\ni_a.ref.1\n", "the image pool differs"),
        ("i_a.ref,i_a.e1\n", "expected 1 rows"),
        ("i_a.ref,i_a.e1\ni_a.e1.1,i_a.ref.1\n", "expected the query i_a.ref.1 first"),
        ("i_a.ref,i_a.e1\ni_a.ref.1,i_a.e2.1\n", "line 2: image 'i_a.e2' is not in the pool"),
    ],
)
def test_bad_retrieval_labels(tmp_path, text, words):
    put(tmp_path, r__benchmark="i_a.ref,i_a.e1\ni_a.ref.1\n", r__labels=text)
    b = definitions.read_retrieval(tmp_path / "r.benchmark")
    with pytest.raises(FormatError, match=words):
        retrieval_truth(b, tmp_path / "r.labels")


def test_find_benchmarks(tmp_path):
    files = {
        "c": "p.pairs\nn.pairs\n",
        "m": "i_a.ref,i_a.e1\n",
        "r": "i_a.ref,i_a.e1\ni_a.ref.1\n",
    }
    put(tmp_path / "flat", **{f"{k}__benchmark": v for k, v in files.items()})
    for name, task in (("c", "classification"), ("m", "matching"), ("r", "retrieval")):
        assert [p.stem for p in find_benchmarks(tmp_path / "flat", task)] == [name]
    put(tmp_path / "deep" / "benchmarks" / "matching", x_1__benchmark=files["m"], x_2__benchmark=files["m"])
    assert [p.stem for p in find_benchmarks(tmp_path / "deep", "matching", "*_2")] == ["x_2"]
    with pytest.raises(InputError, match="x_1, x_2"):
        find_benchmarks(tmp_path / "deep", "matching", "y")
    with pytest.raises(InputError, match="file of retrieval"):
        find_benchmarks(tmp_path / "deep", "retrieval")
    with pytest.raises(InputError, match="does not exist"):
        find_benchmarks(tmp_path / "no", "matching")
    with pytest.raises(InputError, match="did you mean 'matching'"):
        find_benchmarks(tmp_path / "deep", "machting")


def test_result_folders(tmp_path):
    for i, place in enumerate(("sift/matching", "matching/orb")):
        put(tmp_path / "a" / place, **{f"x{i}__results": ""})
    assert sorted(result_folders(tmp_path / "a", "matching")) == ["orb", "sift"]
    put(tmp_path / "bare", x__results="")
    assert result_folders(tmp_path / "bare", "matching") == {"bare": tmp_path / "bare"}
    put(tmp_path / "mine" / "matching", x__results="")
    assert list(result_folders(tmp_path / "mine", "matching")) == ["mine"]
    with pytest.raises(InputError, match=r"no \.results"):
        result_folders(tmp_path / "a", "retrieval")


def test_comments_leave_the_numbers_of_lines(tmp_path):
    put(tmp_path, x__benchmark="# pairs of images\nv_a.ref,v_a.e1# one\n  # more\nv_a.ref,v_a.e1 # again\n")
    with pytest.raises(FormatError, match=r"x.benchmark, line 4: duplicate pair"):
        definitions.read_matching(tmp_path / "x.benchmark")
    assert definitions.task_of(tmp_path / "x.benchmark") == "matching"
    put(tmp_path, x__benchmark="p.pairs # a\n\nq.pairs\n", p__pairs="", q__pairs="")
    with pytest.raises(FormatError, match=r"line 2: expected the name of a \.pairs file, found ''"):
        definitions.read_classification(tmp_path / "x.benchmark")
    put(tmp_path, p__pairs="# head\ni_a.ref.0,i_a.e1.0\ni_a.ref.0,i_a.e1.x\n")
    with pytest.raises(FormatError, match=r"p\.pairs, line 3"):
        read_patch_pairs(tmp_path / "p.pairs")
    put(tmp_path, x__labels="1 # right\n# wrong:\n0\n")
    assert read_classification_labels(tmp_path / "x.labels", 2).tolist() == [True, False]


def test_lists_with_and_without_labels_together(tmp_path):
    """A list that has no third column goes by its identifiers, the others by their column."""
    put(
        tmp_path,
        x__benchmark="mixed.pairs\nplain.pairs\n",
        mixed__pairs="i_a.ref.0,i_a.e1.0,0\ni_a.ref.0,i_a.e1.1,1\n",
        plain__pairs="i_a.ref.2,i_a.e1.2\ni_a.ref.2,i_a.e1.3\n",
    )
    found = load_classification(tmp_path / "x.benchmark")
    assert found.labels.tolist() == [False, True, True, False]
    assert found.slices() == {"mixed": slice(0, 2), "plain": slice(2, 4)}
    put(tmp_path, x__labels="0\n1\n0\n1\n")
    assert load_classification(tmp_path / "x.benchmark").labels.tolist() == [False, True, False, True]
    put(tmp_path, x__labels="0\n0\n0\n1\n")
    with pytest.raises(FormatError, match=r"x.labels, line 2: the label differs"):
        load_classification(tmp_path / "x.benchmark")
